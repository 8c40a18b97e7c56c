"""DuckDB: connections that read no files except the given ones, and the SQL that we put to them.

Numbers in text, and in types that numpy lacks, become doubles if doubles can tell them apart. Up to
2**53 a double holds every whole number. Beyond, neighbours become equal, so a whole number of that
size is refused. A fraction is rounded, as everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from expertload._check import EXACT, EXACT_HINT, EXACT_ONLY
from expertload._names import MISSING, TOKENS, VOTES
from expertload.exceptions import ExpertLoadError, FileFormatError

# Extensions that are not built in are neither downloaded nor loaded. Content of files is not kept:
# a file that was replaced is read again, whatever its size and time.
SETTINGS: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_file_cache": "false",
}
NO_NUMBER = (*MISSING, "none", "missing")
DIGITS = 16  # a whole number of fewer is below 2**53
LONG = f"[-+]?[0-9]{{{DIGITS},}}"
NUMBERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "float", "double", "decimal")
# The log probability of a token that is not listed: its exponential is zero, and it is finite.
UNLISTED = -1000.0


# ------------------------------------------------------------------ connections


def connect(options: Mapping[str, str] | None = None) -> Any:
    """Return a connection to a database in memory, without a progress bar."""
    return _quiet(duckdb.connect(config={**SETTINGS, **(options or {})}))


def connect_to(database: Path) -> Any:
    """Return a read-only connection to a user's database, without access to other files."""
    config = {**SETTINGS, "enable_external_access": "false", "lock_configuration": "true"}
    return duckdb.connect(database, read_only=True, config=config)


def lock(connection: Any, paths: Sequence[Path]) -> None:
    """Restrict a connection to these files, so that no query can read any other."""
    allowed = ", ".join(text_of(str(path)) for path in paths)
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def check_query(query: str, where: str) -> str:
    """Return the query if it is a single SELECT; refuse it otherwise."""
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise FileFormatError(
            f"The query of {where} could not be read: {_first_sentence(error)}"
        ) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise FileFormatError(
            f"The query of {where} must be one SELECT. Got {len(statements)} statement(s): "
            f"{', '.join(str(s.type).rpartition('.')[2] for s in statements) or 'none'}."
        )
    return str(statements[0].query).strip().rstrip(";")


@contextmanager
def explained_errors(where: str, what: str, paths: Sequence[Path]) -> Iterator[None]:
    """Turn a DuckDB error into a sentence about the file, without the path of its folder."""
    try:
        yield
    except ExpertLoadError:
        raise
    except (duckdb.Error, ValueError, RuntimeError, OSError, MemoryError) as error:
        why = _first_sentence(error)
        for path in paths:
            for spelling in (_literally(path), str(path)):
                why = why.replace(spelling, path.name if len(paths) > 1 else where)
        raise FileFormatError(f"{where} could not be {what}: {why}") from error


def _first_sentence(error: BaseException) -> str:
    """Return the first line of a DuckDB message, without the error type and further lines."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    text = re.sub(r"^[A-Za-z ]*(Error|Exception): ", "", text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _quiet(connection: Any) -> Any:
    """Turn off DuckDB's progress bar, which is printed to standard output.

    In a notebook without ipywidgets it is already off, and DuckDB refuses to turn it off again.
    """
    [(is_on,)] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    if is_on:
        connection.execute("SET enable_progress_bar = false")
    return connection


# ------------------------------------------------------------------ names, texts and numbers


def quoted(name: str) -> str:
    """Return a column name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_of(value: str) -> str:
    """Return text as an SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def literal_paths(paths: Sequence[Path]) -> str:
    """Return an SQL list of paths, each of which matches exactly one file."""
    return "[" + ", ".join(text_of(_literally(path)) for path in paths) + "]"


def _literally(path: Path) -> str:
    """Escape a path, because DuckDB reads stars and brackets as patterns."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def number_in_text(column: str, decimal: str = ".") -> str:
    """Return an SQL expression for the number in a text column; missing if it is not a number.

    Only one decimal mark is accepted: with a decimal comma, a point could separate thousands.
    Underscores, which DuckDB accepts inside numbers, are refused.
    """
    is_point = decimal == "."
    strange = f"contains({column}, '_')" if is_point else f"regexp_matches({column}, '[_.]')"
    text = column if is_point else f"replace({column}, ',', '.')"
    # The pattern takes longer than all the rest, and few texts need it.
    usual = f"contains({column}, '{decimal}') OR strlen({column}) < {DIGITS}"
    return (
        f"CASE WHEN {strange} THEN NULL "
        f"WHEN {usual} OR NOT regexp_full_match(trim({column}), '{LONG}') "
        f"THEN TRY_CAST({text} AS DOUBLE) "
        f"ELSE {exact_number(f'TRY_CAST({column} AS HUGEINT)')} END"
    )


def exact_number(column: str) -> str:
    """Return an SQL expression for an exact number as a double; missing if it would be rounded."""
    return f"CASE WHEN {column} BETWEEN {-EXACT} AND {EXACT} THEN CAST({column} AS DOUBLE) END"


def why_refused(column: str, written: str, kind: str) -> tuple[str, str]:
    """Return what a column of a kind of file must hold instead of this text, and a hint."""
    text = written.strip()
    if re.fullmatch(rf"{LONG}(\.0*)?", text, re.ASCII):
        return EXACT_ONLY, f" Hint: {EXACT_HINT}."
    hint = ""
    if kind in ("json", "jsonl") and text.startswith(("[", "{")):
        key, name = ("0", "0") if text.startswith("[") else ("'cat'", "cat")
        prefix = "logit_" if column.lower().startswith("logit") else "p_"
        hint = (
            ' Hint: in JSON, give every number its own key, such as {"p_cat": 0.9, "p_dog": 0.1}, '
            f'or pick them: --query "SELECT *, {column}->>{key} AS {prefix}{name}, ... FROM file".'
        )
    elif kind in ("csv", "tsv") and re.fullmatch(r"[+-]?\d*,\d+", text):
        hint = " Hint: if the decimal mark is a comma, pass --decimal ','."
    elif text.endswith("%"):
        hint = " Hint: write percentages as fractions: 0.95 for 95%."
    elif text.lower() in NO_NUMBER:
        hint = " Hint: remove the cases without a value."
    return "must hold numbers", hint


# ------------------------------------------------------------------ several numbers in one column


@dataclass(frozen=True, kw_only=True)
class Part:
    """One number of a column that holds several: lists, or structs of named fields.

    Each number becomes a separate column, `probabilities.cat` or `probabilities.0`. If a list
    differs in length from the first one, all its numbers are missing, so that none ends up in a
    wrong column.

    Attributes
    ----------
    column : str
        The column that holds this number.
    name, type : str
        The name of the part, and its DuckDB type.
    sql : str
        The SQL expression that selects this number.
    length : int or None
        The length of the lists; None for structs, whose fields have names.
    """

    column: str
    name: str
    type: str
    sql: str
    length: int | None = None

    @property
    def is_place(self) -> bool:
        """Whether this is an element of a list, which has a position but no name."""
        return self.length is not None and self.length > 1


def parts_of(types: dict[str, Any], length_of: Callable[[str], int | None]) -> list[Part]:
    """Return the parts of every column that holds several numbers.

    `length_of` returns the length of a column's first list. A column is not split if a part would
    have the same name as another column.
    """
    taken = {name.lower() for name in types}
    found = [list(_parts(name, kind, length_of)) for name, kind in types.items()]
    return [part for parts in found if not _clash(parts, taken) for part in parts]


def _parts(column: str, kind: Any, length_of: Callable[[str], int | None]) -> Iterator[Part]:
    if kind.id == "struct" and all(_is_number(child) for _, child in kind.children):
        for field, child in kind.children:
            sql = f"struct_extract({quoted(column)}, {text_of(field)})"
            yield Part(column=column, name=f"{column}.{field}", type=str(child), sql=sql)
    if kind.id in ("list", "array") and _is_number(kind.children[0][1]):
        length, child = length_of(column) or 0, str(kind.children[0][1])
        for i in range(length):
            sql = f"CASE WHEN len({quoted(column)}) = {length} THEN {quoted(column)}[{i + 1}] END"
            name = f"{column}.{i}" if length > 1 else column
            yield Part(column=column, name=name, type=child, sql=sql, length=length)


def _is_number(kind: Any) -> bool:
    return kind.id.removeprefix("u") in NUMBERS


def _clash(parts: list[Part], taken: set[str]) -> bool:
    names = [part.name.lower() for part in parts]
    others = [name for name in names if name != parts[0].column.lower()]
    return len(set(names)) < len(names) or any(name in taken for name in others)


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """A column with what a language model says about a case, as one number per class.

    A column ``logprobs`` holds the log probability of each token, ``{"A": -0.1, "B": -2.3}``, a
    column ``answers`` or ``votes`` holds repeated answers, ``["A", "A", "B"]``. Each class becomes
    a column, ``logprobs.A`` or ``answers.A``, as do the fields of a struct. The classes are those
    that occur, but a column may be named although its class does not: whoever certified three
    classes gets cases in which the model named only two.

    Attributes
    ----------
    column : str
        The name of the column.
    sql : str
        The SQL expression for its content as JSON.
    is_votes : bool
        Whether it holds repeated answers; else log probabilities of tokens.
    """

    column: str
    sql: str
    is_votes: bool

    @classmethod
    def among(cls, types: dict[str, str]) -> Iterable[Judgements]:
        """Yield the columns that may hold judgements, by their names and DuckDB types."""
        for column, kind in list(types.items()):  # columns are added meanwhile
            is_votes = column.lower() in VOTES
            if kind == "VARCHAR" and column.lower() in (*TOKENS, *VOTES):
                yield cls(column=column, sql=quoted(column), is_votes=is_votes)
            if kind == "VARCHAR[]" and is_votes:
                yield cls(column=column, sql=f"to_json({quoted(column)})", is_votes=True)

    def classes(self, connection: Any, table: str, parameters: dict[str, Any]) -> list[str]:
        """Return the classes that occur; none if the column holds anything but judgements."""
        kind, names = "OBJECT", f"json_keys({self.sql})"
        if self.is_votes:
            kind, names = "ARRAY", self._answers
        fits = f"CASE WHEN json_valid({self.sql}) THEN json_type({self.sql}) = '{kind}' END"
        rows = f"FROM ({table}) WHERE {self.sql} IS NOT NULL"
        query = f"SELECT bool_and(coalesce({fits}, false)) {rows}"
        if not connection.execute(query, parameters).fetchone()[0]:
            return []
        query = f"SELECT DISTINCT unnest({names}) AS name {rows} ORDER BY name"
        return [name for (name,) in connection.execute(query, parameters).fetchall() if name]

    def part(self, name: str) -> Part:
        """Return the column of a class: its share of the answers, or its log probability."""
        if self.is_votes:
            own = f"list_filter({self._answers}, lambda answer: answer = {text_of(name)})"
            number = f"len({own}) / nullif(len({self._answers}), 0)"
        else:
            path = text_of(f"$.{json.dumps(name, ensure_ascii=False)}")
            value = f"TRY_CAST(json_extract_string({self.sql}, {path}) AS DOUBLE)"
            number = f"CASE WHEN json_exists({self.sql}, {path}) THEN {value} ELSE {UNLISTED} END"
        sql = f"CASE WHEN {self.sql} IS NOT NULL THEN {number} END"
        return Part(column=self.column, name=f"{self.column}.{name}", type="DOUBLE", sql=sql)

    @property
    def _answers(self) -> str:
        return f"from_json({self.sql}, '[\"VARCHAR\"]')"

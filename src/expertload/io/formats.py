"""Queries that read CSV, JSON and Parquet with DuckDB, every option fixed: nothing is guessed.

Connections read no files except the given ones. DuckDB reads more CSV files than programs agree on,
so the bytes are checked first: only the dialect of RFC 4180 is accepted. The check also counts
rows, which must agree with what DuckDB returns.

Numbers in text, and in types that numpy lacks, become doubles if doubles can tell them apart. Up to
2**53 a double holds every whole number. Beyond, neighbours become equal, so a whole number of that
size is refused. A fraction is rounded, as everywhere.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq

from expertload._check import EXACT, EXACT_HINT, EXACT_ONLY
from expertload._names import MISSING, FileOptions
from expertload.exceptions import FileFormatError
from expertload.io.files import (
    OpenedFile,
    check_distinct_names,
    explained_errors,
    first_sentence,
    literally,
)

# Extensions that are not built in are neither downloaded nor loaded. Content of files is not kept:
# a file that was replaced is read again, whatever its size and time.
SETTINGS: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_file_cache": "false",
}
DIGITS = 16  # a whole number of fewer is below 2**53
LONG = f"[-+]?[0-9]{{{DIGITS},}}"
LINE_FEED, RETURN, QUOTE = b'\n\r"'
LINE_ENDS = {
    "both": "both a carriage return and a line feed",
    "feeds": "a line feed",
    "returns": "a carriage return",
}


# ------------------------------------------------------------------ connections


def connect(options: Mapping[str, str] | None = None) -> Any:
    """Return a connection to a database in memory, without a progress bar."""
    return _quiet(duckdb.connect(config={**SETTINGS, **(options or {})}))


def connect_to(database: Path) -> Any:
    """Return a read-only connection to a user's database, without access to other files."""
    config = {**SETTINGS, "enable_external_access": "false", "lock_configuration": "true"}
    return duckdb.connect(database, read_only=True, config=config)


def check_query(query: str, where: str) -> str:
    """Return the query if it is a single SELECT; refuse it otherwise."""
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise FileFormatError(
            f"The query of {where} could not be read: {first_sentence(error)}"
        ) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise FileFormatError(
            f"The query of {where} must be one SELECT. Got {len(statements)} statement(s): "
            f"{', '.join(str(s.type).rpartition('.')[2] for s in statements) or 'none'}."
        )
    return str(statements[0].query).strip().rstrip(";")


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
    return "[" + ", ".join(text_of(literally(path)) for path in paths) + "]"


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
    elif text.lower() in (*MISSING, "none", "missing"):
        hint = " Hint: remove the cases without a value."
    return "must hold numbers", hint


# ------------------------------------------------------------------ readers


@dataclass(frozen=True, kw_only=True)
class Reader:
    """The query for the columns of one or more files.

    Attributes
    ----------
    sql : callable
        Returns the query for some columns, or for all of them.
    parameters : dict from str to object
        Values for `$name` in the query. DuckDB plans thousands of columns much faster if they are
        a parameter than if they are part of the query text.
    types : dict from str to str, or None
        The columns and their DuckDB types, if known without a query.
    n_rows : int or None
        The number of rows that the query must return, if known.
    """

    sql: Callable[[Sequence[str] | None], str]
    parameters: dict[str, Any] = field(default_factory=dict)
    types: dict[str, str] | None = None
    n_rows: int | None = None

    @classmethod
    def of(cls, table: str, types: dict[str, str] | None = None) -> Reader:
        """Return a reader for one table."""
        return cls(sql=lambda names: f"SELECT * FROM {table}", types=types)

    def restrict(self, connection: Any, paths: Sequence[Path]) -> None:
        """Let queries read the view `file`, and no file except these."""
        self.relation(connection).to_view("file")
        allowed = ", ".join(text_of(str(path)) for path in paths)
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")

    def relation(self, connection: Any, query: str | None = None) -> Any:
        """Return the relation of a query built from `sql`, without running it; all by default."""
        return connection.sql(query or self.sql(None), params=self.parameters)


def reader_of(connection: Any, files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    """Return a reader for files that all have the same format."""
    if files[0].kind in ("csv", "tsv"):
        return _csv_reader(files, options)
    paths = [path for file in files for path in file.paths]
    if files[0].kind == "parquet":
        _check_one_schema(connection, paths, files[0].where)
        return Reader.of(f"read_parquet({literal_paths(paths)}, hive_partitioning = false)")
    return _json_reader(connection, files, paths)


# ------------------------------------------------------------------ CSV


def _csv_reader(files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    tables, n_rows, header = [], 0, tuple[str, ...]()
    for file in files:
        delimiter, names = _header(file, options)
        header = header or names
        if names != header:
            raise FileFormatError(
                f"The header of {file.where} differs from that of {files[0].where}. Hint: files "
                "that are read together must have the same columns, in the same order."
            )
        n_rows += _count_rows(file, delimiter, len(names))
        tables.append(
            f"read_csv({literal_paths(file.paths)}, columns = $columns, "
            f"delim = {text_of(delimiter)}, auto_detect = false, header = true, quote = '\"', "
            "escape = '\"', comment = '', skip = 0, null_padding = false, ignore_errors = false, "
            "strict_mode = true, nullstr = '', allow_quoted_nulls = true, "
            f"hive_partitioning = false, compression = {text_of(file.compression)})"
        )
    # Columns are numbered, because a name may be any text.
    number = {name: f"c{i}" for i, name in enumerate(header)}

    def sql(names: Sequence[str] | None) -> str:
        # Only the requested columns: planning thousands takes longer than reading them.
        wanted = header if names is None else tuple(dict.fromkeys(names))
        named = ", ".join(f"{number[name]} AS {quoted(name)}" for name in wanted)
        return " UNION ALL ".join(f"SELECT {named} FROM {table}" for table in tables)

    parameters = {"columns": dict.fromkeys(number.values(), "VARCHAR")}
    types = dict.fromkeys(header, "VARCHAR")
    return Reader(sql=sql, parameters=parameters, types=types, n_rows=n_rows)


def _header(file: OpenedFile, options: FileOptions) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter and the names in the first record."""
    start = b""
    for piece in file.text_pieces():
        start += piece
        if re.match(rb'(?:[^"\r\n]|"[^"]*")*+[\r\n]', start):
            break
    record = re.match(rb'(?:[^"\r\n]|"[^"]*")*+', start)
    first = record[0].decode() if record else ""
    delimiter = options.delimiter or ("\t" if file.kind == "tsv" else _delimiter_of(first))
    return delimiter, _names(first, delimiter, file.where, is_given=options.delimiter is not None)


def _count_rows(file: OpenedFile, delimiter: str, n_columns: int) -> int:
    """Return the number of rows; refuse a file that programs read in different ways.

    Quotes may only begin and end a value. A letter is inside quotes after an odd number of them.
    """
    mark, counts, is_open, last = ord(delimiter), Counter[str](), False, ord(delimiter)
    for piece in file.text_pieces():
        letters = np.frombuffer(bytes([last]) + piece, np.uint8)
        is_quote, is_end = letters == QUOTE, (letters == LINE_FEED) | (letters == RETURN)
        is_inside = np.zeros(len(piece), np.bool_)
        if is_open or b'"' in piece:
            is_inside = (np.cumsum(is_quote[1:]) + is_open) % 2 == 1
            is_open, is_border = bool(is_inside[-1]), is_end | (letters == mark) | is_quote
            begins = is_quote[1:] & is_inside & ~is_border[:-1]
            goes_on = is_quote[:-1] & ~is_inside & ~is_border[1:]
            counts["odd quotes"] += int((begins | goes_on).sum())
        ends, before = is_end[1:] & ~is_inside, letters[:-1]
        feeds, returns = ends & (letters[1:] == LINE_FEED), ends & (letters[1:] == RETURN)
        both = feeds & (before == RETURN)
        counts["both"] += int(both.sum())
        counts["feeds"] += int((feeds & ~both).sum())
        counts["returns"] += int(returns.sum())
        counts["empty"] += int((ends & is_end[:-1] & ~both).sum())
        counts["delimiters"] += int(((letters[1:] == mark) & ~is_inside).sum())
        last = piece[-1]
    counts["returns"] -= counts["both"]
    kinds = [name for name in ("both", "feeds", "returns") if counts[name]]
    n_ends = sum(counts[kind] for kind in kinds)
    n_records = n_ends - counts["empty"] + (last not in (LINE_FEED, RETURN))
    if is_open or counts["odd quotes"]:
        raise FileFormatError(
            f"{file.where} has a quote in the middle of a value, or one that is never closed: "
            "programs read it in different ways. Hint: put a value that contains quotes in quotes, "
            'and double those in it, such as "5"" disk".'
        )
    if len(kinds) > 1:
        raise FileFormatError(
            f"All lines of {file.where} must end in the same way. Got lines that end with "
            f"{' and with '.join(LINE_ENDS[kind] for kind in kinds)}. Hint: save the file with one "
            "kind of line end, and put values that contain a line end in quotes."
        )
    if counts["empty"] and n_columns == 1:
        raise FileFormatError(
            f"{file.where} has one column and an empty line. It is not clear whether a value is "
            'missing there. Hint: remove the empty lines, or write "" for a missing value.'
        )
    if counts["delimiters"] != n_records * (n_columns - 1):
        raise FileFormatError(
            f"Every row of {file.where} must have {n_columns} value(s), one for each name in the "
            "header. Hint: look for a row that is cut short, or for a value that contains a "
            "delimiter and is not in quotes."
        )
    return n_records - 1


def _delimiter_of(header: str) -> str:
    """Return the first of comma, semicolon and tab that the header has outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return next((delimiter for delimiter in ",;\t" if delimiter in bare), ",")


def _names(text: str, delimiter: str, where: str, *, is_given: bool) -> tuple[str, ...]:
    """Return the names in the first record."""
    if not text or re.fullmatch(r'"?sep=.?"?', text, re.IGNORECASE):
        got = (
            f"'{text}', which is meant for Excel. Hint: remove this line"
            if text
            else "an empty line"
        )
        raise FileFormatError(f"The first line of {where} must name the columns. Got {got}.")
    try:
        header = next(csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise FileFormatError(
            f"The header of {where} could not be read: {error}. Hint: if values are not separated "
            "by a comma, a semicolon or a tab, name the delimiter (--delimiter)."
        ) from error
    # The first name is blank if pandas wrote its index. Blanks around names come from `a, b`.
    names = tuple(name.strip() or f"column{i}" for i, name in enumerate(header))
    if len(names) == 1 and not is_given and "|" in names[0]:
        raise FileFormatError(
            f"The header of {where} has only one name, '{names[0]}'. Hint: if values are separated "
            "by |, pass --delimiter '|'; if not, pass --delimiter ','."
        )
    # A repeated number is not a name: the first line is then a row of values, not a header.
    if not all(re.match(r"[-+.\d]", name) for name in names):
        check_distinct_names(names, f"The header of {where}")
    return names


# ------------------------------------------------------------------ JSON


def _json_reader(connection: Any, files: Sequence[OpenedFile], paths: Sequence[Path]) -> Reader:
    """Read the keys of all objects; refuse a file that is not one object per case."""
    kind, where = files[0].kind, files[0].where
    for file in files:  # DuckDB silently accepts the readable part of a damaged compressed file
        for _ in file.text_pieces():
            pass
    objects = (
        f"read_json_objects({literal_paths(paths)}, format = '{_layout(files[0])}', "
        f"hive_partitioning = false, compression = {text_of(files[0].compression)})"
    )
    with explained_errors(where, f"read as {kind}", paths):
        forms = connection.execute(
            "SELECT json_keys(json), json_type(json), min(row) FROM (SELECT json, "
            f"row_number() OVER () AS row FROM {objects}) GROUP BY ALL ORDER BY min(row)"
        ).fetchall()
        keys = _keys(forms, where)
        if kind == "json" and len(forms) == 1:
            rows = connection.execute(f"SELECT json FROM {objects} LIMIT 2").fetchall()
            _check_row_wise([row for (row,) in rows], where)

    def sql(names: Sequence[str] | None) -> str:
        wanted = keys if names is None else tuple(dict.fromkeys(names))
        texts = text_of(json.dumps(dict.fromkeys(wanted, "VARCHAR")))
        return f"SELECT unnest(json_transform(json, {texts})) FROM {objects}"

    return Reader(sql=sql)


def _layout(file: OpenedFile) -> str:
    """Return DuckDB's name for the layout: an array, one object per line, or neither."""
    if file.kind == "jsonl":
        return "newline_delimited"
    start = next(file.pieces(), b"").lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return "array" if start == b"[" else "unstructured"


def _keys(forms: list[tuple[list[str], str, int]], where: str) -> tuple[str, ...]:
    """Return all keys in order of appearance; refuse rows that are not objects, or repeat a key."""
    for keys, kind, row in forms:
        if kind != "OBJECT":
            raise FileFormatError(
                f"Row {row} of {where} must be an object. Got {str(kind).lower()}. Hint: write "
                'each case as an object such as {"label": 1, "p_0": 0.1, "p_1": 0.9}.'
            )
        check_distinct_names(keys, f"Row {row} of {where}")
    names = tuple(dict.fromkeys(key for keys, _, _ in forms for key in keys))
    if not names:
        raise FileFormatError(f"{where} holds no cases.")
    if "" in names:
        raise FileFormatError(f"{where} has an empty key. Hint: give every column a name.")
    check_distinct_names(names, where)
    return names


def _check_row_wise(rows: list[str], where: str) -> None:
    """Refuse a single object of columns, which is what pandas writes by default."""
    if len(rows) == 1 and all(isinstance(v, list | dict) for v in json.loads(rows[0]).values()):
        raise FileFormatError(
            f"{where} must hold one object per case. Got one object of columns. Hint: write a list "
            "of objects; in pandas, use to_json(..., orient='records')."
        )


# ------------------------------------------------------------------ Parquet


def _check_one_schema(connection: Any, paths: Sequence[Path], where: str) -> None:
    """Refuse files with different columns, and columns with the same name.

    DuckDB would use only the columns of the first file, and rename the second of two columns.
    """
    folder = os.path.commonpath([path.parent for path in paths])
    first: list[tuple[str, str]] = []
    for path in paths:
        name = where if len(paths) == 1 else path.relative_to(folder).as_posix()
        with explained_errors(name, "read as parquet", [path]):
            names = pq.read_schema(path).names
            check_distinct_names(names, name)
            query = f"FROM read_parquet({literal_paths([path])}, hive_partitioning = false)"
            schema = list(zip(names, map(str, connection.sql(query).types), strict=True))
        first = first or schema
        if schema != first:
            raise FileFormatError(
                f"The columns of {name} differ from those of "
                f"{paths[0].relative_to(folder).as_posix()}. Hint: files that are read together "
                "must have the same columns, in the same order and types."
            )

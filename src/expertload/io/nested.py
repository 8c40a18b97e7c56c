"""Columns of several numbers for each case: lists, structs, answers of language models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from expertload._names import TOKENS, VOTES
from expertload.io.formats import quoted, text_of

NUMBERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "float", "double", "decimal")
# The log probability of a token that is not listed: its exponential is zero, and it is finite.
UNLISTED = -1000.0


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
    a column, ``logprobs.A`` or ``answers.A``, as do the fields of a struct. As in
    `expertload.scores`, blanks around a token or answer do not count. The classes are those that
    occur, but a column may be named although its class does not: whoever certified three classes
    gets cases in which the model named only two.

    Attributes
    ----------
    column : str
        The name of the column.
    sql : str
        The SQL expression for its content as JSON.
    is_votes : bool
        Whether it holds repeated answers; else log probabilities of tokens.
    tokens : tuple of str
        The tokens that are classes, if they are known. A case without any of them has no numbers.
    """

    column: str
    sql: str
    is_votes: bool
    tokens: tuple[str, ...] = ()

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
        query = (
            f"SELECT DISTINCT {_bare('name')} AS bare FROM (SELECT unnest({names}) AS name {rows})"
        )
        found = connection.execute(f"{query} ORDER BY bare", parameters).fetchall()
        return [name for (name,) in found if name]

    def part(self, name: str) -> Part:
        """Return the column of a class: its share of the answers, or its log probability."""
        if self.is_votes:
            own = (
                f"list_filter({self._answers}, lambda answer: {_bare('answer')} = {text_of(name)})"
            )
            number = f"len({own}) / nullif(len({self._answers}), 0)"
        else:
            number = self._log_probability(name)
        sql = f"CASE WHEN {self.sql} IS NOT NULL THEN {number} END"
        return Part(column=self.column, name=f"{self.column}.{name}", type="DOUBLE", sql=sql)

    def _log_probability(self, name: str) -> str:
        """Return the SQL for the log of the sum over all tokens that are this class."""
        entries = f"map_entries(TRY_CAST(TRY_CAST({self.sql} AS JSON) AS MAP(VARCHAR, DOUBLE)))"

        def of(names: Iterable[str]) -> str:
            wanted = ", ".join(map(text_of, names))
            test = f"lambda entry: list_contains([{wanted}], {_bare('entry.key')})"
            return f"list_transform(list_filter({entries}, {test}), lambda entry: entry.value)"

        values, top = of([name]), f"list_max({of([name])})"
        # Relative to the largest, so that nothing underflows, and a lone number stays as it is.
        total = f"list_reduce({values}, lambda sum, value: sum + exp(value - {top}), 0.0)"
        is_unlisted = f"len({values}) = 0 OR {top} = '-inf'"
        number = f"CASE WHEN {is_unlisted} THEN {UNLISTED} ELSE {top} + ln({total}) END"
        is_answered = f"list_max({of(self.tokens)}) > '-inf'" if self.tokens else "true"
        return f"CASE WHEN {is_answered} THEN {number} END"

    @property
    def _answers(self) -> str:
        return f"from_json({self.sql}, '[\"VARCHAR\"]')"


def _bare(name: str) -> str:
    """Return the SQL for a name without blanks around it."""
    return f"trim({name}, E' \\t\\r\\n')"

"""What a language model says about a case, in one column of a file, as one number per class.

A column ``logprobs`` holds the log probability of each token, ``{"A": -0.1, "B": -2.3}``, a column
``answers`` or ``votes`` holds repeated answers, ``["A", "A", "B"]``. Each class becomes a column,
``logprobs.A`` or ``answers.A``, as do the fields of a struct. The classes are those that occur, but
a column may be named although its class does not: whoever certified three classes gets cases in
which the model named only two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from expertload._names import TOKENS, VOTES
from expertload.io.engine import Part, quoted, text_of

# The log probability of a token that is not listed: its exponential is zero, and it is finite.
UNLISTED = -1000.0


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """A column of judgements.

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

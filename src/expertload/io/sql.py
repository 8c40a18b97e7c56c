"""A policy as an SQL statement, which decides the rows of a table as `decide_frame` does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from expertload._check import check_option
from expertload.exceptions import ParameterError
from expertload.io.columns import ColumnNames, Header
from expertload.io.policy_columns import (
    ADDED,
    Policy,
    check_decidable,
    has_numbered_groups,
    policy_columns,
    taken_name,
)
from expertload.io.rule import LARGEST, Rule
from expertload.operating_point import Origin


def policy_sql(
    policy: Policy,
    *,
    dialect: Dialect = "duckdb",
    table: str = "cases",
    keep: Sequence[str] = (),
    names: ColumnNames | None = None,
) -> str:
    """Return a statement that decides the rows of a table, as `decide_frame` does.

    Parameters
    ----------
    policy : OperatingPoint, CertifiedGroups or CertifiedClasses
        As `expertload.operating_point.load_operating_point` returns it. Policies made from logits
        or with a fitted score are refused.
    dialect : {"bigquery", "duckdb", "postgres", "snowflake", "spark"}, default="duckdb"
        The database.
    table : str, default="cases"
        The table, written into the statement as it is.
    keep : sequence of str
        Columns to copy, such as an identifier.
    names : ColumnNames, optional
        The columns, if they are not those that the policy was made from: ``probabilities``,
        ``confidence`` and ``group``. Without any, a class is in the column p_CLASS.

    Returns
    -------
    str
        One SELECT with the kept columns, accepted, label (if probabilities are known), confidence
        and why. Names are quoted, so upper and lower case must be as in the table.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.io import policy_sql
    >>> from expertload.operating_point import choose
    >>> policy = choose(Cases.from_correctness([0, 1], [0.6, 0.9]), target_accuracy=1)
    >>> print(policy_sql(policy, keep=["id"]).splitlines()[-2])
    SELECT "id", "_accepted" AS "accepted", "_confidence" AS "confidence", "_why" AS "why"
    """
    check_option(dialect, get_args(Dialect), "dialect")
    for name in keep:
        if name in ADDED:
            raise ParameterError(taken_name(name))
    given = names or ColumnNames()
    header = Header(_columns_of(policy.origin, given), "the table")
    columns = policy_columns(header, policy, given)
    check_decidable(policy, columns, "the table")
    say = InSQL(SPELLINGS[dialect])
    by_text = not has_numbered_groups(policy)
    rule = Rule(policy=policy, columns=columns, language=say, groups_as_text=by_text)
    kept = list(dict.fromkeys([*keep, *([columns.group] if columns.group else [])]))
    steps = {
        "numbers": {name: say.cast(name) for name in columns.numbers if name not in kept},
        "checked": rule.checked(),
        "answered": {**rule.answered(), **rule.explained()},
        "decided": rule.decided(),
    }
    known, source, parts = kept, table, []
    for step, made in steps.items():
        new = [f"{value} AS {say.name(name)}" for name, value in made.items()]
        listed = ",\n    ".join([*map(say.name, known), *new])
        parts.append(f"{step} AS (\n  SELECT\n    {listed}\n  FROM {source}\n)")
        known, source = [*known, *made], step
    named = [f"{say.name(own)} AS {say.name(name)}" for name, own in rule.outputs.items()]
    final = ", ".join([*map(say.name, keep), *named])
    return f"WITH {', '.join(parts)}\nSELECT {final}\nFROM decided"


def _columns_of(origin: Origin, names: ColumnNames) -> list[str]:
    """Return the columns that a table must have: named, stored in the policy, or usual."""
    usual = [f"p_{label}" for label in origin.labels or ()]
    saved = [name for name in origin.probability_columns or usual if name is not None]
    given = [part.strip() for part in (names.probabilities or "").split(",") if part.strip()]
    single = (
        names.confidence or origin.confidence_column or "confidence",
        names.group or origin.group_column or "group",
    )
    return list(dict.fromkeys([*(given or saved), *single]))


# ------------------------------------------------------------------ the language


Dialect = Literal["bigquery", "duckdb", "postgres", "snowflake", "spark"]


class _Spelling(NamedTuple):
    """How a dialect writes names, types and text."""

    quote: str = '"'
    double: str = "DOUBLE"
    text: str = "VARCHAR"
    escapes: tuple[tuple[str, str], ...] = (("'", "''"),)


BACKSLASH = (("\\", "\\\\"), ("'", "\\'"))
SPELLINGS = {
    "bigquery": _Spelling("`", "FLOAT64", "STRING", BACKSLASH),
    "duckdb": _Spelling(),
    "postgres": _Spelling(double="DOUBLE PRECISION", text="TEXT"),
    "snowflake": _Spelling(escapes=BACKSLASH),
    "spark": _Spelling("`", "DOUBLE", "STRING", BACKSLASH),
}


@dataclass(frozen=True, eq=False)
class _Text:
    """An expression in SQL."""

    sql: str
    say: InSQL

    def __str__(self) -> str:
        return self.sql

    def _with(self, sign: str, other: object) -> _Text:
        return _Text(f"{self} {sign} {other}", self.say)

    def __ge__(self, other: object) -> _Text:
        return self._with(">=", self.say.lit(other))

    def __le__(self, other: object) -> _Text:
        return self._with("<=", self.say.lit(other))

    def __eq__(self, other: object) -> _Text:  # type: ignore[override]
        return self._with("=", other)

    def __add__(self, other: object) -> _Text:
        return self._with("+", f"({other})" if " + " in str(other) else other)

    def __sub__(self, other: object) -> _Text:
        return _Text(f"({self})", self.say)._with("-", other)

    def __rsub__(self, other: object) -> _Text:
        return self.say.lit(other)._with("-", self)

    def __truediv__(self, other: object) -> _Text:
        return _Text(f"{self} / NULLIF({other}, 0)", self.say)

    def __invert__(self) -> _Text:
        return _Text(f"NOT ({self})", self.say)


class InSQL:
    """SQL; columns of numbers are doubles already."""

    def __init__(self, spelling: _Spelling) -> None:
        self._spelling = spelling

    def name(self, name: str) -> str:
        """Return a column's name in quotes."""
        quote = self._spelling.quote
        return quote + name.replace(quote, quote * 2) + quote

    def col(self, name: str) -> _Text:
        """Return a column."""
        return _Text(self.name(name), self)

    double = col

    def cast(self, name: str) -> _Text:
        """Return a column in double precision."""
        return _Text(f"CAST({self.name(name)} AS {self._spelling.double})", self)

    def text(self, name: str) -> _Text:
        """Return a column as text."""
        return _Text(f"CAST({self.name(name)} AS {self._spelling.text})", self)

    def lit(self, value: Any) -> _Text:
        """Return a constant; numbers from text, so that no digit is lost."""
        if isinstance(value, _Text):
            return value
        if isinstance(value, bool) or value is None:
            return _Text({True: "TRUE", False: "FALSE", None: "NULL"}[value], self)
        if isinstance(value, str):
            for what, by in self._spelling.escapes:
                value = value.replace(what, by)
            return _Text(f"'{value}'", self)
        if isinstance(value, float):
            return _Text(f"CAST('{value!r}' AS {self._spelling.double})", self)
        return _Text(str(value), self)

    def concat(self, start: str, end: _Text) -> _Text:
        """Return two texts as one."""
        return _Text(f"CONCAT({self.lit(start)}, {end})", self)

    def is_null(self, value: _Text) -> _Text:
        """Whether a value is missing."""
        return _Text(f"{value} IS NULL", self)

    def is_finite(self, value: _Text) -> _Text:
        """Whether a value is neither infinite nor NaN."""
        return self.all(value >= -LARGEST, value <= LARGEST)

    def greatest(self, *values: _Text) -> _Text:
        """Return the largest value."""
        return self._call("GREATEST", values)

    def least(self, *values: _Text) -> _Text:
        """Return the smallest value."""
        return self._call("LEAST", values)

    def _call(self, function: str, values: Sequence[_Text]) -> _Text:
        return _Text(f"{function}({_joined(', ', values)})", self) if values[1:] else values[0]

    def all(self, *tests: _Text) -> _Text:
        """Whether all tests are true."""
        return _Text(_joined(" AND ", tests), self)

    def any(self, *tests: _Text) -> _Text:
        """Whether a test is true."""
        return _Text(_joined(" OR ", tests), self)

    def choose(self, test: _Text | None, yes: _Text | None, no: _Text) -> _Text:
        """Return one value if a test is true, else another."""
        if test is None:
            return no
        return _Text(f"CASE WHEN {test} THEN {self.lit(yes)} ELSE {no} END", self)

    def first(self, cases: Sequence[tuple[_Text, _Text]]) -> _Text | None:
        """Return the value of the first test that is true, missing if none is."""
        if not cases:
            return None
        listed = "".join(f"\n      WHEN {test} THEN {value}" for test, value in cases)
        return _Text(f"CASE{listed}\n    END", self)


def _joined(by: str, values: Iterable[_Text]) -> str:
    return by.join(map(str, values))

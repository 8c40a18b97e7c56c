"""How a policy decides rows: one rule, for the engines of data frames and for databases.

The rule is written once, in the few words of a `Language`: `InFrames` makes narwhals expressions,
which pandas, Polars, PyArrow, DuckDB, Dask and Spark evaluate, and `InSQL` makes text for a
database. Files are decided by the same expressions, batch by batch.

Engines disagree about missing values and NaN (the largest number here, equal to nothing there), so
every test is written to be true only for good rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import narwhals as nw

from expertload._check import check_option
from expertload._labels import listed
from expertload._names import VOTES, ColumnNames
from expertload.exceptions import ParameterError
from expertload.io.columns import Columns, Header
from expertload.io.policy_columns import (
    ADDED,
    Policy,
    check_decidable,
    has_numbered_groups,
    policy_columns,
    taken_name,
)
from expertload.io.values import added_up, sum_tolerance
from expertload.operating_point import OperatingPoint, Origin

# The steps' own columns, which get their names at the end: a table may have such names already.
ACCEPTED, LABEL, CONFIDENCE, WHY = (f"_{name}" for name in ADDED)
LARGEST = sys.float_info.max


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The decisions of a policy about rows with these columns, in one language.

    The steps build on each other. `checked` gives every sound row a confidence, and `explained`
    says why other rows, and those of groups without a threshold, go to experts. `answered` adds
    the label, and `decided` compares confidence and threshold.

    Attributes
    ----------
    policy : OperatingPoint, CertifiedGroups or CertifiedClasses
        The policy.
    columns : Columns
        The columns to read, with probabilities in the order of the policy's classes.
    language : InFrames or InSQL
        What expressions are written in.
    groups_as_text : bool
        Whether groups are compared as text; otherwise they are whole numbers.
    """

    policy: Policy
    columns: Columns
    language: Any
    groups_as_text: bool = True

    @property
    def labels(self) -> tuple[Any, ...]:
        """The name or number of each class; none if no probabilities are known."""
        known, columns = self.policy.origin.labels, self.columns
        if not columns.probabilities or known is not None:
            return known or ()
        is_named = columns.confidence is not None and len(columns.classes) > 1
        return columns.classes if is_named else tuple(range(max(2, len(columns.probabilities))))

    @property
    def outputs(self) -> dict[str, str]:
        """The columns of decisions, and what the steps call them."""
        names = [name for name in ADDED if name != "label" or self.columns.probabilities]
        return {name: f"_{name}" for name in names}

    # ------------------------------------------------------------------ steps

    def checked(self) -> dict[str, Any]:
        """Return the confidence of sound rows."""
        say, own = self.language, self.columns.confidence
        value = say.greatest(*self._shares) if own is None else say.col(own)
        return {CONFIDENCE: say.first([(self._is_sound, value)])}

    def explained(self) -> dict[str, Any]:
        """Return why rows go to experts, if their confidence is not the reason."""
        is_sound = ~self.language.col(CONFIDENCE).is_null()
        return {WHY: self.language.choose(is_sound, self._group_reason, self._reason)}

    def answered(self) -> dict[str, Any]:
        """Return the most probable class of sound rows; of equals, the first in the policy."""
        if not self.columns.probabilities:
            return {}
        say, shares, top = self.language, self._shares, self.language.col(CONFIDENCE)
        if self.columns.confidence is not None:
            top = say.first([(~top.is_null(), say.greatest(*shares))])
        pairs = zip(shares, self.labels, strict=True)
        return {LABEL: say.first([(share == top, say.lit(label)) for share, label in pairs])}

    def decided(self) -> dict[str, Any]:
        """Return whether the confidence reaches the threshold, always in double precision."""
        say, limit = self.language, self._limit(self.policy)
        reached = None if limit is None else say.double(CONFIDENCE) >= limit
        return {ACCEPTED: say.choose(reached, say.lit(True), say.lit(False))}

    def _limit(self, policy: Policy) -> Any:
        """Return the threshold of a row: the only one, or that of its group or answer."""
        say = self.language
        if isinstance(policy, OperatingPoint):
            return None if policy.threshold > LARGEST else say.lit(policy.threshold)

        def applies(name: Any) -> Any:
            return self._is_group(name) if policy.by_group else say.col(LABEL) == say.lit(name)

        return say.first([(applies(name), self._limit(policy[name])) for name in policy.certified])

    # ------------------------------------------------------------------ tests

    @property
    def _given(self) -> list[Any]:
        return [self.language.double(name) for name in self.columns.probabilities]

    @property
    def _shares(self) -> list[Any]:
        """The probability of each class: as given, of both classes, or divided by the sum."""
        given = self._given
        if len(given) == 1:
            return [given[0], 1 - given[0]] if self.columns.lone == 0 else [1 - given[0], given[0]]
        if self.columns.is_normalized:
            return [own / added_up(given) for own in given]
        return [self.language.col(name) for name in self.columns.probabilities]

    @property
    def _is_sound(self) -> Any:
        say, given, own = self.language, self._given, self.columns.confidence
        tests = [] if own is None else [self._is_finite(say.double(own))]
        if self.columns.is_logits:
            tests += map(self._is_finite, given)
        elif given:
            tests += [say.least(*given) >= 0, say.greatest(*given) <= 1, self._sums_to_one]
        return say.all(*tests)

    def _is_finite(self, value: Any) -> Any:
        """Whether a value is neither infinite nor NaN; missing if the value is."""
        return self.language.all(value >= -LARGEST, value <= LARGEST)

    @property
    def _sums_to_one(self) -> Any:
        if len(self._given) == 1:
            return self._is_finite(self._given[0])
        off, tolerance = added_up(self._given) - 1, sum_tolerance(self.columns)
        return self.language.all(off >= -tolerance, off <= tolerance)

    @property
    def _reason(self) -> Any:
        """Why a row cannot be decided."""
        say, columns = self.language, self.columns
        cases: list[tuple[Any, str]] = []
        for name in columns.numbers:
            cases += [
                (say.col(name).is_null(), f"{name} is missing or not a number"),
                (~self._is_finite(say.double(name)), f"{name} is not finite"),
            ]
        if not columns.is_logits:
            for name, value in zip(columns.probabilities, self._given, strict=True):
                cases.append((~say.all(value >= 0, value <= 1), f"{name} is not in [0, 1]"))
            if len(columns.probabilities) > 1:
                reason = "the probabilities do not sum to one"
                if columns.are_parts_of(VOTES):
                    reason = f"an answer is none of the classes {listed(self.labels)}"
                cases.append((~self._sums_to_one, reason))
        return say.first([(test, say.lit(reason)) for test, reason in cases])

    def _is_group(self, name: Any) -> Any:
        say = self.language
        if self.groups_as_text:
            return say.text(self.columns.group) == say.lit(str(name))
        return say.col(self.columns.group) == say.lit(name)

    @property
    def _group_reason(self) -> Any:
        """Why the group of a row has no threshold; None if groups do not matter."""
        say, policy = self.language, self.policy
        if isinstance(policy, OperatingPoint) or not policy.by_group:
            return None
        cases = [
            (self._is_group(name), say.lit(f"nothing is certified for the group {name}"))
            for name in policy
            if name not in policy.certified
        ]
        is_missing = say.col(self.columns.group).is_null()
        unknown = say.concat("the policy does not know the group ", say.text(self.columns.group))
        is_known = say.any(*map(self._is_group, policy))
        missing = say.lit("the group is missing")
        return say.first([(is_missing, missing), *cases, (~is_known, unknown)])


# ------------------------------------------------------------------ frames


class InFrames:
    """Narwhals expressions."""

    col = staticmethod(nw.col)
    greatest = staticmethod(nw.max_horizontal)
    least = staticmethod(nw.min_horizontal)

    def lit(self, value: Any) -> nw.Expr:
        """Return a constant."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return nw.lit(value, nw.Int64 if is_whole else None)

    def double(self, name: str) -> nw.Expr:
        """Return a column of numbers in double precision."""
        return nw.col(name).cast(nw.Float64)

    def text(self, name: str) -> nw.Expr:
        """Return a column as text."""
        return nw.col(name).cast(nw.String)

    def concat(self, start: str, end: nw.Expr) -> nw.Expr:
        """Return two texts as one."""
        return nw.concat_str(nw.lit(start), end)

    def all(self, *tests: nw.Expr) -> nw.Expr:
        """Whether all tests are true."""
        return nw.all_horizontal(*tests, ignore_nulls=False)

    def any(self, *tests: nw.Expr) -> nw.Expr:
        """Whether a test is true."""
        return nw.any_horizontal(*tests, ignore_nulls=False)

    def choose(self, test: nw.Expr | None, yes: nw.Expr | None, no: nw.Expr) -> nw.Expr:
        """Return one value if a test is true, else another; None means never, or missing."""
        if test is None:
            return no
        if yes is None:
            return nw.when(~test).then(no)
        return nw.when(test).then(yes).otherwise(no)

    def first(self, cases: Sequence[tuple[nw.Expr, nw.Expr]]) -> nw.Expr | None:
        """Return the value of the first test that is true, missing if none is.

        By 16, because nested tests of thousands of classes are too deep for a planner.
        """
        parts = []
        for i in range(0, len(cases), 16):
            (test, value), *others = cases[i : i + 16]
            chain: Any = nw.when(test).then(value)
            for test, value in others:
                chain = chain.when(test).then(value)
            parts.append(chain)
        return nw.coalesce(*parts) if len(parts) > 1 else parts[0] if parts else None


# ------------------------------------------------------------------ SQL

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

    def is_null(self) -> _Text:
        """Whether the value is missing."""
        return _Text(f"{self} IS NULL", self.say)


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

    def greatest(self, *values: _Text) -> _Text:
        """Return the largest value."""
        return self._call("GREATEST", values)

    def least(self, *values: _Text) -> _Text:
        """Return the smallest value."""
        return self._call("LEAST", values)

    def _call(self, function: str, values: Sequence[_Text]) -> _Text:
        listed = ", ".join(map(str, values))
        return _Text(f"{function}({listed})", self) if values[1:] else values[0]

    def all(self, *tests: _Text) -> _Text:
        """Whether all tests are true."""
        return _Text(" AND ".join(map(str, tests)), self)

    def any(self, *tests: _Text) -> _Text:
        """Whether a test is true."""
        return _Text(" OR ".join(map(str, tests)), self)

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

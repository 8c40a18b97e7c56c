"""How a policy decides rows: one rule, for the engines of data frames and for databases.

The rule is written once, in the few words of a `Language`: `InFrames` makes narwhals expressions,
which pandas, Polars, PyArrow, DuckDB, Dask and Spark evaluate, and `sql.InSQL` makes text for a
database. Files are decided by the same expressions, batch by batch.

Engines disagree about missing values and NaN (the largest number here, equal to nothing there), so
every test is written to be true only for good rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from expertload.io.columns import Columns
from expertload.io.policy_columns import ADDED, Policy
from expertload.io.values import added_up, sum_tolerance
from expertload.operating_point import OperatingPoint

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
        found = say.greatest(*self._shares) if own is None else say.col(own)
        return {CONFIDENCE: say.first([(self._is_sound, found)])}

    def explained(self) -> dict[str, Any]:
        """Return why rows go to experts, if their confidence is not the reason."""
        is_sound = ~self.language.is_null(self.language.col(CONFIDENCE))
        return {WHY: self.language.choose(is_sound, self._group_reason, self._reason)}

    def answered(self) -> dict[str, Any]:
        """Return the most probable class of sound rows; of equals, the first in the policy."""
        if not self.columns.probabilities:
            return {}
        say, shares, top = self.language, self._shares, self.language.col(CONFIDENCE)
        if self.columns.confidence is not None:
            top = say.first([(~say.is_null(top), say.greatest(*shares))])
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
        tests = [] if own is None else [say.is_finite(say.double(own))]
        if self.columns.is_logits:
            tests += map(say.is_finite, given)
        elif given:
            tests += [say.least(*given) >= 0, say.greatest(*given) <= 1, self._sums_to_one]
        return say.all(*tests)

    @property
    def _sums_to_one(self) -> Any:
        if len(self._given) == 1:
            return self.language.is_finite(self._given[0])
        off, tolerance = added_up(self._given) - 1, sum_tolerance(self.columns)
        return self.language.all(off >= -tolerance, off <= tolerance)

    @property
    def _reason(self) -> Any:
        """Why a row cannot be decided."""
        say, columns = self.language, self.columns
        cases: list[tuple[Any, str]] = []
        for name in columns.numbers:
            cases += [
                (say.is_null(say.col(name)), f"{name} is missing or not a number"),
                (~say.is_finite(say.double(name)), f"{name} is not finite"),
            ]
        if not columns.is_logits:
            for name, value in zip(columns.probabilities, self._given, strict=True):
                cases.append((~say.all(value >= 0, value <= 1), f"{name} is not in [0, 1]"))
            if len(columns.probabilities) > 1:
                cases.append((~self._sums_to_one, "the probabilities do not sum to one"))
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
        is_missing = say.is_null(say.col(self.columns.group))
        unknown = say.concat("the policy does not know the group ", say.text(self.columns.group))
        is_known = say.any(*map(self._is_group, policy))
        missing = say.lit("the group is missing")
        return say.first([(is_missing, missing), *cases, (~is_known, unknown)])


# ------------------------------------------------------------------ languages


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

    def is_null(self, value: nw.Expr) -> nw.Expr:
        """Whether a value is missing."""
        return value.is_null()

    def is_finite(self, value: nw.Expr) -> nw.Expr:
        """Whether a value is neither infinite nor NaN; missing if the value is."""
        return (value >= -LARGEST) & (value <= LARGEST)

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

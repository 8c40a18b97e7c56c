"""Ladders of thresholds, strict to loose: the test of each, and all thresholds that passed.

The hypothesis to refute at a threshold is that the accuracy is below the target. Its p-value is the
chance of so few errors if the accuracy were exactly the target: a binomial tail for cases that are
right or wrong, and one over a gambler's capital for graded ones (`graded`). Both are exact for any
number of cases; nothing is asymptotic.

A ladder must not look at the calibration labels. Which ladders keep the promise
--------------------------------------------------------------------------------
*Thresholds fixed in advance* do: at a fixed threshold, given how many cases are accepted, their
errors are binomial, so each p-value is valid.

*Every threshold there is* is such a ladder too, and the default. Between two neighbouring
confidences the accepted cases, and so the p-value, do not change; testing at every distinct
confidence of the calibration set is therefore testing at all real numbers, a ladder fixed before
any data. It costs no power: neighbouring tests are nearly the same test.

*Where tests begin* does depend on the data; why that keeps the promise is argued in `spending` and,
for the former method, in `graded`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import bdtr

from expertload._names import Method
from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.tally import Tally

Risk = Literal["selective", "joint", "missed", "cost", "team", "combined_team", "not_worse"]
# The number of passed thresholds that a saved policy keeps.
MOST_SAVED = 101


class Promise(NamedTuple):
    """The target, the levels and the method of a certification.

    ``largest`` is the most cases that a cluster may have, if its calibration cases may be fewer,
    because they are those of a group or a class.
    """

    target: float
    error_level: float
    method: Method = "spending"
    risk: Risk = "selective"
    thresholds: FloatArray | None = None
    largest: int = 1

    @property
    def counts_all_cases(self) -> bool:
        """Whether delegated cases also count, as cases without an error."""
        return self.risk != "selective"


class Steps(NamedTuple):
    """Thresholds, strict to loose, with the counts of each.

    ``log_capital`` is the evidence of graded cases; None if cases are right or wrong.
    """

    threshold: FloatArray
    n_accepted: FloatArray
    n_errors: FloatArray
    log_capital: FloatArray | None = None

    @classmethod
    def every(cls, table: Tally) -> Steps:
        """Return the distinct confidences, which represent all possible thresholds."""
        return cls(table.confidence[::-1], table.accepted[::-1], table.accepted_errors[::-1])

    def take(self, rows: slice | IntArray) -> Steps:
        """Return some of the rows."""
        return Steps(*(None if column is None else column[rows] for column in self))  # type: ignore[arg-type]

    def at(self, thresholds: FloatArray) -> Steps:
        """Return the steps of given thresholds."""
        strict_to_loose = np.unique(thresholds)[::-1].astype(np.float64)
        # How many distinct confidences each threshold accepts; row 0 of a column is for none.
        row = np.searchsorted(-self.threshold, -strict_to_loose, side="right")
        accepted, errors = (np.append(0.0, column)[row] for column in self[1:3])
        capital = None if self.log_capital is None else np.append(0.0, self.log_capital)[row]
        return Steps(strict_to_loose, accepted, errors, capital)

    def counts_at(self, threshold: float) -> dict[str, Any]:
        """Return the fields of an operating point at a threshold, if these are all steps."""
        here = self.at(np.array([threshold]))
        accepted, errors = float(here.n_accepted[0]), float(here.n_errors[0])
        return {
            "threshold": threshold,
            "n_accepted": accepted,
            "n_delegated": float(self.n_accepted[-1]) - accepted,
            "n_errors": errors,
            "n_errors_spared": float(self.n_errors[-1]) - errors,
        }

    def p_values(self, target: float) -> FloatArray:
        """Return the p-values of the hypotheses that the accuracy is below `target`."""
        if self.log_capital is None:
            return binomial_p_values(self.n_errors, self.n_accepted, 1 - target)
        values: FloatArray = np.exp(-np.maximum(self.log_capital, 0.0))
        return np.where(self.n_accepted > 0, values, 1.0)


class Run(NamedTuple):
    """Rows of a ladder tested one after the other; the first ``n_passed`` of them passed."""

    begin: int
    n_tested: int
    n_passed: int


@dataclass(frozen=True, eq=False, repr=False)
class Ladder:
    """All tests, strict to loose.

    Attributes
    ----------
    threshold : ndarray of float
        Cases are accepted if their confidence is at least this.
    n_accepted, n_errors : ndarray of float
        The number of accepted calibration cases, and of errors among them.
    p_value : ndarray of float
        The probability of so few errors if the accuracy just missed the target.
    passed : ndarray of bool
        Whether the threshold is certified.
    steps : Steps
        All thresholds of the ladder, tested or not.
    runs : tuple of Run
        The tested steps, and which of them passed.
    target : float
        The accuracy to show.
    is_whole : bool
        Whether the ladder represents all thresholds, including those between its steps.
    """

    steps: Steps
    runs: tuple[Run, ...]
    target: float
    is_whole: bool = False

    @cached_property
    def passed(self) -> BoolArray:
        """Whether each tested threshold is certified."""
        parts = [np.arange(run.n_tested) < run.n_passed for run in self.runs]
        return np.concatenate([np.zeros(0, np.bool_), *parts])

    @cached_property
    def tested(self) -> Steps:
        """The steps that were tested."""
        parts = [np.arange(run.begin, run.begin + run.n_tested) for run in self.runs]
        return self.steps.take(np.concatenate([np.zeros(0, np.int64), *parts]))

    @property
    def threshold(self) -> FloatArray:
        """The tested thresholds."""
        return self.tested.threshold

    @property
    def n_accepted(self) -> FloatArray:
        """The number of cases that each tested threshold accepts."""
        return self.tested.n_accepted

    @property
    def n_errors(self) -> FloatArray:
        """The number of errors among them."""
        return self.tested.n_errors

    @cached_property
    def p_value(self) -> FloatArray:
        """The p-value of each test."""
        return self.tested.p_values(self.target)

    @property
    def loosest(self) -> int | None:
        """The step of the loosest threshold that passed; None if none did."""
        ends = [run.begin + run.n_passed - 1 for run in self.runs if run.n_passed]
        return max(ends, default=None)

    @property
    def first(self) -> int | None:
        """The step that was tested first."""
        return min((run.begin for run in self.runs), default=None)

    def certified(self) -> CertifiedThresholds:
        """Return all thresholds that passed; adjacent stretches are joined."""
        spans: list[list[int]] = []
        for run in self.runs:
            if run.n_passed and spans and spans[-1][1] == run.begin:
                spans[-1][1] += run.n_passed
            elif run.n_passed:
                spans.append([run.begin, run.begin + run.n_passed])
        stretches = (self.steps.take(slice(begin, end)) for begin, end in spans)
        return CertifiedThresholds(tuple(Steps(*s[:3]) for s in stretches), self.is_whole)


# ------------------------------------------------------------------ what passed


@dataclass(frozen=True, eq=False)
class CertifiedThresholds:
    """All thresholds that passed, as stretches from strict to loose; any of them may be used.

    There may be gaps, if one run of tests failed and a later one began. If every threshold was
    tested, thresholds between two steps of a stretch are certified too. If thresholds were given,
    only these are.

    Attributes
    ----------
    stretches : tuple of Steps
        Neighbouring thresholds; nothing is certified between two stretches.
    is_continuous : bool
        Whether every number inside a stretch is certified, not only the thresholds listed.

    Examples
    --------
    >>> from expertload import Cases, certify
    >>> cases = Cases.from_correctness([1] * 200, range(200))
    >>> point = certify(cases, target_accuracy=0.95)
    >>> point.passed.ranges
    ((0.0, 107.0),)
    >>> 100.5 in point.passed, 199 in point.passed
    (True, False)
    """

    stretches: tuple[Steps, ...] = ()
    is_continuous: bool = False

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """The loosest and the strictest threshold of each stretch."""
        return tuple((float(s.threshold[-1]), float(s.threshold[0])) for s in self.stretches)

    @property
    def steps(self) -> Steps:
        """All listed thresholds, strict to loose."""
        parts = ([s[column] for s in self.stretches] for column in range(3))
        return Steps(*(np.concatenate([np.zeros(0), *columns]) for columns in parts))

    def __len__(self) -> int:
        return sum(len(stretch.threshold) for stretch in self.stretches)

    def __contains__(self, threshold: object) -> bool:
        if not isinstance(threshold, int | float):
            return False
        if self.is_continuous:
            return any(low <= threshold <= high for low, high in self.ranges)
        return bool((self.steps.threshold == threshold).any())

    def thinned(self) -> CertifiedThresholds:
        """Return as many thresholds as a saved policy keeps, always including the loosest."""
        if len(self) <= MOST_SAVED:
            return self
        loosest = self.stretches[-MOST_SAVED:]
        room = MOST_SAVED // len(loosest)
        return CertifiedThresholds(tuple(_thinned(s, room) for s in loosest), self.is_continuous)


def _thinned(stretch: Steps, n_kept: int) -> Steps:
    """Return at most this many thresholds, including the first and the last."""
    n = len(stretch.threshold)
    rows = np.unique(np.linspace(0, n - 1, min(n_kept, n)).astype(np.int64))
    return stretch.take(rows if n_kept > 1 else np.array([n - 1]))


# ------------------------------------------------------------------ tests of right-or-wrong cases


def binomial_p_values(n_errors: FloatArray, n_cases: FloatArray, rate: float) -> FloatArray:
    """P-values of the hypotheses that the error rate is at least `rate`; 1 without cases."""
    cases = np.maximum(n_cases, 1).astype(np.int64)
    values: FloatArray = bdtr(np.minimum(np.rint(n_errors), cases), cases, rate)
    return np.where(n_cases > 0, values, 1.0)


def first_failure(n_accepted: FloatArray, n_errors: FloatArray, rate: float, level: float) -> int:
    """Return the number of rows that pass the binomial test before the first failure.

    Rows are thresholds, strict to loose. A p-value rises only at a row that adds errors.
    """
    rows = np.flatnonzero(np.diff(n_errors, prepend=-1.0))
    failed = rows[binomial_p_values(n_errors[rows], n_accepted[rows], rate) > level]
    return int(failed[0]) if len(failed) else len(n_accepted)


def any_passes(n_accepted: FloatArray, n_errors: FloatArray, rate: float, level: float) -> bool:
    """Return whether any row passes the binomial test; only rows before an error need testing."""
    rows = np.flatnonzero(np.diff(n_errors, append=np.inf))
    return bool((binomial_p_values(n_errors[rows], n_accepted[rows], rate) <= level).any())


def least_cases(target: float, error_level: float) -> int:
    """The fewest cases that pass a test if all of them are right."""
    return cases_for_errors(0, target, error_level)


def cases_for_errors(n_errors: int, target: float, error_level: float) -> int:
    """The fewest cases among which `n_errors` errors still pass the binomial test."""

    def passes(n_cases: int) -> bool:
        return bool(bdtr(n_errors, n_cases, 1 - target) <= error_level)

    enough = n_errors + 1
    while bdtr(n_errors, enough, 1 - target) > error_level:  # NaN beyond what scipy can count
        enough *= 2
    return bisect_left(range(enough), True, lo=n_errors + 1, key=passes)


def allowed_errors(n_cases: int, target: float, error_level: float) -> int:
    """The most errors among `n_cases` that pass the binomial test; -1 if even zero fails."""

    def chance(n_errors: int) -> float:
        return float(bdtr(n_errors, n_cases, 1 - target))

    return bisect_right(range(n_cases), error_level, key=chance) - 1

"""Ladders of thresholds, strict to loose, with their counts and test results.

A ladder must not look at the calibration labels. Which ladders keep the promise
--------------------------------------------------------------------------------
*Thresholds fixed in advance*, or taken from other, unlabelled scores, do: at a fixed threshold,
given how many cases are accepted, their errors are binomial, so each p-value is valid.

*Every threshold there is* is such a ladder too, and the default. Between two neighbouring
confidences the accepted cases, and so the p-value, do not change; testing at every distinct
confidence of the calibration set is therefore testing at all real numbers, a ladder fixed before
any data. It costs no power: neighbouring tests are nearly the same test.

*Where tests begin* does depend on the data; why that keeps the promise is argued in
`expertload.operating_point.certification.spending` and, for the former method, in ``starts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.operating_point.certification.betting import p_values_of_capital
from expertload.operating_point.certification.p_values import binomial_p_values
from expertload.tally import Tally

__all__ = ["Ladder", "Run", "Steps"]


class Steps(NamedTuple):
    """Thresholds, strict to loose, with the counts of each.

    ``log_capital`` is the evidence of graded cases; None if cases are right or wrong.
    """

    threshold: FloatArray
    n_accepted: FloatArray
    n_errors: FloatArray
    log_capital: FloatArray | None = None

    def take(self, rows: slice | IntArray) -> Steps:
        """Return some of the rows."""
        capital = None if self.log_capital is None else self.log_capital[rows]
        columns = self.threshold[rows], self.n_accepted[rows], self.n_errors[rows]
        return Steps(*columns, capital)

    def p_values(self, target: float) -> FloatArray:
        """Return the p-values of the hypotheses that the accuracy is below `target`."""
        if self.log_capital is None:
            return binomial_p_values(self.n_errors, self.n_accepted, 1 - target)
        return np.where(self.n_accepted > 0, p_values_of_capital(self.log_capital), 1.0)


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
    def rows(self) -> IntArray:
        """The indices of the tested steps."""
        parts = [np.arange(run.begin, run.begin + run.n_tested) for run in self.runs]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    @cached_property
    def passed(self) -> BoolArray:
        """Whether each tested threshold is certified."""
        parts = [np.arange(run.n_tested) < run.n_passed for run in self.runs]
        return np.concatenate([np.zeros(0, np.bool_), *parts])

    @cached_property
    def tested(self) -> Steps:
        """The steps that were tested."""
        return self.steps.take(self.rows)

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


def runs_of(passed: BoolArray) -> tuple[Run, ...]:
    """Return the runs of a ladder all of whose steps were tested."""
    if not len(passed):
        return ()
    begins = np.flatnonzero(np.diff(passed.astype(np.int8), prepend=0) > 0)
    begins = np.union1d([0], begins)  # also at the first step
    ends = np.append(begins[1:], len(passed))
    return tuple(
        Run(int(begin), int(end - begin), int(passed[begin:end].sum()))
        for begin, end in zip(begins, ends, strict=True)
    )


# ------------------------------------------------------------------ where ladders come from


def every_threshold(table: Tally) -> Steps:
    """Return the distinct confidences, which represent all possible thresholds."""
    return Steps(table.confidence[::-1], table.accepted[::-1], table.accepted_errors[::-1])


def at_thresholds(steps: Steps, thresholds: FloatArray) -> Steps:
    """Return the steps of given thresholds."""
    strict_to_loose = np.unique(thresholds)[::-1].astype(np.float64)
    # The number of distinct confidences that each accepts; the first entry of a column means none.
    row = np.searchsorted(-steps.threshold, -strict_to_loose, side="right")
    accepted, errors = (np.append(0.0, column)[row] for column in steps[1:3])
    capital = None if steps.log_capital is None else np.append(0.0, steps.log_capital)[row]
    return Steps(strict_to_loose, accepted, errors, capital)


def at_counts(steps: Steps, counts: IntArray) -> Steps:
    """Return, for each count, the loosest step that accepts at most this many cases, if any."""
    row = np.searchsorted(steps.n_accepted, counts, side="right") - 1
    return steps.take(np.unique(row[row >= 0]))


def spaced_counts(n_cases: int, least: int, n_steps: int) -> IntArray:
    """Return numbers of cases, evenly spaced in their logarithm."""
    return np.unique(np.geomspace(min(least, n_cases), n_cases, n_steps).astype(np.int64))

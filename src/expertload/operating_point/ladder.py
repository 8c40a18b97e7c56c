"""Ladders of thresholds, strict to loose, and the rules that climb down them.

A ladder must not look at the calibration labels. Which ladders keep the promise
--------------------------------------------------------------------------------
*Thresholds fixed in advance*, or taken from other, unlabelled scores, do: at a fixed threshold,
given how many cases are accepted, their errors are binomial, so each p-value is valid; and the
first hypothesis that is true can be refuted with probability delta at most, so the sequence is.

*Every threshold there is* is such a ladder too, and the default. Between two neighbouring
confidences the accepted cases, and so the p-value, do not change; testing at every distinct
confidence of the calibration set is therefore testing at all real numbers, a sequence fixed before
any data. It costs no power: neighbouring tests are nearly the same test.

*Where to begin* does depend on the data; why that keeps the promise is argued in
`expertload.operating_point.starts`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.tally import Tally

__all__ = ["Ladder", "Steps"]


class Steps(NamedTuple):
    """Thresholds, strict to loose, with what each accepts."""

    threshold: FloatArray
    n_accepted: FloatArray
    n_errors: FloatArray

    def take(self, rows: slice | IntArray) -> Steps:
        """Return some of the rows."""
        return Steps(*(column[rows] for column in self))


class Ladder(NamedTuple):
    """The tests that were done, strict to loose.

    Attributes
    ----------
    threshold : ndarray of float
        Cases are accepted from this confidence on.
    n_accepted, n_errors : ndarray of float
        How many of the calibration cases that accepts, and how many of them are wrong.
    p_value : ndarray of float
        Chance of so few errors if the accuracy only just missed the target.
    passed : ndarray of bool
        Whether the threshold is certified.
    """

    threshold: FloatArray
    n_accepted: FloatArray
    n_errors: FloatArray
    p_value: FloatArray
    passed: BoolArray


def every_threshold(table: Tally) -> Steps:
    """Return the distinct confidences, which stand for all thresholds there are."""
    errors = table.accepted_errors
    return Steps(table.confidence[::-1].astype(np.float64), table.accepted[::-1], errors[::-1])


def at_thresholds(table: Tally, thresholds: FloatArray) -> Steps:
    """Return what given thresholds accept."""
    strict_to_loose = np.unique(thresholds)[::-1]
    accepted = np.append(table.accepted, 0.0)
    errors = np.append(table.accepted_errors, 0.0)
    row = np.searchsorted(table.confidence, strict_to_loose, side="left")
    return Steps(strict_to_loose.astype(np.float64), accepted[row], errors[row])


def spaced_counts(n_cases: int, least: int, n_steps: int) -> IntArray:
    """Return numbers of cases, evenly spaced in their logarithm."""
    return np.unique(np.geomspace(min(least, n_cases), n_cases, n_steps).astype(np.int64))


def at_counts(steps: Steps, counts: IntArray) -> Steps:
    """Return, for each count, the loosest step that accepts at most so many, if there is one."""
    row = np.searchsorted(steps.n_accepted, counts, side="right") - 1
    return steps.take(np.unique(row[row >= 0]))


def descend(p_value: FloatArray, granted: FloatArray) -> tuple[IntArray, BoolArray]:
    """Return the rows that a descent tests, and which of them pass.

    It begins wherever a level is granted, adds to that what has come down without a failure, and
    tests on until the next failure.
    """
    begins = np.flatnonzero(granted)
    rows, verdicts, level = [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)], 0.0
    for begin, end in pairwise([*begins.tolist(), len(p_value)]):
        level += float(granted[begin])
        passed = until_first_failure(p_value[begin:end], level)
        rows.append(np.arange(begin, begin + len(passed)))
        verdicts.append(passed)
        level = level if passed.all() else 0.0
    return np.concatenate(rows), np.concatenate(verdicts)


def until_first_failure(p_value: FloatArray, error_level: float) -> BoolArray:
    """Return the verdicts of a fixed sequence, as many as it comes to."""
    failed = np.flatnonzero(p_value > error_level)
    n_tests = int(failed[0]) + 1 if len(failed) else len(p_value)
    verdicts: BoolArray = p_value[:n_tests] <= error_level
    return verdicts


def bisection_rounds(n_cases: int) -> int:
    """Return in how many rounds bisection over the ranks ends."""
    return max(1, math.ceil(math.log2(n_cases)))

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

*Where to begin* does depend on the data, since a test with too few cases cannot pass. The rule is
to begin at the loosest threshold that accepts at most a number of cases fixed in advance. Write
A(t) for the true accuracy among cases of confidence t or more, s for the start, k(t) for the
number accepted.

- If A(s) misses the target: seen from the loose end, s is a stopping time. Given all that lies
  below it and k(s), the accepted cases are independent draws of accuracy A(s), whose test passes
  with probability at most delta.
- If A(s) reaches the target, let v be the next looser threshold that misses it, and w >= s where
  the run of thresholds that reach it, and that s lies in, begins. All that s has told is that
  k(w) <= start < k(v). Cases above w are better than those between v and w; to know that they are
  few can only make the test at v harder to pass, and it passes with probability at most delta.

Either way a threshold that misses the target is certified with probability at most delta, for any
distribution of confidence, with ties, and however accuracy moves with it. One case is left out: a
single confidence shared by so many of the most confident cases that fewer than the least testable
number lie above it. The ladder then begins at that confidence. The argument still holds unless the
few above it are over-confident; for that corner the exact probability has been computed over a
wide range of cases and stays below delta (``tests/operating_point/test_start.py``).

The second point uses that cases are right or wrong. For graded correctness it is not proved: there
each test is valid by itself, and that their sequence is rests on the slack of its bound and on
simulation; thresholds given in advance from elsewhere (``ladder_scores``) need neither.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from expertload._tally import Tally, from_the_top
from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.operating_point._risk_tests import allowed_errors, cases_for_errors, least_cases

__all__ = ["Ladder", "Steps"]

# How many of the most confident cases the first test takes, in units of the fewest that can pass
# without an error. With fewer, one unlucky error ends the descent; with more, a model that is good
# only at its top is missed.
START_FACTOR = 4


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
    errors = from_the_top(table.weight - table.correct)
    return Steps(
        table.confidence[::-1].astype(np.float64), from_the_top(table.weight)[::-1], errors[::-1]
    )


def at_thresholds(table: Tally, thresholds: FloatArray) -> Steps:
    """Return what given thresholds accept."""
    strict_to_loose = np.unique(thresholds)[::-1]
    accepted = np.append(from_the_top(table.weight), 0.0)
    errors = np.append(from_the_top(table.weight - table.correct), 0.0)
    row = np.searchsorted(table.confidence, strict_to_loose, side="left")
    return Steps(strict_to_loose.astype(np.float64), accepted[row], errors[row])


def start_count(n_cases: int, target: float, error_level: float) -> int:
    """Return how many cases the first test should take, from what is known before the data."""
    least = least_cases(target, error_level)
    wanted = min(START_FACTOR * least, max(2 * least, n_cases // 3))
    wanted = max(least, min(wanted, n_cases // 2))
    # The same number of errors is allowed from fewer cases on: begin there.
    return cases_for_errors(allowed_errors(wanted, target, error_level), target, error_level)


def first_step(expected: FloatArray, start: int, least: int) -> int:
    """Return the loosest step that accepts at most `start`, or the next if too few pass there."""
    step = int(np.searchsorted(expected, start, side="right")) - 1
    return step + 1 if step < 0 or expected[step] < least else step


def spaced_counts(n_cases: int, least: int, n_steps: int) -> IntArray:
    """Return numbers of cases, evenly spaced in their logarithm."""
    return np.unique(np.geomspace(min(least, n_cases), n_cases, n_steps).astype(np.int64))


def at_counts(steps: Steps, counts: IntArray) -> Steps:
    """Return, for each count, the loosest step that accepts at most so many, if there is one."""
    row = np.searchsorted(steps.n_accepted, counts, side="right") - 1
    return steps.take(np.unique(row[row >= 0]))


def until_first_failure(p_value: FloatArray, error_level: float) -> tuple[int, BoolArray]:
    """Return how many tests a fixed sequence does, and which of them passed."""
    failed = np.flatnonzero(p_value > error_level)
    n_tests = int(failed[0]) + 1 if len(failed) else len(p_value)
    return n_tests, p_value[:n_tests] <= error_level


def bisection_rounds(n_cases: int) -> int:
    """Return in how many rounds bisection over the ranks ends."""
    return max(1, math.ceil(math.log2(n_cases)))

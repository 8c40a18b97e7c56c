"""The test methods: each takes a ladder and a promise, and returns the tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

import numpy as np

from expertload._cases import Cases
from expertload._typing import FloatArray
from expertload.operating_point.certification.betting import (
    Grades,
    least_graded_cases,
    p_values_of_capital,
)
from expertload.operating_point.certification.ladder import (
    Ladder,
    Run,
    Steps,
    at_counts,
    at_thresholds,
    every_threshold,
    runs_of,
    spaced_counts,
)
from expertload.operating_point.certification.p_values import first_failure, least_cases
from expertload.operating_point.certification.promise import Method, Promise
from expertload.operating_point.certification.spending import Plan, descend, plan
from expertload.operating_point.certification.starts import grant, plan_starts
from expertload.tally import Tally

__all__ = ["CalibrationCases", "Tests"]

# The number of thresholds that the Bonferroni method tests by default.
N_BONFERRONI_STEPS = 20


class CalibrationCases:
    """Calibration cases: their tally, and their grades if they are graded."""

    def __init__(self, table: Tally, grades: Grades | None = None) -> None:
        self.table, self.grades = table, grades
        self.n_cases = round(table.total)

    @classmethod
    def from_cases(cls, cases: Cases, table: Tally | None = None) -> CalibrationCases:
        """Tally validated cases, unless a tally is given."""
        table = Tally.from_cases(cases) if table is None else table
        return cls(table, Grades.from_cases(cases) if cases.is_graded else None)

    @property
    def is_graded(self) -> bool:
        """Whether there are grades between right and wrong."""
        return self.grades is not None

    @cached_property
    def counts(self) -> Steps:
        """The counts at every distinct confidence, strict to loose."""
        return every_threshold(self.table)

    def steps(self, promise: Promise) -> Steps:
        """Return the counts at every distinct confidence, with the evidence of grades."""
        if self.grades is None:
            return self.counts
        all_cases = promise.counts_all_cases
        capital = self.grades.log_capital(promise.target, all_cases=all_cases)
        return self.counts._replace(log_capital=capital)


class Tests:
    """The tests of one promise, on steps of this many cases."""

    def __init__(self, steps: Steps, n_cases: int, promise: Promise) -> None:
        self.every, self.n_cases, self.promise = steps, n_cases, promise
        self.is_graded = steps.log_capital is not None

    @cached_property
    def steps(self) -> Steps:
        """The ladder: all thresholds, the given ones, or those of other scores."""
        given = self.promise.thresholds
        if given is None:
            given = self.promise.ladder_scores
        return self.every if given is None else at_thresholds(self.every, given)

    def run(self) -> Ladder:
        """Test thresholds by the requested method."""
        if self.promise.counts_all_cases:
            return self._joint()
        return METHOD_OF[self.promise.method](self)

    def fewest_testable(self) -> int:
        """Return the fewest accepted cases that can pass any of the tests."""
        level = self._largest_level()
        least = least_graded_cases if self.is_graded else least_cases
        return least(self.promise.target, level)

    def _largest_level(self) -> float:
        level, method = self.promise.error_level, self.promise.method
        if self.promise.counts_all_cases or method == "fixed_sequence":
            return level
        if method == "spending":
            binary_ladder = not self.is_graded and not self._is_single
            # Of targets next to one, no number of cases may be enough within rounding.
            return float(self._plan.nominal.max()) if binary_ladder and self._plan.looks else level
        if method == "sgr":
            return level / bisection_rounds(self.n_cases)
        own = self.promise.has_own_ladder
        return level / (len(self.steps.threshold) if own else N_BONFERRONI_STEPS)

    # -------------------------------------------------------------- one walk, or several beginnings

    def spending(self) -> Ladder:
        """Spend the level along one walk; graded cases are tested by `fixed_sequence`."""
        if self.is_graded or self._is_single:
            return self.fixed_sequence()
        return self._ladder(descend(self.steps.n_accepted, self.steps.n_errors, self._plan))

    @property
    def _plan(self) -> Plan:
        return plan(self.n_cases, self.promise.target, self.promise.error_level)

    @property
    def _is_single(self) -> bool:
        """Whether there is only one threshold, which needs no sequence."""
        return self.promise.has_own_ladder and len(self.steps.threshold) == 1

    def fixed_sequence(self) -> Ladder:
        """Test from several starting points, each until its first failure."""
        target, level = self.promise.target, self.promise.error_level
        if self._is_single:
            granted = np.array([level])
        else:
            starts = plan_starts(self.n_cases, target, level, graded=self.is_graded)
            granted = grant(self._expected(), starts)
        return self._ladder(descend_from(self.steps.p_values(target), granted))

    def _expected(self) -> FloatArray:
        """Return the expected number of accepted cases at each step, from other scores if given."""
        scores = self.promise.ladder_scores
        if scores is None:
            return self.steps.n_accepted
        below = np.searchsorted(np.sort(scores), self.steps.threshold, side="left")
        share: FloatArray = 1 - below / len(scores)
        return share * self.n_cases

    def _joint(self) -> Ladder:
        """Test the share of all cases that are accepted and wrong, which can only grow."""
        steps, promise = self.steps, self.promise
        all_cases = np.full(len(steps.n_errors), float(self.n_cases))
        if steps.log_capital is None:
            n_passed = first_failure(
                all_cases, steps.n_errors, 1 - promise.target, promise.error_level
            )
        else:
            failed = p_values_of_capital(steps.log_capital) > promise.error_level
            n_passed = int(failed.argmax()) if failed.any() else len(failed)
        return self._ladder((Run(0, min(n_passed + 1, len(all_cases)), n_passed),))

    def _ladder(self, runs: tuple[Run, ...]) -> Ladder:
        is_whole = not self.promise.has_own_ladder
        return Ladder(self.steps, runs, self.promise.target, is_whole)

    # -------------------------------------------------------------- thresholds apart, and bisection

    def bonferroni(self) -> Ladder:
        """Share the level among given thresholds, or thresholds evenly spaced by accepted cases."""
        target, level = self.promise.target, self._largest_level()
        steps = self.steps
        if not self.promise.has_own_ladder:
            least = self.fewest_testable()
            steps = at_counts(steps, spaced_counts(self.n_cases, least, N_BONFERRONI_STEPS))
        return Ladder(steps, runs_of(steps.p_values(target) <= level), target)

    def sgr(self) -> Ladder:
        """Bisect the ranks towards the loosest threshold that passes."""
        rounds = bisection_rounds(self.n_cases)
        strict, loose, verdicts = 1, self.n_cases, {}
        for _ in range(rounds):
            rank = (strict + loose) // 2
            row = int(np.searchsorted(self.steps.n_accepted, rank))  # ties are accepted together
            p_value = self.steps.take(slice(row, row + 1)).p_values(self.promise.target)[0]
            verdicts[row] = bool(p_value <= self.promise.error_level / rounds)
            strict, loose = (rank + 1, loose) if verdicts[row] else (strict, rank)
        visited = np.array(sorted(verdicts))
        passed = np.array([verdicts[row] for row in visited.tolist()])
        return Ladder(self.steps.take(visited), runs_of(passed), self.promise.target)


METHOD_OF: dict[Method, Callable[[Tests], Ladder]] = {
    "spending": Tests.spending,
    "fixed_sequence": Tests.fixed_sequence,
    "bonferroni": Tests.bonferroni,
    "sgr": Tests.sgr,
}


def descend_from(p_value: FloatArray, granted: FloatArray) -> tuple[Run, ...]:
    """Return the runs of a descent that starts wherever a level is granted.

    The level carried over without a failure is added to it; testing continues to the next failure.
    """
    begins = np.flatnonzero(granted).tolist()
    runs, level = [], 0.0
    for begin, end in pairwise([*begins, len(p_value)]):
        level += float(granted[begin])
        failed = np.flatnonzero(p_value[begin:end] > level)
        n_passed = int(failed[0]) if len(failed) else end - begin
        runs.append(Run(begin, min(n_passed + 1, end - begin), n_passed))
        level = level if n_passed == end - begin else 0.0
    return tuple(runs)


def bisection_rounds(n_cases: int) -> int:
    """Return the number of rounds of a bisection over the ranks."""
    return max(1, math.ceil(math.log2(n_cases)))

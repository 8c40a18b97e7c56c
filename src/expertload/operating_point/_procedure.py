"""From cases and a request to a certified point: the ladder, its tests, and the verdict."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from expertload._cases import Cases
from expertload._typing import BoolArray, FloatArray
from expertload.operating_point._risk_tests import least_cases, p_values
from expertload.operating_point._sufficiency import (
    enlarged,
    sufficient_cases,
    target_within_reach,
)
from expertload.operating_point.certified import CertifiedPoint, Method, Reason, Risk
from expertload.operating_point.ladder import (
    Ladder,
    Steps,
    at_counts,
    at_thresholds,
    bisection_rounds,
    descend,
    every_threshold,
    spaced_counts,
)
from expertload.operating_point.starts import grant, plan_starts
from expertload.tally import Tally

__all__ = ["Request", "certify_cases", "certify_tally"]

# How many thresholds the Bonferroni method tests of its own accord.
N_BONFERRONI_STEPS = 20


class Request(NamedTuple):
    """What is to be certified, and how."""

    target: float
    error_level: float
    method: Method
    risk: Risk
    thresholds: FloatArray | None = None
    ladder_scores: FloatArray | None = None


def certify_cases(cases: Cases, request: Request) -> CertifiedPoint:
    """Tally the cases, run the tests and report."""
    return certify_tally(Tally.from_cases(cases), request, graded=cases.is_graded)


def certify_tally(table: Tally, request: Request, *, graded: bool) -> CertifiedPoint:
    """Run the tests and report."""
    ladder = run_tests(table, request, graded=graded)
    passed = np.flatnonzero(ladder.passed)
    if len(passed):
        return _point(table, request, ladder, int(passed[-1]))
    return _nothing(table, request, ladder, graded=graded)


def run_tests(table: Tally, request: Request, *, graded: bool) -> Ladder:
    """Test thresholds by the method asked for."""
    if request.risk == "joint":
        return _joint(table, request, graded=graded)
    method = {"fixed_sequence": _fixed_sequence, "bonferroni": _bonferroni, "sgr": _bisection}
    return method[request.method](table, request, graded=graded)


# ------------------------------------------------------------------ the methods


def _fixed_sequence(table: Tally, request: Request, *, graded: bool) -> Ladder:
    target, level = request.target, request.error_level
    steps, expected = _ladder(table, request)
    if request.thresholds is not None and len(expected) == 1:
        granted = np.array([level])  # one threshold needs no sequence
    else:
        granted = grant(expected, plan_starts(int(table.total), target, level, graded=graded))
    p_value = p_values(steps.n_errors, steps.n_accepted, target=target, graded=graded)
    return _descent(steps, p_value, granted)


def _joint(table: Tally, request: Request, *, graded: bool) -> Ladder:
    """Test the share of all cases that are accepted and wrong: it only grows down the ladder."""
    steps, _ = _ladder(table, request)
    all_cases = np.full(len(steps.n_errors), table.total)
    p_value = p_values(steps.n_errors, all_cases, target=request.target, graded=graded)
    at_the_top = np.zeros(len(p_value))
    at_the_top[0] = request.error_level
    return _descent(steps, p_value, at_the_top)


def _descent(steps: Steps, p_value: FloatArray, granted: FloatArray) -> Ladder:
    rows, passed = descend(p_value, granted)
    return Ladder(*steps.take(rows), p_value[rows], passed)


def _bonferroni(table: Tally, request: Request, *, graded: bool) -> Ladder:
    if request.thresholds is None and request.ladder_scores is None:
        level = request.error_level / N_BONFERRONI_STEPS
        least = least_cases(request.target, level)
        counts = spaced_counts(int(table.total), least, N_BONFERRONI_STEPS)
        steps = at_counts(every_threshold(table), counts)
    else:
        steps, _ = _ladder(table, request)
        level = request.error_level / len(steps.threshold)
    p_value = p_values(steps.n_errors, steps.n_accepted, target=request.target, graded=graded)
    return Ladder(*steps, p_value, p_value <= level)


def _bisection(table: Tally, request: Request, *, graded: bool) -> Ladder:
    """SGR: bisect the ranks towards the loosest threshold that passes."""
    steps, n_cases = every_threshold(table), int(table.total)
    rounds = bisection_rounds(n_cases)
    strict, loose, rows, verdicts = 1, n_cases, [], []
    p_value = p_values(steps.n_errors, steps.n_accepted, target=request.target, graded=graded)
    for _ in range(rounds):
        rank = (strict + loose) // 2
        row = int(np.searchsorted(steps.n_accepted, rank))  # ties are accepted together
        passes = bool(p_value[row] <= request.error_level / rounds)
        rows.append(row)
        verdicts.append(passes)
        strict, loose = (rank + 1, loose) if passes else (strict, rank)
    order, first = np.unique(rows, return_index=True)
    visited: BoolArray = np.array(verdicts)[first]
    return Ladder(*steps.take(order), p_value[order], visited)


def _ladder(table: Tally, request: Request) -> tuple[Steps, FloatArray]:
    """Return the steps, and how many cases each is expected to accept."""
    if request.ladder_scores is not None:
        steps = at_thresholds(table, request.ladder_scores)
        below = np.searchsorted(np.sort(request.ladder_scores), steps.threshold, side="left")
        return steps, (1 - below / len(request.ladder_scores)) * table.total
    if request.thresholds is not None:
        steps = at_thresholds(table, request.thresholds)
    else:
        steps = every_threshold(table)
    return steps, steps.n_accepted


# ------------------------------------------------------------------ the verdict


def _point(table: Tally, request: Request, ladder: Ladder, row: int) -> CertifiedPoint:
    accepted, errors = float(ladder.n_accepted[row]), float(ladder.n_errors[row])
    return CertifiedPoint(
        threshold=float(ladder.threshold[row]),
        n_accepted=accepted,
        n_delegated=table.total - accepted,
        n_errors=errors,
        n_errors_spared=_all_errors(table) - errors,
        target_accuracy=request.target,
        confidence_level=1 - request.error_level,
        method=request.method,
        risk=request.risk,
        ladder=ladder,
    )


def _nothing(table: Tally, request: Request, ladder: Ladder, *, graded: bool) -> CertifiedPoint:
    def reaches(target: float) -> bool:
        lower = request._replace(target=target)
        return bool(run_tests(table, lower, graded=graded).passed.any())

    least = _least(table, request)
    # A handful of right answers at the top is luck more often than not: no advice rests on fewer
    # cases than a test needs, or than half of those there are.
    solid = 0.0 if request.risk == "joint" else min(least / table.total, 0.5)

    def suffices(n_cases: int) -> bool:
        found = run_tests(enlarged(table, n_cases, graded=graded), request, graded=graded)
        return bool((found.n_accepted[found.passed] >= solid * n_cases).any())

    enough = sufficient_cases(suffices, n_cases=int(table.total), least=least)
    return CertifiedPoint(
        threshold=math.inf,
        n_accepted=0.0,
        n_delegated=table.total,
        n_errors=0.0,
        n_errors_spared=_all_errors(table),
        target_accuracy=request.target,
        confidence_level=1 - request.error_level,
        method=request.method,
        risk=request.risk,
        reason=_reason(table, request, ladder, least, enough, graded=graded),
        sufficient_cases=enough,
        target_within_reach=target_within_reach(reaches, target=request.target),
        ladder=ladder,
    )


def _least(table: Tally, request: Request) -> int:
    """Return the fewest accepted cases that can pass any of the tests."""
    if request.method == "fixed_sequence":
        n_shares = 1
    elif request.method == "sgr":
        n_shares = bisection_rounds(int(table.total))
    elif request.thresholds is None and request.ladder_scores is None:
        n_shares = N_BONFERRONI_STEPS
    else:
        n_shares = len(_ladder(table, request)[0].threshold)
    return least_cases(request.target, request.error_level / n_shares)


def _reason(
    table: Tally,
    request: Request,
    ladder: Ladder,
    least: int,
    enough: int | None,
    *,
    graded: bool,
) -> Reason:
    """Say why nothing passed, of the thresholds that were to be tested."""
    steps = _ladder(table, request)[0]
    if table.total < least:
        return "too_few_cases"
    if request.risk == "joint":  # of which only the first step matters, and all cases count
        steps = steps.take(slice(1))._replace(n_accepted=np.array([table.total]))
    if steps.n_accepted[-1] < least:
        return "too_few_accepted"
    if request.method == "fixed_sequence" and _passes_further_down(steps, request, ladder, graded):
        return "over_confident_top"
    testable = steps.take(np.flatnonzero(steps.n_accepted >= least))
    reached = testable.n_errors < testable.n_accepted * (1 - request.target)
    return "accuracy_too_low" if enough is None and not reached.any() else "not_enough_evidence"


def _passes_further_down(steps: Steps, request: Request, ladder: Ladder, graded: bool) -> bool:
    """Return whether a looser threshold than the first tested would pass a test of its own."""
    below = steps.take(np.flatnonzero(steps.threshold < ladder.threshold[:1].max(initial=-np.inf)))
    alone = p_values(below.n_errors, below.n_accepted, target=request.target, graded=graded)
    return bool((alone <= request.error_level).any())


def _all_errors(table: Tally) -> float:
    return float((table.weight - table.correct).sum())

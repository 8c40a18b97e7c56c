"""Turns calibration cases and a promise into a certified point, or a reason why there is none."""

from __future__ import annotations

import math

import numpy as np

from expertload.operating_point.certification.advice import FoundAdvice
from expertload.operating_point.certification.certified_point import CertifiedPoint, Reason
from expertload.operating_point.certification.certified_thresholds import passed_thresholds
from expertload.operating_point.certification.ladder import Ladder, Steps
from expertload.operating_point.certification.methods import CalibrationCases, Tests
from expertload.operating_point.certification.p_values import any_passes
from expertload.operating_point.certification.promise import SEQUENTIAL, Promise

__all__ = ["certify_calibration"]


def certify_calibration(calibration: CalibrationCases, promise: Promise) -> CertifiedPoint:
    """Run the tests and return the point."""
    tests = Tests(calibration.steps(promise), calibration.n_cases, promise)
    ladder = tests.run()
    row = ladder.loosest
    if row is None:
        return _refusal(calibration, tests, ladder)
    accepted, errors = (float(column[row]) for column in ladder.steps[1:3])
    return CertifiedPoint(
        threshold=float(ladder.steps.threshold[row]),
        n_accepted=accepted,
        n_delegated=calibration.n_cases - accepted,
        n_errors=errors,
        n_errors_spared=_all_errors(calibration) - errors,
        target_accuracy=promise.target,
        confidence_level=1 - promise.error_level,
        method=promise.method,
        risk=promise.risk,
        passed=passed_thresholds(ladder),
        ladder=ladder,
    )


def _refusal(calibration: CalibrationCases, tests: Tests, ladder: Ladder) -> CertifiedPoint:
    promise = tests.promise
    least = tests.fewest_testable()
    advice = FoundAdvice(calibration, promise, least)
    return CertifiedPoint(
        threshold=math.inf,
        n_accepted=0.0,
        n_delegated=float(calibration.n_cases),
        n_errors=0.0,
        n_errors_spared=_all_errors(calibration),
        target_accuracy=promise.target,
        confidence_level=1 - promise.error_level,
        method=promise.method,
        risk=promise.risk,
        reason=_reason(tests, ladder, least, advice),
        advice=advice,
        ladder=ladder,
    )


def _reason(tests: Tests, ladder: Ladder, least: int, advice: FoundAdvice) -> Reason:
    """Return the reason why no threshold passed."""
    steps, promise = tests.steps, tests.promise
    if tests.n_cases < least:
        return "too_few_cases"
    if promise.counts_all_cases:  # only the first step matters, and all cases count
        steps = steps.take(slice(1))._replace(n_accepted=np.array([float(tests.n_cases)]))
    if steps.n_accepted[-1] < least:
        return "too_few_accepted"
    if promise.method in SEQUENTIAL and _passes_further_down(steps, promise, ladder):
        return "over_confident_top"
    testable = steps.n_accepted >= least
    reached = steps.n_errors < steps.n_accepted * (1 - promise.target)
    if (testable & reached).any() or advice.sufficient_cases is not None:
        return "not_enough_evidence"
    return "accuracy_too_low"


def _passes_further_down(steps: Steps, promise: Promise, ladder: Ladder) -> bool:
    """Return whether a threshold looser than the first one would pass a separate test."""
    below = steps.take(
        slice(len(steps.threshold) if ladder.first is None else ladder.first + 1, None)
    )
    if below.log_capital is not None:
        return bool((below.p_values(promise.target) <= promise.error_level).any())
    return any_passes(below.n_accepted, below.n_errors, 1 - promise.target, promise.error_level)


def _all_errors(calibration: CalibrationCases) -> float:
    return float(calibration.counts.n_errors[-1])

"""What would have sufficed, where nothing could be certified.

Both answers are indications, read from the same data as the failure: how many cases would do if
the observed accuracy were the true one, and which lower target these data would have certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from expertload.operating_point._risk_tests import cases_for_errors, least_cases
from expertload.operating_point.ladder import Steps, at_counts, spaced_counts

__all__ = ["sufficient_cases", "target_within_reach"]

N_CANDIDATES = 32
TARGETS_PER_UNIT = 1000
# An error rate within a hundredth of the allowed one would take more cases than anyone has.
LEAST_MARGIN = 0.01


def sufficient_cases(
    steps: Steps, n_cases: int, *, target: float, error_level: float
) -> int | None:
    """Return about how many cases in all would certify the target at the best of some steps.

    None where the accuracy observed exceeds the target nowhere by a margin worth the name; at most
    `n_cases` where a step would pass a test of its own already.
    """
    least = least_cases(target, error_level)
    rows = at_counts(steps, spaced_counts(n_cases, least, N_CANDIDATES))
    rate, share = rows.n_errors / rows.n_accepted, rows.n_accepted / n_cases
    worth = rate < (1 - target) * (1 - LEAST_MARGIN)
    if not worth.any():
        return None
    # The cases needed fall with the square of the margin: enough to tell which step is best.
    best = int(np.argmax(np.where(worth, share * (1 - target - rate) ** 2, 0.0)))
    needed = _accepted_needed(float(rate[best]), target, error_level)
    return math.ceil(needed / float(share[best]))


def _accepted_needed(error_rate: float, target: float, error_level: float) -> int:
    """Return the fewest accepted cases that pass with as many errors as the rate predicts."""

    def enough(n_errors: int) -> bool:
        return error_rate * cases_for_errors(n_errors, target, error_level) <= n_errors

    most = 1
    while not enough(most):
        most *= 2
    fewest = -1 if most == 1 else most // 2
    while most - fewest > 1:
        middle = (fewest + most) // 2
        fewest, most = (fewest, middle) if enough(middle) else (middle, most)
    return cases_for_errors(most, target, error_level)


def target_within_reach(certifies: Callable[[float], bool], *, target: float) -> float | None:
    """Return a lower target, in thousandths, that the same data certify; None if none does."""
    low, high = 0, math.ceil(target * TARGETS_PER_UNIT)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if certifies(middle / TARGETS_PER_UNIT) else (low, middle)
    return low / TARGETS_PER_UNIT if low else None

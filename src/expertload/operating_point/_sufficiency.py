"""What would have sufficed, where nothing could be certified.

Both answers are indications, read from the same data as the failure: how many cases would do if
the observed accuracy were the true one, and which lower target these data would have certified.
Both are found by running the tests again, so that what is said is what they would do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from expertload._typing import FloatArray
from expertload.tally import Tally

__all__ = ["enlarged", "sufficient_cases", "target_within_reach"]

TARGETS_PER_UNIT = 1000
# More than this many times the cases at hand, or the fewest that can pass, is no advice, and what
# is so rare at the top that it takes them may well be luck.
MOST_TIMES = 20


def enlarged(table: Tally, n_cases: int, *, graded: bool) -> Tally:
    """Return what more cases of the same kind would be, errors rounded up."""
    times = n_cases / table.total
    weight = _differences(np.rint(table.accepted * times))
    if graded:
        return Tally(table.confidence, weight, weight * table.grade)
    errors = table.accepted_errors * times
    wrong = np.minimum(_differences(np.ceil(errors - 1e-9 * np.maximum(errors, 1))), weight)
    return Tally(table.confidence, weight, weight - wrong)


def _differences(from_top: FloatArray) -> FloatArray:
    rows: FloatArray = from_top - np.append(from_top[1:], 0.0)
    return rows


def sufficient_cases(certifies: Callable[[int], bool], *, n_cases: int, least: int) -> int | None:
    """Return about how many cases would do, None if not even very many would."""
    short, enough = n_cases, max(n_cases + 1, least)
    while not certifies(enough):
        short, enough = enough, 2 * enough
        if enough > MOST_TIMES * max(n_cases, least):
            return None
    while enough - short > max(1, enough // 100):
        middle = (short + enough) // 2
        short, enough = (short, middle) if certifies(middle) else (middle, enough)
    return enough


def target_within_reach(certifies: Callable[[float], bool], *, target: float) -> float | None:
    """Return a lower target, in thousandths, that the same data certify; None if none does."""
    low, high = 0, math.ceil(target * TARGETS_PER_UNIT)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if certifies(middle / TARGETS_PER_UNIT) else (low, middle)
    return low / TARGETS_PER_UNIT if low else None

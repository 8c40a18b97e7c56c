"""Two other procedures of certification, to compare with: Bonferroni and bisection (SGR)."""

from __future__ import annotations

import math

import numpy as np

from expertload.operating_point.ladder import Ladder, Run, Steps, least_cases

# The number of thresholds that Bonferroni's method tests.
N_STEPS = 20


def bonferroni(steps: Steps, n_cases: int, target: float, error_level: float) -> Ladder:
    """Test thresholds evenly spaced by the logarithm of accepted cases, each at its share."""
    level = error_level / N_STEPS
    least = min(least_cases(target, level), n_cases)
    counts = np.unique(np.geomspace(least, n_cases, N_STEPS).astype(np.int64))
    rows = np.searchsorted(steps.n_accepted, counts, side="right") - 1
    tested = steps.take(np.unique(rows[rows >= 0]))
    return _tested(tested, tested.p_values(target) <= level, target)


def sgr(steps: Steps, n_cases: int, target: float, error_level: float) -> Ladder:
    """Bisect the ranks towards the loosest threshold that passes (Geifman and El-Yaniv 2017).

    The proof needs accuracy to rise with confidence.
    """
    rounds = max(1, math.ceil(math.log2(n_cases)))
    strict, loose, verdicts = 1, n_cases, {}
    for _ in range(rounds):
        rank = (strict + loose) // 2
        row = int(np.searchsorted(steps.n_accepted, rank))  # ties are accepted together
        p_value = steps.take(slice(row, row + 1)).p_values(target)[0]
        verdicts[row] = bool(p_value <= error_level / rounds)
        strict, loose = (rank + 1, loose) if verdicts[row] else (strict, rank)
    rows = sorted(verdicts)
    return _tested(steps.take(np.array(rows)), np.array([verdicts[r] for r in rows]), target)


def _tested(steps: Steps, passed: np.ndarray, target: float) -> Ladder:
    """Return a ladder all of whose steps were tested, each by itself."""
    runs = tuple(Run(row, 1, int(has_passed)) for row, has_passed in enumerate(passed))
    return Ladder(steps, runs, target)


RIVALS = {"bonferroni": bonferroni, "sgr": sgr}

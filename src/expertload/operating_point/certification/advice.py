"""What would have been enough if nothing could be certified. Computed only when it is read.

Both answers are rough, because they come from the same data as the failure. One is the number of
cases that would be enough if the observed accuracy is the true one. The other is a lower target
that these data would have certified. Both are found by running the tests again, on a thinned ladder
if it is very long.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from expertload.operating_point.certification.ladder import Steps
from expertload.operating_point.certification.methods import CalibrationCases, Tests
from expertload.operating_point.certification.promise import Promise

__all__ = ["FoundAdvice"]

TARGETS_PER_UNIT = 1000
# More than this many times the given cases, or the fewest that can pass, is not useful advice; a
# top so small that it would need them may well be luck.
MOST_TIMES = 20
# Steps to test again; more would change the answer by less than its rounding.
MOST_STEPS = 100_000


class FoundAdvice:
    """Answers about one failed promise."""

    def __init__(self, calibration: CalibrationCases, promise: Promise, fewest: int) -> None:
        self._calibration, self._promise, self._fewest = calibration, promise, fewest
        # A few right answers at the top are usually luck, so advice uses at least as many cases
        # as a test needs, or half of the given ones.
        share = min(fewest / calibration.n_cases, 0.5)
        self._solid = 0.0 if promise.counts_all_cases else share

    @cached_property
    def sufficient_cases(self) -> int | None:
        """About how many cases would be enough; None if even very many are not."""
        n_cases, fewest = self._calibration.n_cases, self._fewest
        short, enough = n_cases, max(n_cases + 1, fewest)
        while not self._suffices(enough):
            short, enough = enough, 2 * enough
            if enough > MOST_TIMES * max(n_cases, fewest):
                return None
        while enough - short > max(1, enough // 100):
            middle = (short + enough) // 2
            short, enough = (short, middle) if self._suffices(middle) else (middle, enough)
        return enough

    @cached_property
    def target_within_reach(self) -> float | None:
        """A lower target, in thousandths, that the same data certify; None if none does."""
        low, high = 0, math.ceil(self._promise.target * TARGETS_PER_UNIT)
        while high - low > 1:
            middle = (low + high) // 2
            reached = self._reaches(middle / TARGETS_PER_UNIT)
            low, high = (middle, high) if reached else (low, middle)
        return low / TARGETS_PER_UNIT if low else None

    # -------------------------------------------------------------- running the tests again

    def _reaches(self, target: float) -> bool:
        promise = self._promise._replace(target=target)
        steps = self._thinned(self._calibration.steps(promise))
        return Tests(steps, self._calibration.n_cases, promise).run().loosest is not None

    def _suffices(self, n_cases: int) -> bool:
        ladder = Tests(self._enlarged(n_cases), n_cases, self._promise).run()
        if ladder.loosest is None:
            return False
        return bool(ladder.steps.n_accepted[ladder.loosest] >= self._solid * n_cases)

    def _enlarged(self, n_cases: int) -> Steps:
        """Return the counts for a larger number of similar cases, with errors rounded up."""
        times = n_cases / self._calibration.n_cases
        steps = self._thinned(self._calibration.counts)
        accepted, errors = np.rint(steps.n_accepted * times), steps.n_errors * times
        if self._calibration.grades is not None:
            capital = self._calibration.grades.log_capital(
                self._promise.target, times=times, all_cases=self._promise.counts_all_cases
            )
            return Steps(steps.threshold, accepted, errors, self._thin(capital))
        whole = np.ceil(errors - 1e-9 * np.maximum(errors, 1))
        return Steps(steps.threshold, accepted, np.minimum(whole, accepted))

    def _thinned(self, steps: Steps) -> Steps:
        return steps if len(steps.threshold) <= MOST_STEPS else steps.take(self._kept)

    def _thin(self, capital: np.ndarray) -> np.ndarray:
        return capital if len(capital) <= MOST_STEPS else capital[self._kept]

    @cached_property
    def _kept(self) -> np.ndarray:
        """Return evenly spaced steps, with the first ones closer together."""
        n_steps = len(self._calibration.counts.threshold)
        dense, even = np.arange(MOST_STEPS // 2), np.linspace(0, n_steps - 1, MOST_STEPS // 2)
        return np.union1d(dense, even.astype(np.int64))

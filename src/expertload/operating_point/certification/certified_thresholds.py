"""All thresholds that passed. They hold together: any of them may be used.

There may be gaps, if one run of tests failed and a later one began. If every threshold was tested,
thresholds between two steps of a stretch are certified too. If thresholds were given, or tested
separately, only these are certified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expertload._typing import FloatArray
from expertload.operating_point.certification.ladder import Ladder, Steps

__all__ = ["CertifiedThresholds", "Stretch"]

# The number of passed thresholds that a saved policy keeps.
MOST_SAVED = 101


@dataclass(frozen=True, eq=False)
class Stretch:
    """Neighbouring thresholds that passed, strict to loose, with their counts.

    Attributes
    ----------
    threshold, n_accepted, n_errors : ndarray of float
        Thresholds, and the accepted cases and errors of the calibration set.
    """

    threshold: FloatArray
    n_accepted: FloatArray
    n_errors: FloatArray

    def __len__(self) -> int:
        return len(self.threshold)

    def thinned(self, n_kept: int) -> Stretch:
        """Return at most this many thresholds, including the first and the last."""
        rows = np.unique(np.linspace(0, len(self) - 1, min(n_kept, len(self))).astype(np.int64))
        rows = rows if n_kept > 1 else np.array([len(self) - 1])
        return Stretch(self.threshold[rows], self.n_accepted[rows], self.n_errors[rows])


@dataclass(frozen=True, eq=False)
class CertifiedThresholds:
    """The thresholds that passed, as stretches from strict to loose.

    Attributes
    ----------
    stretches : tuple of Stretch
        Neighbouring thresholds; nothing is certified between two stretches.
    is_continuous : bool
        Whether every number inside a stretch is certified, not only the thresholds listed.

    Examples
    --------
    >>> from expertload.operating_point import certify_from_correctness
    >>> point = certify_from_correctness([1] * 200, range(200), target_accuracy=0.95)
    >>> point.passed.ranges
    ((0.0, 107.0),)
    >>> 100.5 in point.passed, 199 in point.passed
    (True, False)
    """

    stretches: tuple[Stretch, ...] = ()
    is_continuous: bool = False

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """The loosest and the strictest threshold of each stretch."""
        return tuple((float(s.threshold[-1]), float(s.threshold[0])) for s in self.stretches)

    @property
    def steps(self) -> Steps:
        """All listed thresholds, strict to loose."""
        columns = zip(
            *((s.threshold, s.n_accepted, s.n_errors) for s in self.stretches), strict=True
        )
        empty = np.zeros(0)
        return Steps(*(np.concatenate(parts) for parts in columns)) if self else Steps(*[empty] * 3)

    def __len__(self) -> int:
        return sum(len(stretch) for stretch in self.stretches)

    def __contains__(self, threshold: object) -> bool:
        if not isinstance(threshold, int | float):
            return False
        if self.is_continuous:
            return any(low <= threshold <= high for low, high in self.ranges)
        return bool((self.steps.threshold == threshold).any())

    def thinned(self) -> CertifiedThresholds:
        """Return as many thresholds as a saved policy keeps, always including the loosest."""
        if len(self) <= MOST_SAVED:
            return self
        loosest = self.stretches[-MOST_SAVED:]
        room = MOST_SAVED // len(loosest)
        return CertifiedThresholds(tuple(s.thinned(room) for s in loosest), self.is_continuous)


def passed_thresholds(ladder: Ladder) -> CertifiedThresholds:
    """Return the thresholds that a ladder certified; adjacent stretches are joined."""
    spans: list[list[int]] = []
    for run in ladder.runs:
        if run.n_passed and spans and spans[-1][1] == run.begin:
            spans[-1][1] += run.n_passed
        elif run.n_passed:
            spans.append([run.begin, run.begin + run.n_passed])
    stretches = (ladder.steps.take(slice(begin, end)) for begin, end in spans)
    return CertifiedThresholds(tuple(Stretch(*s[:3]) for s in stretches), ladder.is_whole)

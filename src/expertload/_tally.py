"""Cases added up by confidence: all that any number about the curve depends on.

Cases of equal confidence are accepted or delegated together, so their order must not matter. A
`Tally` keeps one row per distinct confidence, with the weight and the correct weight found there.
The curve, its area, and every selective metric are functions of that table alone, which is why
they cannot depend on the order of rows, and why weights, repeats and merged shards agree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._cases import Cases
from expertload._typing import AnyArray, FloatArray

__all__ = ["Tally", "tally"]


class Tally(NamedTuple):
    """One row per distinct confidence, ascending; weights are counts where none were given."""

    confidence: FloatArray
    weight: FloatArray
    correct: FloatArray

    @property
    def total(self) -> float:
        """The weight of all cases."""
        return float(self.weight.sum())

    @property
    def grade(self) -> FloatArray:
        """The mean correctness of each row."""
        return self.correct / self.weight

    @property
    def remaining(self) -> FloatArray:
        """The share of weight at or above each row, from 1 at the first row, then a final 0."""
        accepted = from_the_top(self.weight)
        shares: FloatArray = np.append(accepted, 0.0) / accepted[0]
        return shares


def from_the_top(values: FloatArray) -> FloatArray:
    """Sum of each row and all rows above it."""
    sums: FloatArray = np.cumsum(values[::-1])[::-1]
    return sums


def tally(cases: Cases) -> Tally:
    """Add cases up by confidence."""
    if cases.weight is None and cases.correct.dtype == np.bool_:
        return _count(cases.correct, cases.confidence)
    return _add_up(cases)


def _count(correct: AnyArray, confidence: FloatArray) -> Tally:
    """Unweighted right-or-wrong cases: two plain sorts beat one argsort several times over."""
    distinct, end = _run_ends(np.sort(confidence))
    right = np.searchsorted(np.sort(confidence[correct]), distinct, side="right")
    return Tally(distinct, _steps(end), _steps(right))


def _add_up(cases: Cases) -> Tally:
    weight = np.ones(len(cases.correct)) if cases.weight is None else cases.weight
    present = weight > 0  # a case of weight zero is a case that is not there
    confidence, weight = cases.confidence[present], weight[present]
    correct = cases.correct[present] * weight
    order = np.argsort(confidence, kind="stable")
    distinct, end = _run_ends(confidence[order])
    start = np.concatenate(([0], end[:-1]))
    return Tally(
        distinct,
        np.add.reduceat(weight[order], start),
        np.add.reduceat(correct[order], start),
    )


def _run_ends(ascending: FloatArray) -> tuple[FloatArray, AnyArray]:
    """Distinct values of a sorted array, and where the run of each one ends."""
    last = np.append(ascending[1:] != ascending[:-1], True)
    end = np.flatnonzero(last) + 1
    return ascending[last], end


def _steps(cumulative: AnyArray) -> FloatArray:
    return np.diff(cumulative, prepend=0).astype(np.float64)

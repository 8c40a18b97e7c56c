"""Parts of an evaluation other than the curve: a rate with its interval, a histogram, errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray
from expertload.significance import Interval
from expertload.significance.band import wilson
from expertload.tally import Tally, cumulative_from_bottom

__all__ = ["Calibration", "ConfidenceHistogram", "histogram", "rate_interval"]

N_BINS = 20


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How far confidence is from accuracy, and how good the probabilities are.

    Attributes
    ----------
    expected_error : float
        Expected calibration error of the top label, 15 bins of equal mass.
    kolmogorov_smirnov_error : float
        The largest summed gap between confidence and correctness.
    brier_loss, log_loss : float or None
        Proper scores of the probabilities; None if only confidences are known.
    n_impossible : int
        The number of cases whose true class has a probability of zero. The log loss would be
        infinite and uses the smallest positive number instead; see `expertload.metrics.log_loss`.
    """

    expected_error: float
    kolmogorov_smirnov_error: float
    brier_loss: float | None = None
    log_loss: float | None = None
    n_impossible: int = 0


class ConfidenceHistogram(NamedTuple):
    """The numbers of right and wrong cases by confidence.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Edges of the bins; each bin includes its left edge, the last one both.
    right, wrong : ndarray of shape (n_bins,)
        Cases (or weight, or grades) in each bin.
    """

    edges: FloatArray
    right: FloatArray
    wrong: FloatArray


def histogram(table: Tally) -> ConfidenceHistogram:
    """Count right and wrong cases by confidence."""
    edges = _edges(float(table.confidence[0]), float(table.confidence[-1]))
    # The rows of a tally are sorted, so each bin is a contiguous range of rows.
    ends = np.searchsorted(table.confidence, edges[1:-1])
    marks = np.concatenate(([0], ends, [len(table.confidence)]))
    right, wrong = (
        np.diff(cumulative_from_bottom(values)[marks]) for values in (table.correct, table.errors)
    )
    return ConfidenceHistogram(edges, right, wrong)


def _edges(low: float, high: float) -> FloatArray:
    """Return round edges for probabilities; for other confidences, edges over their range."""
    if low >= 0 and high <= 1:
        start = min(math.floor(low * 10), 9) / 10
        return np.linspace(start, 1.0, N_BINS + 1)
    if high == low:
        margin = max(0.5, abs(low) * 1e-9)
        low, high = low - margin, high + margin
    return 2 * np.linspace(low / 2, high / 2, N_BINS + 1)  # the range may be beyond all floats


def rate_interval(rate: float, n: float, level: float) -> Interval:
    """Return Wilson's interval for a rate observed in n cases."""
    low, high = wilson(np.array(rate), np.array(n), level)
    return Interval(
        estimate=rate,
        low=float(low),
        high=float(high),
        confidence_level=level,
        standard_error=math.sqrt(max(rate * (1 - rate), 0.0) / n),
    )

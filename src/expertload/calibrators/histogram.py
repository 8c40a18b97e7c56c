"""Histogram binning: each class's probability becomes its bin's frequency.

Zadrozny and Elkan (2001), extended to many classes one against the rest (Guo et al. 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from expertload._store import Learned
from expertload._typing import FloatArray
from expertload._validation import check_count, check_option, check_positive
from expertload.calibrators.one_vs_rest import OneVsRest
from expertload.tally import Tally

__all__ = ["HistogramBinning"]

# The bins of a class without cases: none, which does not change its probabilities.
KEPT = (np.empty(0), np.empty(0))


class HistogramBinning(OneVsRest):
    """Replaces each class's probability by the frequency of the class in its bin.

    Fitting sorts each column: classes times n log n. Probabilities become steps, which ties cases
    and may change the predicted class. A class without cases keeps its probabilities, and so does
    a row whose bins are all zero.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed.
    n_bins : int, default=15
        Bins per class. Equal probabilities are never split, so there may be fewer.
    strategy : {"mass", "width"}, default="mass"
        ``"mass"`` for bins of equal weight, ``"width"`` for bins of equal width.
    smoothing : float, default=0
        Cases added to each bin at its mean input probability. Zero is the original method, whose
        bins may be exactly 0 or 1; with other values, thin bins change little.

    Attributes
    ----------
    upper_edges_ : list of ndarray
        For each class, the upper edges of its bins (inclusive), ascending up to 1.
    values_ : list of ndarray
        For each class, the values of its bins. A bin without cases has its centre.

    Examples
    --------
    >>> proba = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]]
    >>> calibrator = HistogramBinning(input="probabilities", n_bins=2).fit(proba, [0, 0, 1, 1])
    >>> float(calibrator.transform([[0.85, 0.15]])[0, 0])
    1.0
    """

    name = "histogram"
    _learned: ClassVar[Mapping[str, Learned]] = {
        "upper_edges_": Learned("arrays"),
        "values_": Learned("arrays"),
    }

    upper_edges_: list[FloatArray]
    values_: list[FloatArray]

    def __init__(
        self,
        *,
        input: str = "logits",  # noqa: A002
        n_bins: int = 15,
        strategy: str = "mass",
        smoothing: float = 0.0,
    ) -> None:
        self.input = input
        self.n_bins = n_bins
        self.strategy = strategy
        self.smoothing = smoothing

    def _check_options(self) -> None:
        super()._check_options()
        check_count(self.n_bins, "n_bins")
        check_option(self.strategy, ("mass", "width"), "strategy")
        check_positive(self.smoothing, "smoothing", zero=True)

    def _fit_curves(self, tallies: list[Tally | None]) -> None:
        self.upper_edges_, self.values_ = [], []
        for cases in tallies:
            edges, values = KEPT if cases is None else self._fit_bins(cases)
            self.upper_edges_.append(edges)
            self.values_.append(values)

    def _fit_bins(self, cases: Tally) -> tuple[FloatArray, FloatArray]:
        edges = self._edges(cases)
        bins = np.searchsorted(edges, cases.confidence)
        weight = np.bincount(bins, cases.weight, len(edges))
        hits = np.bincount(bins, cases.correct, len(edges))
        total = np.bincount(bins, cases.weight * cases.confidence, len(edges))
        middle = (np.concatenate([[0.0], edges[:-1]]) + edges) / 2
        mean = np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), middle)
        extra = np.where(weight > 0, self.smoothing, 1.0)
        return edges, np.minimum((hits + extra * mean) / (weight + extra), 1.0)

    def _edges(self, cases: Tally) -> FloatArray:
        if self.strategy == "width":
            return np.arange(1, self.n_bins + 1) / self.n_bins
        reached = np.cumsum(cases.weight)
        wanted = np.arange(1, self.n_bins) * reached[-1]
        inner = cases.confidence[np.searchsorted(reached * self.n_bins, wanted)]
        return np.unique(np.append(inner[inner < 1.0], 1.0))

    def _curve(self, k: int, proba: FloatArray) -> FloatArray:
        edges, values = self.upper_edges_[k], self.values_[k]
        if len(values) == 0:
            return proba
        return values[np.searchsorted(edges, np.minimum(proba, 1.0))]

    def _problem(self) -> str | None:
        for edges, values in zip(self.upper_edges_, self.values_, strict=True):
            if len(edges) != len(values):
                return "each class must have as many 'values_' as 'upper_edges_'"
            if len(edges) > 0 and (edges[-1] != 1.0 or (np.diff(edges) <= 0).any()):
                return "its 'upper_edges_' must ascend to 1"
            if ((values < 0) | (values > 1)).any():
                return "its 'values_' must be in [0, 1]"
        return None

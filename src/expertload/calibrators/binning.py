"""Histogram binning and isotonic regression, one class against the rest.

Each class's probability is mapped by a curve fitted to how often the class was right, and each row
is divided by its sum. Histogram binning maps it to the frequency in its bin (Zadrozny and Elkan
2001, for many classes Guo et al. 2017), isotonic regression by the rising curve that is nearest to
what was right (Zadrozny and Elkan 2002). A class without cases in the calibration set keeps its
probability, and a row in which all curves give zero keeps its input probabilities.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from expertload._check import check_count, check_option, check_positive
from expertload._typing import FloatArray, IntArray
from expertload.calibrators.base import Calibrator, learned, normalise_rows, softmax
from expertload.tally import Tally

Corners = tuple[FloatArray, FloatArray]

# ------------------------------------------------------------------ one vs rest


class OneVsRest(Calibrator):
    """Fit one curve per class to its probability; the two learned attributes are its corners."""

    # The curve of a class without cases, which does not change its probabilities.
    _identity: ClassVar[Corners]
    upper_edges_: list[FloatArray]
    proba_: list[FloatArray]
    values_: list[FloatArray]

    @abstractmethod
    def _fit_curve(self, cases: Tally) -> Corners:
        """Return the curve of a class: probabilities that ascend, and values."""

    @abstractmethod
    def _curve(self, k: int, proba: FloatArray) -> FloatArray:
        """Return class `k`'s curve at probabilities `proba`."""

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        proba = softmax(inputs)
        present = np.bincount(target, minlength=self.n_classes_) > 0
        curves = [
            self._fit_curve(Tally.add_up(target == k, proba[:, k], weight))
            if seen
            else self._identity
            for k, seen in enumerate(present)
        ]
        for name, corners in zip(self._learned, zip(*curves, strict=True), strict=True):
            setattr(self, name, list(corners))

    def _transform(self, inputs: FloatArray) -> FloatArray:
        proba = softmax(inputs)
        curves = [self._curve(k, proba[:, k]) for k in range(self.n_classes_)]
        return normalise_rows(np.column_stack(curves), proba)


# ------------------------------------------------------------------ histogram


@dataclass(kw_only=True, eq=False, repr=False)
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
    _learned = learned(upper_edges_="arrays", values_="arrays")
    _identity = (np.empty(0), np.empty(0))

    input: str = "logits"
    n_bins: int = 15
    strategy: str = "mass"
    smoothing: float = 0.0

    def _check_options(self) -> None:
        super()._check_options()
        check_count(self.n_bins, "n_bins")
        check_option(self.strategy, ("mass", "width"), "strategy")
        check_positive(self.smoothing, "smoothing", zero=True)

    def _fit_curve(self, cases: Tally) -> Corners:
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


# ------------------------------------------------------------------ isotonic


@dataclass(kw_only=True, eq=False, repr=False)
class IsotonicCalibration(OneVsRest):
    """Map each class's probability by a rising curve fitted by least squares.

    Cases of equal probability are averaged. Between the fitted probabilities the curve is linear,
    beyond them it is constant. Fitting sorts each column: classes times n log n. Constant parts
    create ties, the curve may be exactly 0 or 1, and the predicted class may change; the set should
    have about a thousand cases or more. A class without cases keeps its probabilities, and so does
    a row whose curves are all zero.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed.

    Attributes
    ----------
    proba_, values_ : list of ndarray
        For each class, the corners of its curve.

    Examples
    --------
    >>> proba = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]]
    >>> calibrator = IsotonicCalibration(input="probabilities").fit(proba, [0, 1, 0, 1])
    >>> float(calibrator.transform([[0.75, 0.25]])[0, 0])
    0.5
    """

    name = "isotonic"
    _learned = learned(proba_="arrays", values_="arrays")
    _identity = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))

    input: str = "logits"

    def _fit_curve(self, cases: Tally) -> Corners:
        """Return the corners of the fitted curve, without points inside constant parts."""
        from scipy.optimize import isotonic_regression  # slow to import

        values = np.clip(isotonic_regression(cases.grade, weights=cases.weight).x, 0.0, 1.0)
        corner = np.ones(len(values), dtype=bool)
        corner[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
        return cases.confidence[corner], values[corner]

    def _curve(self, k: int, proba: FloatArray) -> FloatArray:
        # Corners may be so close that slopes are inexact, so the result is clipped.
        values = self.values_[k]
        return np.clip(np.interp(proba, self.proba_[k], values), values[0], values[-1])

    def _problem(self) -> str | None:
        for proba, values in zip(self.proba_, self.values_, strict=True):
            if len(proba) != len(values) or len(values) == 0:
                return "each class must have as many 'values_' as 'proba_', and at least one"
            if (np.diff(proba) <= 0).any() or (np.diff(values) < 0).any():
                return "its curves must rise"
            if values[0] < 0 or values[-1] > 1:
                return "its 'values_' must be in [0, 1]"
        return None

"""Spline calibration of the top probability (Gupta et al. 2021).

Sort the cases by top probability and let t in [0, 1] run over their shares. The running sum of
"right minus top probability", over the number of cases, is a curve d(t) whose slope is how far the
model is off at t; its largest height is the KS calibration error. A natural cubic spline with few
knots is fitted to d by least squares, and its slope is what to add to the top probability.

The sums are taken as a continuous curve: straight inside one case's share, and inside a group of
equal probabilities. So neither the order of rows nor ties matter, weights equal repeats, and a set
with a single probability is fitted exactly. The least squares integral is exact, because on each
straight piece the integrand is a polynomial that three Gauss points integrate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from expertload._check import check_count
from expertload._typing import FloatArray, IntArray
from expertload.calibrators.base import (
    SMALLEST_PROBABILITY,
    Calibrator,
    learned,
    normalise_rows,
    softmax,
)
from expertload.tally import Tally

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

# The relative lead of the predicted class, so that rounding cannot create a tie.
MARGIN = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class SplineCalibration(Calibrator):
    """Correct the top probability by the slope of a spline; rescale the others.

    A row's top probability p becomes p + s'(t(p)), where t(p) is the share of calibration cases
    below p. Beyond the calibration set's range the correction stays that of the nearest end. The
    correction need not rise with p, so the order of cases may change.

    The predicted class never does: its probability is held between one over the number of
    classes, below which no class can be on top, and one. The others share what is left in their
    old proportions (equally, where they were all zero), evened out just as far as it takes for
    none of them to pass the predicted class. Only the top probability is calibrated.

    Fitting sorts the cases: n times classes plus n log n. The saved file grows with the number of
    distinct top probabilities.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed.
    n_knots : int, default=6
        Knots of the spline, evenly spaced over the shares; six in the paper.

    Attributes
    ----------
    heights_ : ndarray of shape (n_knots,)
        The spline at its knots.
    scores_, shares_ : ndarray of shape (n_points,)
        The distinct top probabilities and where on [0, 1] each lies.

    Examples
    --------
    >>> proba = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]]
    >>> calibrator = SplineCalibration(input="probabilities").fit(proba, [0, 0, 0, 1])
    >>> float(calibrator.transform([[0.9, 0.1]])[0, 0].round(6))
    0.75
    """

    name = "spline"
    _learned = learned(heights_="array knots", scores_="array points", shares_="array points")

    input: str = "logits"
    n_knots: int = 6

    def _check_options(self) -> None:
        super()._check_options()
        check_count(self.n_knots, "n_knots", minimum=3)

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        proba, top = softmax(inputs), inputs.argmax(axis=1)
        score = proba[np.arange(len(proba)), top]
        cases = Tally.add_up(top == target, score, weight)
        ends = np.concatenate([[0.0], np.cumsum(cases.weight)])
        ends /= ends[-1]
        self.heights_ = _least_squares(ends, _running_error(cases), self.n_knots)
        self.scores_ = cases.confidence
        self.shares_ = (ends[:-1] + ends[1:]) / 2

    def _transform(self, inputs: FloatArray) -> FloatArray:
        # Different logits may give equal probabilities, so the top class is taken from the logits.
        proba, top = softmax(inputs), inputs.argmax(axis=1)
        score = proba[np.arange(len(proba)), top]
        share = np.interp(score, self.scores_, self.shares_)
        spline = _natural_spline(self.heights_)
        return _replace_top(proba, top, score + spline(share, 1))

    def _problem(self) -> str | None:
        if len(self.heights_) != self.n_knots:
            return "its 'heights_' must be as many as 'n_knots'"
        if (np.diff(self.scores_) <= 0).any() or (np.diff(self.shares_) < 0).any():
            return "its 'scores_' and 'shares_' must ascend"
        return None


def _knots(n_knots: int) -> FloatArray:
    return np.linspace(0.0, 1.0, n_knots)


def _natural_spline(heights: FloatArray) -> CubicSpline:
    """Return the spline through heights at the knots."""
    from scipy.interpolate import CubicSpline  # slow to import

    return CubicSpline(_knots(len(heights)), heights, bc_type="natural")


def _running_error(cases: Tally) -> FloatArray:
    """Return the sum of "right minus score" at the ends of the groups, over the total weight."""
    steps = (cases.correct - cases.weight * cases.confidence) / cases.total
    return np.concatenate([[0.0], np.cumsum(steps)])


def _least_squares(ends: FloatArray, error: FloatArray, n_knots: int) -> FloatArray:
    """Return the heights of the natural spline nearest to the curve through (ends, error)."""
    knots = _knots(n_knots)
    basis = _natural_spline(np.eye(n_knots))
    points, weight = _gauss_points(np.union1d(ends, knots))
    values = basis(points)
    moments = values.T @ (weight * np.interp(points, ends, error))
    points, weight = _gauss_points(knots, 4)
    values = basis(points)
    return np.asarray(np.linalg.solve(values.T @ (weight[:, None] * values), moments))


def _gauss_points(breaks: FloatArray, n_points: int = 3) -> tuple[FloatArray, FloatArray]:
    """Return points and weights exact for polynomials of degree 2 * n_points - 1 on each piece."""
    node, share = np.polynomial.legendre.leggauss(n_points)
    half = np.diff(breaks)[:, None] / 2
    middle = (breaks[:-1, None] + breaks[1:, None]) / 2
    return (middle + half * node).ravel(), (half * share).ravel()


def _replace_top(proba: FloatArray, top: IntArray, new: FloatArray) -> FloatArray:
    """Put `new` in the top column and share out what is left, never so much that another wins."""
    rows, n_others = np.arange(len(proba)), proba.shape[1] - 1
    new = np.clip(new, (1 + MARGIN) / (n_others + 1), 1.0)
    others = proba.copy()
    others[rows, top] = 0.0
    others = normalise_rows(others, np.full(proba.shape, 1 / n_others))
    largest = others.max(axis=1)
    allowed = new / np.maximum(1 - new, SMALLEST_PROBABILITY) * (1 - MARGIN**2)
    excess = np.maximum(largest - np.minimum(allowed, 1.0), 0.0)
    evened = excess / np.maximum(largest - 1 / n_others, MARGIN**2)
    others += np.minimum(evened, 1.0)[:, None] * (1 / n_others - others)
    others *= (1 - new)[:, None]
    others[rows, top] = new
    return others

"""Platt scaling: a sigmoid of each class's log-odds against the rest (Platt 1999).

Each class is set against all others; its score is the log-odds that the logits give it, which no
constant added to a row can change. Targets are pulled in from 0 and 1 as Platt proposed, to
``(n+ + 1) / (n+ + 2)`` for the class's cases and ``1 / (n- + 2)`` for the others, so that the fit
exists for any set. The sigmoids are then divided by their sum. With two classes their sum is
already one, and this is Platt's method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.special import expit

from expertload._store import Learned
from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.calibrators.base import Calibrator
from expertload.calibrators.logits import log_odds, normalise_rows, softmax
from expertload.calibrators.newton import Minimum, minimise

__all__ = ["PlattScaling"]


class PlattScaling(Calibrator):
    """Fit one sigmoid per class, one class against the rest.

    Fitting takes about ten Newton steps a class and grows with cases times classes. It may change
    the predicted class of a problem with more than two.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.

    Attributes
    ----------
    slope_, intercept_ : ndarray of shape (n_classes,)
        One number per class: its probability is ``expit(slope * log_odds + intercept)`` before
        rows are divided by their sums. A class without cases gets a slope of zero and the low
        probability that Platt's targets leave it.
    converged_, n_iter_ : bool, int
        Whether all fits converged, and the largest number of Newton steps.

    Examples
    --------
    >>> logits = [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    >>> calibrator = PlattScaling().fit(logits, [0, 0, 1, 1])
    >>> float(calibrator.transform([[4.0, 0.0]])[0, 0].round(3))
    0.583
    """

    name = "platt"
    _learned: ClassVar[Mapping[str, Learned]] = {
        "slope_": Learned("array", ("classes",)),
        "intercept_": Learned("array", ("classes",)),
        "converged_": Learned("bool"),
        "n_iter_": Learned("int"),
    }

    slope_: FloatArray
    intercept_: FloatArray
    converged_: bool
    n_iter_: int

    def __init__(self, *, input: str = "logits") -> None:  # noqa: A002
        self.input = input

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        scores = log_odds(inputs)
        if self.n_classes_ == 2:  # the other sigmoid is its mirror image
            fit = fit_sigmoid(scores[:, 1], target == 1, weight)
            fits = [fit._replace(x=fit.x * np.array([1.0, -1.0])), fit]
        else:
            fits = [fit_sigmoid(scores[:, k], target == k, weight) for k in range(self.n_classes_)]
        self.slope_, self.intercept_ = np.array([fit.x for fit in fits]).T.copy()
        self.converged_ = all(fit.converged for fit in fits)
        self.n_iter_ = max(fit.n_iter for fit in fits)
        if not self.converged_:
            self._warn("a sigmoid's fit did not converge; the scores may differ too much in size.")

    def _transform(self, inputs: FloatArray) -> FloatArray:
        sigmoids = expit(log_odds(inputs) * self.slope_ + self.intercept_)
        return normalise_rows(sigmoids, softmax(inputs))


def fit_sigmoid(scores: FloatArray, positive: BoolArray, weight: FloatArray) -> Minimum:
    """Return slope and intercept of the sigmoid that fits Platt's targets best."""
    n_positive = float(weight[positive].sum())
    n_negative = float(weight.sum()) - n_positive
    high, low = (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2)
    scale = max(float(np.abs(scores).max()), 1e-300)
    problem = _Sigmoid(scores / scale, np.where(positive, high, low), weight)
    start = np.array([0.0, np.log((n_positive + 1) / (n_negative + 1))])
    found = minimise(problem, start)
    return found._replace(x=found.x / np.array([scale, 1.0]))


class _Sigmoid:
    """The weighted mean cross-entropy of a sigmoid with soft targets.

    Sums use einsum, because BLAS would start threads for each, which is slow on a busy machine.
    """

    def __init__(self, scores: FloatArray, soft: FloatArray, weight: FloatArray) -> None:
        self._scores, self._soft = scores, soft
        self._share = weight / weight.sum()

    def value(self, x: FloatArray) -> float:
        f = self._scores * x[0] + x[1]
        # log(1 + exp(f)) in a form that cannot overflow
        softplus = np.maximum(f, 0) + np.log1p(np.exp(-np.abs(f)))
        softplus -= self._soft * f
        return float(np.einsum("i,i->", self._share, softplus))

    def gradient(self, x: FloatArray) -> FloatArray:
        residual = self._share * (expit(self._scores * x[0] + x[1]) - self._soft)
        return np.array([np.einsum("i,i->", residual, self._scores), residual.sum()])

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        proba = expit(self._scores * x[0] + x[1])
        curvature = self._share * proba * (1 - proba)
        first = np.einsum("i,i->", curvature, self._scores)
        second = np.einsum("i,i,i->", curvature, self._scores, self._scores)
        hessian = np.array([[second, first], [first, curvature.sum()]])
        # With equal scores, slope and intercept are not unique; the shortest step is used.
        step: FloatArray = -np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        return step

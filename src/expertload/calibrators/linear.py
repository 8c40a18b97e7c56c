"""Linear maps of the logits: vector and matrix scaling.

Multinomial logistic regression on logits, used by vector and matrix scaling.

The new logits are linear in the parameters, so a method is described by a `Map`: the linear map
itself, its adjoint, and the squares that the Hessian's diagonal needs. The prior is a quadratic
around the identity. With a positive prior on every parameter the objective is strictly convex and
has one minimum for any data: one case, a missing class, or no error at all.

Vector scaling: a scale and a shift for each class's logit (Guo et al. 2017).

Guo et al. optimise only the likelihood, which has no optimum if a class is missing or the classes
can be separated without error. Here each scale has a normal prior around one and each
shift around zero. Its weight against the data is that of a few cases, so it fades as the set
grows, and it keeps small sets near the identity.

Matrix scaling: a full linear map of the logits, held near a diagonal (Kull et al. 2019).

With a parameter for each pair of classes the likelihood alone overfits, so Kull et al. penalise
the squares of the off-diagonal entries and of the intercepts (ODIR)::

    mean NLL + off_diagonal_penalty / (k (k - 1)) * sum of squared off-diagonal entries
             + intercept_penalty / k              * sum of squared intercepts

Their diagonal is free, and runs away on a set without errors. So all parameters also have the
prior of vector scaling around the identity, which fades as the set grows, and one minimum exists
for any calibration set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from expertload._check import check_positive
from expertload._typing import FloatArray, IntArray
from expertload.calibrators.base import Calibrator, centre, learned, softmax
from expertload.calibrators.scaling import conjugate_gradient, fit_inverse_temperature, minimise

# ------------------------------------------------------------------ softmax regression


LARGEST_LOGIT = 1e50
# The largest number of Hessian products per Newton step; fewer still give a descent direction.
MAX_PRODUCTS = 100


class Map(Protocol):
    """A map from parameters to one row of logits per case, linear in the parameters."""

    def forward(self, x: FloatArray) -> FloatArray:
        """Return the logits that parameters `x` give."""

    def adjoint(self, rows: FloatArray) -> FloatArray:
        """Return the transpose of `forward` applied to one row per case."""

    def adjoint_squared(self, rows: FloatArray) -> FloatArray:
        """Return `adjoint` with each coefficient squared."""


class Prior(NamedTuple):
    """Half the sum of ``strength * (x - mean)**2`` is added to the mean NLL."""

    mean: FloatArray
    strength: FloatArray


class SoftmaxRegression:
    """Mean NLL plus prior, as a problem for Newton's method."""

    def __init__(
        self,
        make_map: Callable[[FloatArray], Map],
        logits: FloatArray,
        target: IntArray,
        weight: FloatArray,
        prior: Prior,
    ) -> None:
        self._map, self._prior = make_map(logits), prior
        self._true = np.arange(len(target)), target
        self._share = (weight / weight.sum())[:, None]

    def value(self, x: FloatArray) -> float:
        """Return the objective."""
        gaps = centre(self._map.forward(x))
        nll = np.log(np.exp(gaps).sum(axis=1)) - gaps[self._true]
        return float(
            self._share[:, 0] @ nll + self._prior.strength @ (x - self._prior.mean) ** 2 / 2
        )

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return the objective's gradient."""
        residual = softmax(self._map.forward(x))
        residual[self._true] -= 1.0
        pull: FloatArray = self._prior.strength * (x - self._prior.mean)
        return self._map.adjoint(residual * self._share) + pull

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return a Newton direction by conjugate gradients on Hessian products."""
        proba = softmax(self._map.forward(x))
        weighted = proba * self._share
        diagonal = self._map.adjoint_squared(weighted * (1 - proba)) + self._prior.strength
        diagonal = np.maximum(diagonal, max(1e-12 * float(diagonal.max()), 1e-300))

        def product(v: FloatArray) -> FloatArray:
            rows = self._map.forward(v)
            rows -= np.einsum("ij,ij->i", proba, rows)[:, None]
            return self._map.adjoint(rows * weighted) + self._prior.strength * v

        max_steps = min(2 * len(x), MAX_PRODUCTS)
        return conjugate_gradient(product, -gradient, diagonal, max_steps=max_steps)


def bounded(logits: FloatArray) -> FloatArray:
    """Return logits whose squares and products with each other stay finite."""
    return np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)


# ------------------------------------------------------------------ vector scaling


class VectorScaling(Calibrator):
    """Multiplies each class's logit by a scale and adds a shift.

    Fitting takes about ten Newton steps, each a few dozen passes over the logits; it grows with
    cases times classes. Unlike a temperature, this may change the predicted class, and it depends
    on constants added to all logits of a row, so pass the model's own logits. With
    ``input="probabilities"`` it is diagonal Dirichlet calibration.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.
    penalty : float, default=1
        The prior's precision: ``penalty / 2`` times the squared distance of scales from one and
        shifts from zero is added to the summed NLL. Zero is Guo et al.'s method; if that has no
        minimum, parameters grow until the likelihood no longer changes.

    Attributes
    ----------
    scale_, shift_ : ndarray of shape (n_classes,)
        One number per class.
    converged_, n_iter_ : bool, int
        Whether the minimum was found, and the number of Newton steps.

    Examples
    --------
    >>> logits = [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    >>> calibrator = VectorScaling().fit(logits, [0, 0, 1, 1])
    >>> float(calibrator.transform([[4.0, 0.0]])[0, 0].round(3))
    0.723
    """

    name = "vector_scaling"
    _learned = learned(
        scale_="array classes", shift_="array classes", converged_="bool", n_iter_="int"
    )

    def __init__(self, *, input: str = "logits", penalty: float = 1.0) -> None:  # noqa: A002
        self.input = input
        self.penalty = penalty

    def _check_options(self) -> None:
        super()._check_options()
        check_positive(self.penalty, "penalty", zero=True)

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        logits = bounded(inputs)
        zeros, ones = np.zeros(self.n_classes_), np.ones(self.n_classes_)
        strength = np.full(2 * self.n_classes_, self.penalty / weight.sum())
        prior = Prior(np.concatenate([ones, zeros]), strength)
        problem = SoftmaxRegression(_DiagonalMap, logits, target, weight, prior)
        # Start Newton's method at a scale where the logits are not saturated.
        factor = min(fit_inverse_temperature(logits, target, weight).value, 1.0)
        found = minimise(problem, np.concatenate([factor * ones, zeros]))
        self.scale_, self.shift_ = np.split(found.x, 2)
        self.converged_, self.n_iter_ = found.converged, found.n_iter
        if not found.converged:
            self._warn("the fit did not converge; use a larger penalty.")

    def _transform(self, inputs: FloatArray) -> FloatArray:
        return softmax(bounded(inputs) * self.scale_ + self.shift_)


class _DiagonalMap:
    """Parameters are the scales, then the shifts."""

    def __init__(self, logits: FloatArray) -> None:
        self._logits = logits

    def forward(self, x: FloatArray) -> FloatArray:
        scale, shift = np.split(x, 2)
        rows: FloatArray = self._logits * scale
        rows += shift
        return rows

    def adjoint(self, rows: FloatArray) -> FloatArray:
        return np.concatenate([np.einsum("ij,ij->j", rows, self._logits), rows.sum(axis=0)])

    def adjoint_squared(self, rows: FloatArray) -> FloatArray:
        scales = np.einsum("ij,ij,ij->j", rows, self._logits, self._logits)
        return np.concatenate([scales, rows.sum(axis=0)])


# ------------------------------------------------------------------ matrix scaling


class MatrixScaling(Calibrator):
    """Multiplies the logits by a matrix and adds an intercept, with the ODIR penalty.

    Each Newton step takes a few dozen products that grow with cases times the square of classes.
    It may change the predicted class, and it depends on constants added to all logits of a row, so
    pass the model's own logits. With ``input="probabilities"`` it is Dirichlet calibration.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.
    off_diagonal_penalty : float, optional
        Kull et al.'s lambda in the formula above, which they chose by cross-validation. None
        means k (k - 1), with which each squared entry has weight one: strong enough to keep a
        hundred classes from overfitting five thousand cases.
    intercept_penalty : float, default=0.1
        Kull et al.'s mu.
    penalty : float, default=1
        The precision of a normal prior around the identity, on the summed NLL.

    Attributes
    ----------
    matrix_, intercept_ : ndarray of shape (n_classes, n_classes) and (n_classes,)
        The logits become ``logits @ matrix_.T + intercept_``.
    converged_, n_iter_ : bool, int
        Whether the minimum was found, and the number of Newton steps.

    Examples
    --------
    >>> logits = [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    >>> calibrator = MatrixScaling().fit(logits, [0, 0, 1, 1])
    >>> float(calibrator.transform([[4.0, 0.0]])[0, 0].round(3))
    0.719
    """

    name = "matrix_scaling"
    _learned = learned(
        matrix_="array classes classes",
        intercept_="array classes",
        converged_="bool",
        n_iter_="int",
    )

    def __init__(
        self,
        *,
        input: str = "logits",  # noqa: A002
        off_diagonal_penalty: float | None = None,
        intercept_penalty: float = 0.1,
        penalty: float = 1.0,
    ) -> None:
        self.input = input
        self.off_diagonal_penalty = off_diagonal_penalty
        self.intercept_penalty = intercept_penalty
        self.penalty = penalty

    def _check_options(self) -> None:
        super()._check_options()
        for name in ("off_diagonal_penalty", "intercept_penalty", "penalty"):
            value = getattr(self, name)
            if value is not None or name != "off_diagonal_penalty":
                check_positive(value, name, zero=True)

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        logits = bounded(inputs)
        k = self.n_classes_
        problem = SoftmaxRegression(_FullMap, logits, target, weight, self._prior(weight.sum()))
        # Start Newton's method at a scale where the logits are not saturated.
        factor = min(fit_inverse_temperature(logits, target, weight).value, 1.0)
        found = minimise(problem, np.concatenate([factor * np.eye(k).ravel(), np.zeros(k)]))
        self.matrix_, self.intercept_ = found.x[:-k].reshape(k, k), found.x[-k:]
        self.converged_, self.n_iter_ = found.converged, found.n_iter
        if not found.converged:
            self._warn("the fit did not converge; use larger penalties.")

    def _prior(self, total_weight: float) -> Prior:
        k = self.n_classes_
        off_diagonal = self.off_diagonal_penalty
        entry = 1.0 if off_diagonal is None else off_diagonal / (k * (k - 1))
        matrix = 2 * entry * (1 - np.eye(k))
        intercept = np.full(k, 2 * self.intercept_penalty / k)
        mean = np.concatenate([np.eye(k).ravel(), np.zeros(k)])
        odir = np.concatenate([matrix.ravel(), intercept])
        return Prior(mean, odir + self.penalty / total_weight)

    def _transform(self, inputs: FloatArray) -> FloatArray:
        return softmax(bounded(inputs) @ self.matrix_.T + self.intercept_)


class _FullMap:
    """Parameters are the matrix, row by row, then the intercepts."""

    def __init__(self, logits: FloatArray) -> None:
        self._logits = logits

    def forward(self, x: FloatArray) -> FloatArray:
        k = self._logits.shape[1]
        rows: FloatArray = self._logits @ x[:-k].reshape(k, k).T
        rows += x[-k:]
        return rows

    def adjoint(self, rows: FloatArray) -> FloatArray:
        return np.concatenate([(rows.T @ self._logits).ravel(), rows.sum(axis=0)])

    def adjoint_squared(self, rows: FloatArray) -> FloatArray:
        return np.concatenate([(rows.T @ self._logits**2).ravel(), rows.sum(axis=0)])

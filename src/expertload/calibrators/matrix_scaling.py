"""Matrix scaling: a full linear map of the logits, held near a diagonal (Kull et al. 2019).

With a parameter for each pair of classes the likelihood alone overfits, so Kull et al. penalise
the squares of the off-diagonal entries and of the intercepts (ODIR)::

    mean NLL + off_diagonal_penalty / (k (k - 1)) * sum of squared off-diagonal entries
             + intercept_penalty / k              * sum of squared intercepts

Their diagonal is free, and runs away on a set without errors. So all parameters also have the
prior of vector scaling around the identity, which fades as the set grows, and one minimum exists
for any calibration set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from expertload._store import Learned
from expertload._typing import FloatArray, IntArray
from expertload._validation import check_positive
from expertload.calibrators.base import Calibrator
from expertload.calibrators.logits import softmax
from expertload.calibrators.newton import minimise
from expertload.calibrators.softmax_regression import Prior, SoftmaxRegression, bounded
from expertload.calibrators.temperature import fit_inverse_temperature

__all__ = ["MatrixScaling"]


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
    _learned: ClassVar[Mapping[str, Learned]] = {
        "matrix_": Learned("array", ("classes", "classes")),
        "intercept_": Learned("array", ("classes",)),
        "converged_": Learned("bool"),
        "n_iter_": Learned("int"),
    }

    matrix_: FloatArray
    intercept_: FloatArray
    converged_: bool
    n_iter_: int

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

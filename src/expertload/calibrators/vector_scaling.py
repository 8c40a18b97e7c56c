"""Vector scaling: a scale and a shift for each class's logit (Guo et al. 2017).

Guo et al. optimise only the likelihood, which has no optimum if a class is missing or the classes
can be separated without error. Here each scale has a normal prior around one and each
shift around zero. Its weight against the data is that of a few cases, so it fades as the set
grows, and it keeps small sets near the identity.
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

__all__ = ["VectorScaling"]


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
    _learned: ClassVar[Mapping[str, Learned]] = {
        "scale_": Learned("array", ("classes",)),
        "shift_": Learned("array", ("classes",)),
        "converged_": Learned("bool"),
        "n_iter_": Learned("int"),
    }

    scale_: FloatArray
    shift_: FloatArray
    converged_: bool
    n_iter_: int

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

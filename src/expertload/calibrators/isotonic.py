"""Isotonic regression: the rising curve nearest to how often each class was right.

Zadrozny and Elkan (2002): pool adjacent violators, one class against the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from expertload._store import Learned
from expertload._typing import FloatArray
from expertload.calibrators.one_vs_rest import OneVsRest
from expertload.tally import Tally

__all__ = ["IsotonicCalibration"]

# The curve of a class without cases, which does not change its probabilities.
KEPT = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))


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
    _learned: ClassVar[Mapping[str, Learned]] = {
        "proba_": Learned("arrays"),
        "values_": Learned("arrays"),
    }

    proba_: list[FloatArray]
    values_: list[FloatArray]

    def __init__(self, *, input: str = "logits") -> None:  # noqa: A002
        self.input = input

    def _fit_curves(self, tallies: list[Tally | None]) -> None:
        curves = [KEPT if cases is None else _fit_curve(cases) for cases in tallies]
        self.proba_ = [proba for proba, _ in curves]
        self.values_ = [values for _, values in curves]

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


def _fit_curve(cases: Tally) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the fitted curve, without points inside constant parts."""
    from scipy.optimize import isotonic_regression  # slow to import

    fitted = isotonic_regression(cases.grade, weights=cases.weight).x
    values = np.clip(fitted, 0.0, 1.0)
    corner = np.ones(len(values), dtype=bool)
    corner[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
    return cases.confidence[corner], values[corner]

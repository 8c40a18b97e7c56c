"""Methods that map each class's probability by its own curve, then normalise rows.

Each class is set against all others, its probability mapped by a curve fitted to how often the
class was right, and each row divided by its sum. Two rules cover the special cases: a class without
cases in the calibration set keeps its probability, and a row in which all curves give zero keeps
its input probabilities.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from expertload._cases import Cases
from expertload._typing import FloatArray, IntArray
from expertload.calibrators.base import Calibrator
from expertload.calibrators.logits import normalise_rows, softmax
from expertload.tally import Tally


class OneVsRest(Calibrator):
    """Fit one curve per class to its probability."""

    @abstractmethod
    def _fit_curves(self, tallies: list[Tally | None]) -> None:
        """Learn a curve for each class; None for a class without cases."""

    @abstractmethod
    def _curve(self, k: int, proba: FloatArray) -> FloatArray:
        """Return class `k`'s curve at probabilities `proba`."""

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        proba = softmax(inputs)
        present = np.bincount(target, minlength=self.n_classes_) > 0
        self._fit_curves(
            [
                Tally.from_cases(Cases(target == k, proba[:, k], weight)) if present[k] else None
                for k in range(self.n_classes_)
            ]
        )

    def _transform(self, inputs: FloatArray) -> FloatArray:
        proba = softmax(inputs)
        curves = [self._curve(k, proba[:, k]) for k in range(self.n_classes_)]
        return normalise_rows(np.column_stack(curves), proba)

"""The numbers in tables: their names, how they are computed, and their direction.

Names are those of the published results: ``aucoc``, ``accuracy``, ``load@90`` (the expert load at
90 % accuracy), ``ece``, ``ks``, ``brier``, ``cwece``, ``nll``; and ``auroc``, ``aupr`` and
``fpr95`` for outliers, which need other input and so have no function here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.curve import aucoc_score, load_at_accuracy
from expertload.exceptions import ParameterError
from expertload.metrics import (
    brier_loss,
    classwise_calibration_error,
    expected_calibration_error,
    kolmogorov_smirnov_error,
    log_loss,
)

__all__ = ["MEASURE_NAMES", "Measure", "find_measure", "load_name", "of_places"]

Metric = Callable[[AnyArray, AnyArray], float]


@dataclass(frozen=True)
class Measure:
    """One column of a table.

    Attributes
    ----------
    name : str
        As in files and on the command line.
    heading : str
        As in tables.
    higher_is_better : bool
    metric : callable or None
        From labels and probabilities to the number.
    decimals : int
        Digits after the point, as printed.
    percent : bool
        Whether it is printed in percent.
    """

    name: str
    heading: str
    higher_is_better: bool
    metric: Metric | None = None
    decimals: int = 2
    percent: bool = True

    def show(self, value: float) -> str:
        """Return a value as printed in tables, without the percent sign."""
        return f"{100 * value if self.percent else value:.{self.decimals}f}"


def accuracy_score(y_true: IntArray, y_proba: FloatArray) -> float:
    """Return the share of cases whose true class has the largest probability."""
    return float((y_proba.argmax(axis=1) == y_true).mean())


def of_places(metric: Callable[..., float], **options: Any) -> Metric:
    """Return a metric that reads labels as column numbers, even if a split lacks class 0.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.curve import aucoc_score
    >>> from expertload.lab.results.measures import of_places
    >>> of_places(aucoc_score)(np.array([1, 1]), np.array([[0.1, 0.9], [0.2, 0.8]]))
    1.0
    """

    def told(y_true: AnyArray, y_proba: AnyArray) -> float:
        return metric(y_true, y_proba, labels=np.arange(y_proba.shape[1]), **options)

    return told


_MEASURES = {
    number.name: number
    for number in (
        Measure("aucoc", "AUCOC", True, of_places(aucoc_score)),
        Measure("accuracy", "accuracy", True, accuracy_score),
        Measure("ece", "ECE", False, of_places(expected_calibration_error)),
        Measure("ks", "KS", False, of_places(kolmogorov_smirnov_error)),
        Measure("brier", "Brier", False, of_places(brier_loss)),
        Measure("cwece", "cwECE", False, of_places(classwise_calibration_error), decimals=3),
        Measure("nll", "NLL", False, of_places(log_loss), decimals=3, percent=False),
        Measure("auroc", "AUROC", True),
        Measure("aupr", "AUPR", True),
        Measure("fpr95", "FPR95", False),
    )
}
MEASURE_NAMES: Sequence[str] = tuple(n for n, number in _MEASURES.items() if number.metric)


def load_name(target_accuracy: float) -> str:
    """Name the expert load at an accuracy.

    Examples
    --------
    >>> from expertload.lab.results.measures import load_name
    >>> load_name(0.95)
    'load@95'
    """
    return f"load@{100 * target_accuracy:g}"


def find_measure(name: str) -> Measure:
    """Return a number by name.

    Examples
    --------
    >>> from expertload.lab.results.measures import find_measure
    >>> find_measure("load@90").heading
    'load at 90 %'
    """
    if name in _MEASURES:
        return _MEASURES[name]
    percent = _percent(name)
    if percent is None:
        raise ParameterError(
            f"There is no number {name!r}. Hint: use one of {', '.join(_MEASURES)}, or load@90 for "
            "the expert load at 90 % accuracy."
        )
    metric = of_places(load_at_accuracy, target_accuracy=percent / 100)
    return Measure(name, f"load at {percent:g} %", False, metric)


def _percent(name: str) -> float | None:
    kind, _, text = name.partition("@")
    try:
        percent = float(text)
    except ValueError:
        return None
    return percent if kind == "load" and 0 < percent <= 100 else None

"""The numbers of a run: performance and calibration, before and after calibrating on validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from expertload import aucoc_score, load_at_accuracy
from expertload._typing import FloatArray, IntArray
from expertload.calibrators import make_calibrator
from expertload.metrics import (
    brier_loss,
    classwise_calibration_error,
    expected_calibration_error,
    kolmogorov_smirnov_error,
    log_loss,
)

__all__ = ["evaluate_logits", "evaluate_probabilities"]

Labelled = tuple[FloatArray, IntArray]


def evaluate_logits(
    validation: Labelled,
    test: Labelled,
    target_accuracies: Sequence[float],
    *,
    calibrator: str = "temperature",
) -> dict[str, Any]:
    """Evaluate test logits as they are, and calibrated on validation logits.

    Parameters
    ----------
    validation, test : (logits, labels)
        Of the selected weights.
    target_accuracies : sequence of float
        At which to read the expert load.
    calibrator : str, default="temperature"
        Any of `expertload.calibrators` by name.

    Returns
    -------
    dict
        ``validation``, ``test`` and ``test_calibrated``, each with all numbers.
    """
    fitted = make_calibrator(calibrator).fit(*validation)
    proba = {
        "validation": (softmax(validation[0].astype(np.float64), axis=1), validation[1]),
        "test": (softmax(test[0].astype(np.float64), axis=1), test[1]),
        "test_calibrated": (fitted.transform(test[0]), test[1]),
    }
    results: dict[str, Any] = {
        name: evaluate_probabilities(labels, p, target_accuracies)
        for name, (p, labels) in proba.items()
    }
    results["calibrator"] = calibrator
    return results


def evaluate_probabilities(
    labels: IntArray, proba: FloatArray, target_accuracies: Sequence[float]
) -> dict[str, float]:
    """Every number of the paper's tables for one set of probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.evaluate import evaluate_probabilities
    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    >>> numbers = evaluate_probabilities(np.array([0, 1, 1]), proba, [0.95])
    >>> print(f"{numbers['accuracy']:.2f} {numbers['load@95']:.2f}")
    0.67 0.67
    """
    loads = {
        f"load@{100 * target:g}": load_at_accuracy(labels, proba, target_accuracy=target)
        for target in target_accuracies
    }
    return {
        "aucoc": aucoc_score(labels, proba),
        "accuracy": float((proba.argmax(axis=1) == labels).mean()),
        **loads,
        "ece": expected_calibration_error(labels, proba),
        "ks": kolmogorov_smirnov_error(labels, proba),
        "brier": brier_loss(labels, proba),
        "cwece": classwise_calibration_error(labels, proba),
        "nll": log_loss(labels, proba),
    }

"""From predictions to an `Evaluation`, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from expertload._cases import Cases, check_correctness_cases, check_predictions, with_confidence
from expertload._typing import ArrayLike, IntArray
from expertload._validation import check_enough_cases, check_fraction, check_targets
from expertload.curve import coc_curve_from_correctness, load_at_accuracy_from_correctness
from expertload.evaluation._groups import evaluate_groups
from expertload.evaluation._parts import Calibration, effective_size, histogram, rate_interval
from expertload.evaluation._point import Source, settle_point
from expertload.evaluation.evaluation import Evaluation
from expertload.metrics import (
    ReliabilityCurve,
    brier_loss,
    expected_calibration_error_from_correctness,
    kolmogorov_smirnov_error_from_correctness,
    log_loss,
    reliability_curve_from_correctness,
)
from expertload.operating_point import (
    certify,
    certify_from_correctness,
    choose,
    choose_from_correctness,
)
from expertload.operating_point.certified import Method
from expertload.significance import aucoc_interval_from_correctness, coc_band_from_correctness

__all__ = ["evaluate_from_correctness", "evaluate_predictions"]

# Read beside the targets asked for, so that one glance shows what stricter and laxer would cost.
USUAL_TARGETS = (0.9, 0.95, 0.99)


def evaluate_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    target_accuracy: float | Sequence[float] = 0.95,
    confidence_level: float = 0.95,
    method: Method = "fixed_sequence",
) -> Evaluation:
    """Evaluate a classifier that works beside experts.

    Parameters
    ----------
    y_true, y_proba, sample_weight, confidence, labels
        As in `expertload.coc_curve`.
    groups : array-like of shape (n_cases,), optional
        The site, age band, device, ... of each case; missing values are a group of their own.
    target_accuracy : float or sequence of float, default=0.95
        What the automatic decisions must reach. The first is the one that an operating point is
        sought for; the loads at all of them are read.
    confidence_level : float, default=0.95
        That of the intervals and of the guarantee.
    method : {"fixed_sequence", "bonferroni", "sgr"}, default="fixed_sequence"
        How thresholds are tested, as in `expertload.operating_point.certify`.

    Returns
    -------
    Evaluation
        Accuracy, AUCOC, curve, loads, calibration, operating point and groups.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.evaluation import evaluate_predictions
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=1000)
    >>> y_true = rng.random(1000) < y_proba
    >>> evaluation = evaluate_predictions(y_true, y_proba, target_accuracy=0.9)
    >>> print(evaluation.aucoc)
    0.9634 (95 % interval 0.9533 to 0.9714)
    """
    caller = "evaluate_predictions"
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, caller)
    top, cases = with_confidence(predictions, confidence, caller)
    scores = {
        "brier_loss": brier_loss(*predictions[:2], sample_weight=predictions.weight),
        "log_loss": log_loss(*predictions[:2], sample_weight=predictions.weight),
    }
    reliability, calibration = _calibration(top, scores)
    given: dict[str, Any] = {"confidence": confidence, "labels": labels}
    source = Source(
        partial(certify, y_true, y_proba, **given),
        partial(choose, y_true, y_proba, sample_weight=sample_weight, **given),
        predictions.weight is not None,
    )
    return _evaluate(
        cases,
        source,
        predictions.target,
        groups,
        target_accuracy,
        confidence_level,
        method,
        reliability,
        calibration,
        caller,
    )


def evaluate_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    target_accuracy: float | Sequence[float] = 0.95,
    confidence_level: float = 0.95,
    method: Method = "fixed_sequence",
) -> Evaluation:
    """Evaluate anything that has a correctness and a confidence for each case.

    Parameters
    ----------
    correct, confidence, sample_weight
        As in `expertload.coc_curve_from_correctness`.
    groups, target_accuracy, confidence_level, method
        As in `evaluate_predictions`.

    Returns
    -------
    Evaluation
        As from `evaluate_predictions`; without calibration where confidences leave [0, 1].

    Examples
    --------
    >>> from expertload.evaluation import evaluate_from_correctness
    >>> evaluation = evaluate_from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])
    >>> evaluation.loads[0.95], evaluation.accuracy.estimate
    (0.25, 0.75)
    """
    caller = "evaluate_from_correctness"
    cases = check_correctness_cases(correct, confidence, sample_weight, caller)
    is_share = cases.confidence.min() >= 0 and cases.confidence.max() <= 1
    reliability, calibration = _calibration(cases, {}) if is_share else (None, None)
    source = Source(
        partial(certify_from_correctness, correct, confidence),
        partial(choose_from_correctness, correct, confidence, sample_weight=sample_weight),
        cases.weight is not None,
    )
    return _evaluate(
        cases,
        source,
        None,
        groups,
        target_accuracy,
        confidence_level,
        method,
        reliability,
        calibration,
        caller,
    )


def _evaluate(
    cases: Cases,
    source: Source,
    target: IntArray | None,
    groups: ArrayLike | None,
    target_accuracy: float | Sequence[float],
    confidence_level: float,
    method: Method,
    reliability: ReliabilityCurve | None,
    calibration: Calibration | None,
    caller: str,
) -> Evaluation:
    targets = check_targets(target_accuracy, caller)
    level = check_fraction(confidence_level, "confidence_level", caller, inclusive=False)
    check_enough_cases(cases.weight, len(cases.correct), 2, caller)
    correct, confidence, weight = cases
    n_effective = effective_size(weight, len(correct))
    rate = float(np.average(correct, weights=weight))
    settled = settle_point(source, targets[0], level, method)
    return Evaluation(
        n_cases=len(correct) if weight is None else int(np.count_nonzero(weight)),
        accuracy=rate_interval(rate, n_effective, level),
        aucoc=aucoc_interval_from_correctness(
            correct, confidence, sample_weight=weight, confidence_level=level
        ),
        curve=coc_curve_from_correctness(correct, confidence, sample_weight=weight),
        band=coc_band_from_correctness(
            correct, confidence, sample_weight=weight, confidence_level=level
        ),
        loads={
            each: load_at_accuracy_from_correctness(
                correct, confidence, target_accuracy=each, sample_weight=weight
            )
            for each in sorted({*targets, *USUAL_TARGETS})
        },
        calibration=calibration,
        reliability=reliability,
        histogram=histogram(cases),
        operating_point=settled.point,
        target_accuracy=targets[0],
        certification=settled.certification,
        guarantee=settled.guarantee,
        conditions=settled.conditions,
        groups=evaluate_groups(cases, groups, settled.point, level, caller),
        is_weighted=weight is not None,
        confidence_level=level,
        cases=cases,
        target=target,
    )


def _calibration(cases: Cases, scores: dict[str, float]) -> tuple[ReliabilityCurve, Calibration]:
    correct, confidence, weight = cases
    return (
        reliability_curve_from_correctness(correct, confidence, sample_weight=weight),
        Calibration(
            expected_error=expected_calibration_error_from_correctness(
                correct, confidence, sample_weight=weight
            ),
            kolmogorov_smirnov_error=kolmogorov_smirnov_error_from_correctness(
                correct, confidence, sample_weight=weight
            ),
            **scores,
        ),
    )

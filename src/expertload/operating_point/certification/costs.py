"""Some errors cost more than others: a promise about the mean cost of automatic decisions.

The cost of a case is 0 if it is delegated or right; otherwise it is a given number from 0 to 1. The
mean over all cases can only grow as the threshold is lowered, so thresholds are tested in one
sequence from strict to loose, at the whole level, by betting (`betting`). If all costs are 1, this
is joint risk.
"""

from __future__ import annotations

import numpy as np

from expertload._cases import Cases, check_correctness_cases, check_named_cases, check_unweighted
from expertload._typing import ArrayLike
from expertload._validation import (
    as_floats,
    check_fraction,
    check_same_length,
    check_same_order,
    message,
)
from expertload.exceptions import ParameterError
from expertload.operating_point.certification.certified_point import CertifiedPoint
from expertload.operating_point.certification.certify import certify_cases
from expertload.operating_point.certification.promise import Promise
from expertload.operating_point.origin import ranked_by

__all__ = ["certify_mean_cost", "certify_mean_cost_from_correctness"]


def certify_mean_cost(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    error_costs: ArrayLike,
    max_mean_cost: float,
    confidence_level: float = 0.95,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    model_name: str | None = None,
) -> CertifiedPoint:
    """Certify a threshold by the mean cost of its wrong automatic decisions.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels, model_name
        As in `certify`.
    error_costs : array-like of shape (n_cases,)
        The cost of a wrong automatic decision for each case, from 0 to 1: the most expensive error
        is 1.
    max_mean_cost : float
        The limit on the mean cost over all cases; delegated and right cases cost 0.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.

    Returns
    -------
    CertifiedPoint
        With ``risk="cost"``; its ``n_errors`` is the total cost of accepted errors.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.operating_point import certify_mean_cost
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> costs = np.where(y_true, 1.0, 0.2)  # to miss a case is worse than a false alarm
    >>> point = certify_mean_cost(y_true, y_proba, error_costs=costs, max_mean_cost=0.03)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}")
    0.841, load 0.406
    """
    check_unweighted(sample_weight)
    rows = {"y_true": y_true, "y_proba": y_proba, "confidence": confidence}
    check_same_order(**rows, error_costs=error_costs)
    cases, names = check_named_cases(y_true, y_proba, confidence, None, labels)
    priced, promise = _priced(cases, error_costs, max_mean_cost, confidence_level)
    points = certify_cases(priced, [promise], None, ranked_by(confidence), names, model_name)
    return points[promise.target]


def certify_mean_cost_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    error_costs: ArrayLike,
    max_mean_cost: float,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    model_name: str | None = None,
) -> CertifiedPoint:
    """Certify a mean cost from the correctness and the confidence of each case.

    Parameters
    ----------
    correct, confidence, sample_weight, model_name
        As in `certify_from_correctness`; the missing part of a grade is multiplied by the cost.
    error_costs, max_mean_cost, confidence_level
        As in `certify_mean_cost`.

    Returns
    -------
    CertifiedPoint
        With ``risk="cost"``; its ``n_errors`` is the total cost of accepted errors.

    Examples
    --------
    >>> from expertload.operating_point import certify_mean_cost_from_correctness
    >>> point = certify_mean_cost_from_correctness(
    ...     [0] * 10 + [1] * 290, range(300), error_costs=[0.5] * 300, max_mean_cost=0.05
    ... )
    >>> point.is_certified, point.expert_load
    (True, 0.0)
    """
    check_unweighted(sample_weight)
    check_same_order(correct=correct, confidence=confidence, error_costs=error_costs)
    cases = check_correctness_cases(correct, confidence, None)
    priced, promise = _priced(cases, error_costs, max_mean_cost, confidence_level)
    points = certify_cases(priced, [promise], None, "given_confidence", None, model_name)
    return points[promise.target]


def _priced(
    cases: Cases, error_costs: ArrayLike, max_mean_cost: float, confidence_level: float
) -> tuple[Cases, Promise]:
    """Return cases whose missing grades are costs, and the promise about them."""
    costs = as_floats(error_costs, "error_costs")
    check_same_length(error_costs=costs, confidence=cases.confidence)
    if costs.min() < 0 or costs.max() > 1:
        raise ParameterError(
            message(
                "error_costs",
                "must be in [0, 1]",
                f"values from {costs.min():g} to {costs.max():g}",
                "divide all costs, and max_mean_cost, by the largest cost",
            )
        )
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    most = check_fraction(max_mean_cost, "max_mean_cost", inclusive=False)
    grades = 1.0 - costs * (1.0 - cases.correct.astype(np.float64))
    whole = ((grades == 0) | (grades == 1)).all()  # then errors can be counted
    priced = Cases(grades == 1 if whole else grades, cases.confidence, None)
    return priced, Promise(1 - most, 1 - level, risk="cost")

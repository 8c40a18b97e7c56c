"""Points read off the curve: for a target accuracy, a load budget, costs, or a threshold.

`choose` reads a point off the curve of the data it is given. It describes those data and promises
nothing about new ones. There the accuracy is usually a little lower, because the threshold was
picked where these data looked good.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np

from expertload._check import check_fraction, check_positive, check_threshold
from expertload.cases import Cases
from expertload.exceptions import ParameterError
from expertload.operating_point.point import OperatingPoint, origin_of
from expertload.tally import COMPARISON_SLACK

__all__ = ["at_threshold", "choose"]


def choose(
    cases: Cases,
    *,
    target_accuracy: float | None = None,
    load_budget: float | None = None,
    error_cost: float | None = None,
    review_cost: float | None = None,
    expert_accuracy: float = 1.0,
) -> OperatingPoint:
    """Choose the operating point for a target accuracy, a load budget, or costs.

    Parameters
    ----------
    cases : Cases
        The cases to describe.
    target_accuracy : float, optional
        Choose the smallest load whose accuracy reaches this; if none does, everything is delegated.
    load_budget : float, optional
        Choose the best accuracy that delegates at most this share of the cases.
    error_cost, review_cost : float, optional
        Choose the smallest mean cost; give both. Delegating everything is considered too.
    expert_accuracy : float, default=1.0
        How often experts are right. Used for costs only.

    Returns
    -------
    OperatingPoint
        Threshold, load, accuracy and counts. It describes these data and guarantees nothing.

    Examples
    --------
    >>> from expertload import Cases, operating_point
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> cases = Cases.from_predictions([0, 1, 1, 0], y_proba)
    >>> point = operating_point.choose(cases, target_accuracy=0.95)
    >>> point.threshold, point.expert_load, point.accuracy
    (0.7, 0.25, 1.0)

    A review costs 5 and an error 100, so delegating the two doubtful cases pays:

    >>> cases = Cases.from_correctness([0, 1, 0, 1, 1], [0.5, 0.6, 0.7, 0.8, 0.9])
    >>> print(operating_point.choose(cases, error_cost=100, review_cost=5))
    Accept at confidence >= 0.8: 40.0% of cases decided automatically, 100.0% of them right; 60.0%
    delegated (3 of 5).
    """
    _check_one_criterion(target_accuracy, load_budget, error_cost, review_cost)
    # One entry per distinct confidence, and a last one that delegates everything.
    accepted = np.append(cases.tally.accepted, 0.0)
    errors = np.append(cases.tally.accepted_errors, 0.0)
    if target_accuracy is not None:
        target = check_fraction(target_accuracy, "target_accuracy")
        suits = errors <= (1 - target + COMPARISON_SLACK) * accepted
        return _point(cases, int(suits.argmax()))  # delegating everything always suits
    if load_budget is not None:
        budget = check_fraction(load_budget, "load_budget")
        affordable = accepted[:-1] >= (1 - budget - COMPARISON_SLACK) * accepted[0]
        accuracy = 1 - errors[:-1] / accepted[:-1]
        return _point(cases, int(np.where(affordable, accuracy, -1.0).argmax()))
    error = check_positive(error_cost, "error_cost", zero=True)
    review = check_positive(review_cost, "review_cost", zero=True)
    expert = check_fraction(expert_accuracy, "expert_accuracy")
    delegated = accepted[0] - accepted
    cost = error * (errors + (1 - expert) * delegated) + review * delegated
    return _point(cases, int(cost.argmin()))  # the smallest load, if equal


def at_threshold(cases: Cases, *, threshold: float) -> OperatingPoint:
    """Report what a threshold does on these cases, for example one chosen on other data.

    Parameters
    ----------
    cases : Cases
        The cases to describe.
    threshold : float
        Cases are accepted if and only if their confidence is at least this.

    Returns
    -------
    OperatingPoint
        Load, accuracy and counts there.

    Examples
    --------
    >>> from expertload import Cases, operating_point
    >>> cases = Cases.from_correctness([0, 1], [0.6, 0.9])
    >>> operating_point.at_threshold(cases, threshold=0.7).n_errors_spared
    1.0
    """
    given = check_threshold(threshold)
    row = int(np.searchsorted(cases.tally.confidence, given, side="left"))
    return replace(_point(cases, row), threshold=given)


def described(cases: Cases, threshold: float, model_name: str | None) -> dict[str, Any]:
    """Return the fields of the point at a threshold, for a promise that adds its own."""
    point = at_threshold(cases, threshold=threshold)
    values = {each.name: getattr(point, each.name) for each in fields(point)}
    return {**values, "origin": replace(point.origin, model_name=model_name)}


def _point(cases: Cases, row: int) -> OperatingPoint:
    """Return the point that accepts one row of the tally and all above it; past the last, none."""
    table = cases.tally
    accepted, errors = np.append(table.accepted, 0.0), np.append(table.accepted_errors, 0.0)
    return OperatingPoint(
        threshold=float(table.confidence[row]) if row < len(table.confidence) else math.inf,
        n_accepted=float(accepted[row]),
        n_delegated=float(accepted[0] - accepted[row]),
        n_errors=float(errors[row]),
        n_errors_spared=float(errors[0] - errors[row]),
        origin=origin_of(cases),
    )


def _check_one_criterion(
    target_accuracy: float | None,
    load_budget: float | None,
    error_cost: float | None,
    review_cost: float | None,
) -> None:
    """Raise unless exactly one way to choose an operating point is given, in full."""
    costs = error_cost is not None or review_cost is not None
    given = (target_accuracy is not None) + (load_budget is not None) + costs
    if given != 1:
        raise ParameterError(
            f"Give exactly one criterion: target_accuracy, load_budget, or error_cost "
            f"with review_cost. Got {given or 'none'}. Hint: pass, for example, "
            "target_accuracy=0.95."
        )
    if costs and (error_cost is None or review_cost is None):
        raise ParameterError(
            f"error_cost and review_cost belong together. Got only "
            f"{'review_cost' if error_cost is None else 'error_cost'}."
        )

"""Points read off the curve: for a target accuracy, a load budget, costs, or a threshold.

`choose` reads a point off the curve of the data it is given. It describes those data and promises
nothing about new ones. There the accuracy is usually a little lower, because the threshold was
picked where these data looked good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from expertload._cases import check_correctness_cases, check_named_cases
from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_fraction, check_positive, check_threshold
from expertload.exceptions import ParameterError
from expertload.operating_point.origin import Origin, origin_of, ranked_by
from expertload.operating_point.point import OperatingPoint
from expertload.tally import COMPARISON_SLACK, Tally

__all__ = [
    "at_threshold",
    "at_threshold_from_correctness",
    "choose",
    "choose_from_correctness",
]


def choose(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    target_accuracy: float | None = None,
    load_budget: float | None = None,
    error_cost: float | None = None,
    review_cost: float | None = None,
    expert_accuracy: float = 1.0,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> OperatingPoint:
    """Choose the operating point for a target accuracy, a load budget, or costs.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `expertload.coc_curve`.
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
    >>> from expertload import operating_point
    >>> y_true = [0, 1, 1, 0]
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> point = operating_point.choose(y_true, y_proba, target_accuracy=0.95)
    >>> point.threshold, point.expert_load, point.accuracy
    (0.7, 0.25, 1.0)
    """
    cases, names = check_named_cases(y_true, y_proba, confidence, sample_weight, labels)
    table = Tally.from_cases(cases)
    point = _choose(table, target_accuracy, load_budget, error_cost, review_cost, expert_accuracy)
    return replace(
        point, origin=origin_of(cases, table, ranked_by=ranked_by(confidence), labels=names)
    )


def choose_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    target_accuracy: float | None = None,
    load_budget: float | None = None,
    error_cost: float | None = None,
    review_cost: float | None = None,
    expert_accuracy: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> OperatingPoint:
    """Choose an operating point from the correctness and the confidence of each case.

    Parameters
    ----------
    correct, confidence, sample_weight
        As in `expertload.Cases.from_correctness`.
    target_accuracy, load_budget, error_cost, review_cost, expert_accuracy
        As in `choose`.

    Returns
    -------
    OperatingPoint
        Threshold, load, accuracy and counts.

    Examples
    --------
    A review costs 5 and an error 100, so delegating the two doubtful cases pays:

    >>> from expertload.operating_point import choose_from_correctness
    >>> point = choose_from_correctness(
    ...     [0, 1, 0, 1, 1], [0.5, 0.6, 0.7, 0.8, 0.9], error_cost=100, review_cost=5
    ... )
    >>> print(point)
    Accept at confidence >= 0.8: 40.0% of cases decided automatically, 100.0% of them right; 60.0%
    delegated (3 of 5).
    """
    cases = check_correctness_cases(correct, confidence, sample_weight)
    table = Tally.from_cases(cases)
    point = _choose(table, target_accuracy, load_budget, error_cost, review_cost, expert_accuracy)
    return replace(point, origin=origin_of(cases, table, ranked_by="given_confidence"))


def at_threshold(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    threshold: float,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> OperatingPoint:
    """Report what a threshold does on these data, for example one chosen on other data.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `expertload.coc_curve`.
    threshold : float
        Cases are accepted if and only if their confidence is at least this.

    Returns
    -------
    OperatingPoint
        Load, accuracy and counts there.

    Examples
    --------
    >>> from expertload import operating_point
    >>> y_true = [0, 1, 1, 0]
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> operating_point.at_threshold(y_true, y_proba, threshold=0.75).expert_load
    0.5
    """
    cases, names = check_named_cases(y_true, y_proba, confidence, sample_weight, labels)
    table = Tally.from_cases(cases)
    origin = origin_of(cases, table, ranked_by=ranked_by(confidence), labels=names)
    return point_at_threshold(table, check_threshold(threshold), origin)


def at_threshold_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    threshold: float,
    sample_weight: ArrayLike | None = None,
) -> OperatingPoint:
    """Report what a threshold does, from the correctness and the confidence of each case.

    Parameters
    ----------
    correct, confidence, sample_weight
        As in `expertload.Cases.from_correctness`.
    threshold : float
        Cases are accepted if and only if their confidence is at least this.

    Returns
    -------
    OperatingPoint
        Load, accuracy and counts there.

    Examples
    --------
    >>> from expertload.operating_point import at_threshold_from_correctness
    >>> at_threshold_from_correctness([0, 1], [0.6, 0.9], threshold=0.7).n_errors_spared
    1.0
    """
    cases = check_correctness_cases(correct, confidence, sample_weight)
    table = Tally.from_cases(cases)
    origin = origin_of(cases, table, ranked_by="given_confidence")
    return point_at_threshold(table, check_threshold(threshold), origin)


# ------------------------------------------------------------------ reading the table


@dataclass(frozen=True)
class _Options:
    """The operating point of every row of a tally; the last one delegates everything."""

    threshold: FloatArray
    accepted: FloatArray
    errors: FloatArray

    def point(self, index: int) -> OperatingPoint:
        return OperatingPoint(
            threshold=float(self.threshold[index]),
            n_accepted=float(self.accepted[index]),
            n_delegated=float(self.accepted[0] - self.accepted[index]),
            n_errors=float(self.errors[index]),
            n_errors_spared=float(self.errors[0] - self.errors[index]),
        )


def _options(table: Tally) -> _Options:
    return _Options(
        np.append(table.confidence.astype(np.float64), math.inf),
        np.append(table.accepted, 0.0),
        np.append(table.accepted_errors, 0.0),
    )


def point_at_threshold(table: Tally, threshold: float, origin: Origin) -> OperatingPoint:
    """Return the point at a threshold."""
    point = _options(table).point(int(np.searchsorted(table.confidence, threshold, side="left")))
    return replace(point, threshold=threshold, origin=origin)


def point_for_target(table: Tally, target: float, origin: Origin) -> OperatingPoint:
    """Return the point of smallest load that reaches a target accuracy."""
    options = _options(table)
    return replace(options.point(_first_to_reach(options, target)), origin=origin)


def _choose(
    table: Tally,
    target_accuracy: float | None,
    load_budget: float | None,
    error_cost: float | None,
    review_cost: float | None,
    expert_accuracy: float,
) -> OperatingPoint:
    _check_one_criterion(target_accuracy, load_budget, error_cost, review_cost)
    if target_accuracy is not None:
        target = check_fraction(target_accuracy, "target_accuracy")
        return point_for_target(table, target, Origin())
    options = _options(table)
    if load_budget is not None:
        budget = check_fraction(load_budget, "load_budget")
        return options.point(_most_accurate_within(options, budget))
    error = check_positive(error_cost, "error_cost", zero=True)
    review = check_positive(review_cost, "review_cost", zero=True)
    expert = check_fraction(expert_accuracy, "expert_accuracy")
    delegated = options.accepted[0] - options.accepted
    cost = error * (options.errors + (1 - expert) * delegated) + review * delegated
    return options.point(int(np.argmin(cost)))  # the smallest load, if equal


def _first_to_reach(options: _Options, target: float) -> int:
    allowed = (1 - target + COMPARISON_SLACK) * options.accepted
    return int(np.argmax(options.errors <= allowed))  # delegating everything always qualifies


def _most_accurate_within(options: _Options, budget: float) -> int:
    affordable = options.accepted[:-1] >= (1 - budget - COMPARISON_SLACK) * options.accepted[0]
    accuracy = 1 - options.errors[:-1] / options.accepted[:-1]
    return int(np.argmax(np.where(affordable, accuracy, -1.0)))


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

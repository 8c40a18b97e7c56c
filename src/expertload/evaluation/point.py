"""The operating point of an evaluation, and the guarantee in words.

It is a certified point if there is one. Otherwise it is the point that reaches the target on these
cases, and the text states that nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from expertload._format import percent, promised
from expertload.cases import Cases
from expertload.operating_point import (
    CertifiedPoint,
    CertifiedTargets,
    ClusterPromise,
    Method,
    OperatingPoint,
    certify,
    choose,
)
from expertload.operating_point.point import digits, quantity

__all__ = ["Settled", "settle_point"]

NOT_COUNTED = "Weighted cases cannot be certified: the tests count cases drawn one by one."
NO_TARGET = "No finite number of cases certifies a target of 0 or 1."


class Settled(NamedTuple):
    """The point, the results of the tests if any, and both in words."""

    point: OperatingPoint
    certification: CertifiedPoint | None
    guarantee: str
    conditions: str
    targets: CertifiedTargets | None = None


def settle_point(
    cases: Cases,
    *,
    targets: Sequence[float],
    confidence_level: float,
    method: Method,
    cluster_promise: ClusterPromise,
) -> Settled:
    """Return the point for the first target accuracy, and what is certified for all targets."""
    target = targets[0]
    if cases.weight is not None or not 0 < target < 1:
        why = NO_TARGET if cases.weight is None else NOT_COUNTED
        return _described(choose(cases, target_accuracy=target), None, target, why, cases)
    points = certify(
        cases,
        target_accuracy=[target for target in targets if 0 < target < 1],
        confidence_level=confidence_level,
        method=method,
        cluster_promise=cluster_promise,
    )
    several = points if len(points) > 1 else None
    certified = points[target]
    if certified.is_certified:
        promise = _promise(certified)
        return Settled(certified, certified, promise, certified.conditions, several)
    point = replace(choose(cases, target_accuracy=target), origin=points.origin)
    described = _described(point, certified, target, certified.guarantee, cases)
    return described._replace(targets=several)


def _promise(point: CertifiedPoint) -> str:
    return (
        f"If the model decides only the cases in which its confidence is at least "
        f"{digits(point.threshold)}, at least {promised(point.target_accuracy)} of its decisions "
        f"will be right (one can be {promised(point.confidence_level)} sure of that), and experts "
        f"see {_seen(point)}."
    )


def _described(
    point: OperatingPoint,
    certification: CertifiedPoint | None,
    target: float,
    why: str,
    cases: Cases,
) -> Settled:
    refusal = f"No threshold can be promised to reach {promised(target)} accuracy on new cases"
    if point.accuracy is None:
        return Settled(point, certification, f"{refusal}, and none does on these.", why)
    seen = (
        f"{refusal}; on these, deciding at a confidence of at least {digits(point.threshold)} was "
        f"right in {percent(point.accuracy)} of decisions, with "
        f"{_seen(point, is_weighted=cases.weight is not None)} left to experts."
    )
    return Settled(point, certification, seen, why)


def _seen(point: OperatingPoint, *, is_weighted: bool = False) -> str:
    delegated, total = quantity(point.n_delegated), quantity(point.n_cases)
    counted = f"{delegated} of the {total} examined"
    if is_weighted:
        counted = f"{delegated} of a sum of weights of {total}"
    return f"{percent(point.expert_load)} of all cases ({counted})"

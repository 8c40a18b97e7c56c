"""The same threshold in each site, age band or scanner: whom does it serve worse?

All groups are read at one threshold, that of the evaluation, because that is what they will meet.
The worst come first: those whose automatic decisions are least often right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from expertload._cases import Cases
from expertload._typing import AnyArray, ArrayLike
from expertload._validation import name_groups
from expertload.curve import aucoc_score_from_correctness
from expertload.evaluation._parts import effective_size, rate_interval
from expertload.operating_point import OperatingPoint, at_threshold_from_correctness
from expertload.significance import Interval

__all__ = ["GroupEvaluation", "evaluate_groups"]

# With fewer accepted cases than this, an interval is wider than most differences that matter.
SMALL_GROUP = 30


@dataclass(frozen=True, kw_only=True)
class GroupEvaluation:
    """One group of cases at the threshold of the evaluation.

    Attributes
    ----------
    name : str
        What the group is called.
    n_cases : int
        How many cases it has.
    accuracy : Interval
        Over all of its cases, were none delegated.
    aucoc : float
        Area under its own COC curve.
    expert_load : float
        The share of its cases that the threshold delegates.
    accepted_accuracy : Interval or None
        Among those it accepts; None if there are none.
    n_accepted : int
        How many it accepts.
    """

    name: str
    n_cases: int
    accuracy: Interval
    aucoc: float
    expert_load: float
    accepted_accuracy: Interval | None
    n_accepted: int

    @property
    def is_small(self) -> bool:
        """Whether too few cases are accepted to say much; of all its cases where none is."""
        return (self.n_accepted or self.n_cases) < SMALL_GROUP


def evaluate_groups(
    cases: Cases, groups: ArrayLike | None, point: OperatingPoint, level: float, caller: str
) -> tuple[GroupEvaluation, ...]:
    """Evaluate each group at one threshold, worst first."""
    if groups is None:
        return ()
    names, member = np.unique(name_groups(groups, len(cases.correct), caller), return_inverse=True)
    order = np.argsort(member, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(member))[:-1])
    found = [
        _group(str(name), _pick(cases, part), point, level)
        for name, part in zip(names, parts, strict=True)
        if cases.weight is None or cases.weight[part].any()
    ]
    return tuple(sorted(found, key=_how_bad))


def _pick(cases: Cases, rows: AnyArray) -> Cases:
    weight = None if cases.weight is None else cases.weight[rows]
    return Cases(cases.correct[rows], cases.confidence[rows], weight)


def _group(name: str, cases: Cases, point: OperatingPoint, level: float) -> GroupEvaluation:
    here = at_threshold_from_correctness(
        *cases[:2], threshold=point.threshold, sample_weight=cases.weight
    )
    present = np.ones(len(cases.correct), bool) if cases.weight is None else cases.weight > 0
    accepted = present & (cases.confidence >= point.threshold)
    rate = float(np.average(cases.correct, weights=cases.weight))
    return GroupEvaluation(
        name=name,
        n_cases=int(present.sum()),
        accuracy=rate_interval(rate, _size(cases, present), level),
        aucoc=aucoc_score_from_correctness(*cases[:2], sample_weight=cases.weight),
        expert_load=here.expert_load,
        accepted_accuracy=None
        if here.accuracy is None
        else rate_interval(here.accuracy, _size(cases, accepted), level),
        n_accepted=int(accepted.sum()),
    )


def _size(cases: Cases, rows: AnyArray) -> float:
    weight = None if cases.weight is None else cases.weight[rows]
    return effective_size(weight, int(rows.sum()))


def _how_bad(group: GroupEvaluation) -> tuple[float, float]:
    """Least accurate first; groups that are delegated whole last, among them the same."""
    accepted = group.accepted_accuracy
    return (math.inf if accepted is None else accepted.estimate, group.accuracy.estimate)

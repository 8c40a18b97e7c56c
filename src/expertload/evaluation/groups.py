"""Evaluates the same threshold in each group: a site, an age band, a scanner.

All groups use the threshold of the evaluation, because it will be applied to all of them. Groups
whose automatic decisions are least often right come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from expertload._label_arrays import name_groups
from expertload._typing import AnyArray, ArrayLike, FloatArray, IntArray
from expertload.cases import Cases, reaches
from expertload.evaluation.parts import rate_interval
from expertload.significance import Interval
from expertload.significance.interval import effective_size_of_rate

__all__ = ["GroupEvaluation", "Members", "evaluate_members", "name_members"]

# With fewer accepted cases, an interval is wider than most differences that matter.
SMALL_GROUP = 30


@dataclass(frozen=True, kw_only=True)
class GroupEvaluation:
    """One group of cases at the threshold of the evaluation.

    Attributes
    ----------
    name : str
        The name of the group.
    n_cases : int
        The number of its cases.
    accuracy : Interval
        The accuracy over all of its cases, as if none were delegated.
    aucoc : float
        The area under its COC curve.
    expert_load : float
        The share of its cases that the threshold delegates.
    accepted_accuracy : Interval or None
        The accuracy among its accepted cases; None if there are none.
    n_accepted : int
        The number of its accepted cases.
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
        """Whether too few cases are accepted for a useful accuracy; counts all cases if none is."""
        return (self.n_accepted or self.n_cases) < SMALL_GROUP


class Members(NamedTuple):
    """The part (a group or class) of each case, and the names of all parts."""

    names: tuple[str, ...]
    of_case: IntArray

    @classmethod
    def from_codes(cls, values: AnyArray, codes: IntArray) -> Members:
        """Return the parts from distinct names and the code of each case."""
        names, place = np.unique(name_groups(values, len(values)), return_inverse=True)
        return cls(tuple(names.tolist()), place.astype(np.min_scalar_type(len(names)))[codes])


def name_members(groups: ArrayLike | Members | None, n: int) -> Members | None:
    """Return the names of groups, and the index of each case's group."""
    if groups is None or isinstance(groups, Members):
        return groups
    names, member = np.unique(name_groups(groups, n), return_inverse=True)
    return Members(tuple(names.tolist()), member.astype(np.min_scalar_type(len(names))))


def evaluate_members(
    cases: Cases, members: Members | None, threshold: float, level: float
) -> tuple[GroupEvaluation, ...]:
    """Evaluate each part that has cases at the same threshold, worst first."""
    if members is None:
        return ()
    rows = rows_of_groups(cases.weight, members.of_case, len(members.names))
    own = {name: each for name, each in zip(members.names, rows, strict=True) if len(each)}
    found = [_group(name, cases.take(own[name]), threshold, level) for name in own]
    return tuple(sorted(found, key=_how_bad))


def rows_of_groups(
    weight: FloatArray | None, member: IntArray, n_groups: int
) -> Iterator[IntArray]:
    """Yield the row numbers of each group in order, without rows of weight zero."""
    # Small integers are sorted by counting, which is as fast as reading them.
    small = member.astype(np.min_scalar_type(n_groups), copy=weight is not None)
    if weight is not None:
        small[weight == 0] = n_groups
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(small, minlength=n_groups + 1))[:n_groups]
    for start, end in pairwise([0, *ends.tolist()]):
        yield order[start:end]


def _group(name: str, cases: Cases, threshold: float, level: float) -> GroupEvaluation:
    accepted = reaches(cases.confidence, threshold)
    return GroupEvaluation(
        name=name,
        n_cases=len(accepted),
        accuracy=_accuracy(cases, level),
        aucoc=cases.aucoc(),
        expert_load=float(np.average(~accepted, weights=cases.weight)),
        accepted_accuracy=_accuracy(cases.take(accepted), level) if accepted.any() else None,
        n_accepted=int(np.count_nonzero(accepted)),
    )


def _accuracy(cases: Cases, level: float) -> Interval:
    """Return the accuracy as `OperatingPoint` computes it: one minus the share of errors."""
    wrong = float(np.average(1 - cases.correct.astype(np.float64), weights=cases.weight))
    return rate_interval(1 - wrong, effective_size_of_rate(cases), level)


def _how_bad(group: GroupEvaluation) -> tuple[float, float]:
    """Sort key: least accurate first; groups that are delegated completely come last."""
    accepted = group.accepted_accuracy
    return (math.inf if accepted is None else accepted.estimate, group.accuracy.estimate)

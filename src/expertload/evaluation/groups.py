"""Evaluates the same threshold in each group (a site, an age band, a scanner) and each class.

All groups use the threshold of the evaluation, because it will be applied to all of them. Groups
whose automatic decisions are least often right come first.

Classes are groups of cases with the same true class. The true class of a new case is unknown, so
these numbers describe the model and promise nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from expertload._label_arrays import name_groups
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.cases import Cases, reaches
from expertload.significance import Interval
from expertload.significance.interval import effective_size_of_rate, rate_interval

# With fewer accepted cases, an interval is wider than most differences that matter.
SMALL_GROUP = 30
MOST_CONFUSIONS = 3


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
        """Whether too few cases are accepted for a useful accuracy; if none is, all cases count."""
        return (self.n_accepted or self.n_cases) < SMALL_GROUP


class Members(NamedTuple):
    """The part (a group or class) of each case, and the names of all parts."""

    names: tuple[str, ...]
    of_case: IntArray

    @classmethod
    def from_names(cls, values: AnyArray, codes: IntArray | None = None) -> Members:
        """Return the parts from the name of each case's part, or from distinct names and codes."""
        names, place = np.unique(name_groups(values, len(values)), return_inverse=True)
        place = place.astype(np.min_scalar_type(len(names)))
        return cls(tuple(names.tolist()), place if codes is None else place[codes])


def evaluate_members(
    cases: Cases, members: Members | None, threshold: float, level: float
) -> tuple[GroupEvaluation, ...]:
    """Evaluate each part that has cases at the same threshold, worst first."""
    if members is None:
        return ()
    bare = replace(cases, groups=None, target=None, proba=None)
    rows = _rows_of_groups(cases.weight, members.of_case, len(members.names))
    groups = [
        _group(name, bare.take(own), threshold, level)
        for name, own in zip(members.names, rows, strict=True)
        if len(own)
    ]
    return tuple(sorted(groups, key=_how_bad))


def _rows_of_groups(weight: FloatArray | None, member: IntArray, n_groups: int) -> list[IntArray]:
    """Return the row numbers of each group in order, without rows of weight zero."""
    order = np.argsort(member, kind="stable")  # small integers: as fast as reading them
    if weight is not None:
        order = order[weight[order] > 0]
    return np.split(order, np.cumsum(np.bincount(member[order], minlength=n_groups))[:-1])


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


def _how_bad(group: GroupEvaluation, end: str = "estimate") -> tuple[float, ...]:
    """Sort key: least accurate first; groups that are delegated completely come last."""
    numbers = group.accepted_accuracy, group.accuracy
    return tuple(math.inf if it is None else getattr(it, end) for it in numbers)


# ------------------------------------------------------------------ classes


class ClassAnswers(NamedTuple):
    """The true and the predicted class of each case, as indices into the names."""

    names: tuple[str, ...]
    target: IntArray
    predicted: IntArray


class Confusion(NamedTuple):
    """A class that was predicted for cases of another class.

    Attributes
    ----------
    name : str
        The class that was predicted.
    share : float
        The share of the true class's cases that were predicted as this class.
    """

    name: str
    share: float


@dataclass(frozen=True, kw_only=True)
class ClassEvaluation(GroupEvaluation):
    """The cases of one true class at the threshold of the evaluation.

    Attributes
    ----------
    confused_with : tuple of Confusion
        The classes most often predicted instead, delegated or not, most frequent first; at most 3.
    """

    confused_with: tuple[Confusion, ...]


def answers_by_class(cases: Cases) -> ClassAnswers | None:
    """Return true and predicted classes, in a small integer type; None if they are unknown."""
    if cases.target is None or cases.proba is None or cases.labels is None:
        return None
    target = cases.target.astype(np.min_scalar_type(len(cases.labels)))
    predicted = target.copy()
    wrong = np.flatnonzero(~cases.correct)
    predicted[wrong] = cases.proba[wrong].argmax(axis=1)
    return ClassAnswers(tuple(map(str, cases.labels)), target, predicted)


def evaluate_classes(
    cases: Cases, answers: ClassAnswers, threshold: float, level: float
) -> tuple[ClassEvaluation, ...]:
    """Evaluate the cases of each class that occurs; classes that are surely bad come first."""
    members = Members(answers.names, answers.target)
    confusions = _confusions(answers, cases.weight)
    classes = [
        ClassEvaluation(**vars(part), confused_with=confusions.get(part.name, ()))
        for part in evaluate_members(cases, members, threshold, level)
    ]
    # By the upper ends of intervals, because small classes may be all wrong by chance.
    return tuple(sorted(classes, key=partial(_how_bad, end="high")))


def _confusions(answers: ClassAnswers, weight: AnyArray | None) -> dict[str, tuple[Confusion, ...]]:
    n = len(answers.names)
    total = np.bincount(answers.target, weight, n)
    wrong = np.flatnonzero(answers.target != answers.predicted)
    codes = answers.target[wrong].astype(np.int64) * n + answers.predicted[wrong]
    pairs, place = np.unique(codes, return_inverse=True)
    sums = np.bincount(place, None if weight is None else weight[wrong], len(pairs))
    by_class: dict[str, list[Confusion]] = {}
    for k in np.argsort(-sums, kind="stable"):
        true, taken_for = divmod(int(pairs[k]), n)
        listed = by_class.setdefault(answers.names[true], [])
        if len(listed) < MOST_CONFUSIONS and sums[k] > 0:
            listed.append(Confusion(answers.names[taken_for], float(sums[k] / total[true])))
    return {name: tuple(listed) for name, listed in by_class.items()}

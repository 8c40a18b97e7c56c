"""Evaluates each class: how often the model gets it wrong, and what it predicts instead.

Cases are grouped by their true class. The true class of a new case is unknown, so these numbers
describe the model and promise nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from expertload._typing import AnyArray, BoolArray, IntArray
from expertload.cases import Cases, Predictions
from expertload.evaluation.groups import GroupEvaluation, Members, evaluate_members

__all__ = ["ClassAnswers", "ClassEvaluation", "Confusion", "answers_by_class", "evaluate_classes"]

MOST_CONFUSIONS = 3


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


def answers_by_class(
    predictions: Predictions, correct: BoolArray, names: tuple[object, ...]
) -> ClassAnswers:
    """Return true and predicted classes, in a small integer type."""
    small = np.min_scalar_type(len(names))
    target = predictions.target.astype(small)
    predicted = target.copy()
    wrong = np.flatnonzero(~correct)
    predicted[wrong] = predictions.proba[wrong].argmax(axis=1)
    return ClassAnswers(tuple(map(str, names)), target, predicted)


def evaluate_classes(
    cases: Cases, answers: ClassAnswers, threshold: float, level: float
) -> tuple[ClassEvaluation, ...]:
    """Evaluate the cases of each class that occurs; classes that are surely bad come first."""
    members = Members(answers.names, answers.target)
    confusions = _confusions(answers, cases.weight)
    found = [
        ClassEvaluation(**vars(part), confused_with=confusions.get(part.name, ()))
        for part in evaluate_members(cases, members, threshold, level)
    ]
    return tuple(sorted(found, key=_how_bad))


def _how_bad(part: ClassEvaluation) -> tuple[float, float]:
    """Sort by the upper ends of intervals, because small classes may be all wrong by chance."""
    accepted = part.accepted_accuracy
    return (math.inf if accepted is None else accepted.high, part.accuracy.high)


def _confusions(answers: ClassAnswers, weight: AnyArray | None) -> dict[str, tuple[Confusion, ...]]:
    n = len(answers.names)
    total = np.bincount(answers.target, weight, n)
    wrong = np.flatnonzero(answers.target != answers.predicted)
    codes = answers.target[wrong].astype(np.int64) * n + answers.predicted[wrong]
    pairs, place = np.unique(codes, return_inverse=True)
    sums = np.bincount(place, None if weight is None else weight[wrong], len(pairs))
    found: dict[str, list[Confusion]] = {}
    for k in np.argsort(-sums, kind="stable"):
        true, taken_for = divmod(int(pairs[k]), n)
        listed = found.setdefault(answers.names[true], [])
        if len(listed) < MOST_CONFUSIONS and sums[k] > 0:
            listed.append(Confusion(answers.names[taken_for], float(sums[k] / total[true])))
    return {name: tuple(listed) for name, listed in found.items()}

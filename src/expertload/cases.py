"""Cases: what the model answered, how sure it was, what is true, and which belong together.

Everything in this package is about cases. They are validated once, here; every number is computed
from them, most of them from their `tally`, which is added up once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from expertload._blocks import blocks
from expertload._check import (
    as_array,
    as_floats,
    check_fraction,
    check_option,
    check_probabilities,
    check_same_length,
    check_same_order,
    first_index,
    message,
)
from expertload._label_arrays import (
    check_labels,
    frame_columns,
    match_answers,
    number_clusters,
    settle_lone_column,
)
from expertload._labels import ClassName
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from expertload.exceptions import (
    DataTypeError,
    LabelError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)
from expertload.tally import (
    CONVENTIONS,
    COCCurve,
    Convention,
    Tally,
    check_grades,
    check_weight,
    check_whole_weight,
    counted_area,
)

__all__ = ["Cases"]

# The fields with one value per case.
ROW_WISE = (
    *("correct", "confidence", "weight", "clusters", "groups", "target", "proba"),
    *("expert_answers", "inclusion_probability"),
)
# If this many answers or more are all right, they are not an expert's, but the truth itself.
TOO_GOOD = 100
# With more classes than this, the text of `Cases` gives their number instead of their names.
MOST_SHOWN = 5


class Predictions(NamedTuple):
    """Validated predictions: `proba` has one column per class, `target` is a column number."""

    target: IntArray
    proba: FloatArray
    weight: FloatArray | None


@dataclass(frozen=True, eq=False, repr=False)
class Cases:
    """Validated cases: how right the model was on each, and how sure.

    Make them with `from_predictions` or `from_correctness`; the arrays are not checked again.

    Attributes
    ----------
    correct : ndarray of shape (n_cases,)
        Whether each case is right, or its grade in [0, 1].
    confidence : ndarray of shape (n_cases,)
        The confidence that ranks cases, higher meaning keep automatic.
    weight : ndarray of shape (n_cases,) or None
        How much each case counts.
    clusters : ndarray of shape (n_cases,) or None
        The number of each case's cluster, for example its patient. Clusters change intervals and
        tests, but neither the curve nor the area.
    groups : ndarray of shape (n_cases,) or None
        The group of each case, for example its site, as it was given.
    target, proba : ndarray or None
        The column of each case's true class, and the probabilities, one column per class; None if
        only correctness is known.
    labels : tuple or None
        The name of each column, or its number if it has no name.
    is_ranked_by_probability : bool
        Whether the confidence is the largest probability of each case.
    expert_answers : ndarray of shape (n_cases,) or None
        The column of what an expert alone answered to each case, -1 where nobody read it.
    inclusion_probability : ndarray of shape (n_cases,) or None
        The probability with which each case was given to an expert.
    index : pandas Index or None
        The index of the frame or series that the cases came from. Rows belong together by
        position; models are not compared if their indices hold the same entries in another order.

    Examples
    --------
    >>> from expertload import Cases
    >>> cases = Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])
    >>> cases
    Cases(n=4, accuracy=0.75)
    >>> cases.load_at_accuracy(0.95)
    0.25
    >>> print(f"{cases.aucoc():.4f}")
    0.9658
    """

    correct: AnyArray
    confidence: FloatArray
    weight: FloatArray | None = None
    clusters: IntArray | None = None
    groups: AnyArray | None = None
    target: IntArray | None = None
    proba: FloatArray | None = None
    labels: tuple[ClassName, ...] | None = None
    is_ranked_by_probability: bool = False
    expert_answers: IntArray | None = None
    inclusion_probability: FloatArray | None = None
    index: Any = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        confidence: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        expert_answers: ArrayLike | None = None,
        inclusion_probability: ArrayLike | None = None,
    ) -> Cases:
        """Validate labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, confidence, sample_weight, labels
            As in `expertload.coc_curve`.
        clusters : array-like of shape (n_cases,), optional
            The cluster of each case, for example its patient. Cases of one cluster need not be
            independent: clusters are. By default all cases are.
        groups : array-like of shape (n_cases,), optional
            The group of each case, for example its site.
        expert_answers : array-like of shape (n_cases,), optional
            What an expert answered to each case without knowing the model's answer; missing (None
            or NaN) where nobody read it. For `expertload.team`.
        inclusion_probability : array-like of shape (n_cases,), optional
            The probability with which each case was given to an expert, if not all were and not
            all had the same chance.

        Examples
        --------
        >>> from expertload import Cases
        >>> Cases.from_predictions(["cat", "dog"], [0.2, 0.4], labels=["cat", "dog"])
        Cases(n=2, accuracy=0.5, labels=('cat', 'dog'))
        """
        rows = {"y_true": y_true, "y_proba": y_proba, "sample_weight": sample_weight}
        check_same_order(**rows, confidence=confidence, clusters=clusters, groups=groups)
        check_same_order(y_true=y_true, y_proba=y_proba, expert_answers=expert_answers)
        proba = settle_lone_column(check_probabilities(y_proba, "y_proba"), y_proba, labels)
        target, names = check_labels(y_true, frame_columns(y_proba), proba.shape[1], labels)
        check_same_length(y_true=target, y_proba=proba)
        weight = check_weight(sample_weight, len(target))
        cases = cls.from_matched(target, proba, names, confidence=confidence, weight=weight)
        index = first_index(y_true, y_proba, confidence, sample_weight, clusters, groups)
        cases = cases._belonging_to(clusters, groups, index)
        return cases.with_experts(expert_answers, inclusion_probability)

    @classmethod
    def from_matched(
        cls,
        target: IntArray,
        proba: FloatArray,
        labels: tuple[ClassName, ...],
        *,
        confidence: ArrayLike | None = None,
        weight: FloatArray | None = None,
    ) -> Cases:
        """Return cases whose labels were matched to columns, and validated, by a reader."""
        correct, top = top_label(target, proba)
        cases = cls(correct, top, weight, target=target, proba=proba, labels=labels)
        if confidence is None:
            return replace(cases, is_ranked_by_probability=True)
        scores = as_floats(confidence, "confidence")
        check_same_length(y_proba=proba, confidence=scores)
        return replace(cases, confidence=scores)

    @classmethod
    def from_correctness(
        cls,
        correct: ArrayLike,
        confidence: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Cases:
        """Validate the correctness and the confidence of each case.

        For anything that has those two: a segmentation with its Dice score, a detector, a language
        model's graded answers.

        Parameters
        ----------
        correct : array-like of shape (n_cases,)
            Whether each case is right, or a grade in [0, 1]; accuracies are then mean grades.
        confidence : array-like of shape (n_cases,)
            The confidence that ranks cases, higher meaning keep automatic: any finite numbers.
        sample_weight, clusters, groups
            As in `from_predictions`.

        Examples
        --------
        >>> from expertload import Cases
        >>> cases = Cases.from_correctness([0, 1, 1], [0.5, 0.5, 0.7], clusters=["a", "a", "b"])
        >>> cases
        Cases(n=3, accuracy=0.667, clusters=2)
        """
        rows = {"sample_weight": sample_weight, "clusters": clusters, "groups": groups}
        check_same_order(correct=correct, confidence=confidence, **rows)
        grades = check_grades(correct)
        scores = as_floats(confidence, "confidence")
        check_same_length(correct=grades, confidence=scores)
        cases = cls(grades, scores, check_weight(sample_weight, len(grades)))
        index = first_index(correct, confidence, sample_weight, clusters, groups)
        return cases._belonging_to(clusters, groups, index)

    @staticmethod
    def from_tally(table: Tally, *, labels: tuple[ClassName, ...] | None = None) -> Cases:
        """Return right and wrong cases that were counted by confidence.

        Parameters
        ----------
        table : Tally
            Whole numbers of cases, and of right ones, at each confidence.
        labels : tuple of str or int, optional
            The classes, if the confidence is the largest probability.

        Examples
        --------
        >>> import numpy as np
        >>> from expertload.cases import Cases, Tally
        >>> table = Tally(np.array([0.5, 0.7]), np.array([2.0, 1.0]), np.array([1.0, 1.0]))
        >>> Cases.from_tally(table)
        Cases(n=3, accuracy=0.667)
        """
        cases = _CountedCases(np.zeros(0), np.zeros(0), labels=labels)
        del cases.__dict__["correct"], cases.__dict__["confidence"]
        cases.__dict__ |= {"tally": table, "is_ranked_by_probability": labels is not None}
        return cases

    def _belonging_to(
        self, clusters: ArrayLike | None, groups: ArrayLike | None, index: Any
    ) -> Cases:
        """Return the same cases with their clusters, groups and index."""
        named = None if groups is None else as_array(groups, "groups")
        if named is not None and named.shape != (len(self),):
            wanted = f"must name a group for each of {len(self)} cases"
            raise ShapeError(message("groups", wanted, named.shape))
        numbers = number_clusters(clusters, len(self))
        return replace(self, clusters=numbers, groups=named, index=index)

    def with_experts(
        self, answers: ArrayLike | None, inclusion_probability: ArrayLike | None = None
    ) -> Cases:
        """Return the same cases with what experts answered, see `from_predictions`."""
        if answers is None:
            return self
        target = self.predictions.target
        matched = match_answers(answers, self.labels or (), len(self))
        _check_are_not_the_truth(matched, target)
        if inclusion_probability is None:
            return replace(self, expert_answers=matched)
        chance = as_floats(inclusion_probability, "inclusion_probability").astype(np.float64)
        check_same_length(expert_answers=matched, inclusion_probability=chance)
        if not ((chance > 0) & (chance <= 1)).all():
            got = f"values from {chance.min():g} to {chance.max():g}"
            hint = "a case that could not be read says nothing: leave it out"
            raise ProbabilityError(message("inclusion_probability", "must be in (0, 1]", got, hint))
        return replace(self, expert_answers=matched, inclusion_probability=chance)

    def __len__(self) -> int:
        return len(self.correct)

    def __repr__(self) -> str:
        parts = [f"n={len(self)}", f"accuracy={self.accuracy:.3g}"]
        if self.labels is not None:
            shown = self.labels if len(self.labels) <= MOST_SHOWN else f"{len(self.labels)} classes"
            parts.append(f"labels={shown}")
        if self.weight is not None:
            parts.append("weighted")
        if self.clusters is not None:
            parts.append(f"clusters={len(np.unique(self.clusters))}")
        if self.groups is not None:
            parts.append("grouped")
        if self.expert_answers is not None:
            parts.append(f"read={np.count_nonzero(self.expert_answers >= 0)}")
        return f"Cases({', '.join(parts)})"

    # ------------------------------------------------------------------ numbers

    @cached_property
    def tally(self) -> Tally:
        """The cases added up by confidence, computed once."""
        return Tally.add_up(self.correct, self.confidence, self.weight)

    @cached_property
    def sha256(self) -> str:
        """The digest of the cases, the same for every precision and for 0/1 as for False/True."""
        digest = hashlib.sha256()
        for values in (self.correct, self.confidence, self.weight):
            if values is not None:
                for rows in blocks(len(values)):
                    digest.update(np.ascontiguousarray(values[rows], dtype="<f8").data)
        return digest.hexdigest()

    @property
    def accuracy(self) -> float:
        """The mean correctness of all cases."""
        return float(np.average(self.correct, weights=self.weight))

    def curve(self) -> COCCurve:
        """Return the COC curve."""
        return self.tally.curve()

    def aucoc(self, convention: Convention = "exact") -> float:
        """Return the area under the COC curve, as `expertload.aucoc_score` defines it."""
        check_option(convention, CONVENTIONS, "convention")
        if self.is_counted and convention != "authors":
            return counted_area(self.correct, self.confidence, convention)
        if convention == "thresholds":
            check_whole_weight(self.weight)
        return self.tally.area(convention)

    def load_at_accuracy(self, target_accuracy: float) -> float:
        """Return the smallest expert load whose accuracy reaches a target, 1 where none does."""
        return self.tally.load_at_accuracy(check_fraction(target_accuracy, "target_accuracy"))

    def accuracy_at_load(self, expert_load: float) -> float:
        """Return the accuracy at the strictest threshold that delegates no more than a load."""
        return self.tally.accuracy_at_load(check_fraction(expert_load, "expert_load"))

    # ------------------------------------------------------------------ other views

    @property
    def is_graded(self) -> bool:
        """Whether correctness is graded, not just right or wrong."""
        return self.correct.dtype != np.bool_

    @property
    def is_counted(self) -> bool:
        """Whether cases are right or wrong and unweighted, so that a tally has all information."""
        return self.weight is None and not self.is_graded

    @property
    def unit(self) -> IntArray:
        """The number of each case's cluster; of the case itself, if there are no clusters."""
        return np.arange(len(self)) if self.clusters is None else self.clusters

    @cached_property
    def by_probability(self) -> Cases:
        """The same cases ranked by their largest probability; unchanged if none is known."""
        if self.is_ranked_by_probability or self.target is None or self.proba is None:
            return self
        top = top_label(self.target, self.proba)[1]
        return replace(self, confidence=top, is_ranked_by_probability=True)

    @property
    def predictions(self) -> Predictions:
        """The labels and probabilities; an error if only correctness is known."""
        if self.target is None or self.proba is None:
            raise ParameterError(
                "This needs labels and probabilities. Got cases made from correctness. "
                "Hint: make them with Cases.from_predictions."
            )
        return Predictions(self.target, self.proba, self.weight)

    def take(self, rows: AnyArray) -> Cases:
        """Return some of the cases; clusters keep their numbers."""
        given = {name: getattr(self, name) for name in ROW_WISE}
        taken = {name: values[rows] for name, values in given.items() if values is not None}
        return replace(self, **taken, index=None)


class _CountedCases(Cases):
    """Cases known by their counts; arrays of one value per case are made only if read."""

    @cached_property
    def correct(self) -> AnyArray:
        counts = np.column_stack([self.tally.errors, self.tally.correct]).astype(np.int64)
        return np.repeat(np.tile([False, True], len(counts)), counts.ravel())

    @cached_property
    def confidence(self) -> FloatArray:
        return np.repeat(self.tally.confidence, self.tally.weight.astype(np.int64))

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256(b"tally")
        for values in self.tally:
            digest.update(np.ascontiguousarray(values, dtype="<f8").data)
        return digest.hexdigest()

    @property
    def accuracy(self) -> float:
        return float(self.tally.correct.sum() / self.tally.total)

    @property
    def is_graded(self) -> bool:
        return False

    def __len__(self) -> int:
        return int(self.tally.total)


def _check_are_not_the_truth(answers: IntArray, target: IntArray) -> None:
    """Raise if so many answers are all right that they must be the truth itself."""
    right = (answers == target)[answers >= 0]
    if len(right) >= TOO_GOOD and right.all():
        wanted = "must be what a person answered alone, not the truth"
        hint = "pass another column; if experts are always right, leave expert_answers out"
        got = f"the truth of all {len(right)}"
        raise LabelError(message("expert_answers", wanted, got, hint))


def check_are_cases(cases: object, name: str = "cases") -> None:
    """Raise unless an argument is `Cases`."""
    if not isinstance(cases, Cases):
        hint = "make them with Cases.from_predictions or Cases.from_correctness"
        raise DataTypeError(message(name, "must be Cases", f"a {type(cases).__name__}", hint))


def counted(cases: Any) -> Any:
    """Return the cases of a table that counted them, such as a frame's; others unchanged."""
    made = getattr(cases, "__cases__", None)
    return cases if made is None else made()


def as_cases(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    *,
    clusters: ArrayLike | None = None,
) -> Cases:
    """Return the cases of a function that takes labels and probabilities, or `Cases` for both."""
    rows = {"confidence": confidence, "sample_weight": sample_weight, "labels": labels}
    rows |= {"clusters": clusters}
    y_true = counted(y_true)
    if isinstance(y_true, Cases):
        for name, value in {"y_proba": y_proba, **rows}.items():
            if value is not None:
                wanted = "must be left out where the first argument is Cases, which hold it"
                hint = f"pass {name} to Cases.from_predictions or Cases.from_correctness"
                raise ParameterError(message(name, wanted, "both", hint))
        return y_true
    if y_proba is None:
        hint = "or pass one Cases for both"
        raise ParameterError(message("y_proba", "must be given with y_true", "none", hint))
    return Cases.from_predictions(y_true, y_proba, **rows)


def top_label(target: IntArray, proba: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return whether the top label is right, and its probability; of equals, the first wins."""
    # In blocks, because columns that lie apart in memory are slow to compare row by row.
    predicted = np.concatenate([proba[rows].argmax(axis=1) for rows in blocks(len(proba))])
    return predicted == target, pick(proba, predicted)


def pick(proba: FloatArray, column: IntArray) -> FloatArray:
    """Return one value per row, from the given column of that row."""
    return np.take_along_axis(proba, column[:, None], axis=1)[:, 0]


def reaches(confidence: FloatArray, threshold: float | FloatArray) -> BoolArray:
    """Return which cases are accepted: those whose confidence is at least the threshold.

    Always compared in double precision. A threshold rounded to single precision would accept cases
    just below it.
    """
    return np.asarray(confidence.astype(np.float64, copy=False) >= threshold)

"""Cases: the correctness, confidence, weight and cluster that the curve and the metrics need."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from expertload._blocks import blocks
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from expertload._validation import (
    as_array,
    as_floats,
    check_probabilities,
    check_same_length,
    check_same_order,
    message,
    percent_hint,
)
from expertload.columns import ClassName, check_named_labels, frame_columns, number_clusters
from expertload.exceptions import (
    CorrectnessError,
    InsufficientDataError,
    LabelError,
    ProbabilityError,
    ShapeError,
    WeightError,
)

# If the largest weight is between these, weights are not changed. Otherwise sums of squares could
# overflow or underflow, so weights are rescaled: only their ratios matter.
SMALLEST, LARGEST = 2.0**-400, 2.0**400
# The smallest share of the largest weight that arithmetic can distinguish from zero.
WIDEST = 2.0**-600


class Predictions(NamedTuple):
    """Validated predictions: `proba` has one column per class, `target` is a column number."""

    target: IntArray
    proba: FloatArray
    weight: FloatArray | None


class Cases(NamedTuple):
    """The correctness, confidence and weight of each case.

    `cluster` has the number of each case's cluster, for example its patient; None if cases are
    independent. It changes intervals and tests, but neither the curve nor the area.
    """

    correct: AnyArray
    confidence: FloatArray
    weight: FloatArray | None
    cluster: IntArray | None = None

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
        return np.arange(len(self.correct)) if self.cluster is None else self.cluster

    def take(self, rows: AnyArray) -> Cases:
        """Return some of the cases; clusters keep their numbers."""
        return Cases(
            self.correct[rows],
            self.confidence[rows],
            None if self.weight is None else self.weight[rows],
            None if self.cluster is None else self.cluster[rows],
        )

    def in_clusters(self, clusters: ArrayLike | None) -> Cases:
        """Return the same cases with the cluster of each; unchanged if there are none."""
        return self._replace(cluster=number_clusters(clusters, len(self.correct)))


def check_weight(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    """Return weights as float64, or None if there are none."""
    if sample_weight is None:
        return None
    weight = as_floats(sample_weight, "sample_weight").astype(np.float64, copy=False)
    if len(weight) != n:
        raise ShapeError(
            message("sample_weight", f"must have one value per case ({n})", len(weight))
        )
    if (weight < 0).any():
        raise WeightError(
            message("sample_weight", "must not be negative", f"a smallest of {weight.min():g}")
        )
    largest = float(weight.max())
    if largest == 0:
        raise WeightError(message("sample_weight", "must not be all zero", "zeros alone"))
    smallest = float(weight.min(where=weight > 0, initial=largest))
    if smallest < largest * WIDEST:
        raise WeightError(
            message(
                "sample_weight",
                f"must be within a factor of {1 / WIDEST:.0e} of each other (zeros aside)",
                f"{smallest:g} and {largest:g}",
            )
        )
    # Dividing by a power of two is exact.
    is_usual = SMALLEST < largest < LARGEST
    return weight if is_usual else np.ldexp(weight, -math.frexp(largest)[1])


def check_whole_weight(weight: FloatArray | None) -> None:
    """Raise unless weights are counts, for metrics that depend on the number of cases."""
    if weight is not None and (weight != np.floor(weight)).any():
        raise WeightError(
            message(
                "sample_weight",
                "must hold whole numbers for convention='thresholds', which counts cases",
                f"fractions such as {weight[weight != np.floor(weight)][0]:g}",
                "use convention='exact', which takes any weights",
            )
        )


def check_correctness_cases(
    correct: ArrayLike, confidence: ArrayLike, sample_weight: ArrayLike | None
) -> Cases:
    """Validate the `_from_correctness` family's arguments."""
    check_same_order(correct=correct, confidence=confidence, sample_weight=sample_weight)
    grades = check_grades(correct)
    scores = as_floats(confidence, "confidence")
    check_same_length(correct=grades, confidence=scores)
    return Cases(grades, scores, check_weight(sample_weight, len(grades)))


def check_grades(correct: ArrayLike) -> AnyArray:
    """Return correctness as booleans if it is only right or wrong, else as grades."""
    array = as_array(correct, "correct")
    if array.dtype == np.bool_ and array.ndim == 1 and array.size:
        return array
    grades = as_floats(array, "correct")
    if grades.min() < 0 or grades.max() > 1:
        raise CorrectnessError(
            message(
                "correct",
                "must be in [0, 1]: 1 for right, 0 for wrong, or a grade between",
                f"values from {grades.min():g} to {grades.max():g}",
                percent_hint(float(grades.max())),
            )
        )
    right = grades == 1
    return right if (right | (grades == 0)).all() else grades


def check_outlier_cases(
    is_outlier: ArrayLike, outlier_score: ArrayLike, sample_weight: ArrayLike | None
) -> Cases:
    """Validate the outlier metrics' arguments: two sides, both present."""
    check_same_order(
        is_outlier=is_outlier, outlier_score=outlier_score, sample_weight=sample_weight
    )
    flags = as_floats(is_outlier, "is_outlier")
    if not np.isin(flags, (0, 1)).all():
        raise LabelError(
            message("is_outlier", "must hold only 0 and 1 (or False and True)", "others")
        )
    scores = as_floats(outlier_score, "outlier_score")
    check_same_length(is_outlier=flags, outlier_score=scores)
    weight = check_weight(sample_weight, len(flags))
    outlier = flags == 1
    if len(np.unique(outlier if weight is None else outlier[weight > 0])) < 2:
        raise InsufficientDataError(
            f"This metric compares outliers with inliers and needs at least one of each. "
            f"Got {int(outlier.sum())} outlier(s) among {len(outlier)} case(s)."
        )
    return Cases(outlier, scores, weight)


def check_cases(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    confidence: ArrayLike | None,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
) -> Cases:
    """Reduce predictions to correctness and confidence, the top probability by default."""
    return check_named_cases(y_true, y_proba, confidence, sample_weight, labels)[0]


def check_named_cases(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    confidence: ArrayLike | None,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
) -> tuple[Cases, tuple[ClassName, ...]]:
    """Reduce predictions to cases; return with them the name or number of each column."""
    rows = {"y_true": y_true, "y_proba": y_proba, "sample_weight": sample_weight}
    check_same_order(**rows, confidence=confidence)
    predictions, names = check_named_predictions(y_true, y_proba, sample_weight, labels)
    return with_confidence(predictions, confidence)[1], names


def with_confidence(predictions: Predictions, confidence: ArrayLike | None) -> tuple[Cases, Cases]:
    """Return the cases with their top probability, and with the user's confidence."""
    correct, top = top_label(predictions)
    by_probability = Cases(correct, top, predictions.weight)
    if confidence is None:
        return by_probability, by_probability
    scores = as_floats(confidence, "confidence")
    check_same_length(y_proba=predictions.proba, confidence=scores)
    return by_probability, by_probability._replace(confidence=scores)


def top_label(predictions: Predictions) -> tuple[BoolArray, FloatArray]:
    """Return whether the top label is right, and its probability; of equals, the first wins."""
    target, proba, _ = predictions
    if not proba.flags.f_contiguous:
        predicted = proba.argmax(axis=1)
        return predicted == target, pick(proba, predicted)
    correct, top = np.empty(len(proba), np.bool_), np.empty(len(proba), proba.dtype)
    for rows in blocks(len(proba)):
        correct[rows], top[rows] = _top_of_columns(proba[rows], target[rows])
    return correct, top


def _top_of_columns(proba: FloatArray, target: IntArray) -> tuple[BoolArray, FloatArray]:
    """Return the same for an array stored column by column.

    The top label is the number of columns before the first one that equals the largest.
    """
    columns = list(proba.T)
    top = columns[0].copy()
    for column in columns[1:]:
        np.maximum(top, column, out=top)
    predicted = np.zeros(len(proba), np.min_scalar_type(len(columns)))
    is_before = np.ones(len(proba), np.bool_)
    for column in columns[:-1]:
        is_before &= column < top
        predicted += is_before
    return predicted == target, top


def pick(proba: FloatArray, column: IntArray) -> FloatArray:
    """Return one value per row, from the given column of that row."""
    by_column = proba.flags.f_contiguous
    values = proba.T.ravel() if by_column else proba.ravel()
    row_step, column_step = (1, len(proba)) if by_column else (proba.shape[1], 1)
    picked = np.empty(len(proba), proba.dtype)
    for rows in blocks(len(proba)):
        place = column[rows].astype(np.int64)
        place *= column_step
        place += np.arange(rows.start * row_step, rows.stop * row_step, row_step)
        values.take(place, out=picked[rows], mode="clip")  # any other mode makes a copy first
    return picked


def check_predictions(
    y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None, labels: ArrayLike | None
) -> Predictions:
    """Validate labels and probabilities against each other."""
    return check_named_predictions(y_true, y_proba, sample_weight, labels)[0]


def check_named_predictions(
    y_true: ArrayLike, y_proba: ArrayLike, sample_weight: ArrayLike | None, labels: ArrayLike | None
) -> tuple[Predictions, tuple[ClassName, ...]]:
    """Validate labels and probabilities; return with them the name or number of each column."""
    check_same_order(y_true=y_true, y_proba=y_proba, sample_weight=sample_weight)
    proba = _one_class(check_probabilities(y_proba, "y_proba"), y_proba, labels)
    target, names = check_named_labels(y_true, y_proba, proba.shape[1], labels)
    check_same_length(y_true=target, y_proba=proba)
    return Predictions(target, proba, check_weight(sample_weight, len(target))), names


def _one_class(proba: FloatArray, y_proba: ArrayLike, labels: ArrayLike | None) -> FloatArray:
    """Return whether a single column belongs to a model with one class, or to one of two classes.

    A classifier that was fitted on one class returns a matrix with one column of ones.
    """
    shape = as_array(y_proba, "y_proba").shape
    if len(shape) != 2 or shape[1] != 1 or not (proba[:, 1] == 1).all():
        return proba
    if labels is not None and np.size(labels) == 1:
        return proba[:, 1:]
    if labels is None and frame_columns(y_proba) is None:
        raise ProbabilityError(
            message(
                "y_proba",
                "must show whether its single column of ones belongs to the only class, or to the "
                "second",
                f"shape {shape}",
                "pass labels=classes_ of the classifier, or one dimension for the second class",
            )
        )
    return proba


def reaches(confidence: FloatArray, threshold: float | FloatArray) -> BoolArray:
    """Return which cases are accepted: those whose confidence is at least the threshold.

    Always compared in double precision. A threshold rounded to single precision would accept cases
    just below it.
    """
    accepted: BoolArray = confidence.astype(np.float64, copy=False) >= threshold
    return accepted


def check_several(cases: Cases) -> None:
    """Raise unless there are two independent cases or clusters, of positive weight."""
    counted = np.ones(len(cases.correct), np.bool_) if cases.weight is None else cases.weight > 0
    what, present = "cases", int(np.count_nonzero(counted))
    if cases.cluster is not None:
        what, present = "clusters", len(np.unique(cases.cluster[counted]))
    if present < 2:
        raise InsufficientDataError(f"At least 2 {what} are needed. Got {present}.")


def check_unweighted(sample_weight: Any) -> None:
    """Raise if cases are weighted, because they must be counted."""
    if sample_weight is not None:
        raise WeightError(
            message(
                "sample_weight",
                "must be None: the tests count cases drawn one by one",
                "weights",
                "certify each group of cases separately with certify_groups, or draw cases as "
                "new ones will come",
            )
        )


def check_same_cases(
    a: Cases, b: Cases, target_a: IntArray | None, target_b: IntArray | None
) -> None:
    """Raise unless two models were evaluated on the same cases, as far as is known."""
    check_same_length(first_model=a.correct, second_model=b.correct)
    known = target_a is not None and target_b is not None
    pairs = {
        "labels": (target_a, target_b) if known else (None, None),
        "weights": (a.weight, b.weight),
        "clusters": (a.cluster, b.cluster),
    }
    for what, (of_a, of_b) in pairs.items():
        if not _are_same(of_a, of_b):
            raise ShapeError(
                f"The models must be evaluated on the same cases in the same "
                f"order. Got {what} that differ. Hint: sort both by the same identifier."
            )


def _are_same(a: AnyArray | None, b: AnyArray | None) -> bool:
    return a is b if a is None or b is None else bool((a == b).all())

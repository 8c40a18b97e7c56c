"""Turning what users pass into arrays that the mathematics can trust.

This is the only module that words input errors. Every check takes the name of the parameter and
the public function it belongs to (``caller``), so that a message reads, for instance::

    The 'target_accuracy' parameter of load_at_accuracy must be in [0, 1]. Got 97 instead.
    Hint: pass 0.97 for 97 %.

Nothing is guessed: probabilities are never told from logits by looking at them, and integer
labels are column numbers unless ``labels`` says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    EmptyInputError,
    InsufficientDataError,
    LabelError,
    MissingExtraError,
    NonFiniteError,
    NotFittedError,
    ParameterError,
    ProbabilityError,
    ShapeError,
    WeightError,
)

# Rows of probabilities may miss one by this much: enough for values printed with four digits.
ROW_SUM_TOLERANCE = 1e-3
ROW_SUM_TOLERANCE_HALF_PRECISION = 1e-2
# A label from here on is taken for an identifier, not for a class number.
MAX_CLASSES = 2**20
# More groups than this are no groups that anyone reads, but an identifier.
MAX_GROUPS = 1000


class Predictions(NamedTuple):
    """Validated predictions: `proba` always has one column a class, `target` is a column number."""

    target: IntArray
    proba: FloatArray
    weight: FloatArray | None


class Cases(NamedTuple):
    """What the COC curve needs of each case, and nothing more."""

    correct: AnyArray
    confidence: FloatArray
    weight: FloatArray | None


# --------------------------------------------------------------------------- arrays


def as_array(value: Any, name: str, caller: str) -> AnyArray:
    """Return `value` as a numpy array; lists, frames and tensors on any device are welcome."""
    if hasattr(value, "detach"):  # a torch tensor, which may carry a graph or live elsewhere
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype):  # numpy has no such type
            value = value.float()
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ShapeError(
            _message(name, caller, "must be a rectangular array", "rows of unequal length")
        ) from error


def as_floats(value: Any, name: str, caller: str, *, ndim: tuple[int, ...] = (1,)) -> FloatArray:
    """Return `value` as finite floats, in the precision it came in, float64 where it had none."""
    array = as_array(value, name, caller)
    if array.ndim not in ndim:
        wanted = " or ".join(str(n) for n in ndim)
        raise ShapeError(
            _message(name, caller, f"must have {wanted} dimension(s)", f"shape {array.shape}")
        )
    if array.size == 0:
        raise EmptyInputError(
            _message(name, caller, "must hold at least one case", f"shape {array.shape}")
        )
    array = _to_float(array, name, caller)
    if not np.isfinite(array).all():
        bad = ~np.isfinite(array)
        raise NonFiniteError(
            _message(
                name,
                caller,
                "must be finite",
                f"{int(bad.sum())} NaN or infinite value(s), the first at {_first(bad)}",
                "drop those cases, or find out why the model produced them",
            )
        )
    return array


def _to_float(array: AnyArray, name: str, caller: str) -> FloatArray:
    if array.dtype.kind == "f":
        # Half precision is storage, not arithmetic; extended precision gains nothing here.
        return array.astype(np.float32) if array.dtype == np.float16 else _native_float(array)
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            pass
    raise DataTypeError(
        _message(name, caller, "must hold real numbers", f"an array of {array.dtype}")
    )


def _native_float(array: AnyArray) -> FloatArray:
    wanted = np.float32 if array.dtype.itemsize == 4 else np.float64
    return array.astype(wanted, copy=False)


def check_same_length(caller: str, **arrays: AnyArray | None) -> None:
    """Raise unless all arrays that are given have the same number of rows."""
    lengths = {name: len(array) for name, array in arrays.items() if array is not None}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ShapeError(
            f"The arguments of {caller} must all have one row a case. Got rows {got}. "
            "Hint: check that they come from the same split, in the same order."
        )


def check_same_shape(caller: str, **arrays: AnyArray) -> None:
    """Raise unless all arrays have the same shape."""
    if len({array.shape for array in arrays.values()}) > 1:
        got = ", ".join(f"{name}: {array.shape}" for name, array in arrays.items())
        raise ShapeError(f"The models compared by {caller} must have the same shape. Got {got}.")


def check_enough_cases(weight: FloatArray | None, n: int, minimum: int, caller: str) -> None:
    """Raise if there are fewer cases (of positive weight) than a method needs."""
    present = n if weight is None else int(np.count_nonzero(weight))
    if present < minimum:
        raise InsufficientDataError(f"{caller} needs at least {minimum} cases. Got {present}.")


def check_metric_value(value: Any, caller: str) -> float:
    """Return what a user's metric returned, if it is one finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            _message("metric", caller, "must return one number", f"{type(value).__name__}")
        ) from error
    if not math.isfinite(number):
        raise NonFiniteError(
            _message(
                "metric",
                caller,
                "must return finite numbers",
                f"{number}",
                "some resamples may lack a class that the metric needs",
            )
        )
    return number


# --------------------------------------------------------------------------- cases


def check_weight(sample_weight: ArrayLike | None, n: int, caller: str) -> FloatArray | None:
    """Return weights as float64, or None where there are none."""
    if sample_weight is None:
        return None
    weight = as_floats(sample_weight, "sample_weight", caller).astype(np.float64, copy=False)
    if len(weight) != n:
        raise ShapeError(
            _message("sample_weight", caller, f"must have one value a case ({n})", len(weight))
        )
    if (weight < 0).any():
        raise WeightError(
            _message(
                "sample_weight", caller, "must not be negative", f"a smallest of {weight.min():g}"
            )
        )
    if not weight.any():
        raise WeightError(_message("sample_weight", caller, "must not be all zero", "zeros alone"))
    return weight


def check_whole_weight(weight: FloatArray | None, caller: str) -> None:
    """Raise unless weights are counts, for numbers that depend on how many cases there are."""
    if weight is not None and (weight != np.floor(weight)).any():
        raise WeightError(
            _message(
                "sample_weight",
                caller,
                "must hold whole numbers for convention='thresholds', which counts cases",
                f"fractions such as {weight[weight != np.floor(weight)][0]:g}",
                "use convention='exact', which takes any weights",
            )
        )


def check_correctness_cases(
    correct: ArrayLike,
    confidence: ArrayLike,
    sample_weight: ArrayLike | None,
    caller: str,
) -> Cases:
    """Validate the `_from_correctness` family's arguments."""
    grades = check_grades(correct, caller)
    scores = as_floats(confidence, "confidence", caller)
    check_same_length(caller, correct=grades, confidence=scores)
    return Cases(grades, scores, check_weight(sample_weight, len(grades), caller))


def check_grades(correct: ArrayLike, caller: str) -> AnyArray:
    """Return correctness as booleans where it is plainly right or wrong, else as grades."""
    array = as_array(correct, "correct", caller)
    if array.dtype == np.bool_ and array.ndim == 1 and array.size:
        return array
    grades = as_floats(array, "correct", caller)
    if grades.min() < 0 or grades.max() > 1:
        raise CorrectnessError(
            _message(
                "correct",
                caller,
                "must be in [0, 1]: 1 for right, 0 for wrong, or a grade between",
                f"values from {grades.min():g} to {grades.max():g}",
                _percent_hint(float(grades.max())),
            )
        )
    right = grades == 1
    return right if (right | (grades == 0)).all() else grades


def check_outlier_cases(
    is_outlier: ArrayLike, outlier_score: ArrayLike, sample_weight: ArrayLike | None, caller: str
) -> Cases:
    """Validate the outlier metrics' arguments: two sides, both present."""
    flags = as_floats(is_outlier, "is_outlier", caller)
    if not np.isin(flags, (0, 1)).all():
        raise LabelError(
            _message("is_outlier", caller, "must hold only 0 and 1 (or False and True)", "others")
        )
    scores = as_floats(outlier_score, "outlier_score", caller)
    check_same_length(caller, is_outlier=flags, outlier_score=scores)
    weight = check_weight(sample_weight, len(flags), caller)
    outlier = flags == 1
    if len(np.unique(outlier if weight is None else outlier[weight > 0])) < 2:
        raise InsufficientDataError(
            f"{caller} compares outliers with inliers and needs at least one of each. "
            f"Got {int(outlier.sum())} outlier(s) among {len(outlier)} case(s)."
        )
    return Cases(outlier, scores, weight)


def name_groups(groups: ArrayLike, n: int, caller: str) -> AnyArray:
    """Return the name of each case's group as a string; missing values are a group too."""
    array = as_array(groups, "groups", caller)
    if array.ndim != 1 or len(array) != n:
        raise ShapeError(
            _message("groups", caller, f"must name a group for each of {n} cases", array.shape)
        )
    names = np.array(["(missing)" if _is_missing(v) else str(v) for v in array.tolist()])
    n_groups = len(np.unique(names))
    if n_groups > MAX_GROUPS:
        raise ParameterError(
            _message(
                "groups",
                caller,
                f"must hold at most {MAX_GROUPS} distinct groups",
                f"{n_groups}",
                "is it an identifier or a measurement? Cut it into bands first",
            )
        )
    return names


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def check_same_cases(
    a: Cases, b: Cases, target_a: IntArray | None, target_b: IntArray | None, caller: str
) -> None:
    """Raise unless two models were evaluated on the same cases, as far as one can tell."""
    check_same_length(caller, first_model=a.correct, second_model=b.correct)
    differ = target_a is not None and target_b is not None and (target_a != target_b).any()
    if differ or not _same_weight(a.weight, b.weight):
        raise ShapeError(
            f"The models compared by {caller} must have seen the same cases in the same order. "
            f"Got {'labels' if differ else 'weights'} that differ. Hint: sort both by the same "
            "identifier."
        )


def _same_weight(a: FloatArray | None, b: FloatArray | None) -> bool:
    return a is b if a is None or b is None else bool((a == b).all())


def check_unit_interval(values: FloatArray, name: str, caller: str) -> None:
    """Raise unless all values are in [0, 1]."""
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        raise ProbabilityError(
            _message(
                name,
                caller,
                "must be in [0, 1]",
                f"values from {low:g} to {high:g}",
                _percent_hint(high),
            )
        )


def check_cases(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    confidence: ArrayLike | None,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    caller: str,
) -> Cases:
    """Reduce predictions to correctness and confidence, the top probability by default."""
    predictions = check_predictions(y_true, y_proba, sample_weight, labels, caller)
    return with_confidence(predictions, confidence, caller)[1]


def with_confidence(
    predictions: Predictions, confidence: ArrayLike | None, caller: str
) -> tuple[Cases, Cases]:
    """Return the cases by their top probability, and by what the user ranks them by."""
    correct, top = top_label(predictions)
    by_probability = Cases(correct, top, predictions.weight)
    if confidence is None:
        return by_probability, by_probability
    scores = as_floats(confidence, "confidence", caller)
    check_same_length(caller, y_proba=predictions.proba, confidence=scores)
    return by_probability, by_probability._replace(confidence=scores)


def top_label(predictions: Predictions) -> tuple[BoolArray, FloatArray]:
    """Whether the top label is right, and its probability; among equals the first column wins."""
    predicted = predictions.proba.argmax(axis=1)
    top = np.take_along_axis(predictions.proba, predicted[:, None], axis=1)[:, 0]
    return predicted == predictions.target, top


def check_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    caller: str,
) -> Predictions:
    """Validate labels and probabilities against each other."""
    proba = check_probabilities(y_proba, "y_proba", caller)
    target = check_labels(y_true, proba.shape[1], labels, caller)
    check_same_length(caller, y_true=target, y_proba=proba)
    return Predictions(target, proba, check_weight(sample_weight, len(target), caller))


# --------------------------------------------------------------------------- probabilities


def check_probabilities(y_proba: ArrayLike, name: str, caller: str) -> FloatArray:
    """Return probabilities with one column a class; one column stands for P(second class)."""
    half = "float16" in str(getattr(y_proba, "dtype", ""))  # bfloat16 as well
    proba = as_floats(y_proba, name, caller, ndim=(1, 2))
    low, high = float(proba.min()), float(proba.max())
    if low < 0 or high > 1:
        raise ProbabilityError(
            _message(
                name,
                caller,
                "must hold probabilities in [0, 1]",
                f"values from {low:g} to {high:g}",
                "for logits, apply a softmax first (scipy.special.softmax(logits, axis=1))"
                if low < 0 or high > 100
                else "for percentages, divide by 100; for logits, apply a softmax first",
            )
        )
    if proba.ndim == 1 or proba.shape[1] == 1:
        positive = proba.reshape(-1)
        return np.column_stack([1 - positive, positive])
    _check_row_sums(proba, name, caller, half=half)
    return proba


def _check_row_sums(proba: FloatArray, name: str, caller: str, *, half: bool) -> None:
    tolerance = ROW_SUM_TOLERANCE_HALF_PRECISION if half else ROW_SUM_TOLERANCE
    # A matrix-vector product is several times faster than a sum along short rows.
    miss = np.abs(proba @ np.ones(proba.shape[1], dtype=proba.dtype) - 1)
    worst = int(miss.argmax())
    if miss[worst] > tolerance:
        raise ProbabilityError(
            _message(
                name,
                caller,
                "must have rows that sum to one",
                f"a sum of {proba[worst].sum():g} in row {worst}",
                "for independent (sigmoid) outputs, pass one column at a time; for rounded "
                "values, divide each row by its sum",
            )
        )


def check_logits(logits: ArrayLike, caller: str) -> FloatArray:
    """Return finite logits with at least two columns."""
    values = as_floats(logits, "logits", caller, ndim=(2,))
    if values.shape[1] < 2:
        raise ShapeError(
            _message(
                "logits",
                caller,
                "must have one column a class, two at least",
                f"shape {values.shape}",
                "for one binary logit z, pass np.column_stack([np.zeros_like(z), z])",
            )
        )
    return values


def check_class_logits(logits: ArrayLike, name: str, caller: str) -> FloatArray:
    """Return logits with one column a class; one column stands for the second class's log-odds."""
    array = as_floats(logits, name, caller, ndim=(1, 2)).astype(np.float64, copy=False)
    if array.ndim == 1 or array.shape[1] == 1:
        positive = array.reshape(-1)
        return np.column_stack([np.zeros_like(positive), positive])
    return array


def check_columns(array: AnyArray, n_columns: int, name: str, caller: str) -> None:
    """Raise unless `array` has the columns that fit saw."""
    if array.shape[1] != n_columns:
        raise ShapeError(
            _message(
                name,
                caller,
                f"must have the {n_columns} columns that fit saw",
                f"{array.shape[1]} columns",
            )
        )


def check_fitted(fitted: bool, caller: str) -> None:
    """Raise unless the object that `caller` names a method of has been fitted."""
    if not fitted:
        what = caller.split(".")[0]
        raise NotFittedError(
            f"{caller} was called on a {what} that is not fitted. "
            f"Hint: call fit(inputs, y_true) on held-out cases first."
        )


def insufficient(caller: str, wanted: str, got: str, hint: str) -> InsufficientDataError:
    """Return, for the caller to raise, an error about cases that cannot answer the question."""
    return InsufficientDataError(f"{caller} needs {wanted}. Got {got} instead. Hint: {hint}.")


def unwritable(what: str, name: str, instead: str) -> ParameterError:
    """Return, for the caller to raise, an error about an option that no file can hold."""
    return ParameterError(
        f"A {what} whose '{name}' is a function cannot be written to a file. Hint: pass {instead}."
    )


# --------------------------------------------------------------------------- labels


def check_labels(
    y_true: ArrayLike, n_classes: int, labels: ArrayLike | None, caller: str
) -> IntArray:
    """Return the column number of each label."""
    y = as_array(y_true, "y_true", caller)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ShapeError(
            _message(
                "y_true",
                caller,
                "must have 1 dimension",
                f"shape {y.shape}",
                "for one-hot labels, pass y_true.argmax(axis=1)",
            )
        )
    if y.size == 0:
        raise EmptyInputError(_message("y_true", caller, "must hold at least one case", "none"))
    y = _plain_labels(y, caller)
    if labels is not None:
        return _lookup(y, _check_column_names(labels, n_classes, caller), caller)
    if y.dtype.kind in "biu":
        return _column_numbers(y, n_classes, caller)
    names = np.unique(y)
    if len(names) != n_classes:
        raise LabelError(
            f"The labels passed to {caller} cannot be matched to columns: {len(names)} distinct "
            f"names for {n_classes} columns. Hint: pass labels=[...] that names the columns in "
            "order (a scikit-learn classifier's classes_)."
        )
    return _lookup(y, names, caller)


def count_classes(y_true: ArrayLike, labels: ArrayLike | None, caller: str) -> int:
    """Return how many classes there are where no columns show it, and two at least."""
    if labels is not None:
        return max(2, as_array(labels, "labels", caller).size)
    y = _plain_labels(as_array(y_true, "y_true", caller).reshape(-1), caller)
    if y.dtype.kind not in "biu" or y.size == 0:
        return max(2, len(np.unique(y)))
    largest = int(y.max())
    if largest >= MAX_CLASSES:
        raise LabelError(
            f"Integer labels passed to {caller} are class numbers from 0 on. Got {largest}. "
            "Hint: pass labels=[...] that names the classes in order."
        )
    return max(2, largest + 1)


def _plain_labels(y: AnyArray, caller: str) -> AnyArray:
    """Labels as integers or strings; floats pass if they are whole, as frames often make them."""
    if y.dtype.kind == "O":
        if all(isinstance(v, str) for v in y):
            return y.astype(np.str_)
        if all(isinstance(v, Integral | np.bool_) for v in y):
            return y.astype(np.int64)
        y = _labels_to_float(y, caller)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise LabelError(
                _message("y_true", caller, "must name a class for each case", "NaN or infinity")
            )
        if (y != np.floor(y)).any():
            raise LabelError(
                _message(
                    "y_true",
                    caller,
                    "must hold class labels",
                    f"fractions such as {y[y != np.floor(y)][0]:g}",
                    "were y_true and y_proba exchanged?",
                )
            )
        return y.astype(np.int64)
    if y.dtype.kind not in "biuUT":
        raise LabelError(
            _message("y_true", caller, "must hold integers or strings", f"an array of {y.dtype}")
        )
    return y


def _labels_to_float(y: AnyArray, caller: str) -> FloatArray:
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise LabelError(
            _message(
                "y_true",
                caller,
                "must hold only integers or only strings",
                "a mixture, or missing values",
                "drop the cases without a label",
            )
        ) from error


def _column_numbers(y: AnyArray, n_classes: int, caller: str) -> IntArray:
    if y.min() < 0 or y.max() >= n_classes:
        raise LabelError(
            f"Integer labels passed to {caller} are column numbers from 0 to {n_classes - 1}. Got "
            f"labels from {y.min()} to {y.max()}. Hint: pass labels=[...] that names the columns "
            "in order (a scikit-learn classifier's classes_)."
        )
    return y.astype(np.int64, copy=False)


def _check_column_names(labels: ArrayLike, n_classes: int, caller: str) -> AnyArray:
    names = as_array(labels, "labels", caller)
    if names.ndim != 1 or len(names) != n_classes:
        raise LabelError(
            _message("labels", caller, f"must name the {n_classes} columns", f"shape {names.shape}")
        )
    names = _plain_labels(names, caller)
    if len(np.unique(names)) != n_classes:
        raise LabelError(_message("labels", caller, "must be distinct", "repeated names"))
    return names


def _lookup(y: AnyArray, names: AnyArray, caller: str) -> IntArray:
    """Column numbers of `y` among `names`, which need not be sorted."""
    if (y.dtype.kind in "UT") != (names.dtype.kind in "UT"):
        raise LabelError(
            f"The 'labels' and 'y_true' of {caller} must be of one kind. Got {names.dtype} and "
            f"{y.dtype}. Hint: pass both as strings or both as integers."
        )
    order = np.argsort(names)
    position = np.minimum(np.searchsorted(names, y, sorter=order), len(names) - 1)
    columns = order[position]
    unknown = names[columns] != y
    if unknown.any():
        raise LabelError(
            f"A label passed to {caller} names no column: {y[unknown][0]!s} (in "
            f"{int(unknown.sum())} case(s)). Hint: labels=[...] must name every column in order."
        )
    return columns.astype(np.int64, copy=False)


# --------------------------------------------------------------------------- options


def check_fraction(value: Any, name: str, caller: str, *, inclusive: bool = True) -> float:
    """Return `value` as a float in [0, 1], or in (0, 1) where the ends make no sense."""
    number = _real(value, name, caller)
    inside = 0 <= number <= 1 if inclusive else 0 < number < 1
    if not inside:
        wanted = "must be in [0, 1]" if inclusive else "must be in (0, 1)"
        raise ParameterError(_message(name, caller, wanted, f"{value}", _percent_hint(number)))
    return number


def check_targets(value: Any, caller: str) -> tuple[float, ...]:
    """Return one target accuracy or several as a tuple."""
    several = list(value) if isinstance(value, Sequence | np.ndarray) else [value]
    if not several or isinstance(value, str):
        raise ParameterError(
            _message("target_accuracy", caller, "must be a number or some numbers", f"{value!r}")
        )
    return tuple(check_fraction(each, "target_accuracy", caller) for each in several)


def check_positive(value: Any, name: str, caller: str, *, zero: bool = False) -> float:
    """Return `value` as a finite float above zero (or from zero on)."""
    number = _real(value, name, caller)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        wanted = "must be zero or more" if zero else "must be positive"
        raise ParameterError(_message(name, caller, f"{wanted} and finite", f"{value}"))
    return number


def check_threshold(value: Any, caller: str) -> float:
    """Return a threshold: any number but NaN."""
    number = _real(value, "threshold", caller)
    if math.isnan(number):
        raise ParameterError(_message("threshold", caller, "must be a number", "NaN"))
    return number


def check_one_criterion(
    caller: str,
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
            f"{caller} takes one criterion: target_accuracy, load_budget, or error_cost with "
            f"review_cost. Got {given or 'none'}. Hint: target_accuracy=0.95, for instance."
        )
    if costs and (error_cost is None or review_cost is None):
        raise ParameterError(
            f"{caller} weighs errors against reviews and needs both prices. Got only "
            f"{'review_cost' if error_cost is None else 'error_cost'}."
        )


def check_certification(
    target_accuracy: Any, confidence_level: Any, method: Any, risk: Any, caller: str
) -> tuple[float, float]:
    """Return target and level, if they can be certified by this method."""
    check_option(method, ("fixed_sequence", "bonferroni", "sgr"), "method", caller)
    check_option(risk, ("selective", "joint"), "risk", caller)
    if risk == "joint" and method != "fixed_sequence":
        hint = "joint risk only grows down the ladder, so no other method can do better"
        wanted = "must be 'fixed_sequence' for risk='joint'"
        raise ParameterError(_message("method", caller, wanted, repr(method), hint))
    if target_accuracy == 1:
        raise ParameterError(
            _message(
                "target_accuracy",
                caller,
                "must be in (0, 1): no number of cases shows that there is never an error",
                target_accuracy,
                "0.99 needs 299 cases without an error at a confidence level of 0.95",
            )
        )
    target = check_fraction(target_accuracy, "target_accuracy", caller, inclusive=False)
    return target, check_fraction(confidence_level, "confidence_level", caller, inclusive=False)


def check_ladder_source(
    thresholds: ArrayLike | None, ladder_scores: ArrayLike | None, method: str, caller: str
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return given thresholds or scores as float64; at most one of them may be given."""
    if thresholds is not None and ladder_scores is not None:
        raise ParameterError(f"{caller} takes thresholds or ladder_scores, not both.")
    if method == "sgr" and (thresholds is not None or ladder_scores is not None):
        raise ParameterError(
            f"{caller} with method='sgr' searches the thresholds itself. Got "
            f"{'thresholds' if thresholds is not None else 'ladder_scores'}. "
            "Hint: method='fixed_sequence' takes them."
        )
    fixed = None if thresholds is None else as_floats(thresholds, "thresholds", caller)
    scores = None if ladder_scores is None else as_floats(ladder_scores, "ladder_scores", caller)
    return (
        None if fixed is None else fixed.astype(np.float64),
        None if scores is None else scores.astype(np.float64),
    )


def check_unweighted(sample_weight: Any, caller: str) -> None:
    """Raise if cases are weighted where they must be counted."""
    if sample_weight is not None:
        raise WeightError(
            _message(
                "sample_weight",
                caller,
                "must be None: the tests count cases drawn one by one",
                "weights",
                "certify each group of cases apart with certify_groups, or draw cases as they will "
                "come",
            )
        )


def check_groups(groups: ArrayLike, caller: str) -> AnyArray:
    """Return the group of each case, as integers or strings."""
    values = as_array(groups, "groups", caller)
    if values.ndim != 1:
        raise ShapeError(
            _message("groups", caller, "must have one name a case", f"shape {values.shape}")
        )
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(np.str_)
    if values.dtype.kind == "O" and all(isinstance(value, Integral) for value in values):
        values = values.astype(np.int64)
    if values.dtype.kind not in "biuUT":
        raise DataTypeError(
            _message(
                "groups",
                caller,
                "must hold only integers or only strings",
                f"an array of {values.dtype}",
                "give cases without a group a name of their own, such as 'unknown'",
            )
        )
    return values


def check_confidence_matches(needed: bool, given: bool, caller: str) -> None:
    """Raise unless decisions rank cases by what the threshold is a threshold of."""
    if needed and not given:
        raise ParameterError(
            f"This operating point is a threshold of a confidence of your own, so {caller} needs "
            "the 'confidence' of the new cases. Got none. Hint: pass confidence=..., or use "
            "accepts(confidence)."
        )
    if given and not needed:
        raise ParameterError(
            f"This operating point is a threshold of the largest probability, so {caller} takes "
            "no other 'confidence'. Hint: leave it out, or make the point with confidence=..."
        )


def check_width(proba: FloatArray, n_classes: int, caller: str) -> None:
    """Raise unless probabilities have the columns an operating point was made with."""
    if proba.shape[1] != n_classes:
        raise ShapeError(
            _message(
                "y_proba", caller, f"must have {n_classes} columns", f"{proba.shape[1]} columns"
            )
        )


def check_delegate_label(label: Any, classes: AnyArray, caller: str) -> Any:
    """Return what stands for delegated cases: no class, and of the same kind as the classes."""
    named = classes.dtype.kind in "OUT" and all(isinstance(each, str) for each in classes)
    if isinstance(label, str) and label == "auto":
        label = "delegate" if named else -1
    if classes.dtype.kind != "O" and isinstance(label, str) != named:
        wanted = "must be a string" if named else "must be a number, as the classes are"
        raise ParameterError(_message("delegate_label", caller, wanted, f"{label!r}"))
    if (classes == label).any():
        raise ParameterError(
            _message(
                "delegate_label",
                caller,
                "must not be one of the classes",
                f"{label!r}",
                "pass delegate_label=... that no case can have",
            )
        )
    return label


def check_calibrated(is_calibrated: bool, caller: str) -> None:
    """Raise unless a fitted classifier has a threshold."""
    if not is_calibrated:
        raise NotFittedError(
            f"This {caller} is fitted but not calibrated. Hint: call calibrate(X, y) with cases "
            "the model was not fitted on, or pass calibration_size=0.25 before fit."
        )


def check_count(value: Any, name: str, caller: str, *, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ParameterError(
            _message(name, caller, f"must be a whole number of at least {minimum}", f"{value!r}")
        )
    return int(value)


def check_option(value: Any, options: Sequence[str], name: str, caller: str) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        wanted = "must be one of " + ", ".join(repr(option) for option in options)
        raise ParameterError(_message(name, caller, wanted, f"{value!r}"))
    return value


def check_known_options(
    options: Iterable[str], known: Iterable[str], what: str, caller: str
) -> None:
    """Raise unless every name among `options` is one that `what` knows."""
    names = [name for name in known if name != "self"]
    for option in options:
        if option not in names:
            raise ParameterError(
                f"{caller} cannot pass the option '{option}' to '{what}'. "
                f"Hint: its options are {', '.join(names) or 'none'}."
            )


def check_unused(caller: str, what: str, **options: Any) -> None:
    """Raise if an option is given that `what` has no use for."""
    for name, value in options.items():
        if value is not None:
            raise ParameterError(
                f"The '{name}' parameter of {caller} is for a 'primary+secondary' pair. Got it "
                f"together with {what!r}, a loss that stands alone. Hint: leave it out."
            )


def check_scalar_loss(ndim: int, name: str, caller: str) -> None:
    """Raise if a loss returned one value a case."""
    if ndim:
        raise ShapeError(
            _message(
                name,
                caller,
                "must return a scalar",
                f"a tensor of {ndim} dimension(s)",
                'build it with reduction="mean"',
            )
        )


def _real(value: Any, name: str, caller: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real | np.number):
        raise ParameterError(_message(name, caller, "must be a number", f"{value!r}"))
    return float(value)


def random_generator(seed: Any, caller: str) -> np.random.Generator:
    """Return a generator from None, an int or a generator."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            _message("random_state", caller, "must be None, an int or a Generator", f"{seed!r}")
        ) from error


def check_classifier(estimator: Any, attribute: str, caller: str) -> None:
    """Raise unless a classifier has what displays read from it."""
    if not hasattr(estimator, attribute):
        raise ParameterError(
            _message(
                "estimator",
                caller,
                "must be a fitted classifier with 'predict_proba' and 'classes_'",
                f"a {type(estimator).__name__} without '{attribute}'",
                "pass the probabilities themselves to from_predictions",
            )
        )


def check_models(models: Any, caller: str) -> dict[str, Any]:
    """Return a mapping from names to models, of which there must be some."""
    if not isinstance(models, Mapping) or not models:
        raise ParameterError(
            _message(
                "models",
                caller,
                "must map at least one name to a model",
                "nothing" if isinstance(models, Mapping) else f"a {type(models).__name__}",
                'pass {"name": model, ...}',
            )
        )
    return {str(name): model for name, model in models.items()}


def check_evaluations(models: Any, kind: type, caller: str) -> dict[str, Any]:
    """Return evaluations by name; one without a name is simply the model."""
    named = check_models({"Model": models} if isinstance(models, kind) else models, caller)
    for name, model in named.items():
        if not isinstance(model, kind):
            raise ParameterError(
                _message(
                    "models",
                    caller,
                    f"must map names to {kind.__name__} objects",
                    f"a {type(model).__name__} for '{name}'",
                    "pass what evaluate_predictions returns",
                )
            )
    return named


def check_axes(ax: Any, caller: str, *, most: int) -> list[Any]:
    """Return one axes or a sequence of at most `most` as a list."""
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if not 1 <= len(given) <= most or not all(hasattr(each, "get_figure") for each in given):
        wanted = "must be matplotlib axes" if most == 1 else "must be one or two matplotlib axes"
        raise ParameterError(_message("ax", caller, wanted, f"{ax!r}"))
    return given


def check_curve_points(expert_load: FloatArray, accuracy: FloatArray, caller: str) -> None:
    """Raise unless loads and accuracies can be those of a curve, as `coc_curve` returns them."""
    check_same_length(caller, expert_load=expert_load, accuracy=accuracy)
    check_unit_interval(accuracy, "accuracy", caller)
    ascending = expert_load[0] == 0 and (np.diff(expert_load) > 0).all() and expert_load[-1] < 1
    if not ascending:
        raise ParameterError(
            _message(
                "expert_load",
                caller,
                "must rise from 0 and stay below 1",
                f"values from {expert_load[0]:g} to {expert_load[-1]:g}",
                "pass what coc_curve returns",
            )
        )


def check_roc_points(false: FloatArray, true: FloatArray, caller: str) -> None:
    """Raise unless two rates can be those of an ROC curve."""
    check_same_length(caller, false_positive_rate=false, true_positive_rate=true)
    for name, rate in (("false_positive_rate", false), ("true_positive_rate", true)):
        if rate[0] != 0 or rate[-1] != 1 or (np.diff(rate) < 0).any():
            got = f"values from {rate[0]:g} to {rate[-1]:g}"
            raise ParameterError(_message(name, caller, "must ascend from 0 to 1", got))


def require_extra(module: str, extra: str, what: str) -> Any:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs {module.split('.')[0]}, which is not installed. "
            f"Hint: pip install 'expertload[{extra}]'"
        ) from error


# --------------------------------------------------------------------------- images


def check_images(images: AnyArray, labels: AnyArray, caller: str) -> None:
    """Raise unless `images` are whole bytes (n, height, width, channels) with a label each."""
    if images.dtype != np.uint8 or images.ndim != 4:
        raise ShapeError(
            _message(
                "images",
                caller,
                "must be uint8 of shape (n, height, width, channels)",
                f"{images.dtype} of shape {images.shape}",
                "grey images need a last axis of one: images[..., None]",
            )
        )
    if labels.dtype != np.int64 or labels.ndim != 1:
        raise ShapeError(
            _message(
                "labels",
                caller,
                "must be int64 with 1 dimension",
                f"{labels.dtype} of shape {labels.shape}",
            )
        )
    check_same_length(caller, images=images, labels=labels)


# --------------------------------------------------------------------------- tensors


def check_logits_layout(
    logits: tuple[tuple[int, ...], str],
    target: tuple[tuple[int, ...], str],
    caller: str,
) -> None:
    """Raise unless logits (N, C, d1, ...) and target (N, d1, ...), as (shape, dtype), agree."""
    (shape, dtype), (target_shape, target_dtype) = logits, target
    if "float" not in dtype:
        raise DataTypeError(
            _message("logits", caller, "must be a floating point tensor", f"a tensor of {dtype}")
        )
    if len(shape) < 2 or shape[1] == 0:
        wanted = "must have shape (N, C) or (N, C, d1, ...) with at least one class"
        raise ShapeError(_message("logits", caller, wanted, f"shape {shape}"))
    if "int" not in target_dtype:
        hint = "for one-hot or soft labels, pass target.argmax(dim=1); for class numbers, .long()"
        raise DataTypeError(
            _message("target", caller, "must hold class numbers", f"a {target_dtype} tensor", hint)
        )
    if target_shape != shape[:1] + shape[2:]:
        wanted = f"must have shape {shape[:1] + shape[2:]} for logits of shape {shape}"
        hint = "one class number a position; classes are the second axis of logits"
        raise ShapeError(_message("target", caller, wanted, f"shape {target_shape}", hint))


def check_minimum(value: Any, minimum: float, name: str, caller: str, hint: str) -> float:
    """Return `value` as a finite float of at least `minimum`."""
    number = _real(value, name, caller)
    if not minimum <= number < math.inf:
        wanted = f"must be finite and at least {minimum:g}"
        raise ParameterError(_message(name, caller, wanted, f"{value}", hint))
    return number


def incompatible_options_error(options: str, caller: str, why: str) -> ParameterError:
    """Word the error for options that exclude each other."""
    return ParameterError(f"The options {options} of {caller} exclude each other: {why}.")


def check_update_layout(
    shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str], caller: str
) -> None:
    """Raise unless `preds`, `target` and, where given, `valid` and `indices` fit together."""
    if "float" not in dtypes["preds"]:
        hint = "pass probabilities, not predicted classes"
        raise DataTypeError(
            _message("preds", caller, "must hold probabilities", f"{dtypes['preds']} values", hint)
        )
    if len(shapes["preds"]) not in (1, 2):
        wanted = "must have shape (n, classes), or (n,) for the probability of class 1"
        hint = "for a dense task, pass preds.movedim(1, -1).flatten(0, -2) and target.flatten()"
        raise ShapeError(_message("preds", caller, wanted, f"shape {shapes['preds']}", hint))
    kinds = {"target": ("int", "bool"), "valid": ("bool",), "indices": ("int",)}
    for name, allowed in kinds.items():
        if name in shapes and shapes[name] != shapes["preds"][:1]:
            rows = f"must have shape {shapes['preds'][:1]}, one value a row of preds"
            raise ShapeError(_message(name, caller, rows, f"shape {shapes[name]}"))
        if name in shapes and not any(kind in dtypes[name] for kind in allowed):
            kind = "booleans" if allowed == ("bool",) else "whole numbers"
            raise DataTypeError(
                _message(name, caller, f"must hold {kind}", f"{dtypes[name]} values")
            )


def check_indices_usable(caller: str, *, binned: bool) -> None:
    """Raise if sample indices are given to a metric that keeps no samples."""
    if binned:
        raise ParameterError(
            f"The 'indices' parameter of {caller} needs the exact form: with bins, samples are "
            "counted and forgotten, so repeats cannot be found. Hint: mark the padding of a "
            "distributed sampler with valid=..., see expertload.torch_metrics.not_padding."
        )


def check_all_or_none_indexed(n_indices: int, n_cases: int, caller: str) -> None:
    """Raise if only some of the updates came with sample indices."""
    if n_indices not in (0, n_cases):
        raise ParameterError(
            _message(
                "indices",
                caller,
                "must be given in every update or in none",
                f"{n_indices} indices for {n_cases} cases",
            )
        )


def label_range_error(low: int, high: int, n_classes: int, caller: str) -> LabelError:
    """Word the error for class numbers that no column of the logits stands for."""
    wanted = f"must hold class numbers from 0 to {n_classes - 1}"
    hint = "pass ignore_index=... for the number that marks positions without a label"
    return LabelError(_message("target", caller, wanted, f"numbers from {low} to {high}", hint))


def non_finite_logits_error(caller: str) -> NonFiniteError:
    """Word the error for logits that are NaN or infinite."""
    hint = "lower the learning rate, clip gradients, or look for a division by zero in the model"
    return NonFiniteError(_message("logits", caller, "must be finite", "NaN or infinity", hint))


# --------------------------------------------------------------------------- wording


def _message(name: str, caller: str, wanted: str, got: object, hint: str | None = None) -> str:
    text = f"The '{name}' parameter of {caller} {wanted}. Got {got} instead."
    return f"{text} Hint: {hint}." if hint else text


def _percent_hint(number: float) -> str | None:
    if 1 < number <= 100:
        return f"pass {number / 100:g} for {number:g} %"
    return None


def _first(mask: BoolArray) -> str:
    position = np.unravel_index(int(mask.argmax()), mask.shape)
    return "row " + ", column ".join(str(int(i)) for i in position)

"""The answers of a fitted classifier, its confidence, and whether it is right.

All code that takes a scikit-learn classifier uses this module. Answers are compared with labels by
name, through the classifier's ``classes_``. So columns keep their meaning if a fold lacks a class,
or if a classifier was fitted without it. A class that the classifier never saw counts as an error
of the classifier.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import chain, count
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from expertload._check import as_array, as_floats, check_same_length, check_same_order, message
from expertload._labels import is_missing
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases, pick
from expertload.exceptions import LabelError, ParameterError, ShapeError


class Answers(NamedTuple):
    """The most probable class of each case, and its probability."""

    labels: AnyArray
    confidence: FloatArray


def answers_of(estimator: Any, X: Any) -> Answers:
    """Return a fitted classifier's answers, also with one class; of equals, the first wins."""
    check_classifier(estimator, "predict_proba")
    proba = as_floats(estimator.predict_proba(X), "predict_proba", ndim=(2,))
    # Only now: for an unfitted estimator, the call above raises a better error.
    check_classifier(estimator, "classes_")
    names = as_array(estimator.classes_, "classes_")
    if names.ndim != 1 or proba.shape[1] != len(names):
        wanted = "must return one column of probabilities for each of its classes"
        got = f"{proba.shape[1]} column(s) for classes of shape {names.shape}"
        raise ShapeError(message("estimator", wanted, got))
    column = proba.argmax(axis=1)
    return Answers(names[column], pick(proba, column))


def cases_of(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Cases:
    """Return the cases of a fitted classifier; its top probability ranks them by default."""
    check_same_order(X=X, y=y, confidence=confidence, sample_weight=sample_weight)
    answers = answers_of(estimator, X)
    scores = answers.confidence if confidence is None else confidence
    right = right_answers(answers.labels, y)
    return Cases.from_correctness(right, scores, sample_weight=sample_weight)


def right_answers(labels: AnyArray, y_true: ArrayLike) -> BoolArray:
    """Return which answers are the true class; numbers and strings cannot be compared."""
    truth = as_array(y_true, "y")
    truth = truth[:, 0] if truth.ndim == 2 and truth.shape[1] == 1 else truth
    if truth.ndim != 1:
        raise ShapeError(message("y", "must name one class for each case", f"shape {truth.shape}"))
    check_same_length(X=labels, y=truth)
    _check_named(truth)
    if _are_strings(truth) != _are_strings(labels):
        wanted = f"must hold {_kind(labels)}, as the classes of the estimator do"
        raise LabelError(message("y", wanted, f"{_kind(truth)}, such as {truth[0]!r}"))
    return np.asarray(labels == truth, dtype=np.bool_)


def selectable(values: Any) -> Any:
    """Return values in a form that scikit-learn selects rows of, which not all of pandas' have.

    Bare arrays and indexes of pandas become series, and numpy's strings of any length objects.
    """
    if getattr(values, "dtype", None) == np.dtypes.StringDType():
        return values.astype(object)
    is_pandas = type(values).__module__.partition(".")[0] == "pandas"
    is_bare = is_pandas and not hasattr(values, "iloc")
    return importlib.import_module("pandas").Series(values) if is_bare else values


def _check_named(truth: AnyArray) -> None:
    """Raise if a case has no label; only NaN differs from itself."""
    if truth.dtype.kind not in ("f", "O"):
        return
    missing = np.array([is_missing(value) for value in truth.tolist()], np.bool_)
    if missing.any():
        wanted = "must name a class for each case"
        got = f"{int(missing.sum())} missing value(s), the first in row {int(missing.argmax())}"
        raise LabelError(message("y", wanted, got, "remove the cases without a label"))


def _are_strings(labels: AnyArray) -> bool:
    if labels.dtype.kind == "O":
        return any(isinstance(value, str) for value in labels.tolist())
    return labels.dtype.kind in "UST"


def _kind(labels: AnyArray) -> str:
    return "strings" if _are_strings(labels) else "numbers"


# ------------------------------------------------------------------ options of a classifier


def check_delegate_label(label: Any, classes: AnyArray) -> Any:
    """Return the label of delegated cases: not a class, but of the same type."""
    named = classes.dtype.kind in "OUT" and all(isinstance(name, str) for name in classes)
    if isinstance(label, str) and label == "auto":
        return _free_label(classes, named)
    if classes.dtype.kind != "O" and isinstance(label, str) != named:
        wanted = "must be a string" if named else "must be a number, as the classes are"
        raise ParameterError(message("delegate_label", wanted, f"{label!r}"))
    if (classes == label).any():
        hint = "pass delegate_label=... that no case can have"
        wanted = "must not be one of the classes"
        raise ParameterError(message("delegate_label", wanted, f"{label!r}", hint))
    return label


def _free_label(classes: AnyArray, named: bool) -> str | int:
    """Return "delegate" or -1, or the next free label of that kind."""
    taken = set(classes.tolist())
    choices: Iterator[str | int] = count(-1, -1)
    if named:
        choices = chain(["delegate"], (f"delegate_{i}" for i in count(2)))
    return next(label for label in choices if label not in taken)


def check_calibration_size(size: Any) -> None:
    """Raise unless this is "auto", None, a share of the cases or a number of them."""
    if size is None or (isinstance(size, str) and size == "auto"):
        return
    is_number = isinstance(size, Real) and not isinstance(size, bool | np.bool_)
    number = float(size) if is_number else 0.0
    if not (number >= 1 if isinstance(size, Integral) else 0 < number < 1):
        wanted = "must be 'auto', a share between 0 and 1, a number of cases, or None"
        raise ParameterError(message("calibration_size", wanted, repr(size)))


def check_classifier(estimator: Any, attribute: str) -> None:
    """Raise unless a classifier has the attributes that are needed."""
    if not hasattr(estimator, attribute):
        has_scores = attribute == "predict_proba" and hasattr(estimator, "decision_function")
        wanted = "must be a fitted classifier with 'predict_proba' and 'classes_'"
        got = f"a {type(estimator).__name__} without '{attribute}'"
        hint = (
            "wrap it in sklearn.calibration.CalibratedClassifierCV, which gives probabilities"
            if has_scores
            else "functions that take y_proba need no estimator, only its probabilities"
        )
        raise ParameterError(message("estimator", wanted, got, hint))

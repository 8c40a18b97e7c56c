"""Labels and the columns they stand for."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from expertload._typing import AnyArray, ArrayLike, FloatArray, IntArray
from expertload._validation.arrays import as_array
from expertload._validation.named_columns import Named, match_frame
from expertload._validation.wording import message
from expertload.exceptions import (
    DataTypeError,
    EmptyInputError,
    LabelError,
    ParameterError,
    ShapeError,
)

# A label from here on is taken for an identifier, not for a class number.
MAX_CLASSES = 2**20


# More groups than this are no groups that anyone reads, but an identifier.
MAX_GROUPS = 1000


def check_labels(
    y_true: ArrayLike, n_classes: int, labels: ArrayLike | None, caller: str
) -> IntArray:
    """Return the column number of each label, where columns have no names of their own."""
    return check_named_labels(y_true, None, n_classes, labels, caller)[0]


def check_named_labels(
    y_true: ArrayLike, y_proba: Any, n_classes: int, labels: ArrayLike | None, caller: str
) -> Named:
    """Return the column number of each label, and the name or the number of each column."""
    y = as_array(y_true, "y_true", caller)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ShapeError(
            message(
                "y_true",
                caller,
                "must have 1 dimension",
                f"shape {y.shape}",
                "for one-hot labels, pass y_true.argmax(axis=1)",
            )
        )
    if y.size == 0:
        raise EmptyInputError(message("y_true", caller, "must hold at least one case", "none"))
    y = _plain_labels(y, caller)
    if labels is not None:
        names = _check_column_names(labels, n_classes, caller)
        return _lookup(y, names, caller), tuple(names.tolist())
    named = match_frame(y, y_proba, caller)
    if named is not None:
        return named
    if y.dtype.kind in "biu":
        return _column_numbers(y, n_classes, caller), tuple(range(n_classes))
    names = np.unique(y)
    if len(names) != n_classes:
        raise LabelError(
            f"The labels passed to {caller} cannot be matched to columns: {len(names)} distinct "
            f"names for {n_classes} columns. Hint: pass labels=[...] that names the columns in "
            "order (a scikit-learn classifier's classes_)."
        )
    return _lookup(y, names, caller), tuple(names.tolist())


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
                message("y_true", caller, "must name a class for each case", "NaN or infinity")
            )
        if (y != np.floor(y)).any():
            raise LabelError(
                message(
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
            message("y_true", caller, "must hold integers or strings", f"an array of {y.dtype}")
        )
    return y


def _labels_to_float(y: AnyArray, caller: str) -> FloatArray:
    try:
        return y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise LabelError(
            message(
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
            message("labels", caller, f"must name the {n_classes} columns", f"shape {names.shape}")
        )
    names = _plain_labels(names, caller)
    if len(np.unique(names)) != n_classes:
        raise LabelError(message("labels", caller, "must be distinct", "repeated names"))
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


def check_groups(groups: ArrayLike, caller: str) -> AnyArray:
    """Return the group of each case, as integers or strings."""
    values = as_array(groups, "groups", caller)
    if values.ndim != 1:
        raise ShapeError(
            message("groups", caller, "must have one name a case", f"shape {values.shape}")
        )
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(np.str_)
    if values.dtype.kind == "O" and all(isinstance(value, Integral) for value in values):
        values = values.astype(np.int64)
    if values.dtype.kind not in "biuUT":
        raise DataTypeError(
            message(
                "groups",
                caller,
                "must hold only integers or only strings",
                f"an array of {values.dtype}",
                "give cases without a group a name of their own, such as 'unknown'",
            )
        )
    return values


def name_groups(groups: ArrayLike, n: int, caller: str) -> AnyArray:
    """Return the name of each case's group as a string; missing values are a group too."""
    array = as_array(groups, "groups", caller)
    if array.ndim != 1 or len(array) != n:
        raise ShapeError(
            message("groups", caller, f"must name a group for each of {n} cases", array.shape)
        )
    names = np.array(["(missing)" if _is_missing(v) else str(v) for v in array.tolist()])
    n_groups = len(np.unique(names))
    if n_groups > MAX_GROUPS:
        raise ParameterError(
            message(
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

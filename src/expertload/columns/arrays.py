"""Labels of arrays, and of frames of pandas and Polars.

Frames are recognised by their attribute `columns`, so neither library is imported. Default column
names, which only number the columns, do not count as names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from expertload._typing import AnyArray, ArrayLike, IntArray
from expertload._validation import SKIPPED, UNROUNDED, as_array, message, rounded_whole
from expertload.columns.matching import (
    Matched,
    Wording,
    check_places,
    match_by_name,
    match_by_order,
    match_lone,
)
from expertload.columns.spelling import (
    ClassName,
    listed,
    truth_number,
    whole_number,
    without_prefix,
)
from expertload.exceptions import EmptyInputError, LabelError, ShapeError

__all__ = [
    "check_labels",
    "check_named_labels",
    "check_names",
    "count_classes",
    "frame_names",
    "in_kind_of",
    "is_numbering",
    "label_array",
    "numberings",
    "said_of",
    "sort_probabilities",
]

Named = tuple[IntArray, tuple[ClassName, ...]]

# An integer label this large is assumed to be an identifier, not a class number.
MAX_CLASSES = 2**20
# Labels that span no more than this are counted, which is faster than to sort them.
COUNTED = 2**16


def said_of() -> Wording:
    """Return the wording of messages to whoever called a function."""
    return Wording(
        "passed",
        "passed",
        "pass labels=[...] that names the columns in order (a scikit-learn classifier's classes_)",
    )


# ------------------------------------------------------------------ labels


def check_named_labels(
    y_true: ArrayLike, y_proba: Any, n_classes: int, labels: ArrayLike | None
) -> Named:
    """Return the column number of each label, and the name or number of each column.

    A single column named after the first class is converted to the second class.
    """
    return check_labels(y_true, frame_columns(y_proba), n_classes, labels)


def check_labels(
    y_true: ArrayLike, columns: Sequence[str] | None, n_classes: int, labels: ArrayLike | None
) -> Named:
    """Return the same for columns of these names; None if they have none."""
    y, said = label_array(y_true, "y_true"), said_of()
    if labels is not None:
        names = check_names(labels, n_classes)
        values, rows = _distinct(y)
        found = match_by_name(values, [str(name) for name in names], said)
        return _places(values, found)[rows], names
    if columns is None and y.dtype.kind in "biu":
        if y.dtype.kind != "b":  # False and True are both known, even if only one occurs
            check_places(int(y.min()), int(y.max()), n_classes, said)
        return y.astype(np.int64, copy=False), tuple(range(n_classes))
    values, rows = _distinct(y)
    if columns is None:
        _check_categories(y_true, said)
        found = match_by_order(values, n_classes, said)
    elif len(columns) == 1:
        found = _second(match_lone(values, columns[0], without_prefix(columns[0]), said))
    else:
        found = match_by_name(values, columns, said)
    return _places(values, found)[rows], in_kind_of(y, found.classes)


def _check_categories(y_true: Any, said: Wording) -> None:
    """Raise for categories that have an order other than the sorted one: columns may have it too.

    Those without an order (`ordered` in pandas; in Polars, an Enum has one) are as others are.
    """
    kind = getattr(y_true, "dtype", None)
    if not getattr(kind, "ordered", type(kind).__name__ == "Enum"):
        return
    order = list(getattr(kind, "categories", ()))
    if all(isinstance(each, str) for each in order) and order != sorted(order):
        raise LabelError(
            f"The labels {said.labels} are categories in the order {listed(order)}, which is not "
            f"the sorted one: the columns may be in either. Hint: {said.remedy}."
        )


def _places(values: list[str], found: Matched) -> IntArray:
    return np.array([found.place[value] for value in values], dtype=np.int64)


def _second(found: Matched) -> Matched:
    """Exchange the classes if the single column belongs to the first one."""
    if found.lone != 0:
        return found
    return Matched(found.classes[::-1], {label: 1 - i for label, i in found.place.items()}, 1)


def _distinct(y: AnyArray) -> tuple[list[str], IntArray]:
    """Return the distinct labels as text, and for each case the index of its label."""
    if y.dtype.kind in "iu" and int(y.max()) - int(y.min()) < COUNTED:
        low = int(y.min())
        wide = y if y.dtype.kind == "u" else y.astype(np.int64)  # differences fit in here
        shifted = (wide - y.dtype.type(low)).astype(np.int64)
        present = np.bincount(shifted) > 0
        values = [str(low + i) for i in np.flatnonzero(present).tolist()]
        return values, (np.cumsum(present) - 1)[shifted]
    distinct, rows = np.unique(y, return_inverse=True)
    return [str(value) for value in distinct.tolist()], rows


def count_classes(y_true: ArrayLike, labels: ArrayLike | None) -> int:
    """Return the number of classes if no columns show it; at least two."""
    if labels is not None:
        return max(2, as_array(labels, "labels").size)
    y = label_array(y_true, "y_true")
    if y.dtype.kind not in "biu":
        return max(2, len(np.unique(y)))
    largest = int(y.max())
    if largest >= MAX_CLASSES:
        raise LabelError(
            f"Integer labels must be class numbers that start at 0. Got "
            f"{largest}. Hint: pass labels=[...] that names the classes in order."
        )
    return max(2, largest + 1)


def check_names(labels: ArrayLike, n_classes: int) -> tuple[ClassName, ...]:
    """Return the user's names for the columns, one per column."""
    names = as_array(labels, "labels")
    if names.ndim != 1 or len(names) != n_classes:
        raise LabelError(
            message("labels", f"must name the {n_classes} columns", f"shape {names.shape}")
        )
    names = label_array(names, "labels")
    if len(np.unique(names)) != n_classes:
        raise LabelError(message("labels", "must be distinct", "repeated names"))
    return tuple(int(n) if not isinstance(n, str) else n for n in names.tolist())


def in_kind_of(y: AnyArray, classes: Sequence[ClassName]) -> tuple[ClassName, ...]:
    """Return classes as numbers if labels are numbers, so that decisions have the same type."""
    if y.dtype.kind not in "biu":
        return tuple(str(each) for each in classes)
    for as_number in (whole_number, truth_number):
        numbers = [as_number(each) for each in classes]
        if None not in numbers:
            return tuple(n for n in numbers if n is not None)
    return tuple(classes)


def label_array(values: ArrayLike, name: str) -> AnyArray:
    """Return labels as integers, booleans or strings; whole floats become integers."""
    y = as_array(values, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        hint = f"for one-hot labels, pass {name}.argmax(axis=1)"
        raise ShapeError(message(name, "must have 1 dimension", f"shape {y.shape}", hint))
    if y.size == 0:
        raise EmptyInputError(message(name, "must hold at least one case", "none"))
    return _plain(y, name)


def _plain(y: AnyArray, name: str) -> AnyArray:
    def refuse(wanted: str, got: str, hint: str | None = None) -> LabelError:
        return LabelError(message(name, wanted, got, hint))

    if y.dtype.kind == "O":
        y = _from_objects(y, refuse)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise refuse("must name a class for each case", "NaN or infinity")
        if (y != np.floor(y)).any():
            got = f"fractions such as {y[y != np.floor(y)][0]:g}"
            raise refuse("must hold class labels", got, "were y_true and y_proba exchanged?")
        large = rounded_whole(y)
        if large is not None:
            raise refuse("must hold class labels", f"{large:g}, {SKIPPED}", UNROUNDED)
        return y.astype(np.int64)
    if y.dtype.kind not in "biuUT":
        raise refuse("must hold integers or strings", f"an array of {y.dtype}")
    return y


def _from_objects(y: AnyArray, refuse: Any) -> AnyArray:
    """Return objects as an array of text, whole numbers or floats, by what they contain."""
    if all(isinstance(value, str) for value in y):
        return y.astype(np.str_)
    try:
        if all(isinstance(value, Integral | np.bool_) for value in y):
            return y.astype(np.int64)
        return y.astype(np.float64)
    except OverflowError as error:
        hint = "pass such labels as strings"
        raise refuse("must hold class labels", "a whole number beyond 2**63", hint) from error
    except (TypeError, ValueError) as error:
        kinds = sorted({type(value).__name__ for value in y[:1000].tolist()})
        raise refuse(
            "must hold only integers or only strings",
            f"a mixture, missing values, or other things ({', '.join(kinds)})",
            "remove the cases without a label, and pass the others as strings",
        ) from error


# ------------------------------------------------------------------ frames


def frame_columns(y_proba: Any) -> list[str] | None:
    """Return the names of a frame's columns; None if it has only default names."""
    names = frame_names(y_proba)
    return None if names is None or is_numbering(names) else [str(name) for name in names]


def frame_names(y_proba: Any) -> list[Any] | None:
    """Return what a frame calls its columns, or a series itself; None of what is neither.

    Names of other kinds (two levels, dates, bytes) are names too, as text: they name no class, and
    to take such columns by their position would be a guess.
    """
    found = getattr(y_proba, "column_names", None)  # Arrow's columns are the values
    found = getattr(y_proba, "columns", None) if found is None else found
    if found is None or callable(found):
        return _series_name(y_proba)
    plain = (str, int, np.integer, np.bool_)
    names = [name if isinstance(name, plain) else str(name) for name in found]
    return names or None


def _series_name(values: Any) -> list[Any] | None:
    """Return the name of a series in a list, if it has one; a column that was numbered, as text.

    Of a frame, such numbers are no names but places. Taken out of it, a column has no other place.
    """
    name = getattr(values, "name", None)
    is_named = isinstance(name, str | int | np.integer) and name != ""
    if not is_named or len(getattr(values, "shape", ())) != 1:
        return None
    return [re.sub(r"^column_(\d+)$", r"\1", str(name))]


def is_numbering(names: Sequence[Any]) -> bool:
    """Whether these are the default names that pandas or Polars give to columns."""
    return list(names) in [[*range(len(names))], *numberings(len(names))[1:]]


def numberings(n: int) -> list[list[str]]:
    """Return the default names of n columns, as text: those of pandas, and those of Polars."""
    return [[str(i) for i in range(n)], [f"column_{i}" for i in range(n)]]


def sort_probabilities(
    y_true: ArrayLike, y_proba: Any
) -> tuple[AnyArray, tuple[ClassName, ...] | None]:
    """Return probabilities as an array in the order of the sorted classes, and these classes.

    Without names nothing is sorted, and there are no classes to name.
    """
    array = as_array(y_proba, "y_proba")
    if frame_columns(y_proba) is None:
        return array, None
    is_lone = array.ndim == 1 or array.shape[1] == 1
    n_classes = 2 if is_lone else array.shape[1]
    _, names = check_named_labels(y_true, y_proba, n_classes, None)
    order = np.argsort(np.array(names))
    classes = tuple(names[i] for i in order)
    if is_lone:
        return (array if order[1] == 1 else 1 - array.astype(np.float64)), classes
    return array[:, order], classes

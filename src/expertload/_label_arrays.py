"""Labels, groups and clusters of arrays, and of frames of pandas and Polars.

Frames are recognised by their attribute `columns`, so neither library is imported. Default column
names, which only number the columns, do not count as names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from expertload._check import SKIPPED, UNROUNDED, as_array, message, rounded_whole
from expertload._labels import (
    ClassName,
    Matched,
    Wording,
    check_places,
    class_of_lone_column,
    in_order,
    is_missing,
    listed,
    match_by_name,
    match_by_order,
    match_lone,
    places_by_name,
    refuse_lone,
    same_spelling,
    truth_number,
    whole_number,
    without_prefix,
)
from expertload._typing import AnyArray, ArrayLike, FloatArray, IntArray
from expertload.exceptions import (
    DataTypeError,
    EmptyInputError,
    LabelError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)

# An integer label this large is assumed to be an identifier, not a class number.
MAX_CLASSES = 2**20
# Labels that span no more than this are counted, which is faster than to sort them.
COUNTED = 2**16
# With more groups than this, the column is assumed to be an identifier.
MAX_GROUPS = 1000
# What messages about arguments call them.
FOR_ARRAYS = Wording(
    "passed",
    "passed",
    "pass labels=[...] that names the columns in order (a scikit-learn classifier's classes_)",
)


# ------------------------------------------------------------------ labels


def check_labels(
    y_true: ArrayLike, columns: Sequence[str] | None, n_classes: int, labels: ArrayLike | None
) -> tuple[IntArray, tuple[ClassName, ...]]:
    """Return the column number of each label, and the name or number of each column.

    `columns` are the names of the columns, None if they have none. A single column named after the
    first class is converted to the second class.
    """
    y = label_array(y_true, "y_true")
    names = None if labels is None else check_names(labels, n_classes)
    if names is None and columns is None and y.dtype.kind in "biu":
        if y.dtype.kind != "b":  # False and True are both known, even if only one occurs
            check_places(int(y.min()), int(y.max()), n_classes, FOR_ARRAYS)
        return y.astype(np.int64, copy=False), tuple(range(n_classes))
    values, rows = _distinct(y)
    if names is not None:
        matched = match_by_name(values, [str(name) for name in names], FOR_ARRAYS)
    elif columns is None:
        _check_categories(y_true)
        matched = match_by_order(values, n_classes, FOR_ARRAYS)
    elif len(columns) == 1:
        matched = match_lone(values, columns[0], without_prefix(columns[0]), FOR_ARRAYS)
        if matched.lone == 0:
            other = {label: 1 - i for label, i in matched.place.items()}
            matched = Matched(matched.classes[::-1], other, 1)
    else:
        matched = match_by_name(values, columns, FOR_ARRAYS)
    place = np.array([matched.place[value] for value in values], dtype=np.int64)
    return place[rows], names or in_kind_of(y, matched.classes)


def match_answers(
    answers: ArrayLike, names: Sequence[ClassName], n: int, *, name: str = "expert_answers"
) -> IntArray:
    """Return the column of each expert's answer, -1 where it is missing (None, NaN or empty)."""
    given = as_array(answers, name)
    if given.shape != (n,):
        wanted = f"must have one answer, or a missing value, for each of {n} cases"
        raise ShapeError(message(name, wanted, f"shape {given.shape}"))
    texts = ["" if is_missing(v) else same_spelling(v) for v in given.tolist()]
    values, rows = np.unique(texts, return_inverse=True)
    distinct = [value for value in values.tolist() if value]
    place, _ = places_by_name(distinct, [str(name) for name in names])
    stranger = next((value for value in distinct if value not in place), None)
    if stranger is not None:
        wanted = f"must hold classes of the model ({listed(names)})"
        hint = "leave out, or merge, what the model cannot answer"
        raise LabelError(message(name, wanted, listed([stranger]), hint))
    if not distinct:
        raise EmptyInputError(message(name, "must hold at least one answer", "none"))
    return np.array([place.get(value, -1) for value in values.tolist()], np.int64)[rows]


def _check_categories(y_true: Any) -> None:
    """Raise for categories that have an order other than the sorted one: columns may have it too.

    In pandas, `ordered` tells; in Polars, an Enum has an order.
    """
    kind = getattr(y_true, "dtype", None)
    if not getattr(kind, "ordered", type(kind).__name__ == "Enum"):
        return
    order = list(getattr(kind, "categories", ()))
    if all(isinstance(name, str) for name in order) and order != sorted(order):
        raise LabelError(
            f"The labels passed are categories in the order {listed(order)}, which is not the "
            f"sorted one: the columns may be in either. Hint: {FOR_ARRAYS.remedy}."
        )


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
        wanted = f"must name the {n_classes} columns"
        raise LabelError(message("labels", wanted, f"shape {names.shape}"))
    names = label_array(names, "labels")
    if len(np.unique(names)) != n_classes:
        raise LabelError(message("labels", "must be distinct", "repeated names"))
    return tuple(int(n) if not isinstance(n, str) else n for n in names.tolist())


def in_kind_of(y: AnyArray, classes: Sequence[ClassName]) -> tuple[ClassName, ...]:
    """Return classes as numbers if labels are numbers, so that decisions have the same type."""
    if y.dtype.kind not in "biu":
        return tuple(str(name) for name in classes)
    for as_number in (whole_number, truth_number):
        numbers = [as_number(name) for name in classes]
        if None not in numbers:
            return tuple(n for n in numbers if n is not None)
    return tuple(classes)


def label_array(values: ArrayLike, name: str) -> AnyArray:
    """Return labels as integers, booleans or strings; whole floats become integers."""

    def refuse(wanted: str, got: str, hint: str | None = None) -> LabelError:
        return LabelError(message(name, wanted, got, hint))

    y = as_array(values, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        hint = f"for one-hot labels, pass {name}.argmax(axis=1)"
        raise ShapeError(message(name, "must have 1 dimension", f"shape {y.shape}", hint))
    if y.size == 0:
        raise EmptyInputError(message(name, "must hold at least one case", "none"))
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
    """Return the column names of a frame, or the name of a series; None for everything else.

    Names of other kinds (two levels, dates, bytes) become text, which matches no class: taking such
    columns by their position would be a guess.
    """
    columns = getattr(y_proba, "column_names", None)  # Arrow's columns are the values
    columns = getattr(y_proba, "columns", None) if columns is None else columns
    if columns is None or callable(columns):
        return _series_name(y_proba)
    plain = (str, int, np.integer, np.bool_)
    names = [name if isinstance(name, plain) else str(name) for name in columns]
    return names or None


def _series_name(values: Any) -> list[Any] | None:
    """Return the name of a series in a list, if it has one; of a default name the number.

    Default names number the columns of a frame. A column taken out of it has no position any more.
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


# ------------------------------------------------------------------ the order of a policy or a fit


def arrange_probabilities(y_proba: Any, labels: Sequence[ClassName] | None) -> AnyArray:
    """Return probabilities in the order of a policy's classes, matched by a frame's column names.

    Columns without names are assumed to be in that order. A single column named after the first
    class becomes two columns.
    """
    array, names = as_array(y_proba, "y_proba"), frame_names(y_proba)
    if names is None:
        return array
    columns, numbered = [str(name) for name in names], is_numbering(names)
    of = "that was passed"
    wording = Wording(of, of, "pass an array with the probabilities of the second class")
    labels = labels or tuple(range(max(len(columns), 2)))
    if len(labels) == 2 and len(columns) == 1 and not numbered:
        side = class_of_lone_column(labels, columns[0], without_prefix(columns[0]))
        if side is None:
            refuse_lone(labels, columns[0], wording)
        return np.column_stack(both_classes(array.reshape(-1), side))
    places = in_order(labels, columns)
    if numbered and places in (None, list(range(len(columns)))):
        return array
    if places is None or numbered:  # the numbers could be names, or positions in the policy's order
        raise LabelError(
            f"The policy has the classes {listed(labels)}, but the columns of the frame {of} "
            f"are {listed(columns)}. Hint: name the columns after the classes, or pass an array "
            "whose columns are in their order."
        )
    return array[:, places]


def arrange_columns(inputs: Any, known: Sequence[str] | None) -> Any:
    """Return inputs with the columns of a frame in the order of `known`, which must be the same.

    Inputs without names are returned unchanged, and so is everything if `known` is None, except
    for columns whose names are numbers in another order: they number the columns of the fit.
    """
    given = frame_names(inputs)
    if given is None:
        return inputs
    names = [str(name) for name in given]
    own = [list(known)] if known is not None else numberings(len(names))
    same = next((order for order in own if sorted(order) == sorted(names)), None)
    if same == names or (same is None and (known is None or is_numbering(given))):
        return inputs
    if same is None or len(set(names)) < len(names):
        wanted = f"must have the columns of fit, {listed(known or ())}"
        hint = "select them by name, or pass to_numpy() if they are the same columns"
        raise LabelError(message("inputs", wanted, listed(names), hint))
    return as_array(inputs, "inputs")[:, [names.index(name) for name in same]]


def both_classes(own: AnyArray, lone: int | None) -> list[FloatArray]:
    """Return the probabilities of two classes from the probability of one of them.

    In double precision, so that a threshold has the same effect in every program.
    """
    own = own.astype(np.float64)
    return [own, 1 - own] if lone == 0 else [1 - own, own]


# ------------------------------------------------------------------ groups and clusters


def check_groups(groups: ArrayLike, *, name: str = "groups") -> AnyArray:
    """Return the group (or cluster) of each case, as integers or strings."""
    values = as_array(groups, name)
    if values.ndim != 1:
        raise ShapeError(message(name, "must have one name for each case", f"shape {values.shape}"))
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(np.str_)
    if values.dtype.kind == "O" and all(isinstance(value, Integral) for value in values):
        values = label_array(values, name)
    if values.dtype.kind not in "biuUT":
        wanted = "must hold only integers or only strings"
        hint = "give cases without a group a group name such as 'unknown'"
        raise DataTypeError(message(name, wanted, f"an array of {values.dtype}", hint))
    return values


def number_clusters(clusters: ArrayLike | None, n: int) -> IntArray | None:
    """Return the number of each case's cluster, in the order of their names as text.

    None if there are no clusters. The order of text makes random draws of clusters the same whether
    a file holds numbers or text. Spellings that look the same are one cluster: otherwise a patient
    with a blank after the name would count as two independent patients.
    """
    if clusters is None:
        return None
    given = check_groups(clusters, name="clusters")
    if len(given) != n:
        wanted = f"must name a cluster for each of {n} cases"
        raise ShapeError(message("clusters", wanted, len(given)))
    distinct, rows = np.unique(given, return_inverse=True)
    names = [same_spelling(name) for name in distinct.tolist()]
    numbers: IntArray = np.unique(names, return_inverse=True)[1]
    return numbers[rows]


def name_groups(groups: ArrayLike, n: int) -> AnyArray:
    """Return the group name of each case as a string; missing values form a group."""
    array = as_array(groups, "groups")
    if array.ndim != 1 or len(array) != n:
        raise ShapeError(message("groups", f"must name a group for each of {n} cases", array.shape))
    large = rounded_whole(array)
    if large is not None:
        got = f"{large:g}, {SKIPPED}"
        raise DataTypeError(message("groups", "must name groups", got, UNROUNDED))
    names = np.array(["(missing)" if is_missing(v) else str(v) for v in array.tolist()])
    n_groups = len(np.unique(names))
    if n_groups > MAX_GROUPS:
        wanted = f"must hold at most {MAX_GROUPS} distinct groups"
        hint = "for an identifier, pass no groups; cut a measurement into bands first"
        raise ParameterError(message("groups", wanted, f"{n_groups}", hint))
    return names


# ------------------------------------------------------------------ one column


def settle_lone_column(
    proba: FloatArray, y_proba: ArrayLike, labels: ArrayLike | None
) -> FloatArray:
    """Return probabilities with a column for each class, one if the model has a single class.

    A classifier that was fitted on one class returns a matrix with one column of ones.
    """
    shape = as_array(y_proba, "y_proba").shape
    if len(shape) != 2 or shape[1] != 1 or not (proba[:, 1] == 1).all():
        return proba
    if labels is not None and np.size(labels) == 1:
        return proba[:, 1:]
    if labels is None and frame_columns(y_proba) is None:
        wanted = (
            "must show whether its single column of ones belongs to the only class, or to the "
            "second"
        )
        hint = "pass labels=classes_ of the classifier, or one dimension for the second class"
        raise ProbabilityError(message("y_proba", wanted, f"shape {shape}", hint))
    return proba

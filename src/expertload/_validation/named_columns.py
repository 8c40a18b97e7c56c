"""Frames of probabilities whose columns are named after the classes, in whatever order they come.

A frame of pandas or Polars is known by its columns alone, so neither is imported. Arrays have no
names, and columns that no label names are taken in their order, as those of an array are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expertload._typing import AnyArray, ArrayLike, IntArray
from expertload._validation.arrays import as_array
from expertload._validation.classes import (
    ClassName,
    match_classes,
    name_some,
    truth_number,
    whole_number,
    without_prefix,
)
from expertload.exceptions import LabelError

Named = tuple[IntArray, tuple[ClassName, ...]]


def frame_columns(y_proba: Any) -> list[str] | None:
    """Return the names of a frame's columns, None where there are none to go by."""
    found = getattr(y_proba, "column_names", None)  # Arrow's columns are the values
    found = getattr(y_proba, "columns", None) if found is None else found
    names = [] if found is None or callable(found) else list(found)
    if not names or not all(isinstance(name, str | int | np.integer | np.bool_) for name in names):
        return None
    if len(names) == 1 and not isinstance(names[0], str):
        return None  # pandas numbers a column that was given no name
    return [str(name) for name in names]


def match_frame(y: AnyArray, y_proba: Any, caller: str) -> Named | None:
    """Return the column number of each label and the name of each class, if columns are named.

    A lone column that is named after a label is made the second class's, as one column always is.
    """
    columns = frame_columns(y_proba)
    if columns is None:
        return None
    values, rows = np.unique(y, return_inverse=True)
    texts = [str(value) for value in values.tolist()]
    if len(columns) == 1:
        return _match_lone(y, texts, columns[0], rows)
    for names in (columns, [without_prefix(name) for name in columns]):
        found = match_classes(texts, names)
        if found:
            _check_all_named(found, texts, names, f"A label passed to {caller}")
            return np.array([found[text] for text in texts])[rows], _in_kind_of(y, names)
    return None


def _match_lone(y: AnyArray, texts: list[str], column: str, rows: IntArray) -> Named | None:
    pair = ["0", "1"] if y.dtype.kind in "biu" and set(texts) <= {"0", "1"} else texts
    pair = ["False", "True"] if y.dtype.kind == "b" else pair
    if len(pair) != 2:
        return None
    found = match_classes([column], pair) or match_classes([without_prefix(column)], pair)
    if not found:
        return None
    named = next(iter(found.values()))
    names = [pair[1 - named], pair[named]]
    return np.array([names.index(text) for text in texts])[rows], _in_kind_of(y, names)


def arrange_probabilities(y_proba: Any, labels: Sequence[ClassName], caller: str) -> Any:
    """Return probabilities in the order of known classes if a frame's columns are named after them.

    A lone column that is named after the first class becomes two columns.
    """
    columns = frame_columns(y_proba)
    if columns is None:
        return y_proba
    classes = [str(label) for label in labels]
    array = as_array(y_proba, "y_proba", caller)
    for names in (columns, [without_prefix(name) for name in columns]):
        if len(names) == 1:
            if len(classes) == 2 and match_classes(names, classes).get(names[0]) == 0:
                first = array[:, 0].astype(np.float64)
                return np.column_stack([first, 1 - first])
            continue
        found = match_classes(classes, names)
        if found:
            _check_all_named(found, classes, names, f"A class that {caller} decides between")
            return array[:, list(found.values())] if len(found) == len(names) else array
    return array


def sort_probabilities(y_true: ArrayLike, y_proba: Any, caller: str) -> AnyArray:
    """Return probabilities as an array whose columns are in the order of the labels they name."""
    array = as_array(y_proba, "y_proba", caller)
    named = match_frame(as_array(y_true, "y_true", caller).reshape(-1), y_proba, caller)
    if named is None:
        return array
    order = np.argsort(np.array(named[1]))
    if array.shape[1] == 1:
        return array if order[1] == 1 else 1 - array.astype(np.float64)
    return array[:, order]


def _check_all_named(
    found: dict[str, int], labels: Sequence[str], names: Sequence[str], what: str
) -> None:
    stranger = next((label for label in labels if label not in found), None)
    if stranger is not None:
        raise LabelError(
            f"{what} names no column of the frame: {stranger}. Others do; its columns are "
            f"{name_some(names)}. Hint: name every column after its class, or pass an array."
        )


def _in_kind_of(y: AnyArray, names: Sequence[str]) -> tuple[ClassName, ...]:
    """Return names as numbers where labels are, so that decisions are of the labels' kind."""
    if y.dtype.kind not in "biu":
        return tuple(names)
    as_number = truth_number if y.dtype.kind == "b" else whole_number
    numbers = [as_number(name) for name in names]
    return tuple(names) if None in numbers else tuple(n for n in numbers if n is not None)

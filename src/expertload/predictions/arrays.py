"""Converts the columns of a file to arrays: labels matched to probabilities, and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from expertload._blocks import blocks
from expertload._opening import Coded, Table
from expertload._typing import FloatArray, IntArray
from expertload.columns import (
    Columns,
    class_key,
    class_numbers,
    grades_from,
    labels_from,
    match_by_order,
    match_columns,
    named_class,
    names_from,
    numbers_from,
    plain_classes,
    probabilities_from,
    said_of_file,
)
from expertload.predictions.contradictions import check_not_opposite, check_predictions

__all__ = ["arrays_from"]


def arrays_from(
    where: str,
    columns: Columns,
    found: Table,
    codes: Mapping[str, Coded],
    *,
    said: str | None = None,
    listed: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the fields of a `PredictionsTable`, by name, that follow from the columns.

    `said` is a column of predictions that is only compared with the probabilities, and `listed`
    are the classes of a matrix, if the file lists them.
    """

    def numbers(name: str | None) -> FloatArray | None:
        return None if name is None else numbers_from(found[name], name, where)

    arrays: dict[str, Any] = {
        "columns": columns,
        "confidence": numbers(columns.confidence),
        "weight": numbers(columns.weight),
        "group_codes": None if columns.group is None else codes[columns.group],
    }
    if columns.correct is not None:
        arrays["correct"] = grades_from(found[columns.correct], columns.correct, where)
    if columns.label is not None:
        labels = _Labels.from_codes(codes[columns.label], columns.label, where)
        arrays["target"] = _by_name(labels)
        if columns.prediction is None:
            arrays |= _predictions(where, columns, found, labels, listed)
            if said is not None:
                classes = arrays["labels"].tolist()
                check_predictions(codes[said], said, classes, arrays["y_proba"], where)
            return arrays
        guesses = _Labels.from_codes(codes[columns.prediction], columns.prediction, where)
        given, guessed = class_numbers(labels.names, guesses.names, where)
        arrays["correct"] = given[labels.codes] == guessed[guesses.codes]
    return arrays


class _Labels(NamedTuple):
    """The distinct labels as text, and the index of each case's label."""

    names: list[str]
    codes: IntArray

    @classmethod
    def from_codes(cls, coded: Coded, column: str, where: str) -> _Labels:
        names = names_from(coded.values)
        if any(name is None for name in names):
            labels_from(names[coded.codes], column, where)  # raises, and names the row
        return cls(names.tolist(), coded.codes)

    def first_rows(self) -> dict[str, int]:
        """Return the first row of each label, counted from 1."""
        first = np.zeros(len(self.names), dtype=np.int64)
        for rows in blocks(len(self.codes)):
            found = np.zeros_like(first)
            # An assignment keeps the last value for each index, so rows are assigned in reverse.
            found[self.codes[rows][::-1]] = np.arange(rows.stop, rows.start, -1)
            first = np.where(first == 0, found, first)
            if first.all():
                break
        return dict(zip(self.names, first.tolist(), strict=True))


def _predictions(
    where: str, columns: Columns, found: Table, given: _Labels, listed: Sequence[str] | None
) -> dict[str, Any]:
    """Return labels and probabilities, matched; a single column becomes two."""
    said = said_of_file(where, columns.label)
    rows, taken = given.first_rows(), columns.probabilities
    is_listed = columns.is_numbered and listed is not None and _names_all(listed, rows)
    if columns.is_numbered and not is_listed:
        match = match_by_order(rows, len(taken), said)
    elif is_listed:
        match = match_columns(rows, taken, listed or (), said)
    else:
        match = match_columns(rows, taken, columns.classes, said)
    numbers = [match.place[name] for name in given.names]
    place = np.array(numbers, dtype=np.min_scalar_type(len(match.classes)))
    lone: dict[int | None, tuple[str | None, ...]] = {
        None: columns.probabilities,
        0: (*columns.probabilities, None),
        1: (None, *columns.probabilities),
    }
    classes = plain_classes(match.classes)
    said_of = classes if match.lone is None else [classes[match.lone]]
    told = columns.is_numbered or match.lone is not None  # names do not tell, or not always
    y_proba = probabilities_from(columns, found, where, lone=match.lone)
    own = place[given.codes]
    by_name = match.lone is not None and named_class(match.classes, columns.classes[0]) is not None
    if told and len(classes) == 2 and not by_name and not is_listed:
        check_not_opposite(own, y_proba, taken, [str(each) for each in said_of], where)
    return {
        "columns": columns.of(said_of) if told else columns,
        "labels": np.array(classes),
        "place": own,
        "class_columns": lone[match.lone],
        "y_proba": y_proba,
    }


def _names_all(listed: Sequence[str], labels: Iterable[str]) -> bool:
    """Whether a list of classes has every label; labels may also be places in the list."""
    return {class_key(label) for label in labels} <= {class_key(name) for name in listed}


def _by_name(labels: _Labels) -> IntArray:
    keys = [class_key(name) for name in labels.names]
    number = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], np.min_scalar_type(len(keys)))[labels.codes]

"""From what a file holds to what an evaluation takes; what does not fit is named by its row."""

from __future__ import annotations

from typing import Any

import numpy as np

from expertload._typing import AnyArray, FloatArray
from expertload._validation import truth_number, whole_number
from expertload.exceptions import FileFormatError
from expertload.predictions._checks import check_finite

__all__ = ["both_classes", "grades_from", "labels_from", "names_from", "numbers_from"]


def numbers_from(values: AnyArray, column: str, where: str, first_row: int = 1) -> FloatArray:
    """Return a column as finite numbers, or say which row holds none."""
    if values.dtype.kind in "fiub":
        numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
        check_finite(numbers, column, where, first_row)
        return numbers
    _check_present(values, column, where, first_row)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        row, bad = next(
            ((i, v) for i, v in enumerate(values.tolist()) if not _is_number(v)), (0, values.dtype)
        )
    raise FileFormatError(
        f"The column '{column}' of {where} must hold numbers. Got {_shown(bad)} in row "
        f"{first_row + row}."
    )


def grades_from(values: AnyArray, column: str, where: str) -> FloatArray:
    """Return a column of correctness as numbers; it may be in words, true or yes and their like."""
    if values.dtype.kind == "O":
        words = {value: _truth(str(value)) for value in set(values.tolist())}
        if None not in words.values():
            return np.array([words[value] for value in values.tolist()], dtype=np.float64)
    return numbers_from(values, column, where)


def _truth(word: str) -> int | None:
    """Return 1 or 0 for a word that says so; numbers are none."""
    return truth_number(word) if whole_number(word) is None else None


def labels_from(values: AnyArray, column: str, where: str) -> list[str]:
    """Return a column of labels as text."""
    names = names_from(values)
    _check_present(names, column, where, 1)
    return list(names)


def both_classes(lone: AnyArray, place: int | None) -> list[FloatArray]:
    """Return the probabilities of two classes from that of one, the first or the second.

    In double precision, so that a threshold means the same in every program that reads the file.
    """
    own = lone.astype(np.float64)
    return [own, 1 - own] if place == 0 else [1 - own, own]


def names_from(values: AnyArray) -> AnyArray:
    """Return a column as text, None where a value is missing."""
    names = np.empty(len(values), dtype=object)
    names[:] = [None if v is None or v != v else str(v) for v in values.tolist()]
    return names


def _check_present(values: AnyArray, column: str, where: str, first_row: int) -> None:
    if values.dtype.kind != "O":
        return
    missing = [i for i, value in enumerate(values) if value is None]
    if missing:
        raise FileFormatError(
            f"The column '{column}' of {where} lacks {len(missing)} value(s), the first in row "
            f"{first_row + missing[0]}. Hint: drop the cases without a value."
        )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

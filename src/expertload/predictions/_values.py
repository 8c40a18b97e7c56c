"""From what a file holds to what an evaluation takes; what does not fit is named by its row."""

from __future__ import annotations

from typing import Any

import numpy as np

from expertload._typing import AnyArray, FloatArray
from expertload.exceptions import FileFormatError

__all__ = ["labels_from", "names_from", "numbers_from"]


def numbers_from(values: AnyArray, column: str, where: str, first_row: int = 1) -> FloatArray:
    """Return a column as numbers, or say which row holds none."""
    if values.dtype.kind in "fiub":
        return values if values.dtype.kind == "f" else values.astype(np.float64)
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


def labels_from(values: AnyArray, column: str, where: str) -> AnyArray:
    """Return a column of labels as whole numbers or text."""
    _check_present(values, column, where, 1)
    if values.dtype.kind == "b":
        return values.astype(np.int64)
    if values.dtype.kind in "iuf":
        return values
    if values.dtype.kind == "O" and all(isinstance(v, bool | int) for v in values):
        return values.astype(np.int64)
    return names_from(values).astype(np.str_)


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

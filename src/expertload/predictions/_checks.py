"""What arrays may not hold, said of the file they come from: its column, and its row from 1."""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray
from expertload._validation.probabilities import (
    ROW_SUM_TOLERANCE,
    ROW_SUM_TOLERANCE_HALF_PRECISION,
)
from expertload.exceptions import FileFormatError, ProbabilityError
from expertload.predictions.columns import Columns, shortened

__all__ = ["check_finite", "check_probabilities_of"]

NOT_ONE = "if a column is no probability, say which are (--probabilities)"


def check_finite(values: FloatArray, column: str, where: str, first_row: int) -> None:
    """Raise where a number is NaN or infinite."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise FileFormatError(
            f"The column '{column}' of {where} must be finite. Got {values[bad[0]]} in row "
            f"{first_row + int(bad[0])}, and {len(bad)} such value(s) in all. Hint: drop those "
            "cases, or find out why the model produced them."
        )


def check_probabilities_of(
    columns: Columns, proba: FloatArray, where: str, first_row: int = 1
) -> None:
    """Raise where a probability lies outside [0, 1], or those of a row do not sum to one."""
    taken = shortened(columns.probabilities)
    outside = np.argwhere((proba < 0) | (proba > 1))
    if len(outside):
        row, column = (int(place) for place in outside[0])
        low, high = proba.min(), proba.max()
        percentages = "for percentages, divide by 100; " if low >= 0 and high <= 100 else ""
        raise ProbabilityError(
            f"The column '{columns.probabilities[column]}' of {where} must hold probabilities in "
            f"[0, 1]. Got {proba[row, column]:g} in row {first_row + row}. Taken as probabilities: "
            f"{taken}. Hint: {percentages}for logits, apply a softmax first; {NOT_ONE}."
        )
    half = proba.dtype == np.float16
    tolerance = ROW_SUM_TOLERANCE_HALF_PRECISION if half else ROW_SUM_TOLERANCE
    total = proba.sum(axis=1, dtype=np.float64)
    missed = np.flatnonzero(np.abs(total - 1) > tolerance)
    if proba.shape[1] > 1 and len(missed):
        raise ProbabilityError(
            f"The probabilities of {where} must sum to one in each row. Got {total[missed[0]]:g} "
            f"in row {first_row + int(missed[0])}. Taken as probabilities: {taken}. Hint: for "
            f"rounded values, divide each row by its sum; {NOT_ONE}."
        )

"""Probabilities and logits, which are never distinguished by their values."""

from __future__ import annotations

import numpy as np

from expertload._typing import ArrayLike, FloatArray
from expertload._validation.arrays import as_floats
from expertload._validation.wording import message
from expertload.exceptions import (
    ProbabilityError,
    ShapeError,
)

ROW_SUM_TOLERANCE_HALF_PRECISION = 1e-2


# Sums of probabilities may differ from one by this much: enough for values with four digits.
ROW_SUM_TOLERANCE = 1e-3
# The same wording for arrays, frames, files and soft targets.
SUM_TO_ONE = "must sum to one over the classes"


SOFTMAX_OF_ARRAYS = "apply a softmax first (scipy.special.softmax(logits, axis=1))"


def check_probabilities(
    y_proba: ArrayLike, name: str, *, for_logits: str = SOFTMAX_OF_ARRAYS
) -> FloatArray:
    """Return probabilities with one column per class; a single column is P(second class)."""
    half = "float16" in str(getattr(y_proba, "dtype", ""))  # also converts bfloat16
    proba = as_floats(y_proba, name, ndim=(1, 2))
    low, high = float(proba.min()), float(proba.max())
    if low < 0 or high > 1:
        raise ProbabilityError(
            message(
                name,
                "must hold probabilities in [0, 1]",
                f"values from {low:g} to {high:g}",
                f"for logits, {for_logits}"
                if low < 0 or high > 100
                else f"for percentages, divide by 100; for logits, {for_logits}",
            )
        )
    if proba.ndim == 1 or proba.shape[1] == 1:
        # In single precision, one minus a value close to 0 would round to 1, and cases would tie.
        positive = proba.reshape(-1).astype(np.float64, copy=False)
        return np.column_stack([1 - positive, positive])
    _check_row_sums(proba, name, half=half)
    return proba


def _check_row_sums(proba: FloatArray, name: str, *, half: bool) -> None:
    tolerance = ROW_SUM_TOLERANCE_HALF_PRECISION if half else ROW_SUM_TOLERANCE
    # A matrix-vector product is several times faster than a sum along short rows.
    miss = np.abs(proba @ np.ones(proba.shape[1], dtype=proba.dtype) - 1)
    worst = int(miss.argmax())
    if miss[worst] > tolerance:
        raise ProbabilityError(
            message(
                name,
                SUM_TO_ONE,
                f"a sum of {proba[worst].sum():g} in row {worst}",
                "for independent (sigmoid) outputs, pass one column at a time; for rounded "
                "values, divide each row by its sum",
            )
        )


def check_logits(logits: ArrayLike) -> FloatArray:
    """Return finite logits with at least two columns."""
    values = as_floats(logits, "logits", ndim=(2,))
    if values.shape[1] < 2:
        raise ShapeError(
            message(
                "logits",
                "must have one column per class, at least two",
                f"shape {values.shape}",
                "for one binary logit z, pass np.column_stack([np.zeros_like(z), z])",
            )
        )
    return values

"""Converts columns of a file to arrays for an evaluation; errors name the row."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from expertload._blocks import blocks
from expertload._typing import AnyArray, BoolArray, FloatArray
from expertload._validation import (
    EXACT,
    EXACT_HINT,
    EXACT_ONLY,
    ROW_SUM_TOLERANCE,
    ROW_SUM_TOLERANCE_HALF_PRECISION,
    SKIPPED,
    SUM_TO_ONE,
    rounded_whole,
)
from expertload.columns.roles import Columns, shortened
from expertload.columns.spelling import (
    is_missing,
    truth_number,
    whole_number,
)
from expertload.exceptions import FileFormatError, ProbabilityError

__all__ = [
    "both_classes",
    "check_names_told_apart",
    "grades_from",
    "is_graded",
    "labels_from",
    "names_from",
    "numbers_from",
    "probabilities_from",
    "sums_missed",
]

NOT_ONE = "if a column is not a probability, name those that are (--probabilities)"
# The largest rounding error per class, for probabilities rounded to two digits.
ROUNDED_BY, ROUNDED_AT_MOST = 0.005, 0.1


# ------------------------------------------------------------------ one column


def numbers_from(values: AnyArray, column: str, where: str, first_row: int = 1) -> FloatArray:
    """Return a column as finite numbers; raise an error that names the first bad row."""
    if values.dtype.kind in "fiub":
        if values.dtype.kind in "iu" and len(values):
            _check_exact(int(values.min()), int(values.max()), column, where)
        numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
        _check_finite(numbers, column, where, first_row)
        return numbers
    _check_present(values, column, where, first_row)
    if values.dtype.kind in "OU":  # numpy would also convert dates and complex numbers to numbers
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            if all(_is_plain(value) for value in values.tolist()):
                return values.astype(np.float64)
    row, bad = next(
        ((i, v) for i, v in enumerate(values.tolist()) if not _is_number(v)), (0, values.dtype)
    )
    raise FileFormatError(
        f"The column '{column}' of {where} must hold numbers. Got {_shown(bad)} in row "
        f"{first_row + row}."
    )


def _check_exact(low: int, high: int, column: str, where: str) -> None:
    """Refuse whole numbers so large that different ones would become equal floats."""
    if max(-low, high) > EXACT:
        raise FileFormatError(
            f"The column '{column}' of {where} {EXACT_ONLY}. Got {high if high > EXACT else low}. "
            f"Hint: {EXACT_HINT}."
        )


def is_graded(values: AnyArray) -> bool:
    """Whether correctness is text, but not all of it words such as true and yes."""
    found = {value for value in values.tolist() if value is not None} if _is_text(values) else set()
    return any(_truth(str(value)) is None for value in found)


def _is_text(values: AnyArray) -> bool:
    return values.dtype.kind == "O"


def grades_from(values: AnyArray, column: str, where: str) -> FloatArray:
    """Return a column of correctness as numbers; words such as true and yes are converted."""
    if _is_text(values):
        words = {value: _truth(str(value)) for value in set(values.tolist())}
        if None not in words.values():
            return np.array([words[value] for value in values.tolist()], dtype=np.float64)
    return numbers_from(values, column, where)


def _truth(word: str) -> int | None:
    """Return 1 or 0 for a word such as true or no; None for anything else, numbers included."""
    return truth_number(word) if whole_number(word) is None else None


def labels_from(values: AnyArray, column: str, where: str) -> list[str]:
    """Return a column of labels as text."""
    names = names_from(values)
    _check_present(names, column, where, 1)
    return list(names)


def check_names_told_apart(values: AnyArray, column: str, where: str) -> None:
    """Refuse a column of names as floats so large that different names may have become equal."""
    large = rounded_whole(values)
    if large is not None:
        raise FileFormatError(
            f"The column '{column}' of {where} must tell names apart. Got {large:g}, {SKIPPED}. "
            "Hint: store whole numbers or text instead of floats."
        )


def names_from(values: AnyArray) -> AnyArray:
    """Return a column as text, with None for missing values."""
    names = np.empty(len(values), dtype=object)
    names[:] = [None if is_missing(v) else str(v) for v in values.tolist()]
    return names


def _check_finite(values: FloatArray, column: str, where: str, first_row: int) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise FileFormatError(
            f"The column '{column}' of {where} must be finite. Got {values[bad[0]]} in row "
            f"{first_row + int(bad[0])}, and {len(bad)} such value(s) in total. Hint: remove those "
            "cases, or find out why the model produced them."
        )


def _check_present(values: AnyArray, column: str, where: str, first_row: int) -> None:
    if values.dtype.kind != "O":
        return
    missing = [i for i, value in enumerate(values) if value is None]
    if missing:
        raise FileFormatError(
            f"The column '{column}' of {where} lacks {len(missing)} value(s), the first in row "
            f"{first_row + missing[0]}. Hint: remove the cases without a value."
        )


def _is_plain(value: Any) -> bool:
    """Whether a value is no text, or has nothing that only Python reads as part of a number."""
    return not isinstance(value, str) or (value.isascii() and "_" not in value)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return _is_plain(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# ------------------------------------------------------------------ columns of probabilities


def probabilities_from(
    columns: Columns,
    table: Mapping[str, AnyArray],
    where: str,
    *,
    lone: int | None = None,
    first_row: int = 1,
) -> FloatArray:
    """Return one column per class; a single column of one of two classes becomes two."""
    given = [numbers_from(table[name], name, where, first_row) for name in columns.probabilities]
    if columns.is_logits:
        if len(given) == 1:  # log-odds: the logit of the other class is zero
            given = both_logits(given[0], lone)
        return softmax(np.column_stack(given))
    # Stored column by column, so that operations on rows run over whole columns.
    proba: FloatArray = _side_by_side(given).T
    _check_range(columns, proba, where, first_row)
    if len(given) == 1:
        return np.stack(both_classes(given[0], lone)).T
    return _with_sums(columns, proba, where, first_row)


def _side_by_side(columns: list[FloatArray]) -> FloatArray:
    """Stack columns as rows of one array, without a copy if they already are rows of one."""
    whole, n = columns[0].base, len(columns[0])
    if isinstance(whole, np.ndarray) and whole.ndim == 2 and whole.shape[1] == n:
        places = [_address(row) for row in whole]
        first = places.index(_address(columns[0])) if _address(columns[0]) in places else 0
        given = [(_address(column), column.shape, column.dtype) for column in columns]
        rows = whole[first : first + len(columns)]
        if given == [(_address(row), row.shape, row.dtype) for row in rows]:
            return rows
    return np.stack(columns)


def _address(array: AnyArray) -> tuple[int, tuple[int, ...]]:
    """Return the start of an array in memory, and its strides."""
    return array.__array_interface__["data"][0], array.strides


def both_classes(own: AnyArray, lone: int | None) -> list[FloatArray]:
    """Return the probabilities of two classes from the probability of one of them.

    In double precision, so that a threshold has the same effect in every program.
    """
    own = own.astype(np.float64)
    return [own, 1 - own] if lone == 0 else [1 - own, own]


def both_logits(own: FloatArray, lone: int | None) -> list[FloatArray]:
    """Return the logits of two classes from the log-odds of one of them."""
    zero = np.zeros(len(own))
    return [own, zero] if lone == 0 else [zero, own]


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax of logits, in double precision."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    weight = np.exp(shifted)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _check_range(columns: Columns, proba: FloatArray, where: str, first_row: int) -> None:
    low, high = proba.min(initial=0), proba.max(initial=1)
    if low >= 0 and high <= 1:
        return
    row, column = (int(place) for place in np.argwhere((proba < 0) | (proba > 1))[0])
    percentages = "for percentages, divide by 100; " if low >= 0 and high <= 100 else ""
    raise ProbabilityError(
        f"The column '{columns.probabilities[column]}' of {where} must hold probabilities in "
        f"[0, 1]. Got {proba[row, column]:g} in row {first_row + row}. Used as probabilities: "
        f"{shortened(columns.probabilities)}. Hint: {percentages}for logits, name them with "
        f"--logits, and a softmax is applied; {NOT_ONE}."
    )


def sums_missed(columns: Columns, proba: FloatArray) -> BoolArray:
    """Return the rows whose probabilities do not sum to one within the tolerance."""
    tolerance, rounded = _tolerances(proba)
    forgiven = rounded if columns.is_normalized else tolerance
    missed = np.empty(len(proba), dtype=np.bool_)
    for rows in blocks(len(proba)):
        missed[rows] = ~(np.abs(proba[rows].sum(axis=1, dtype=np.float64) - 1) <= forgiven)
    return missed


def _tolerances(proba: FloatArray) -> tuple[float, float]:
    """Return the tolerances for the sum of a row: for arithmetic, and for rounded values."""
    half = proba.dtype == np.float16
    tolerance = ROW_SUM_TOLERANCE_HALF_PRECISION if half else ROW_SUM_TOLERANCE
    rounded = min(ROUNDED_BY * proba.shape[1], ROUNDED_AT_MOST)
    return tolerance, max(tolerance, rounded) + 1e-9  # decimal fractions have no exact binary form


def _with_sums(columns: Columns, proba: FloatArray, where: str, first_row: int) -> FloatArray:
    """Return probabilities if rows sum to one, or divided by their sums if requested."""
    missed = sums_missed(columns, proba)
    if not (missed.any() or columns.is_normalized):
        return proba
    total = np.ascontiguousarray(proba).sum(axis=1, dtype=np.float64)  # exact for each row
    if not missed.any():
        return np.asarray(proba / total[:, None])
    first = int(missed.argmax())
    _, rounded = _tolerances(proba)
    hint = (
        f"--normalize allows an error of {rounded:g}, as from rounding to two digits"
        if columns.is_normalized or (np.abs(total - 1) > rounded).any()
        else "for rounded values, divide each row by its sum with --normalize"
    )
    raise ProbabilityError(
        f"The probabilities of {where} {SUM_TO_ONE}. Got {total[first]:g} in row "
        f"{first_row + first}. Used as probabilities: {shortened(columns.probabilities)}. Hint: "
        f"{hint}; {NOT_ONE}."
    )

"""Validates audits: answers that may be open, inclusion probabilities, keys and moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from expertload._labels import is_missing
from expertload._store import MOST_DIGITS
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload._validation import (
    as_array,
    check_count,
    check_fraction,
    check_same_shape,
    message,
    percent_hint,
)
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    EmptyInputError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)

Key = str | int
Clock = Literal["time", "number"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Moments(NamedTuple):
    """When cases were decided: microseconds in UTC, or the user's own ascending numbers."""

    clock: Clock
    values: list[int] | list[float]


def check_blocks(value: Any) -> int | None:
    """Return the number of blocks that a monitor is made for; None for no limit."""
    return None if value is None else check_count(value, "blocks")


def as_audit_errors(correct: ArrayLike, weight: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return errors and weights of audits, along the last axis."""
    grades = _floats(correct, "correct")
    if not grades.ndim:
        raise ShapeError(message("correct", "must have 1 dimension or more", "one number"))
    _refuse_grades(grades, ~((grades >= 0) & (grades <= 1)))
    weights = np.ones(grades.shape[-1:]) if weight is None else _floats(weight, "weight")
    if not ((weights > 0) & (weights <= 1)).all():
        raise ProbabilityError(
            message("weight", "must be in (0, 1]", _range(weights), "divide by the largest")
        )
    try:
        weights = np.broadcast_to(weights, grades.shape)
    except ValueError as error:
        raise ShapeError(
            message("weight", f"must have the shape {grades.shape}", weights.shape)
        ) from error
    return 1 - grades, weights


def as_audit_sums(errors: ArrayLike, audits: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return sums of errors and numbers of audits, the first at most the second."""
    wrong, total = _floats(errors, "errors"), _floats(audits, "audits")
    check_same_shape(errors=wrong, audits=total)
    # Floating-point sums of weights may differ in the last digits.
    if not ((wrong >= 0) & (wrong <= total * (1 + 1e-9))).all():
        raise ParameterError(
            message("errors", "must be from 0 to the number of audits", _range(wrong))
        )
    return wrong, total


def as_answers(correct: ArrayLike) -> FloatArray:
    """Return correctness of shape (n,), with NaN for open reviews (None or NaN)."""
    array = np.atleast_1d(as_array(correct, "correct"))
    if array.ndim != 1:
        raise ShapeError(message("correct", "must have 1 dimension", array.shape))
    if array.dtype.kind == "O":
        array = np.where([is_missing(each) for each in array], np.nan, array)
    grades = _floats(array, "correct")
    if not grades.size:
        raise EmptyInputError(message("correct", "must hold at least one case", "none"))
    _refuse_grades(grades, (grades < 0) | (grades > 1))
    return grades


def as_inclusion(value: ArrayLike | None, n: int, name: str) -> FloatArray | None:
    """Return probabilities in (0, 1], one per case."""
    if value is None:
        return None
    given = _floats(value, name)
    bad = ~((given > 0) & (given <= 1))
    if bad.any():
        number = float(given[bad].flat[0])
        wanted = "must be probabilities in (0, 1]"
        raise ProbabilityError(message(name, wanted, f"{number:g}", percent_hint(number)))
    if given.ndim > 1 or (given.ndim and len(given) != n):
        raise ShapeError(message(name, f"must have one value per case ({n})", given.shape))
    return np.broadcast_to(given, n)


def check_least_inclusion(value: Any) -> float | None:
    """Return the smallest inclusion probability; None if all cases have the same."""
    if value is None:
        return None
    least = check_fraction(value, "least_inclusion_probability")
    if least == 0:
        wanted = "must be in (0, 1]: a case that is never audited cannot be monitored"
        raise ProbabilityError(message("least_inclusion_probability", wanted, "0"))
    return least


def as_keys(value: Any, n: int) -> list[Key] | None:
    """Return keys as text or whole numbers, one per case."""
    if value is None:
        return None
    keys = _listed(value, "key")
    if len(keys) != n:
        raise ShapeError(message("key", f"must have one value per case ({n})", len(keys)))
    for key in keys:
        is_long = isinstance(key, int) and abs(key) >= 10**MOST_DIGITS  # no file could hold it
        if is_long or isinstance(key, bool) or not isinstance(key, str | int):
            wanted = "must hold text or whole numbers"
            raise DataTypeError(message("key", wanted, "a huge one" if is_long else f"{key!r}"))
    return keys


def as_moments(value: Any, n: int) -> Moments | None:
    """Return when cases were decided: dates and times, ISO text, or numbers that grow."""
    if value is None:
        return None
    moments = _listed(value, "decided_at")
    if len(moments) != n:
        raise ShapeError(message("decided_at", f"must have one value per case ({n})", len(moments)))
    numbers = [isinstance(m, Real) and not isinstance(m, bool) for m in moments]
    if all(numbers):
        if not all(_is_finite(moment) for moment in moments):
            got = "NaN, infinity, or a whole number that no float can hold"
            raise DataTypeError(message("decided_at", "must be finite", got))
        return Moments("number", moments)
    return Moments("time", [_microseconds(m) for m in moments])


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def iso_time(microseconds: int) -> str:
    """Return microseconds since 1970 as ISO text, in UTC."""
    return (EPOCH + microseconds * MICROSECOND).isoformat()


def _listed(value: Any, name: str) -> list[Any]:
    """Return one value or several as a list, unchanged, because numpy would turn 1 into '1'."""
    if isinstance(value, str | date | Real | np.generic):
        value = [value]
    if not isinstance(value, Sequence):
        array: AnyArray = np.atleast_1d(as_array(value, name))
        if array.dtype.kind == "M":  # tolist would turn nanoseconds into integers
            array = array.astype("datetime64[us]")
        value = array.tolist()
    return [each.item() if isinstance(each, np.generic) else each for each in value]


def _microseconds(moment: Any) -> int:
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment.strip())
        if isinstance(moment, date) and not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        if not isinstance(moment, datetime) or is_missing(moment):  # NaT is a datetime
            raise TypeError
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (zoned.astimezone(UTC) - EPOCH) // MICROSECOND  # refuses years outside 1 to 9999
    except (ValueError, TypeError, OverflowError):
        wanted = "must hold dates, ISO text such as '2026-03-01T09:30', or numbers"
        raise DataTypeError(message("decided_at", wanted, f"{moment!r}")) from None


def _floats(value: ArrayLike, name: str) -> FloatArray:
    array = as_array(value, name)
    objects = array.ravel().tolist() if array.dtype.kind == "O" else []
    if array.dtype.kind not in "biufO" or not all(isinstance(each, Real) for each in objects):
        got = f"an array of {array.dtype}"
        raise DataTypeError(message(name, "must hold real numbers", got))
    return array.astype(np.float64)


def _refuse_grades(grades: FloatArray, bad: BoolArray) -> None:
    if bad.any():
        wanted = "must be 1 for right, 0 for wrong, or a grade between"
        raise CorrectnessError(message("correct", wanted, f"{float(grades[bad].flat[0]):g}"))


def _range(values: FloatArray | Sequence[float]) -> str:
    return f"values from {np.min(values):g} to {np.max(values):g}"

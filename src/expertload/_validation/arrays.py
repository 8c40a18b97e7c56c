"""Checks of arrays: finite values, shapes and lengths."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np

from expertload._typing import AnyArray, BoolArray, FloatArray
from expertload._validation.wording import message, percent_hint
from expertload.exceptions import (
    DataTypeError,
    EmptyInputError,
    NonFiniteError,
    NotFittedError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)

# Up to here a float can hold every whole number.
EXACT = 2**53
EXACT_ONLY = "must hold whole numbers up to 2**53, because larger ones may be equal as floats"
EXACT_HINT = "replace them by their ranks, or rescale them"
SKIPPED = "where floats skip whole numbers"
UNROUNDED = "pass integers or strings"


def as_array(value: Any, name: str) -> AnyArray:
    """Return `value` as a numpy array; lists, frames and tensors on any device are accepted."""
    if isinstance(value, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in value):
        value = np.ma.stack(value)  # numpy's own stack would drop the masks
    if isinstance(value, np.ma.MaskedArray):
        _check_unmasked(np.ma.getmaskarray(value), name)
    if hasattr(value, "detach"):  # a torch tensor, which may need gradients or be on another device
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype):  # numpy has no such type
            value = value.float()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        is_nested = isinstance(value, list | tuple)
        got = "rows of unequal length" if is_nested else f"a {type(value).__name__}"
        raise ShapeError(message(name, "must be a rectangular array", got)) from error
    holds_many = hasattr(value, "__iter__") or hasattr(value, "collect")  # a dict, a lazy frame
    if array.ndim == 0 and array.dtype.kind == "O" and holds_many:
        got, hint = f"a {type(value).__name__}", "pass an array or a frame that is in memory"
        raise DataTypeError(message(name, "must be an array", got, hint))
    return array


def _check_unmasked(mask: BoolArray, name: str) -> None:
    """Raise if values are masked, because a masked value is missing."""
    if mask.any():
        got = f"{int(mask.sum())} masked value(s), the first at {_first_position(mask)}"
        hint = "remove those cases, or fill them"
        raise NonFiniteError(message(name, "must have no masked values", got, hint))


def as_floats(value: Any, name: str, *, ndim: tuple[int, ...] = (1,)) -> FloatArray:
    """Return `value` as finite floats, in its own precision; float64 if it has none."""
    array = as_array(value, name)
    if array.ndim not in ndim:
        wanted = " or ".join(str(n) for n in ndim)
        raise ShapeError(message(name, f"must have {wanted} dimension(s)", f"shape {array.shape}"))
    if array.size == 0:
        raise EmptyInputError(message(name, "must hold at least one case", f"shape {array.shape}"))
    array = _to_float(array, name)
    if not np.isfinite(array).all():
        bad = ~np.isfinite(array)
        raise NonFiniteError(
            message(
                name,
                "must be finite",
                f"{int(bad.sum())} NaN or infinite value(s), the first at {_first_position(bad)}",
                "remove those cases, or find out why the model produced them",
            )
        )
    return array


def _to_float(array: AnyArray, name: str) -> FloatArray:
    if array.dtype.kind == "f":
        # Half precision is not meant for arithmetic; extended precision gains nothing here.
        return array.astype(np.float32) if array.dtype == np.float16 else _native_float(array)
    if array.dtype.kind in "biu":
        _check_exact(int(array.min()), int(array.max()), name)
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        listed = array.ravel().tolist()
        try:
            if any(isinstance(value, str) for value in listed):
                raise TypeError  # as an array of text is refused too
            numbers = array.astype(np.float64)
        except (TypeError, ValueError):
            kinds = ", ".join(sorted({type(value).__name__ for value in listed}))
            hint = "remove the cases without a value, and pass the others as numbers"
            raise DataTypeError(
                message(name, "must hold real numbers", f"values of {kinds}", hint)
            ) from None
        except OverflowError:
            got = "a whole number that no float can hold"
            raise DataTypeError(message(name, "must hold real numbers", got)) from None
        whole = [int(value) for value in listed if _is_exact(value)]
        _check_exact(min(whole, default=0), max(whole, default=0), name)
        return numbers
    raise DataTypeError(message(name, "must hold real numbers", f"an array of {array.dtype}"))


def _is_exact(value: Any) -> bool:
    """Whether a value is of a type that holds every digit."""
    return isinstance(value, Integral) or (isinstance(value, Decimal) and value.is_finite())


def _check_exact(low: int, high: int, name: str) -> None:
    """Raise for whole numbers so large that different ones would become equal floats."""
    if max(-low, high) > EXACT:
        got = f"{high if high > EXACT else low}"
        raise DataTypeError(message(name, EXACT_ONLY, got, EXACT_HINT))


def rounded_whole(values: AnyArray) -> float | None:
    """Return a float that names nothing, because it may be a neighbour that was rounded, or None.

    From 2**53 on (2**24 in single precision) floats skip whole numbers, so labels and identifiers
    of that size may have become equal when they were made floats.
    """
    if values.dtype.kind == "O":
        values = np.array([each for each in values.tolist() if isinstance(each, float)])
    if values.dtype.kind != "f":
        return None
    size = np.abs(values)
    large = (size >= 2.0 ** (np.finfo(values.dtype).nmant + 1)) & np.isfinite(values)
    return float(values[large][0]) if large.any() else None


def _native_float(array: AnyArray) -> FloatArray:
    wanted = np.float32 if array.dtype.itemsize == 4 else np.float64
    return array.astype(wanted, copy=False)


def check_same_length(**arrays: AnyArray | None) -> None:
    """Raise unless all arrays that are given have the same number of rows."""
    given = {name: array for name, array in arrays.items() if array is not None}
    lengths = {
        name: len(array) if array.ndim else "a single value" for name, array in given.items()
    }
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ShapeError(
            f"The arguments must all have one row per case. Got rows {got}. "
            "Hint: check that they come from the same split, in the same order."
        )


def check_same_order(**given: Any) -> None:
    """Raise where two frames or series hold the same index in another order.

    Rows belong together by position. An index that says otherwise is not passed over: after a sort
    or a shuffle of one of the two, each case would be judged by another case's label. Every two
    are compared, because an index that says nothing may be between them.
    """
    indices = {name: _index(value) for name, value in given.items()}
    known = [(name, index) for name, index in indices.items() if index is not None]
    for (first, own), (name, index) in combinations(known, 2):
        if _is_reordered(index, own):
            raise ShapeError(
                f"'{first}' and '{name}' must have the same index, in the same order. "
                f"Got the same index in another order. Hint: pass {name}.loc[{first}.index], or "
                "to_numpy() of both if their rows belong together as they are."
            )


def _is_reordered(index: Any, other: Any) -> bool:
    """Whether two indices of pandas hold the same entries, each once, in another order."""
    if len(index) != len(other) or index.nlevels != other.nlevels or index.equals(other):
        return False
    return bool(index.is_unique and other.is_unique and index.isin(other).all())


def _index(value: Any) -> Any:
    """Return the index of pandas' frames and series, which are known by it; None of all others."""
    index = getattr(value, "index", None)
    return index if hasattr(index, "is_unique") and hasattr(index, "isin") else None


def first_index(*given: Any) -> Any:
    """Return the first index of pandas among some values, or None."""
    return next((index for index in map(_index, given) if index is not None), None)


def check_same_shape(**arrays: AnyArray) -> None:
    """Raise unless all arrays have the same shape."""
    if len({array.shape for array in arrays.values()}) > 1:
        got = ", ".join(f"{name}: {array.shape}" for name, array in arrays.items())
        raise ShapeError(f"The models to compare must have the same shape. Got {got}.")


def check_metric_value(value: Any) -> float:
    """Return the value of a user's metric; raise unless it is one finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            message("metric", "must return one number", f"{type(value).__name__}")
        ) from error
    if not math.isfinite(number):
        raise NonFiniteError(
            message(
                "metric",
                "must return finite numbers",
                f"{number}",
                "some resamples may lack a class that the metric needs",
            )
        )
    return number


def check_unit_interval(values: FloatArray, name: str) -> None:
    """Raise unless all values are in [0, 1]."""
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        raise ProbabilityError(
            message(
                name, "must be in [0, 1]", f"values from {low:g} to {high:g}", percent_hint(high)
            )
        )


def check_columns(array: AnyArray, n_columns: int, name: str) -> None:
    """Raise unless `array` has as many columns as in `fit`."""
    if array.shape[1] != n_columns:
        raise ShapeError(
            message(name, f"must have {n_columns} columns, as in fit", f"{array.shape[1]} columns")
        )


def check_fitted(fitted: bool) -> None:
    """Raise unless an object is fitted."""
    if not fitted:
        raise NotFittedError(
            "This object is not fitted. Hint: call fit(inputs, y_true) on held-out cases first."
        )


def _first_position(mask: BoolArray) -> str:
    position = np.unravel_index(int(mask.argmax()), mask.shape)
    return "row " + ", column ".join(str(int(i)) for i in position)

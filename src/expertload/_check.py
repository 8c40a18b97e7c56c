"""The form of a message, and the checks that several modules share.

A check takes the name of the argument, so that a message reads::

    'target_accuracy' must be in [0, 1]. Got 97 instead. Hint: pass 0.97 for 97 %.

A check with a single caller is beside it, and words its error with `message`. Nothing is guessed:
values are never used to distinguish probabilities from logits; logits that look like probabilities
only cause a warning.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib import import_module
from itertools import combinations
from numbers import Integral, Real
from typing import Any

import numpy as np

from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload.exceptions import (
    DataTypeError,
    EmptyInputError,
    InsufficientDataError,
    LabelError,
    MissingExtraError,
    NonFiniteError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)


def insufficient(wanted: str, got: str, hint: str) -> InsufficientDataError:
    """Return an error about too few or unsuitable cases, ready to be raised."""
    return InsufficientDataError(f"This needs {wanted}. Got {got} instead. Hint: {hint}.")


def parameter_error(name: str, wanted: str, got: object, hint: str | None = None) -> ParameterError:
    """Return an error about an argument or option, ready to be raised."""
    return ParameterError(message(name, wanted, got, hint))


def require_extra(module: str, extra: str, what: str) -> Any:
    """Import an optional dependency; if it is missing, name the extra that installs it."""
    with needs_extra(extra, what):
        return import_module(module)


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Name the extra to install if an import inside the block fails.

    For the `__init__` of a package that needs the extra::

        with needs_extra("torch", "expertload.losses"):
            from expertload.losses.aucoc import AUCOCLoss
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "expertload"):  # a defect in this library, which no installation fixes
            raise
        raise MissingExtraError(
            f"{what} needs {missing}, which is not installed. "
            f"Hint: pip install 'expertload[{extra}]'"
        ) from error


def incompatible_options_error(options: str, why: str) -> ParameterError:
    """Return the error for options that exclude each other."""
    return ParameterError(f"The options {options} exclude each other: {why}.")


def message(name: str, wanted: str, got: object, hint: str | None = None) -> str:
    text = f"'{name}' {wanted}. Got {got} instead."
    return f"{text} Hint: {hint}." if hint else text


def percent_hint(number: float) -> str | None:
    if 1 < number <= 100:
        return f"pass {number / 100:g} for {number:g} %"
    return None


def label_range_error(
    low: int,
    high: int,
    n_classes: int,
    hint: str = "pass ignore_index=... for the number that marks positions without a label",
) -> LabelError:
    """Return the error for class numbers without a column of logits."""
    if low > 0 and high == n_classes:
        hint = "class numbers start at 0: pass target - 1"
    wanted = f"must hold class numbers from 0 to {n_classes - 1}"
    return LabelError(message("target", wanted, f"numbers from {low} to {high}", hint))


def check_fraction(value: Any, name: str, *, inclusive: bool = True) -> float:
    """Return `value` as a float in [0, 1], or in (0, 1) if the ends are not allowed."""
    number = as_real(value, name)
    # For a number very close to zero, 1 - number is rounded to one.
    inside = 0 <= number <= 1 if inclusive else 0 < number < 1 and 1 - number < 1
    if not inside:
        wanted = "must be in [0, 1]" if inclusive else "must be in (0, 1)"
        raise ParameterError(message(name, wanted, f"{value}", percent_hint(number)))
    return number


def check_level(value: Any) -> float:
    """Return a confidence level, in (0, 1)."""
    return check_fraction(value, "confidence_level", inclusive=False)


def check_positive(value: Any, name: str, *, zero: bool = False) -> float:
    """Return `value` as a finite float above zero (or at least zero)."""
    number = as_real(value, name)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        wanted = "must be zero or more" if zero else "must be positive"
        raise ParameterError(message(name, f"{wanted} and finite", f"{value}"))
    return number


def check_threshold(value: Any) -> float:
    """Return a threshold: any number except NaN."""
    number = as_real(value, "threshold")
    if math.isnan(number):
        raise ParameterError(message("threshold", "must be a number", "NaN"))
    return number


def check_count(value: Any, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return `value` as an int of at least `minimum` and at most `maximum`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < minimum or (maximum is not None and value > maximum):
        limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ParameterError(message(name, f"must be a whole number {limits}", f"{value!r}"))
    return int(value)


def check_ignore_index(value: Any) -> int | None:
    """Return the class number that marks cases without a label; None if there is none.

    True and False are refused: they are the numbers 1 and 0, and would leave out a class.
    """
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        wanted = "must be a whole number or None"
        raise ParameterError(message("ignore_index", wanted, f"{value!r}")) from None


def check_option(value: Any, options: Sequence[str], name: str) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        wanted = "must be one of " + ", ".join(repr(option) for option in options)
        raise ParameterError(message(name, wanted, f"{value!r}"))
    return value


def as_real(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(message(name, "must be a number", f"{value!r}"))
    try:
        return float(value)
    except OverflowError as error:
        got = "a whole number that no float can hold"
        raise ParameterError(message(name, "must be a number", got)) from error


def random_generator(seed: Any) -> np.random.Generator:
    """Return a generator from None, an int or a generator."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        wanted = "must be None, an int or a Generator"
        raise parameter_error("random_state", wanted, repr(seed)) from error


def check_minimum(value: Any, minimum: float, name: str, hint: str) -> float:
    """Return `value` as a finite float of at least `minimum`."""
    number = as_real(value, name)
    if not minimum <= number < math.inf:
        wanted = f"must be finite and at least {minimum:g}"
        raise ParameterError(message(name, wanted, f"{value}", hint))
    return number


def check_targets(value: Any) -> tuple[float, ...]:
    """Return one target accuracy or several as a tuple."""
    is_row = np.ndim(value) == 1 if isinstance(value, np.ndarray) else isinstance(value, Sequence)
    several = list(value) if is_row else [value]
    if not several or isinstance(value, str):
        raise parameter_error("target_accuracy", "must be one or more numbers", repr(value))
    return tuple(check_fraction(target, "target_accuracy") for target in several)


def check_models(models: Any) -> dict[str, Any]:
    """Return a mapping from names to models, which must not be empty."""
    if not isinstance(models, Mapping) or not models:
        wanted = "must map at least one name to a model"
        got = "nothing" if isinstance(models, Mapping) else f"a {type(models).__name__}"
        raise ParameterError(message("models", wanted, got, 'pass {"name": model, ...}'))
    named = {str(name): model for name, model in models.items()}
    if len(named) < len(models):
        names = ", ".join(repr(name) for name in models)
        raise ParameterError(message("models", "must have names that differ as text", names))
    return named


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
    if isinstance(value, np.ma.MaskedArray) and (mask := np.ma.getmaskarray(value)).any():
        # A masked value is missing.
        got = f"{int(mask.sum())} masked value(s), the first at {_first_position(mask)}"
        hint = "remove those cases, or fill them"
        raise NonFiniteError(message(name, "must have no masked values", got, hint))
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
        got = f"{int(bad.sum())} NaN or infinite value(s), the first at {_first_position(bad)}"
        hint = "remove those cases, or find out why the model produced them"
        raise NonFiniteError(message(name, "must be finite", got, hint))
    return array


def _to_float(array: AnyArray, name: str) -> FloatArray:
    if array.dtype.kind == "f":
        # Half precision is not meant for arithmetic; extended precision gains nothing here.
        wanted = np.float32 if array.dtype.itemsize <= 4 else np.float64
        return array.astype(wanted, copy=False)
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
            got = f"values of {kinds}"
            raise DataTypeError(message(name, "must hold real numbers", got, hint)) from None
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
    """Return the first float too large to be exact, or None.

    From 2**53 on (2**24 in single precision) floats skip whole numbers, so labels and identifiers
    of that size may have become equal when they were made floats.
    """
    if values.dtype.kind == "O":
        values = np.array([value for value in values.tolist() if isinstance(value, float)])
    if values.dtype.kind != "f":
        return None
    size = np.abs(values)
    large = (size >= 2.0 ** (np.finfo(values.dtype).nmant + 1)) & np.isfinite(values)
    return float(values[large][0]) if large.any() else None


def check_same_length(**arrays: AnyArray | None) -> None:
    """Raise unless all arrays that are given have the same number of rows."""
    lengths = {
        name: len(array) if array.ndim else "a single value"
        for name, array in arrays.items()
        if array is not None
    }
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise ShapeError(
            f"The arguments must all have one row per case. Got rows {got}. "
            "Hint: check that they come from the same split, in the same order."
        )


def check_same_order(**given: Any) -> None:
    """Raise where two frames or series hold the same index in another order.

    Rows belong together by position. If one of the two was sorted or shuffled, each case would be
    judged by the label of another case. Every pair is compared, because not all have an index.
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
    """Return the index of a frame or series of pandas; None for everything else."""
    index = getattr(value, "index", None)
    return index if hasattr(index, "is_unique") and hasattr(index, "isin") else None


def first_index(*given: Any) -> Any:
    """Return the first index of pandas among some values, or None."""
    return next((index for index in map(_index, given) if index is not None), None)


def check_unit_interval(values: FloatArray, name: str) -> None:
    """Raise unless all values are in [0, 1]."""
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        got = f"values from {low:g} to {high:g}"
        raise ProbabilityError(message(name, "must be in [0, 1]", got, percent_hint(high)))


def _first_position(mask: BoolArray) -> str:
    position = np.unravel_index(int(mask.argmax()), mask.shape)
    return "row " + ", column ".join(str(int(i)) for i in position)


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
        wanted = "must hold probabilities in [0, 1]"
        hint = (
            f"for logits, {for_logits}"
            if low < 0 or high > 100
            else f"for percentages, divide by 100; for logits, {for_logits}"
        )
        raise ProbabilityError(message(name, wanted, f"values from {low:g} to {high:g}", hint))
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
        got = f"a sum of {proba[worst].sum():g} in row {worst}"
        hint = (
            "for independent (sigmoid) outputs, pass one column at a time; for rounded "
            "values, divide each row by its sum"
        )
        raise ProbabilityError(message(name, SUM_TO_ONE, got, hint))


def check_logits(logits: ArrayLike) -> FloatArray:
    """Return finite logits with at least two columns."""
    values = as_floats(logits, "logits", ndim=(2,))
    if values.shape[1] < 2:
        wanted = "must have one column per class, at least two"
        hint = "for one binary logit z, pass np.column_stack([np.zeros_like(z), z])"
        raise ShapeError(message("logits", wanted, f"shape {values.shape}", hint))
    warn_if_probabilities(values, "pass the output of the last layer, before the softmax")
    return values


NOT_LOGITS = "The logits look like probabilities: no number is negative, and the rows sum to one."


def warn_if_probabilities(logits: FloatArray, hint: str, *, stacklevel: int = 4) -> None:
    """Warn about rows of logits that look like probabilities."""
    if min(logits.shape) > 1 and look_like_probabilities(logits):
        warnings.warn(f"{NOT_LOGITS} Hint: {hint}.", stacklevel=stacklevel)


def look_like_probabilities(rows: Any, tolerance: float = ROW_SUM_TOLERANCE) -> bool:
    """Whether no number of an array or tensor is negative, and the rows sum to one."""
    if bool(((rows < 0) | (rows > 2)).any()):  # huge ones would overflow in a sum
        return False
    is_open = (rows > 0) & (rows < 1)  # rows of ones and zeros may well be made-up logits
    return bool(is_open.any() & (abs(rows.sum(1) - 1) < tolerance).all())

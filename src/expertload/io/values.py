"""Converts columns of a file to arrays, and refuses columns that contradict each other.

Errors name the row. If nobody can know which of two contradicting columns is right, or whether a
prediction equals the label, the file is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import softmax

from expertload._blocks import blocks
from expertload._check import (
    EXACT,
    EXACT_HINT,
    EXACT_ONLY,
    ROW_SUM_TOLERANCE,
    ROW_SUM_TOLERANCE_HALF_PRECISION,
    SKIPPED,
    SUM_TO_ONE,
    rounded_whole,
)
from expertload._label_arrays import both_classes
from expertload._labels import (
    class_key,
    is_missing,
    listed,
    places_by_name,
    truth_number,
    truth_numbers,
    whole_number,
)
from expertload._names import MISSING, TOKENS
from expertload._typing import AnyArray, BoolArray, FloatArray, IntArray
from expertload.cases import pick
from expertload.exceptions import FileFormatError, ProbabilityError
from expertload.io.columns import Columns, shortened
from expertload.metrics import outlier_auroc_score
from expertload.scores import HIGHEST_LOG

NOT_ONE = "if a column is not a probability, name those that are (--probabilities)"
# The largest rounding error per class, for probabilities rounded to two digits.
ROUNDED_BY, ROUNDED_AT_MOST = 0.005, 0.1
# Standard errors below chance; a classifier without skill falls there once in a billion times.
UNLIKELY = 6
SAMPLE = 100_000  # cases to compare, spread over the file
# How the names of Arrow's numbers end that numpy has too.
NUMBERS = ("int8", "int16", "int32", "int64", "float", "double")


class Coded(NamedTuple):
    """A column with few distinct values: these values, and the index of each row's value."""

    values: AnyArray
    codes: IntArray


# ------------------------------------------------------------------ one column


def numbers_from(values: AnyArray, column: str, where: str) -> FloatArray:
    """Return a column as finite numbers; raise an error that names the first bad row."""
    if values.dtype.kind in "fiub":
        if values.dtype.kind in "iu" and len(values):
            low, high = int(values.min()), int(values.max())
            if max(-low, high) > EXACT:  # different ones would become equal floats
                raise FileFormatError(
                    f"The column '{column}' of {where} {EXACT_ONLY}. Got "
                    f"{high if high > EXACT else low}. Hint: {EXACT_HINT}."
                )
        numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            raise FileFormatError(
                f"The column '{column}' of {where} must be finite. Got {numbers[bad[0]]} in row "
                f"{int(bad[0]) + 1}, and {len(bad)} such value(s) in total. Hint: remove those "
                "cases, or find out why the model produced them."
            )
        return numbers
    check_present(values, column, where)
    is_number = values.dtype.kind in "OU"  # numpy would also make numbers of dates
    for row, value in enumerate(values.tolist(), 1):
        if not (is_number and _is_number(value)):
            shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
            raise FileFormatError(
                f"The column '{column}' of {where} must hold numbers. Got {shown} in row {row}."
            )
    return values.astype(np.float64)


def is_graded(values: AnyArray) -> bool:
    """Whether correctness is text, but not all of it words such as true and yes."""
    words = set(values.tolist()) - {None} if values.dtype.kind == "O" else set()
    return any(_truth(str(word)) is None for word in words)


def grades_from(values: AnyArray, column: str, where: str) -> FloatArray:
    """Return a column of correctness as numbers; words such as true and yes are converted."""
    if values.dtype.kind == "O":
        words = {value: _truth(str(value)) for value in set(values.tolist())}
        if None not in words.values():
            return np.array([words[value] for value in values.tolist()], dtype=np.float64)
    return numbers_from(values, column, where)


def _truth(word: str) -> int | None:
    """Return 1 or 0 for a word such as true or no; None for anything else, also for numbers."""
    return truth_number(word) if whole_number(word) is None else None


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


def check_present(values: AnyArray, column: str, where: str) -> None:
    """Refuse a column with missing values; the message names the first row."""
    missing = missing_rows(values)
    if missing:
        is_place = column.rpartition(".")[2].isdigit()
        lists = "; every list must have as many numbers as the first" if is_place else ""
        raise FileFormatError(
            f"The column '{column}' of {where} lacks {len(missing)} value(s), the first in row "
            f"{missing[0] + 1}. Hint: remove the cases without a value{lists}."
        )


def missing_rows(values: AnyArray) -> list[int]:
    """Return the rows without a value."""
    return [i for i, v in enumerate(values) if v is None] if values.dtype.kind == "O" else []


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or text of one without what only Python reads as part of it."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, str) or (value.isascii() and "_" not in value)


# ------------------------------------------------------------------ columns of probabilities


def probabilities_from(
    columns: Columns,
    table: Mapping[str, AnyArray],
    where: str,
    *,
    lone: int | None = None,
) -> FloatArray:
    """Return one column per class; a single column of one of two classes becomes two."""
    given = [numbers_from(table[name], name, where) for name in columns.probabilities]
    if columns.is_logits:
        if len(given) == 1:  # log-odds: the logit of the other class is zero
            zero = np.zeros(len(given[0]))
            given = [given[0], zero] if lone == 0 else [zero, given[0]]
        return np.asarray(softmax(np.column_stack(given).astype(np.float64), axis=1))
    # Stored column by column, so that operations on rows run over whole columns.
    proba: FloatArray = np.stack(given).T
    _check_range(columns, proba, where)
    if len(given) == 1:
        return np.stack(both_classes(given[0], lone)).T
    return _with_sums(columns, proba, where)


def _check_range(columns: Columns, proba: FloatArray, where: str) -> None:
    low, high = proba.min(initial=0), proba.max(initial=1)
    if low >= 0 and high <= 1:
        return
    row, column = (int(place) for place in np.argwhere((proba < 0) | (proba > 1))[0])
    percentages = "for percentages, divide by 100; " if low >= 0 and high <= 100 else ""
    raise ProbabilityError(
        f"The column '{columns.probabilities[column]}' of {where} must hold probabilities in "
        f"[0, 1]. Got {proba[row, column]:g} in row {row + 1}. Used as probabilities: "
        f"{shortened(columns.probabilities)}. Hint: {percentages}for logits, name them with "
        f"--logits, and a softmax is applied; {NOT_ONE}."
    )


def sum_tolerance(columns: Columns) -> float:
    """Return how far the sum of a row may be from one: for arithmetic, or for rounded values."""
    tolerance = ROW_SUM_TOLERANCE_HALF_PRECISION if columns.is_half else ROW_SUM_TOLERANCE
    rounded = min(ROUNDED_BY * len(columns.probabilities), ROUNDED_AT_MOST)
    # Decimal fractions have no exact binary form.
    return max(tolerance, rounded) + 1e-9 if columns.is_normalized else tolerance


def added_up(columns: list[Any]) -> Any:
    """Return the sum of columns, in one order for arrays, frames and SQL: the same digits.

    By 32, because engines limit how deep an expression may be.
    """
    while len(columns) > 1:
        parts = (columns[i : i + 32] for i in range(0, len(columns), 32))
        columns = [reduce(add, part) for part in parts]
    return columns[0]


def sums_missed(columns: Columns, proba: FloatArray) -> BoolArray:
    """Return the rows whose probabilities do not sum to one within the tolerance."""
    forgiven = sum_tolerance(columns)
    missed = np.empty(len(proba), dtype=np.bool_)
    for rows in blocks(len(proba)):
        missed[rows] = ~(np.abs(proba[rows].sum(axis=1, dtype=np.float64) - 1) <= forgiven)
    return missed


def _with_sums(columns: Columns, proba: FloatArray, where: str) -> FloatArray:
    """Return probabilities if rows sum to one, or divided by their sums if requested."""
    missed = sums_missed(columns, proba)
    if not (missed.any() or columns.is_normalized):
        return proba
    total = added_up(list(proba.astype(np.float64, copy=False).T))
    if not missed.any():
        return np.asarray(proba / total[:, None])
    first = int(missed.argmax())
    rounded = sum_tolerance(replace(columns, is_normalized=True))
    hint = (
        f"--normalize allows an error of {rounded:g}, as from rounding to two digits"
        if columns.is_normalized or (np.abs(total - 1) > rounded).any()
        else "for rounded values, divide each row by its sum with --normalize"
    )
    raise ProbabilityError(
        f"The probabilities of {where} {SUM_TO_ONE}. Got {total[first]:g} in row "
        f"{first + 1}. Used as probabilities: {shortened(columns.probabilities)}. Hint: "
        f"{hint}; {NOT_ONE}."
    )


# ------------------------------------------------------------------ two columns that name classes


def class_numbers(
    labels: Sequence[str],
    answers: Sequence[str],
    where: str,
    *,
    few: bool = False,
) -> tuple[IntArray, IntArray]:
    """Return a number for each label and answer, equal if they are the same class in any spelling.

    They may be those of all cases, or only the distinct ones. With `few` cases, all answers may be
    wrong, so a single class on either side need not occur on the other.
    """
    truths, guesses = class_keys(labels), class_keys(answers)
    check_names(truths, guesses, where)
    check_names(guesses, truths, where)
    least = 2 if few else 1
    is_known = not set(truths.values()).isdisjoint(guesses.values())
    numbers = truth_numbers(truths), truth_numbers(guesses)
    if numbers[0] is not None and numbers[1] is not None:
        truths = dict(zip(truths, map(str, numbers[0]), strict=True))
        guesses = dict(zip(guesses, map(str, numbers[1]), strict=True))
    elif not is_known and min(len(truths), len(guesses)) >= least:
        raise FileFormatError(
            f"The predictions of {where} must be among the labels {listed(sorted(truths))}. Got "
            f"{listed(list(guesses))}. Hint: use the same names for both."
        )
    number = {key: i for i, key in enumerate({*truths.values(), *guesses.values()})}
    return (
        np.array([number[truths[name]] for name in labels], dtype=np.int64),
        np.array([number[guesses[name]] for name in answers], dtype=np.int64),
    )


def class_keys(names: Iterable[str]) -> dict[str, str]:
    """Return distinct names, each with the key that all its spellings share."""
    return {name: class_key(name) for name in dict.fromkeys(names)}


def check_names(own: dict[str, str], other: dict[str, str], where: str) -> None:
    """Refuse names of one side that are no classes, or classes of the other in other letters."""
    folded = {key.casefold(): name for name, key in other.items()}
    whole = all(whole_number(name) is not None for name in other)
    for name, key in own.items():
        if key in other.values():
            continue
        if key.casefold() in folded:
            raise FileFormatError(
                f"'{name}' and '{folded[key.casefold()]}' in {where} differ in the case of letters "
                "alone. Hint: spell both alike."
            )
        if key.lower() in MISSING:
            raise FileFormatError(
                f"'{name}' in {where} looks like a missing value. Hint: leave it empty, or remove "
                "the cases without a value; if it is a class, rename it."
            )
        if whole and _is_fraction(name):
            raise FileFormatError(
                f"'{name}' in {where}, where other classes are whole numbers, looks like a score. "
                "Hint: name the column of the class."
            )


def _is_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer()
    except (ValueError, OverflowError):
        return False


# ------------------------------------------------------------------ contradictions


def check_predictions(
    given: Coded, column: str, classes: Sequence[object], y_proba: FloatArray, where: str
) -> None:
    """Refuse predictions that are not the most probable class; other names are no classes."""
    names = names_from(given.values).tolist()
    known = [name for name in names if name is not None]
    places, _ = places_by_name(known, [str(name) for name in classes])
    place = np.array([places.get(name, -1) for name in names])[given.codes]
    stated = pick(y_proba, np.maximum(place, 0))
    against = np.flatnonzero((place >= 0) & (stated < y_proba.max(axis=1)))
    if len(against):
        row = int(against[0])
        raise FileFormatError(
            f"The column '{column}' of {where} does not name the most probable class in row "
            f"{row + 1} ({names[given.codes[row]]}, not {classes[int(y_proba[row].argmax())]}), "
            f"and in {len(against)} row(s) in total: what the model answered is not clear. Hint: "
            "if the probabilities are right, pass --prediction none; if the predictions are, name "
            f"their confidence (--prediction {column} --confidence COLUMN)."
        )


def check_not_opposite(
    place: IntArray, y_proba: FloatArray, columns: Sequence[str], classes: Sequence[str], where: str
) -> None:
    """Refuse two classes that no name tells apart, if each is more probable in cases of the other.

    Only if chance is next to impossible as the reason. `classes` are those of the columns.
    """
    step = max(1, len(place) // SAMPLE)
    is_second, share = place[::step] == 1, y_proba[::step, 1]
    if is_second.all() or not is_second.any():
        return
    n_second, n = int(is_second.sum()), len(is_second)
    # Mann and Whitney's standard error of the area, without skill
    error = math.sqrt((n + 1) / (12 * n_second * (n - n_second)))
    area = outlier_auroc_score(is_second, share)
    if area >= 0.5 - UNLIKELY * error:
        return
    raise FileFormatError(
        f"No name tells which class the column(s) {', '.join(columns)} of {where} belong to, and "
        f"they look exchanged: read as the probability of {' and '.join(classes)}, they are higher "
        f"in cases of the other class (the area under the ROC curve is {area:.2f}). Hint: name the "
        f"class of each column, in order (--classes {','.join(classes)} if this is how to read it)."
    )


def check_logits(columns: Columns, table: Mapping[str, AnyArray], where: str) -> None:
    """Refuse logits that look like probabilities: a second softmax would flatten them."""
    given = [numbers_from(table[name], name, where) for name in columns.probabilities]
    values = np.column_stack(given)
    check_tokens(columns, values, where)
    if values.min(initial=0) < 0 or values.max(initial=1) > 1:
        return
    if len(given) == 1 and len(values) < 30:  # a few log-odds may be in [0, 1]
        return
    if len(given) > 1 and sums_missed(columns, values).any():
        return
    taken = f"'{columns.probabilities[0].removesuffix(columns.classes[0])}*'"
    raise FileFormatError(
        f"The logits of {where} look like probabilities: all are in [0, 1]"
        f"{', and sum to one in every row' if len(given) > 1 else ''}. Hint: if they are "
        f"probabilities, pass --probabilities {taken}; if not, --logits {taken}."
    )


def check_tokens(columns: Columns, values: FloatArray, where: str) -> None:
    """Refuse log probabilities of tokens above zero."""
    high = values[values > HIGHEST_LOG]
    if columns.are_parts_of(TOKENS) and len(high):
        raise FileFormatError(
            f"The log probabilities of {where} must be 0 or less. Got {high[0]:g}. Hint: these "
            "look like probabilities; store their logarithms."
        )


def check_scale(
    known: Sequence[float] | None, confidence: FloatArray, column: str | None, where: str
) -> None:
    """Refuse confidences on a higher scale than a policy's, such as percentages: all would pass.

    Refused is a median above the policy's highest confidence by more than the policy's range, and
    by more than that highest confidence itself. `known` are quantiles, from lowest to highest.
    """
    if not known:
        return
    low, high, middle = known[0], known[-1], float(np.median(confidence))
    if middle > high + max(high - low, abs(high)):
        raise FileFormatError(
            f"The column '{column}' of {where} must be on the scale that the policy was made with, "
            f"from {low:g} to {high:g}. Got {middle:g} or more in half of the cases. Hint: if "
            "these are percentages, divide by 100; if the scale has changed, make a new policy."
        )


# ------------------------------------------------------------------ Arrow and numpy


def to_numpy(values: Any) -> AnyArray:
    """Return Arrow values as a numpy array; of objects, with None, if some are missing.

    Arrow's own conversion imports pandas if it is installed, which takes longer than reading a
    small file. So it is used only for dates, which cannot be converted in another way.
    """
    kind = str(values.type)
    if values.null_count == 0 and kind.endswith(NUMBERS):
        parts = [np.from_dlpack(chunk) for chunk in getattr(values, "chunks", [values])]
        return np.concatenate(parts) if len(parts) != 1 else parts[0]
    if kind.startswith(("date", "timestamp")):
        moments = np.asarray(values.to_numpy(zero_copy_only=False))
        if values.null_count == 0:
            return moments
        listed = moments.astype(object)  # Python's own type ends at the year 9999
        listed[np.isnat(moments)] = None
        return listed
    is_boolean = values.null_count == 0 and kind == "bool"
    listed = np.empty(len(values), dtype=bool if is_boolean else object)
    listed[:] = values.to_pylist()
    return listed


def joined(parts: list[Any]) -> Any:
    """Return the parts of a column as one chunked array."""
    return pa.chunked_array(parts) if parts else pa.array([], pa.string())


def coded_column(parts: list[Any]) -> Coded:
    """Return a column from its dictionary-encoded parts; None is one more value if some miss."""
    if not parts:
        return Coded(np.empty(0, dtype=object), np.empty(0, dtype=np.int64))
    chunks = joined(parts).unify_dictionaries().chunks
    values, has_missing = to_numpy(chunks[0].dictionary), any(part.null_count for part in parts)
    n_values, kind = len(values), np.min_scalar_type(len(values))
    if has_missing:
        values = np.append(values.astype(object), [None])
    indices = (
        chunk.indices.fill_null(n_values) if has_missing else chunk.indices for chunk in chunks
    )
    codes = [to_numpy(part).astype(kind) for part in indices]
    return Coded(values, np.concatenate(codes))

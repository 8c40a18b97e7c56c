"""Audits: answers that may still be open, chances of being audited, keys and moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload._validation.arrays import as_array, check_same_shape
from expertload._validation.options import check_count, check_fraction
from expertload._validation.wording import insufficient, message, percent_hint
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    DecisionOrderError,
    EmptyInputError,
    NotCertifiedError,
    ParameterError,
    ProbabilityError,
    RepeatedCaseError,
    ShapeError,
)

Key = str | int
Clock = Literal["time", "number"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Moments(NamedTuple):
    """When cases were decided: whole microseconds of UTC, or the user's own growing numbers."""

    clock: Clock
    values: list[int] | list[float]


def check_blocks(value: Any, caller: str) -> int | None:
    """Return how many blocks of audits a monitor is made for, None for no limit."""
    return None if value is None else check_count(value, "blocks", caller)


def as_audit_errors(
    correct: ArrayLike, weight: ArrayLike | None, caller: str
) -> tuple[FloatArray, FloatArray]:
    """Return errors and weights of audits, along the last axis."""
    grades = _floats(correct, "correct", caller)
    _refuse_grades(grades, ~((grades >= 0) & (grades <= 1)), caller)
    weights = np.ones(grades.shape[-1:]) if weight is None else _floats(weight, "weight", caller)
    if not ((weights > 0) & (weights <= 1)).all():
        raise ProbabilityError(
            message("weight", caller, "must be in (0, 1]", _range(weights), "divide by the largest")
        )
    try:
        weights = np.broadcast_to(weights, grades.shape)
    except ValueError as error:
        raise ShapeError(
            message("weight", caller, f"must have the shape {grades.shape}", weights.shape)
        ) from error
    return 1 - grades, weights


def as_audit_sums(
    errors: ArrayLike, audits: ArrayLike, caller: str
) -> tuple[FloatArray, FloatArray]:
    """Return sums of errors and numbers of audits, the first at most the second."""
    wrong, total = _floats(errors, "errors", caller), _floats(audits, "audits", caller)
    check_same_shape(caller, errors=wrong, audits=total)
    # Sums of weights in floating point may differ in their last digits.
    if not ((wrong >= 0) & (wrong <= total * (1 + 1e-9))).all():
        raise ParameterError(
            message("errors", caller, "must be from 0 to the number of audits", _range(wrong))
        )
    return wrong, total


def as_answers(correct: ArrayLike, caller: str) -> FloatArray:
    """Return correctness of shape (n,), NaN where a review is still open (None or NaN)."""
    array = np.atleast_1d(as_array(correct, "correct", caller))
    if array.ndim != 1:
        raise ShapeError(message("correct", caller, "must have 1 dimension", array.shape))
    if array.dtype.kind == "O":
        array = np.where(array == None, np.nan, array)  # noqa: E711 - of each element
    grades = _floats(array, "correct", caller)
    if not grades.size:
        raise EmptyInputError(message("correct", caller, "must hold at least one case", "none"))
    _refuse_grades(grades, (grades < 0) | (grades > 1), caller)
    return grades


def as_inclusion(value: ArrayLike | None, n: int, name: str, caller: str) -> FloatArray | None:
    """Return probabilities in (0, 1], one a case."""
    if value is None:
        return None
    given = _floats(value, name, caller)
    bad = ~((given > 0) & (given <= 1))
    if bad.any():
        number = float(given[bad].flat[0])
        wanted = "must be probabilities in (0, 1]"
        raise ProbabilityError(message(name, caller, wanted, f"{number:g}", percent_hint(number)))
    if given.ndim > 1 or (given.ndim and len(given) != n):
        raise ShapeError(message(name, caller, f"must have one value a case ({n})", given.shape))
    return np.broadcast_to(given, n)


def check_least_inclusion(value: Any, caller: str) -> float | None:
    """Return the least probability of being audited, None where all have the same."""
    if value is None:
        return None
    least = check_fraction(value, "least_inclusion_probability", caller)
    if least == 0:
        wanted = "must be in (0, 1]: a case that is never audited cannot be watched"
        raise ProbabilityError(message("least_inclusion_probability", caller, wanted, "0"))
    return least


def as_keys(value: Any, n: int, caller: str) -> list[Key] | None:
    """Return keys as text or whole numbers, one a case."""
    if value is None:
        return None
    keys = _listed(value, "key", caller)
    if len(keys) != n:
        raise ShapeError(message("key", caller, f"must have one value a case ({n})", len(keys)))
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, str | int):
            wanted = "must hold text or whole numbers"
            raise DataTypeError(message("key", caller, wanted, f"{key!r}"))
    return keys


def as_moments(value: Any, n: int, caller: str) -> Moments | None:
    """Return when cases were decided: dates and times, ISO text, or numbers that grow."""
    if value is None:
        return None
    moments = _listed(value, "decided_at", caller)
    if len(moments) != n:
        raise ShapeError(
            message("decided_at", caller, f"must have one value a case ({n})", len(moments))
        )
    numbers = [isinstance(m, Real) and not isinstance(m, bool) for m in moments]
    if all(numbers):
        if not np.isfinite(np.asarray(moments, dtype=float)).all():
            raise DataTypeError(message("decided_at", caller, "must be finite", "NaN or infinity"))
        return Moments("number", moments)
    return Moments("time", [_microseconds(m, caller) for m in moments])


def iso_time(microseconds: int) -> str:
    """Write microseconds since 1970 as ISO text, in UTC."""
    return (EPOCH + microseconds * MICROSECOND).isoformat()


def repeated_case(key: Key, why: str, caller: str) -> RepeatedCaseError:
    """Word the error for a case that is given twice."""
    return RepeatedCaseError(
        f"{caller} takes one label a case. Got the case {key!r} again: {why}. Nothing was counted. "
        "Hint: leave out what was counted before; to correct a label, begin a new monitor."
    )


def decisions_go_back(moment: str, last: str | None, caller: str) -> DecisionOrderError:
    """Word the error for a case decided before one that is already counted."""
    return DecisionOrderError(
        f"{caller} counts cases in the order of their decisions. Got a new case decided at "
        f"{moment}, before the last one counted, {last}. Nothing was counted. Hint: write down "
        "every audited case when it is drawn (correct=None) and add its label later, or use "
        "order='arrival' if how long a review takes cannot depend on whether the case is right."
    )


def moment_changed(key: Key, known: str | None, caller: str) -> DecisionOrderError:
    """Word the error for a label that comes with another moment than its case."""
    return DecisionOrderError(
        f"{caller} knows the case {key!r} as decided at {known}. Got another 'decided_at' with its "
        "label. Nothing was counted. Hint: leave 'decided_at' out for cases that are known."
    )


def clock_changed(known: Clock | None, got: Clock | None, caller: str) -> DecisionOrderError:
    """Word the error for moments of another kind than before, or given for some cases only."""
    words = {"time": "dates and times", "number": "numbers", None: "no 'decided_at'"}
    return DecisionOrderError(
        f"{caller} needs 'decided_at' for every case or for none, always of one kind. Got "
        f"{words[got]} after {words[known]}. Nothing was counted."
    )


def column_changed(name: str, caller: str) -> ParameterError:
    """Word the error for what is said of some cases only."""
    return ParameterError(
        f"{caller} needs '{name}' for every case or for none. Got some with and some without. "
        "Nothing was counted."
    )


def check_one_inclusion(given: set[float], caller: str) -> None:
    """Raise if probabilities differ and nothing says which is the least."""
    if len(given) > 1:
        wanted = "to be the same for all cases where no least one is named"
        raise unclear_inclusion(wanted, f"{min(given):g} and {max(given):g}", caller)


def unclear_inclusion(wanted: str, got: str, caller: str) -> ParameterError:
    """Word the error for probabilities of being audited that give no weights."""
    return ParameterError(
        f"{caller} needs 'inclusion_probability' {wanted}. Got {got}. Nothing was counted. Hint: "
        "least_inclusion_probability=... names the least probability with which any decided case "
        "is audited, fixed before the audits; it may change with time, never with the case."
    )


def unclear_order(caller: str) -> DecisionOrderError:
    """Word the error for audits that cannot be put in one order."""
    return DecisionOrderError(
        f"{caller} puts the audits of several monitors in the order of decisions. Got audits "
        "without 'decided_at', or times in one monitor and numbers in another. Hint: pass "
        "decided_at=... to update."
    )


def check_same_promise(promises: Sequence[dict[str, Any]], caller: str) -> None:
    """Raise unless monitors watch the same promise in the same way."""
    first = promises[0]
    for other in promises[1:]:
        for name, value in other.items():
            if value != first[name]:
                raise ParameterError(
                    f"{caller} takes monitors of one promise. Got {name} {first[name]!r} and "
                    f"{value!r}."
                )


def check_same_policy(digests: Sequence[str | None], caller: str) -> str | None:
    """Return the digest of the policy that monitors watch; raise where there are several."""
    known = [digest for digest in dict.fromkeys(digests) if digest is not None]
    if len(known) > 1:
        raise ParameterError(
            f"{caller} takes monitors of one policy. Got monitors of {len(known)} policies with "
            "the same target. Hint: audits of one policy say nothing about another."
        )
    return known[0] if known else None


def check_monitored_policy(policy: Any, caller: str) -> None:
    """Raise unless a policy promises an accuracy among automatic decisions."""
    if not hasattr(policy, "target_accuracy"):
        raise NotCertifiedError(
            f"{caller} needs a certified policy. Got {type(policy).__name__}, which describes its "
            "data and promises nothing. Hint: make it with expertload.operating_point.certify."
        )
    certified = getattr(policy, "certified", None)
    if not (certified if certified is not None else policy.is_certified):
        raise NotCertifiedError(
            f"{caller} needs a policy that is certified. Got one that delegates everything, "
            "because nothing could be certified: there are no automatic decisions to watch."
        )
    parts = policy.values() if certified is not None else [policy]
    if any(part.risk != "selective" for part in parts):
        raise NotCertifiedError(
            f"{caller} watches the accuracy among automatic decisions. Got a policy with "
            "risk='joint', which promises that of model and experts together. Hint: certify with "
            "risk='selective'."
        )


def _listed(value: Any, name: str, caller: str) -> list[Any]:
    """Return one value or several as a list, each as it came: numpy would turn 1 into '1'."""
    if isinstance(value, str | date | Real | np.generic):
        value = [value]
    if not isinstance(value, Sequence):
        array: AnyArray = np.atleast_1d(as_array(value, name, caller))
        if array.dtype.kind == "M":  # nanoseconds would become whole numbers
            array = array.astype("datetime64[us]")
        value = array.tolist()
    return [each.item() if isinstance(each, np.generic) else each for each in value]


def _microseconds(moment: Any, caller: str) -> int:
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment.strip())
        if isinstance(moment, date) and not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        if not isinstance(moment, datetime):
            raise TypeError
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (zoned - EPOCH) // MICROSECOND
    except (ValueError, TypeError, OverflowError):
        wanted = "must hold dates, ISO text such as '2026-03-01T09:30', or numbers"
        raise DataTypeError(message("decided_at", caller, wanted, f"{moment!r}")) from None


def _floats(value: ArrayLike, name: str, caller: str) -> FloatArray:
    array = as_array(value, name, caller)
    objects = array.ravel().tolist() if array.dtype.kind == "O" else []
    if array.dtype.kind not in "biufO" or not all(isinstance(each, Real) for each in objects):
        got = f"an array of {array.dtype}"
        raise DataTypeError(message(name, caller, "must hold real numbers", got))
    return array.astype(np.float64)


def _refuse_grades(grades: FloatArray, bad: BoolArray, caller: str) -> None:
    if bad.any():
        wanted = "must be 1 for right, 0 for wrong, or a grade between"
        raise CorrectnessError(
            message("correct", caller, wanted, f"{float(grades[bad].flat[0]):g}")
        )


def _range(values: FloatArray | Sequence[float]) -> str:
    return f"values from {np.min(values):g} to {np.max(values):g}"


def check_drop(value: Any, target: float, caller: str, *, growth: float = math.inf) -> float:
    """Return what an accuracy falls to, if it is a fall that bets of this growth can find."""
    drop = check_fraction(value, "drop_to", caller)
    if drop >= target:
        wanted = f"must be below the target, {target:g}"
        raise ParameterError(message("drop_to", caller, wanted, f"{drop:g}"))
    if growth <= 0:
        raise insufficient(
            caller,
            "a fall that more audits find",
            f"one from {target:g} to {drop:g}",
            "name a lower drop_to: the monitor looks for error rates of 1.3 times the promised "
            "one and more, and finds those from about 1.15 times on",
        )
    return drop


def check_after(after: Any, before: Any, target: float, caller: str) -> float:
    """Return the error rate before a fall."""
    check_count(after, "after", caller, minimum=0)
    if before is None:
        return (1 - target) / 2
    return 1 - check_fraction(before, "accuracy_before", caller)


def check_quantiles(value: ArrayLike | None, caller: str) -> FloatArray | None:
    """Return ascending quantiles, three or more of them."""
    if value is None:
        return None
    quantiles = _floats(value, "quantiles", caller)
    if quantiles.ndim != 1 or len(quantiles) < 3:
        wanted = "must be three or more, from the smallest to the largest"
        raise ShapeError(message("quantiles", caller, wanted, f"shape {quantiles.shape}"))
    if not np.isfinite(quantiles).all() or (np.diff(quantiles) < 0).any():
        raise ParameterError(message("quantiles", caller, "must be finite and ascending", "others"))
    return quantiles


def check_watched_load(policy: Any, caller: str) -> None:
    """Raise unless a policy has one threshold that decides something."""
    if not hasattr(policy, "threshold"):
        raise NotCertifiedError(
            f"{caller} needs a policy with one threshold. Got {type(policy).__name__}. Hint: watch "
            "each group by itself, with the policy of that group."
        )
    if not math.isfinite(policy.threshold):
        raise NotCertifiedError(
            f"{caller} needs a policy that decides something. Got a threshold of "
            f"{policy.threshold:g}: everything is delegated, or nothing is."
        )

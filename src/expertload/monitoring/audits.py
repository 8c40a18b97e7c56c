"""The audits of a monitor: checked when they come, and kept in the order of decisions.

An audit is recorded when the case is drawn and its review is open, or when its label is known. It
keeps its position: a late label is filled in at the position of its case. So the order never
depends on the answers, as the promise about false alarms requires.

A batch of audits is checked completely before anything is changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from itertools import groupby
from numbers import Real
from typing import Any, Literal

import numpy as np

from expertload._check import (
    as_array,
    check_count,
    check_fraction,
    check_same_order,
    message,
    percent_hint,
)
from expertload._labels import is_missing
from expertload._typing import ArrayLike, BoolArray, FloatArray
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    DecisionOrderError,
    EmptyInputError,
    ParameterError,
    ProbabilityError,
    RepeatedCaseError,
    ShapeError,
)

Key = str | int
Clock = Literal["time", "number"]
Order = Literal["decision", "arrival"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
INCLUSION = ("inclusion_probability", "least_inclusion_probability")
COLUMNS = ("correct", *INCLUSION, "decided_at", "key")


@dataclass
class AuditRecords:
    """Audits as columns, one entry per case: those of a monitor, or a batch to be added.

    Attributes
    ----------
    correct : list of float
        Grades; NaN where a review is open.
    inclusion_probability, least_inclusion_probability : list of float
        The probability with which each case was audited, and the smallest one at that time; NaN if
        not given.
    decided_at : list of int or float
        When each was decided; empty if not given.
    key : list of str or int or None
        The key of each case.
    clock : {"time", "number"} or None
        How moments are given: microseconds in UTC, or the user's own ascending numbers.
    """

    correct: list[float] = field(default_factory=list)
    inclusion_probability: list[float] = field(default_factory=list)
    least_inclusion_probability: list[float] = field(default_factory=list)
    decided_at: list[int | float] = field(default_factory=list)
    key: list[Key | None] = field(default_factory=list)
    clock: Clock | None = None
    places: dict[Key, int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.correct)

    def weights(self, first: int = 0) -> FloatArray:
        """Return the weight of each audit: the least probability divided by its own."""
        least, own = self.least_inclusion_probability, self.inclusion_probability
        ratio = np.asarray(least[first:], float) / np.asarray(own[first:], float)
        return np.where(np.isnan(ratio), 1.0, ratio)

    def errors(self, *, open_as: float, first: int = 0) -> FloatArray:
        """Return the errors, open reviews counting as `open_as`."""
        errors = 1 - np.asarray(self.correct[first:], dtype=np.float64)
        return np.where(np.isnan(errors), open_as, errors)

    # ------------------------------------------------------------------ adding

    def add(self, batch: AuditRecords, order: Order, *, mix: bool = True) -> bool:
        """Add a batch, completely or, if anything is wrong, not at all.

        Cases of one moment are mixed, unless they were when they were stored. Return whether the
        answer to an open review, which was counted as right, is another one.
        """
        late = self._late_rows(batch)
        new = [row for row in range(len(batch)) if row not in late]
        if new:
            self._check_columns(batch)
            self._check_inclusion(batch, new)
        new = self._ordered(batch, new, order, mix=mix)
        # Everything is checked. From here on nothing can fail.
        grades = {place: batch.correct[row] for row, place in late.items()}
        answers = {place: grade for place, grade in grades.items() if not math.isnan(grade)}
        for place, grade in answers.items():
            self.correct[place] = grade
        for name in COLUMNS:
            column = getattr(batch, name)
            getattr(self, name).extend(_picked(column, new) if column else [])
        self._find_places(len(self) - len(new))
        self.clock = batch.clock if new else self.clock
        return any(grade != 1 for grade in answers.values())

    def _find_places(self, first: int = 0) -> None:
        keys = enumerate(self.key[first:], start=first)
        self.places |= {key: place for place, key in keys if key is not None}

    def _late_rows(self, batch: AuditRecords) -> dict[int, int]:
        """Return the rows that answer an open review, with the position of each."""
        named = [key for key in batch.key if key is not None]
        if len(set(named)) < len(named):
            twice = next(key for i, key in enumerate(named) if key in named[:i])
            raise _repeated_case(twice, "it is given twice")
        late = {row: self.places[key] for row, key in enumerate(batch.key) if key in self.places}
        for row, place in late.items():
            if not math.isnan(self.correct[place]):
                raise _repeated_case(batch.key[row], "it already has its label")
            if batch.clock is None or self.clock is None:
                continue
            if (batch.clock, batch.decided_at[row]) != (self.clock, self.decided_at[place]):
                raise DecisionOrderError(
                    f"The case {batch.key[row]!r} was decided at {self.moment(place)}. Got "
                    "another 'decided_at' with its label. Nothing was counted. Hint: leave out "
                    "'decided_at' for known cases."
                )
        return late

    def _check_columns(self, batch: AuditRecords) -> None:
        """Raise unless these cases have the same columns as earlier ones."""
        if not len(self):
            return
        for name in (*INCLUSION, "key"):
            if is_missing(getattr(self, name)[-1]) != is_missing(getattr(batch, name)[0]):
                raise ParameterError(
                    f"'{name}' is needed for every case or for none. Got it for some cases. "
                    "Nothing was counted. Hint: pass it with all audits to a new monitor."
                )
        if batch.clock != self.clock:
            words = {"time": "dates and times", "number": "numbers", None: "no 'decided_at'"}
            raise DecisionOrderError(
                f"'decided_at' is needed for every case or for none, always of the same kind. Got "
                f"{words[batch.clock]} after {words[self.clock]}. Nothing was counted."
            )

    def _check_inclusion(self, batch: AuditRecords, new: list[int]) -> None:
        """Raise unless the weights follow from a design that was fixed before."""
        own, least = batch.inclusion_probability, batch.least_inclusion_probability
        has_least = not is_missing(least[0])
        if is_missing(own[0]):
            if has_least:
                raise _unclear_inclusion("if least_inclusion_probability is given", "none")
        elif not has_least:
            given = {*self.inclusion_probability[-1:], *_picked(own, new)}
            if len(given) > 1:
                wanted = "to be the same for all cases if least_inclusion_probability is not given"
                raise _unclear_inclusion(wanted, f"{min(given):g} and {max(given):g}")
        else:
            for share, smallest in zip(own, least, strict=True):
                if share < smallest:
                    got = f"{share:g} below the smallest, {smallest:g}"
                    raise _unclear_inclusion("of at least least_inclusion_probability", got)

    def _ordered(
        self, batch: AuditRecords, new: list[int], order: Order, *, mix: bool
    ) -> list[int]:
        """Return new rows in the order of decisions; raise if one is before a counted row."""
        if batch.clock is None or order == "arrival":
            return new
        ordered = sorted(new, key=lambda row: batch.decided_at[row])  # stable
        if ordered and self.decided_at and batch.decided_at[ordered[0]] < self.decided_at[-1]:
            raise DecisionOrderError(
                f"A monitor counts cases in the order of their decisions. Got a new case decided "
                f"at {batch.moment(ordered[0])}, before the last one counted, "
                f"{self.moment(len(self) - 1)}. Nothing was counted. Hint: record every audited "
                "case when it is drawn (correct=None) and add its label later, or use "
                "order='arrival' if the time a review takes cannot depend on whether the case is "
                "right."
            )
        return _mixed(ordered, batch.decided_at, batch.key) if mix else ordered

    # ------------------------------------------------------------------ merging

    @classmethod
    def merged(cls, parts: Sequence[AuditRecords]) -> AuditRecords:
        """Return the audits of several, in the order of decisions; equal moments by key."""
        clocks = {part.clock for part in parts}
        if len(parts) > 1 and (len(clocks) > 1 or None in clocks):
            raise DecisionOrderError(
                "Merging puts the audits of several monitors in the order of decisions. Got audits "
                "without 'decided_at', or times in one monitor and numbers in another. Hint: pass "
                "decided_at=... to update."
            )
        both = cls()
        for part in parts:
            for key in part.places.keys() & both.places.keys():
                raise _repeated_case(key, "more than one monitor has it")
            both.add(part, "arrival")
        if len(parts) > 1:
            when = zip(both.decided_at, both.key, strict=True)
            order = [(moment, key is None, str(key)) for moment, key in when]
            rows = sorted(range(len(order)), key=order.__getitem__)
            for name in COLUMNS:
                setattr(both, name, _picked(getattr(both, name), rows))
            both._find_places()
        return both

    # ------------------------------------------------------------------ showing

    def columns(self) -> dict[str, Any]:
        """Return the audits as columns for a file; None for a column that was never given."""
        places = range(len(self.decided_at))
        moments = [self.moment(p) for p in places] if self.clock == "time" else self.decided_at
        columns = {name: getattr(self, name) for name in COLUMNS[1:]} | {"decided_at": moments}
        return {
            "correct": [None if is_missing(grade) else grade for grade in self.correct],
            **{
                name: None if not column or is_missing(column[0]) else column
                for name, column in columns.items()
            },
        }

    def moment(self, place: int) -> str | None:
        """Return when the case at a position was decided; None if not given."""
        if self.clock is None:
            return None
        value = self.decided_at[place]
        if self.clock == "time":
            return (EPOCH + int(value) * MICROSECOND).isoformat()
        return str(value) if isinstance(value, int) else f"{value:.15g}"  # seconds need ten digits


def _mixed(ordered: list[int], moments: Sequence[Any], keys: Sequence[Any]) -> list[int]:
    """Return rows in the order of their moments, those of one moment in a mixed order.

    Which of them came first is not known. In the order given, they may be sorted by whether they
    are right, as by a query for days and answers: wrong ones first would be taken for a fall. The
    same cases are always mixed in the same way, so that a growing file is not counted anew.
    """
    rows: list[int] = []
    for _, group in groupby(ordered, key=lambda row: moments[row]):
        members = list(group)
        if keys[members[0]] is not None:
            members.sort(key=lambda row: _without_meaning(keys[row]))
        elif len(members) > 1:
            shuffle = np.random.default_rng(len(members)).permutation(len(members))
            members = _picked(members, shuffle.tolist())
        rows += members
    return rows


def _without_meaning(key: Key) -> bytes:
    """Return a sort key that says nothing about the case, because keys may be in an order."""
    return blake2b(repr(key).encode("utf-8", "replace"), digest_size=8).digest()


def _picked(values: Sequence[Any], rows: list[int]) -> list[Any]:
    return [values[row] for row in rows]


def _repeated_case(key: Key | None, why: str) -> RepeatedCaseError:
    return RepeatedCaseError(
        f"A monitor needs one label per case. Got the case {key!r} again: {why}. Nothing was "
        "counted. Hint: leave out cases that were counted before; to correct a label, start a new "
        "monitor."
    )


def _unclear_inclusion(wanted: str, got: str) -> ParameterError:
    return ParameterError(
        f"'inclusion_probability' is needed {wanted}. Got {got}. Nothing was counted. Hint: "
        "least_inclusion_probability=... (--least-inclusion-probability) is the smallest "
        "probability with which any decided case of that time is audited, drawn or not, as "
        "'expertload sample' prints it; later audits may have another one."
    )


# ------------------------------------------------------------------ what is given


def read_audits(
    *,
    correct: ArrayLike | None,
    inclusion_probability: ArrayLike | None,
    least_inclusion_probability: ArrayLike | None,
    decided_at: Any,
    key: Any,
) -> AuditRecords:
    """Check audits one by one; arguments as in `AccuracyMonitor.update`."""
    given = (inclusion_probability, least_inclusion_probability)
    shares = dict(zip(INCLUSION, given, strict=True))
    check_same_order(correct=correct, **shares, decided_at=decided_at, key=key)
    grades = as_answers(correct)
    clock, moments = _as_moments(decided_at, len(grades))
    own, least = (as_inclusion(value, len(grades), name) for name, value in shares.items())
    return AuditRecords(grades.tolist(), own, least, moments, as_keys(key, len(grades)), clock)


def check_blocks(value: Any) -> int | None:
    """Return the number of blocks that a monitor is made for; None for no limit."""
    return None if value is None else check_count(value, "blocks")


def as_audit_errors(correct: ArrayLike, weight: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return errors and weights of audits, along the last axis."""
    grades = np.atleast_1d(as_numbers(correct, "correct"))
    _refuse_grades(grades, ~((grades >= 0) & (grades <= 1)))
    weights = np.ones(grades.shape[-1:]) if weight is None else as_numbers(weight, "weight")
    if not ((weights > 0) & (weights <= 1)).all():
        got, hint = _range(weights), "divide by the largest"
        raise ProbabilityError(message("weight", "must be in (0, 1]", got, hint))
    return 1 - grades, np.broadcast_to(weights, grades.shape)


def as_audit_sums(errors: ArrayLike, audits: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return sums of errors and numbers of audits, the first at most the second."""
    wrong, total = as_numbers(errors, "errors"), as_numbers(audits, "audits")
    # Floating-point sums of weights may differ in the last digits.
    if not ((wrong >= 0) & (wrong <= total * (1 + 1e-9))).all():
        wanted = "must be from 0 to the number of audits"
        raise ParameterError(message("errors", wanted, _range(wrong)))
    return wrong, total


def as_answers(correct: ArrayLike | None) -> FloatArray:
    """Return correctness of shape (n,), with NaN for open reviews (None or NaN)."""
    array = np.atleast_1d(as_array(correct, "correct"))
    if array.ndim != 1:
        raise ShapeError(message("correct", "must have 1 dimension", array.shape))
    if array.dtype.kind == "O":
        array = np.where([is_missing(grade) for grade in array], np.nan, array)
    grades = as_numbers(array, "correct")
    if not grades.size:
        raise EmptyInputError(message("correct", "must hold at least one case", "none"))
    _refuse_grades(grades, (grades < 0) | (grades > 1))
    return grades


def as_inclusion(value: ArrayLike | None, n: int, name: str) -> list[float]:
    """Return probabilities in (0, 1], one per case; NaN if not given."""
    if value is None:
        return [math.nan] * n
    given = as_numbers(value, name)
    bad = ~((given > 0) & (given <= 1))
    if bad.any():
        number = float(given[bad].flat[0])
        wanted = "must be probabilities in (0, 1]"
        raise ProbabilityError(message(name, wanted, f"{number:g}", percent_hint(number)))
    if given.ndim > 1 or (given.ndim and len(given) != n):
        raise ShapeError(message(name, f"must have one value per case ({n})", given.shape))
    shares: list[float] = np.broadcast_to(given, n).tolist()
    return shares


def check_least_inclusion(value: Any) -> float | None:
    """Return the smallest inclusion probability; None if all cases have the same."""
    if value is None:
        return None
    least = check_fraction(value, "least_inclusion_probability")
    if least == 0:
        wanted = "must be in (0, 1]: a case that is never audited cannot be monitored"
        raise ProbabilityError(message("least_inclusion_probability", wanted, "0"))
    return least


def as_keys(value: Any, n: int) -> list[Key | None]:
    """Return keys as text or whole numbers, one per case; None if not given."""
    if value is None:
        return [None] * n
    keys = _listed(value, n, "key")
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise DataTypeError(message("key", "must hold text or whole numbers", f"{key!r}"))
    return keys


def _as_moments(value: Any, n: int) -> tuple[Clock | None, list[Any]]:
    """Return when cases were decided: dates and times, ISO text, or numbers that grow."""
    if value is None:
        return None, []
    moments = _listed(value, n, "decided_at")
    if not all(isinstance(m, Real) and not isinstance(m, bool) for m in moments):
        return "time", [_microseconds(m) for m in moments]
    if not np.isfinite(np.array(moments, dtype=np.float64)).all():
        raise DataTypeError(message("decided_at", "must be finite", "NaN or infinity"))
    return "number", moments


def _listed(value: Any, n: int, name: str) -> list[Any]:
    """Return one value per case as a list, unchanged, because numpy would turn 1 into '1'."""
    if isinstance(value, str | date | Real | np.generic):
        value = [value]
    if not isinstance(value, Sequence):
        array = np.atleast_1d(as_array(value, name))
        # tolist would turn nanoseconds into integers
        value = (array.astype("datetime64[us]") if array.dtype.kind == "M" else array).tolist()
    if len(value) != n:
        raise ShapeError(message(name, f"must have one value per case ({n})", len(value)))
    return [item.item() if isinstance(item, np.generic) else item for item in value]


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


def as_numbers(value: ArrayLike, name: str) -> FloatArray:
    """Return real numbers as float64, NaN included."""
    array = as_array(value, name)
    objects = array.ravel().tolist() if array.dtype.kind == "O" else []
    if array.dtype.kind not in "biufO" or not all(isinstance(item, Real) for item in objects):
        got = f"an array of {array.dtype}"
        raise DataTypeError(message(name, "must hold real numbers", got))
    return array.astype(np.float64)


def _refuse_grades(grades: FloatArray, bad: BoolArray) -> None:
    if bad.any():
        wanted = "must be 1 for right, 0 for wrong, or a grade between"
        raise CorrectnessError(message("correct", wanted, f"{float(grades[bad].flat[0]):g}"))


def _range(values: FloatArray | Sequence[float]) -> str:
    return f"values from {np.min(values):g} to {np.max(values):g}"

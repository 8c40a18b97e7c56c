"""The audits of a monitor, in the order in which the cases were decided.

An audit is recorded when the case is drawn and its review is open, or when its label is known. It
keeps its position: a late label is filled in at the position of its case. So the order never
depends on the answers, as the promise about false alarms requires.

A batch of audits is checked completely before anything is changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, groupby
from typing import Any, Literal, NamedTuple

import numpy as np

from expertload._typing import FloatArray
from expertload.exceptions import DecisionOrderError, ParameterError, RepeatedCaseError
from expertload.monitoring.inputs import Clock, Key, Moments, iso_time

__all__ = ["AuditRecords", "Batch", "Order"]

Order = Literal["decision", "arrival"]
# Columns that must be given for every case or for none, and their names for users.
NAMES = {
    "inclusion": "inclusion_probability",
    "least": "least_inclusion_probability",
    "keys": "key",
}
COLUMNS = ("correct", "inclusion", "least", "moments", "keys")


class Batch(NamedTuple):
    """A batch of audits, each valid by itself.

    Attributes
    ----------
    correct : ndarray
        Grades; NaN for open reviews.
    inclusion, least : ndarray or None
        The probability with which each case was audited, and the smallest one at that time.
    moments : Moments or None
        When each was decided.
    keys : list of str or int, or None
        The key of each case.
    """

    correct: FloatArray
    inclusion: FloatArray | None = None
    least: FloatArray | None = None
    moments: Moments | None = None
    keys: list[Key] | None = None


class Change(NamedTuple):
    """The effect of a batch: new rows, in order, and answers to open reviews."""

    new: list[int]
    answers: dict[int, float]


@dataclass
class AuditRecords:
    """Audits as columns, one entry per case.

    Attributes
    ----------
    correct : list of float
        Grades; NaN where a review is open.
    inclusion, least : list of float
        As in `Batch`; NaN if not given.
    moments : list of int or float
        When each was decided; empty if not given.
    keys : list of str or int or None
        The key of each case.
    clock : {"time", "number"} or None
        The kind of moments: microseconds in UTC, or numbers.
    """

    correct: list[float] = field(default_factory=list)
    inclusion: list[float] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    moments: list[int | float] = field(default_factory=list)
    keys: list[Key | None] = field(default_factory=list)
    clock: Clock | None = None
    places: dict[Key, int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.correct)

    @property
    def weights(self) -> FloatArray:
        """The weight of each audit: the least probability divided by its own."""
        return self.weights_from(0)

    def weights_from(self, first: int) -> FloatArray:
        """Return the weights from one position on."""
        ratio = np.asarray(self.least[first:], float) / np.asarray(self.inclusion[first:], float)
        weights: FloatArray = np.where(np.isnan(ratio), 1.0, ratio)
        return weights

    def errors(self, *, open_as: float, first: int = 0) -> FloatArray:
        """Return the errors, open reviews counting as `open_as`."""
        errors = 1 - np.asarray(self.correct[first:], dtype=np.float64)
        counted: FloatArray = np.where(np.isnan(errors), open_as, errors)
        return counted

    # ------------------------------------------------------------------ changing

    def plan(self, batch: Batch, order: Order, *, mix: bool = True) -> Change:
        """Return the effect of a batch, or raise; nothing is changed yet.

        Cases of one moment are mixed, unless they were when they were stored.
        """
        places = self._places_of(batch)
        late = [row for row, place in enumerate(places) if place is not None]
        new = [row for row, place in enumerate(places) if place is None]
        for row in late:
            self._check_late(batch, row, places)
        if new:
            self._check_columns(batch)
            self._check_inclusion(batch, new)
        answers = {
            place: float(batch.correct[row])
            for row, place in enumerate(places)
            if place is not None and not math.isnan(batch.correct[row])
        }
        return Change(self._ordered(batch, new, order, mix=mix), answers)

    def apply(self, batch: Batch, change: Change) -> None:
        """Apply a planned change; this cannot fail halfway."""
        n, start = len(change.new), len(self)
        unsaid = [math.nan] * n
        for place, grade in change.answers.items():
            self.correct[place] = grade
        self.correct += _picked(batch.correct.tolist(), change.new)
        inclusion = batch.inclusion
        self.inclusion += unsaid if inclusion is None else inclusion[change.new].tolist()
        self.least += unsaid if batch.least is None else batch.least[change.new].tolist()
        if batch.moments is not None and n:
            self.clock = batch.moments.clock
            self.moments += _picked(batch.moments.values, change.new)
        keys = [None] * n if batch.keys is None else _picked(batch.keys, change.new)
        self.keys += keys
        self.places |= {key: start + i for i, key in enumerate(keys) if key is not None}

    def _places_of(self, batch: Batch) -> list[int | None]:
        if batch.keys is None:
            return [None] * len(batch.correct)
        seen: set[Key] = set()
        for key in batch.keys:
            if key in seen:
                raise _repeated_case(key, "it is given twice")
            seen.add(key)
        return [self.places.get(key) for key in batch.keys]

    def _check_late(self, batch: Batch, row: int, places: Sequence[int | None]) -> None:
        place = places[row]
        if place is None or batch.keys is None:
            return
        if not math.isnan(self.correct[place]):
            raise _repeated_case(batch.keys[row], "it already has its label")
        if batch.moments is None or self.clock is None:
            return
        if (batch.moments.clock, batch.moments.values[row]) != (self.clock, self.moments[place]):
            raise _moment_changed(batch.keys[row], self.moment(place))

    def _check_columns(self, batch: Batch) -> None:
        """Raise unless these cases have the same columns as earlier ones."""
        if not len(self):
            return
        for name, said in NAMES.items():
            if _is_not_given(getattr(self, name)[-1]) != (getattr(batch, name) is None):
                raise _column_changed(said)
        clock = None if batch.moments is None else batch.moments.clock
        if clock != self.clock:
            raise _clock_changed(self.clock, clock)

    def _check_inclusion(self, batch: Batch, new: list[int]) -> None:
        """Raise unless the weights follow from a design that was fixed before."""
        if batch.inclusion is None:
            if batch.least is not None:
                raise _unclear_inclusion("if least_inclusion_probability is given", "none")
        elif batch.least is None:
            _check_one_inclusion({*self.inclusion[-1:], *batch.inclusion[new].tolist()})
        elif (batch.inclusion < batch.least).any():
            row = int((batch.inclusion < batch.least).argmax())
            got = f"{batch.inclusion[row]:g} below the smallest, {batch.least[row]:g}"
            raise _unclear_inclusion("of at least least_inclusion_probability", got)

    def _ordered(self, batch: Batch, new: list[int], order: Order, *, mix: bool) -> list[int]:
        """Return new rows in the order of decisions; raise if one is before a counted row."""
        if batch.moments is None or order == "arrival":
            return new
        values = batch.moments.values
        ordered = sorted(new, key=lambda row: values[row])  # stable
        if ordered and self.moments and values[ordered[0]] < self.moments[-1]:
            early = Moments(batch.moments.clock, [values[ordered[0]]])
            raise _decisions_go_back(_said(early), self.moment(len(self) - 1))
        return _mixed(ordered, values, batch.keys) if mix else ordered

    # ------------------------------------------------------------------ merging

    @classmethod
    def merged(cls, parts: Sequence[AuditRecords]) -> AuditRecords:
        """Return the audits of several, in the order of decisions; equal moments by key."""
        clocks = {part.clock for part in parts}
        if len(parts) > 1 and (len(clocks) > 1 or None in clocks):
            raise _unclear_order()
        columns: dict[str, Any] = {
            name: list(chain(*(getattr(part, name) for part in parts))) for name in COLUMNS
        }
        both = cls(**columns, clock=parts[0].clock if parts else None)
        if len(parts) > 1:
            both = both._sorted()
        for name in ("inclusion", "least", "keys"):
            if len({_is_not_given(value) for value in getattr(both, name)}) > 1:
                raise _column_changed(NAMES[name])
        if both.least and _is_not_given(both.least[0]):
            _check_one_inclusion({v for v in both.inclusion if not _is_not_given(v)})
        for place, key in enumerate(both.keys):
            if key is not None and both.places.setdefault(key, place) != place:
                raise _repeated_case(key, "more than one monitor has it")
        return both

    def _sorted(self) -> AuditRecords:
        def place_in_time(row: int) -> tuple[int | float, bool, str]:
            return self.moments[row], self.keys[row] is None, str(self.keys[row])

        rows = sorted(range(len(self)), key=place_in_time)
        columns: dict[str, Any] = {name: _picked(getattr(self, name), rows) for name in COLUMNS}
        return AuditRecords(**columns, clock=self.clock)

    # ------------------------------------------------------------------ saying

    def moment(self, place: int) -> str | None:
        """Return when the case at a position was decided; None if not given."""
        if self.clock is None:
            return None
        return _said(Moments(self.clock, [self.moments[place]]))


def _mixed(ordered: list[int], moments: Sequence[Any], keys: list[Key] | None) -> list[int]:
    """Return rows in the order of their moments, those of one moment in an order of no meaning.

    Which of them came first is not known. In the order given, they may be sorted by whether they
    are right, as by a query for days and answers: wrong ones first would be taken for a fall. The
    same cases of a moment are always mixed alike, so that a growing file is not counted anew.
    """
    rows: list[int] = []
    for _, group in groupby(ordered, key=lambda row: moments[row]):
        members = list(group)
        if keys is not None:
            members.sort(key=lambda row: _without_meaning(keys[row]))
        elif len(members) > 1:
            shuffle = np.random.default_rng(len(members)).permutation(len(members))
            members = _picked(members, shuffle.tolist())
        rows += members
    return rows


def _without_meaning(key: Key) -> bytes:
    """Return a key to sort by that says nothing about the case: cases may be numbered in order."""
    return blake2b(repr(key).encode("utf-8", "replace"), digest_size=8).digest()


def _is_not_given(value: Any) -> bool:
    return value is None or value != value


def _picked(values: Sequence[Any], rows: list[int]) -> list[Any]:
    return [values[row] for row in rows]


def _said(moments: Moments) -> str:
    (value,) = moments.values
    if moments.clock == "time":
        return iso_time(int(value))
    return str(value) if isinstance(value, int) else f"{value:.15g}"  # seconds since 1970 need ten


def _repeated_case(key: Key, why: str) -> RepeatedCaseError:
    """Return the error for a case that is given twice."""
    return RepeatedCaseError(
        f"A monitor needs one label per case. Got the case {key!r} again: {why}. Nothing was "
        "counted. Hint: leave out cases that were counted before; to correct a label, start a new "
        "monitor."
    )


def _decisions_go_back(moment: str, last: str | None) -> DecisionOrderError:
    """Return the error for a case decided before one that is already counted."""
    return DecisionOrderError(
        f"A monitor counts cases in the order of their decisions. Got a new case decided at "
        f"{moment}, before the last one counted, {last}. Nothing was counted. Hint: record every "
        "audited case when it is drawn (correct=None) and add its label later, or use "
        "order='arrival' if the time a review takes cannot depend on whether the case is right."
    )


def _moment_changed(key: Key, known: str | None) -> DecisionOrderError:
    """Return the error for a label whose moment differs from that of its case."""
    return DecisionOrderError(
        f"The case {key!r} was decided at {known}. Got another 'decided_at' with its "
        "label. Nothing was counted. Hint: leave out 'decided_at' for known cases."
    )


def _clock_changed(known: Clock | None, got: Clock | None) -> DecisionOrderError:
    """Return the error for moments of another kind, or given only for some cases."""
    words = {"time": "dates and times", "number": "numbers", None: "no 'decided_at'"}
    return DecisionOrderError(
        f"'decided_at' is needed for every case or for none, always of the same kind. Got "
        f"{words[got]} after {words[known]}. Nothing was counted."
    )


def _column_changed(name: str) -> ParameterError:
    """Return the error for a column that is given only for some cases."""
    return ParameterError(
        f"'{name}' is needed for every case or for none. Got it for some cases. Nothing was "
        "counted."
    )


def _check_one_inclusion(given: set[float]) -> None:
    """Raise if probabilities differ, but the smallest one is not given."""
    if len(given) > 1:
        wanted = "to be the same for all cases if least_inclusion_probability is not given"
        raise _unclear_inclusion(wanted, f"{min(given):g} and {max(given):g}")


def _unclear_inclusion(wanted: str, got: str) -> ParameterError:
    """Return the error for inclusion probabilities that do not give weights."""
    return ParameterError(
        f"'inclusion_probability' is needed {wanted}. Got {got}. Nothing was counted. Hint: "
        "least_inclusion_probability=... is the smallest probability with which any decided case "
        "is audited, fixed before the audits; it may change with time, but not with the case."
    )


def _unclear_order() -> DecisionOrderError:
    """Return the error for audits that cannot be ordered."""
    return DecisionOrderError(
        "Merging puts the audits of several monitors in the order of decisions. Got audits "
        "without 'decided_at', or times in one monitor and numbers in another. Hint: pass "
        "decided_at=... to update."
    )

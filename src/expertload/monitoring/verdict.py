"""The verdict of a monitor: the state of a promise, the evidence against it, and a bound."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from expertload._typing import FloatArray
from expertload.monitoring.audits import AuditRecords
from expertload.monitoring.bets import (
    Capital,
    accuracy_bets,
    accuracy_lower_bound,
    advance,
    confirming_evidence,
    start,
)
from expertload.operating_point import ClassPromise
from expertload.operating_point.point import quantity

__all__ = ["History", "State", "Verdict"]

State = Literal["confirmed", "not refuted", "refuted"]
# Odds of five to one against the promise: not an alarm, but a reason to audit more.
WARNING_EVIDENCE = 5.0


class History(NamedTuple):
    """The state of a monitor after each audit, in the order of decisions.

    Attributes
    ----------
    evidence : ndarray of shape (n_audits,)
        The evidence against the promise; 1 / alpha refutes it.
    lower_bound : ndarray of shape (n_audits,)
        The lower bound of the average accuracy so far.
    decided_at : tuple of str, or None
        When each case was decided, if known.
    """

    evidence: FloatArray
    lower_bound: FloatArray
    decided_at: tuple[str, ...] | None


class Verdict:
    """The verdict about a promise; audits are counted on request, and only once.

    Parameters
    ----------
    target_accuracy, confidence_level, blocks
        As in `expertload.monitoring.AccuracyMonitor`.
    """

    _refuted_by: int | None

    def __init__(self, target_accuracy: float, confidence_level: float, blocks: int | None) -> None:
        self._target, self._level, self._blocks = target_accuracy, confidence_level, blocks
        self._bets = accuracy_bets(target_accuracy)
        self._records = AuditRecords()
        self._about: ClassPromise | None = None  # what is watched, if not the accuracy
        self._forget()

    def _forget(self) -> None:
        """Recount all audits at the next request."""
        self._capital: Capital = start(self._bets)
        self._highest, self._refuted_by = 0.0, None

    def _count(self) -> None:
        """Count the audits added since the last request."""
        first = self._capital.n_audits
        if first == len(self._records):
            return
        errors = self._records.errors(open_as=0, first=first)
        weights = self._records.weights(first)
        self._capital, path = advance(
            self._capital, errors, weights, bets=self._bets, blocks=self._blocks
        )
        self._highest = max(self._highest, float(path.max()))
        crossed = np.flatnonzero(path >= self.alarm_evidence)
        if self._refuted_by is None and len(crossed):
            self._refuted_by = first + int(crossed[0])

    @property
    def target_accuracy(self) -> float:
        """The promised accuracy."""
        return self._target

    @property
    def confidence_level(self) -> float:
        """The probability that the statement holds."""
        return self._level

    @property
    def alarm_evidence(self) -> float:
        """The evidence that refutes the promise: one over one minus the confidence level."""
        return 1 / (1 - self._level)

    @property
    def state(self) -> State:
        """Whether the promise is "confirmed", "not refuted" or "refuted".

        "refuted" is final. "confirmed" means that the average accuracy of all audited decisions so
        far reaches the target; this may change later.
        """
        if self.refuted_at is not None:
            return "refuted"
        for_it = confirming_evidence(*self._sums(), target_accuracy=self._target)
        return "confirmed" if for_it[0] >= self.alarm_evidence else "not refuted"

    @property
    def evidence(self) -> float:
        """The current evidence: the factor by which a bet against the promise has grown."""
        self._count()
        return float(self._capital.evidence)

    @property
    def highest_evidence(self) -> float:
        """The highest evidence after any audit so far."""
        self._count()
        return self._highest

    @property
    def warns(self) -> bool:
        """Whether the evidence is at least five: not an alarm, but a reason to audit more cases."""
        return self.evidence >= WARNING_EVIDENCE

    @property
    def refuted_at(self) -> int | None:
        """The number of the audit that refuted the promise, counted from 1; None if none has."""
        self._count()
        return None if self._refuted_by is None else self._refuted_by + 1

    @property
    def lower_bound(self) -> float:
        """A lower bound of the average accuracy so far, valid however often you look."""
        return float(accuracy_lower_bound(*self._sums(), confidence_level=self._level)[0])

    def _sums(self) -> tuple[list[float], list[float]]:
        """Return weighted errors, including open reviews, and the weighted number of audits."""
        weights = self._records.weights()
        return [float(weights @ self._records.errors(open_as=1))], [float(weights.sum())]

    @property
    def n_audits(self) -> int:
        """The number of audits, including open ones."""
        return len(self._records)

    @property
    def n_open(self) -> int:
        """The number of open reviews."""
        return sum(map(math.isnan, self._records.correct))

    @property
    def n_errors(self) -> float:
        """The number of wrong audits; for grades, the sum of one minus the grade."""
        return float(self._records.errors(open_as=0).sum())

    @property
    def labels(self) -> dict[str | int, float | None]:
        """The answer to each case with a key; None while its review is open."""
        grades = self._records.correct
        return {
            key: None if math.isnan(grades[place]) else grades[place]
            for key, place in self._records.places.items()
        }

    def history(self) -> History:
        """Return evidence and bound after each audit, for a plot or a recount.

        Examples
        --------
        >>> from expertload.monitoring import AccuracyMonitor
        >>> monitor = AccuracyMonitor(target_accuracy=0.95).update([1, 0, 0])
        >>> monitor.history().evidence.round(2).tolist()
        [0.46, 1.13, 3.71]
        """
        records, weights = self._records, self._records.weights()
        errors = records.errors(open_as=0)
        _, path = advance(start(self._bets), errors, weights, bets=self._bets, blocks=self._blocks)
        wrong = np.cumsum(weights * records.errors(open_as=1))
        bound = accuracy_lower_bound(wrong, np.cumsum(weights), confidence_level=self._level)
        moments = [records.moment(place) for place in range(len(records))]
        return History(path, bound, tuple(m for m in moments if m is not None) or None)

    # ------------------------------------------------------------------ words

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON.

        Examples
        --------
        >>> from expertload.monitoring import AccuracyMonitor
        >>> said = AccuracyMonitor(target_accuracy=0.95).update([1] * 82).to_dict()
        >>> said["state"], said["n_audits"], said["refuted_at"]
        ('confirmed', 82, None)
        """
        names = ("state", "target_accuracy", "confidence_level", "evidence", "highest_evidence")
        more = ("alarm_evidence", "warns", "lower_bound", "n_audits", "n_open", "n_errors")
        refuted = self.refuted_at
        return {
            **{name: getattr(self, name) for name in (*names, *more)},
            "refuted_at": refuted,
            "refuted_by_decision_at": refuted and self._records.moment(refuted - 1),
            "summary": self.summary(),
        }

    def summary(self) -> str:
        """Return the verdict in words.

        Examples
        --------
        >>> from expertload.monitoring import AccuracyMonitor
        >>> print(AccuracyMonitor(target_accuracy=0.95).update([1] * 60).summary())
        Not refuted: an accuracy of 0.95 is neither shown nor ruled out after 60 audits, 0 of
        them wrong. In plain words: no reason to stop, but too few audits to be sure. On average
        so far it is at least 0.9...; evidence against it is 0.1..., and 20 would refute it
        (confidence level 0.95).
        """
        if self.n_audits == 0:
            return f"Not refuted: no audits yet, so nothing is known about {_claim(self)}."
        return f"{_state(self)} {_bound(self)}"

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(target_accuracy={self._target:g}, n_audits={self.n_audits}, "
            f"state={self.state!r}, evidence={self.evidence:.4g})"
        )


def _claim(monitor: Verdict) -> str:
    about = monitor._about
    return f"an accuracy of {monitor.target_accuracy:.6g}" if about is None else about.claim


def _state(monitor: Verdict) -> str:
    claim, seen = _claim(monitor), _audits(monitor)
    if monitor.state == "refuted":
        broken = f"{claim} has not been kept"
        if monitor._about is None:
            target = f"{monitor.target_accuracy:.6g}"
            broken = f"the accuracy of automatic decisions has been below {target}"
        return (
            f"Refuted: {broken}, as audit {monitor.refuted_at} showed (evidence reached "
            f"{monitor.highest_evidence:.3g}). There were {seen}. Delegate every case until the "
            "policy is certified again on fresh cases."
        )
    if monitor.state == "confirmed":
        return f"Confirmed: {claim} is reached on average, after {seen}."
    return (
        f"Not refuted: {claim} is neither shown nor ruled out after {seen}. In plain words: no "
        "reason to stop, but too few audits to be sure."
    )


def _audits(monitor: Verdict) -> str:
    some = f"{monitor.n_audits} audits" if monitor.n_audits != 1 else "1 audit"
    open_ = f" and {monitor.n_open} still open" if monitor.n_open else ""
    return f"{some}, {quantity(monitor.n_errors)} of them wrong{open_}"


def _bound(monitor: Verdict) -> str:
    level = f"(confidence level {monitor.confidence_level:.6g})"
    it = "it is" if monitor._about is None else "the share that kept it is"
    bound = f"On average so far {it} at least {_below(monitor.lower_bound)}"
    if monitor.state == "refuted":
        return f"{bound} {level}."
    warning = " Audit more cases." if monitor.warns else ""
    return (
        f"{bound}; evidence against it is {monitor.evidence:.3g}, and "
        f"{monitor.alarm_evidence:.6g} would refute it {level}.{warning}"
    )


def _below(bound: float) -> str:
    """Return a lower bound as text, rounded down so that it stays a lower bound."""
    return f"{int(bound * 10_000) / 10_000:g}"

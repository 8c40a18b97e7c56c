"""Monitors a promised accuracy; valid however often you look."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np

from expertload._check import check_fraction, check_level, check_option
from expertload._files import write_atomically
from expertload._store import DocumentKind
from expertload._typing import ArrayLike, FloatArray
from expertload.exceptions import InvalidInputError, NotCertifiedError, ParameterError
from expertload.monitoring.audits import (
    AuditRecords,
    Order,
    check_blocks,
    check_least_inclusion,
    read_audits,
)
from expertload.monitoring.bets import (
    Capital,
    accuracy_bets,
    accuracy_lower_bound,
    advance,
    confirming_evidence,
    start,
)
from expertload.operating_point import CertifiedClasses, CertifiedGroupClasses, ClassPromise
from expertload.operating_point.point import policy_digest, quantity

DOCUMENT = DocumentKind("expertload accuracy monitor", 2)
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


class AccuracyMonitor:
    """Monitors a promised accuracy with audits of automatic decisions.

    Audit a random sample of the cases that are decided automatically: have an expert label them
    without seeing the model's answer. You may look at the monitor as often as you like.

    Parameters
    ----------
    target_accuracy : float
        The promised accuracy among automatic decisions, in (0, 1).
    confidence_level : float, default=0.95
        While the promise is kept, the probability that it is *ever* called refuted is at most one
        minus this. The same holds, separately, for calling a broken promise confirmed.
    blocks : int, optional
        The number of blocks of 50 audits that the monitor is made for. No limit by default; with a
        limit, a late fall is found sooner.
    least_inclusion_probability : float, optional
        The smallest probability with which any decided case is audited, if these differ. Fixed
        before the labels; later audits may have another one.
    order : {"decision", "arrival"}, default="decision"
        In "decision" order a new case must not be decided before one already counted. "arrival"
        counts labels as they arrive, whatever their dates; this is only valid if the time a review
        takes does not depend on whether the case is right.

    Notes
    -----
    Pass every audited case to `update` when it is drawn, with ``correct=None`` while its review is
    open, and pass its label later with the same key. Open reviews count as right for the alarm and
    as wrong for the confirmation, so nothing depends on how long reviews take.

    Cases must be independent: of one patient, say, pass only the audited case decided first.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.monitoring import AccuracyMonitor
    >>> monitor = AccuracyMonitor(target_accuracy=0.95)
    >>> monitor.update(np.ones(100)).state
    'confirmed'
    >>> rng = np.random.default_rng(0)
    >>> monitor.update(rng.random(400) < 0.85).state
    'refuted'
    """

    def __init__(
        self,
        *,
        target_accuracy: float,
        confidence_level: float = 0.95,
        blocks: int | None = None,
        least_inclusion_probability: float | None = None,
        order: Order = "decision",
    ) -> None:
        self.target_accuracy = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
        self.confidence_level = check_level(confidence_level)
        self._blocks = check_blocks(blocks)
        self._least_inclusion = check_least_inclusion(least_inclusion_probability)
        check_option(order, get_args(Order), "order")
        self._order: Order = order
        self.policy_digest: str | None = None
        self._about: ClassPromise | None = None  # what is watched, if not the accuracy
        self._bets = accuracy_bets(self.target_accuracy)
        self._records = AuditRecords()
        self._forget()

    @classmethod
    def from_policy(cls, policy: Any, *, promise: str | None = None, **options: Any) -> Self:
        """Return a monitor for the promise of a certified policy.

        Parameters
        ----------
        policy : CertifiedPoint, CertifiedGroups or CertifiedClasses
            From `expertload.operating_point.certify`, or read from a file.
        promise : str, optional
            Which of the promises about classes to watch, such as ``"precision:malignant=0.98"``;
            may be left out if there is only one. Each promise needs its own monitor:
            ``ClassPromise.outcomes`` says which cases to pass to it, and which of them count as
            right. For misses, pass delegated cases too, with an inclusion probability of 1.
        **options
            Other options of the monitor; ``confidence_level`` is the policy's by default.

        Raises
        ------
        NotCertifiedError
            If the policy promises nothing, or nothing about the accuracy of automatic decisions.

        Examples
        --------
        >>> from expertload.monitoring import AccuracyMonitor
        >>> from expertload import Cases, certify
        >>> cases = Cases.from_correctness([1] * 200, range(200))
        >>> policy = certify(cases, target_accuracy=0.95)
        >>> AccuracyMonitor.from_policy(policy).target_accuracy
        0.95
        """
        about = _watched_promise(policy, promise)
        if about is None:
            _check_monitored_policy(policy)
        options.setdefault("confidence_level", policy.confidence_level)
        monitor = cls(target_accuracy=(about or policy).target_accuracy, **options)
        monitor.policy_digest, monitor._about = policy_digest(policy), about
        return monitor

    # ------------------------------------------------------------------ audits

    def update(
        self,
        correct: ArrayLike | None,
        *,
        inclusion_probability: ArrayLike | None = None,
        least_inclusion_probability: ArrayLike | None = None,
        decided_at: Any = None,
        key: Any = None,
    ) -> Self:
        """Count audits: all of them or, if one is invalid, none.

        Parameters
        ----------
        correct : array-like of shape (n_cases,)
            1 for right, 0 for wrong, or a grade between; None or NaN while a review is open.
        inclusion_probability : array-like or float, optional
            The probability with which each case was audited, in (0, 1]. For all cases or for none.
        least_inclusion_probability : array-like or float, optional
            The smallest probability of any decided case at that time, if it differs from the
            monitor's. If all cases of that time had the same probability, pass it for both.
        decided_at : array-like, optional
            When each case was decided: dates, ISO text (UTC if no zone is given), or numbers. For
            all cases or for none. Cases of one call may be in any order, and those of one moment,
            such as a day, are mixed. Without moments, cases must be in the order of decisions.
        key : array-like of str or int, optional
            The key of each case; needed to pass a label later, and prevents counting a case twice.

        Raises
        ------
        RepeatedCaseError, DecisionOrderError, ProbabilityError, CorrectnessError
            And other input errors. In that case nothing is counted.
        """
        if least_inclusion_probability is None:
            least_inclusion_probability = self._least_inclusion
        batch = read_audits(
            correct=correct,
            inclusion_probability=inclusion_probability,
            least_inclusion_probability=least_inclusion_probability,
            decided_at=decided_at,
            key=key,
        )
        self._add(batch)
        return self

    def _add(self, batch: AuditRecords, *, mix: bool = True) -> None:
        if self._records.add(batch, self._order, mix=mix):
            self._forget()  # an open review was counted as right

    def merge(self, *others: AccuracyMonitor) -> AccuracyMonitor:
        """Return a monitor of all audits of several monitors, recounted in the order of decisions.

        Parameters
        ----------
        *others : AccuracyMonitor
            Monitors of the same promise, and of the same policy if they were made from policies.
            All audits must have ``decided_at``; equal moments are ordered by key. Each audit keeps
            its least inclusion probability; for later ones, that of this monitor is used, or if it
            has none, that of the others.

        Returns
        -------
        AccuracyMonitor
            The same as one monitor with all audits. The merged monitors are not changed.

        Examples
        --------
        >>> from expertload.monitoring import AccuracyMonitor
        >>> north = AccuracyMonitor(target_accuracy=0.95).update([1, 0], decided_at=[1, 4])
        >>> south = AccuracyMonitor(target_accuracy=0.95).update([1, 1], decided_at=[2, 3])
        >>> north.merge(south).n_audits
        4
        """
        monitors = (self, *others)
        digest = _check_same_promise(monitors)
        leasts = [least for m in monitors if (least := m._least_inclusion) is not None]
        merged = type(self)(**self._promise, least_inclusion_probability=next(iter(leasts), None))
        merged._about, merged.policy_digest = self._about, digest
        merged._records = AuditRecords.merged([m._records for m in monitors if m.n_audits])
        return merged

    # ------------------------------------------------------------------ the verdict

    def _forget(self) -> None:
        """Recount all audits at the next request."""
        self._capital: Capital = start(self._bets)
        self._highest = 0.0
        self._refuted_by: int | None = None

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
    def alarm_evidence(self) -> float:
        """The evidence that refutes the promise: one over one minus the confidence level."""
        return 1 / (1 - self.confidence_level)

    @property
    def state(self) -> State:
        """Whether the promise is "confirmed", "not refuted" or "refuted".

        "refuted" is final. "confirmed" means that the average accuracy of all audited decisions so
        far reaches the target; this may change later.
        """
        if self.refuted_at is not None:
            return "refuted"
        for_it = confirming_evidence(*self._sums(), target_accuracy=self.target_accuracy)
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
        return float(accuracy_lower_bound(*self._sums(), confidence_level=self.confidence_level)[0])

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
        bound = accuracy_lower_bound(
            wrong, np.cumsum(weights), confidence_level=self.confidence_level
        )
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
        about, target = self._about, f"{self.target_accuracy:.6g}"
        claim = f"an accuracy of {target}" if about is None else about.claim
        if self.n_audits == 0:
            return f"Not refuted: no audits yet, so nothing is known about {claim}."
        if self.n_audits == self.n_open:
            return f"Not refuted: every audit is still open, so nothing is known about {claim}."
        broken = f"{claim} has not been kept"
        if about is None:
            broken = f"the accuracy of automatic decisions has been below {target}"
        return f"{self._state_words(claim, broken)} {self._bound_words}"

    def _state_words(self, claim: str, broken: str) -> str:
        some = f"{self.n_audits} audits" if self.n_audits != 1 else "1 audit"
        still = f" and {self.n_open} still open, which the bound counts as wrong"
        open_ = still if self.n_open else ""
        seen = f"{some}, {quantity(self.n_errors)} of them wrong{open_}"
        if self.state == "refuted":
            return (
                f"Refuted: {broken}, as audit {self.refuted_at} showed (evidence reached "
                f"{self.highest_evidence:.3g}). There were {seen}. Delegate every case until the "
                "policy is certified again on fresh cases."
            )
        if self.state == "confirmed":
            return f"Confirmed: {claim} is reached on average, after {seen}."
        return (
            f"Not refuted: {claim} is neither shown nor ruled out after {seen}. In plain words: no "
            "reason to stop, but too few audits to be sure."
        )

    @property
    def _bound_words(self) -> str:
        level = f"(confidence level {self.confidence_level:.6g})"
        it = "it is" if self._about is None else "the share that kept it is"
        least = math.floor(self.lower_bound * 10_000) / 10_000  # it stays a lower bound
        bound = f"On average so far {it} at least {least:g}"
        if self.state == "refuted":
            return f"{bound} {level}."
        warning = " Audit more cases." if self.warns else ""
        return (
            f"{bound}; evidence against it is {self.evidence:.3g}, and "
            f"{self.alarm_evidence:.6g} would refute it {level}.{warning}"
        )

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(target_accuracy={self.target_accuracy:g}, "
            f"n_audits={self.n_audits}, state={self.state!r}, evidence={self.evidence:.4g})"
        )

    # ------------------------------------------------------------------ files

    @property
    def _promise(self) -> dict[str, Any]:
        return {
            "target_accuracy": self.target_accuracy,
            "confidence_level": self.confidence_level,
            "blocks": self._blocks,
            "order": self._order,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the monitor as JSON; an older file is replaced completely or not at all.

        The evidence is not stored. It is recounted from the audits when the file is read, so both
        always agree.

        Parameters
        ----------
        path : str or path
            Where to write.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from expertload.monitoring import AccuracyMonitor
        >>> monitor = AccuracyMonitor(target_accuracy=0.95).update([1, None], key=["a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     monitor.save(pathlib.Path(folder, "monitor.json"))
        ...     again = AccuracyMonitor.load(pathlib.Path(folder, "monitor.json"))
        >>> again.update([0], key=["b"]).n_errors
        1.0
        """
        content = {
            "promise": {**self._promise, "least_inclusion_probability": self._least_inclusion},
            "policy": self.policy_digest,
            "audits": self._records.columns(),
            **({} if self._about is None else {"about": str(self._about)}),
        }
        write_atomically(path, DOCUMENT.write(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a monitor that `save` wrote, and count its audits again.

        Raises
        ------
        FileFormatError
            If the file is something else, truncated, changed after saving, or has a newer schema.
        """
        document = DOCUMENT.read(path)
        promise, audits = (
            DOCUMENT.section(document.get(name), name) for name in ("promise", "audits")
        )
        correct = DOCUMENT.items(audits.get("correct"), "correct")
        try:
            monitor = cls(**promise)
            if correct:
                monitor._add(read_audits(**audits), mix=False)
        except (InvalidInputError, TypeError) as error:
            DOCUMENT.refuse(f"its audits cannot be counted ({error})")
        monitor.policy_digest = document.get("policy")  # the first schema did not have it
        about = document.get("about")
        monitor._about = None if about is None else ClassPromise.parse(about)
        return monitor


def _check_same_promise(monitors: Sequence[AccuracyMonitor]) -> str | None:
    """Return the digest of the policy; raise unless monitors watch one promise in the same way."""
    first, *others = ({**monitor._promise, "about": monitor._about} for monitor in monitors)
    for name, value in ((name, other[name]) for other in others for name in first):
        if value != first[name]:
            raise ParameterError(
                f"The monitors to merge must have the same promise. Got {name} "
                f"{first[name]!r} and {value!r}."
            )
    known = [*dict.fromkeys(m.policy_digest for m in monitors if m.policy_digest is not None)]
    if len(known) > 1:
        raise ParameterError(
            f"The monitors to merge must have the same policy. Got monitors of "
            f"{len(known)} policies with the same target. Hint: audits of one policy say nothing "
            "about another."
        )
    return known[0] if known else None


def _watched_promise(policy: Any, promise: str | None) -> ClassPromise | None:
    """Return the promise about a class to watch; None if the policy has no such promises."""
    if isinstance(policy, CertifiedGroupClasses):
        raise ParameterError(
            "A monitor watches promises about classes in one group at a time. Got a policy for "
            f"{len(policy)} groups. Hint: AccuracyMonitor.from_policy(policy[group], ...), with "
            "the audits of that group."
        )
    if not isinstance(policy, CertifiedClasses):
        if promise is not None:
            raise ParameterError(
                f"'promise' is for policies with promises about classes. Got {promise!r} with a "
                f"{type(policy).__name__}."
            )
        return None
    known = {str(about): about for about, point in policy.promises.items() if point.is_certified}
    if not known:
        raise NotCertifiedError(f"A monitor needs a policy that is certified. {policy.guarantee}")
    if (promise is None and len(known) > 1) or (promise is not None and promise not in known):
        listed = ", ".join(known)
        raise ParameterError(f"'promise' must be one of {listed}. Got {promise!r} instead.")
    return next(iter(known.values())) if promise is None else known[promise]


def _check_monitored_policy(policy: Any) -> None:
    """Raise unless a policy promises an accuracy among automatic decisions."""
    if not hasattr(policy, "target_accuracy"):
        raise NotCertifiedError(
            f"A monitor needs a certified policy. Got {type(policy).__name__}, which describes its "
            "data and promises nothing. Hint: make it with expertload.operating_point.certify."
        )
    certified = getattr(policy, "certified", None)
    if not (certified if certified is not None else policy.is_certified):
        raise NotCertifiedError(
            "A monitor needs a policy that is certified. Got one that delegates everything, "
            "because nothing could be certified: there are no automatic decisions to monitor."
        )
    parts = policy.values() if certified is not None else [policy]
    if any(part.risk != "selective" for part in parts):
        raise NotCertifiedError(
            "A monitor needs a policy that promises the accuracy of automatic decisions. Got "
            "risk='joint', which is about model and experts together. Hint: certify with "
            "risk='selective'."
        )

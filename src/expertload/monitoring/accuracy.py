"""Monitors a promised accuracy; valid however often you look."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Self, get_args

from expertload._check import check_fraction, check_option
from expertload._files import write_atomically
from expertload._store import DocumentKind
from expertload._typing import ArrayLike
from expertload.exceptions import InvalidInputError, NotCertifiedError, ParameterError
from expertload.monitoring.audits import (
    AuditRecords,
    Order,
    check_blocks,
    check_least_inclusion,
    read_audits,
)
from expertload.monitoring.verdict import Verdict
from expertload.operating_point import CertifiedClasses, ClassPromise
from expertload.operating_point.point import policy_digest

__all__ = ["AccuracyMonitor"]

DOCUMENT = DocumentKind("expertload accuracy monitor", 2)


class AccuracyMonitor(Verdict):
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
        before the audits.
    order : {"decision", "arrival"}, default="decision"
        In "decision" order a new case must not be decided before one already counted. "arrival"
        counts labels as they arrive, whatever their dates; this is only valid if the time a review
        takes does not depend on whether the case is right.

    Notes
    -----
    Pass every audited case to `update` when it is drawn, with ``correct=None`` while its review is
    open, and pass its label later with the same key. Open reviews count as right for the alarm and
    as wrong for the confirmation, so nothing depends on how long reviews take.

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
        super().__init__(
            check_fraction(target_accuracy, "target_accuracy", inclusive=False),
            check_fraction(confidence_level, "confidence_level", inclusive=False),
            check_blocks(blocks),
        )
        self._least_inclusion = check_least_inclusion(least_inclusion_probability)
        check_option(order, get_args(Order), "order")
        self._order: Order = order
        self._policy: str | None = None  # the digest of the monitored policy

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

        Returns
        -------
        AccuracyMonitor
            A monitor without audits.

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
        monitor._policy, monitor._about = policy_digest(policy), about
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

        Returns
        -------
        AccuracyMonitor
            This monitor.

        Raises
        ------
        RepeatedCaseError, DecisionOrderError, ProbabilityError, CorrectnessError
            And other input errors. In that case nothing is counted.
        """
        batch = read_audits(
            correct=correct,
            inclusion_probability=inclusion_probability,
            least_inclusion_probability=self._least_inclusion
            if least_inclusion_probability is None
            else least_inclusion_probability,
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
            All audits must have ``decided_at``; equal moments are ordered by key.

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
        _check_same_promise([{**m._promise, "about": m._about} for m in (self, *others)])
        merged = type(self)(**self._promise)
        merged._about = self._about
        merged._policy = _check_same_policy([each._policy for each in (self, *others)])
        records = [each._records for each in (self, *others)]
        merged._records = AuditRecords.merged([each for each in records if len(each)])
        return merged

    @property
    def policy_digest(self) -> str | None:
        """The digest of the monitored policy; None if the monitor was not made from a policy."""
        return self._policy

    @property
    def _promise(self) -> dict[str, Any]:
        return {
            "target_accuracy": self._target,
            "confidence_level": self._level,
            "blocks": self._blocks,
            "least_inclusion_probability": self._least_inclusion,
            "order": self._order,
        }

    # ------------------------------------------------------------------ files

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
            "promise": self._promise,
            "policy": self._policy,
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
            if {*promise} != {*monitor._promise} or {*audits} != {*monitor._records.columns()}:
                DOCUMENT.refuse("its promise and its audits do not have the fields they should")
            if correct:
                if audits["least_inclusion_probability"] is None:
                    audits["least_inclusion_probability"] = monitor._least_inclusion
                monitor._add(read_audits(**audits), mix=False)
        except (InvalidInputError, TypeError) as error:
            DOCUMENT.refuse(f"its audits cannot be counted ({error})")
        policy = document.get("policy")  # the first schema did not have it
        if policy is not None and not re.fullmatch("[0-9a-f]{64}", str(policy)):
            DOCUMENT.refuse("its 'policy' must be a digest")
        monitor._policy, about = policy, document.get("about")
        monitor._about = None if about is None else ClassPromise.parse(about)
        return monitor


def _check_same_promise(promises: Sequence[dict[str, Any]]) -> None:
    """Raise unless monitors watch the same promise in the same way."""
    first = promises[0]
    for other in promises[1:]:
        for name, value in other.items():
            if value != first[name]:
                raise ParameterError(
                    f"The monitors to merge must have the same promise. Got {name} "
                    f"{first[name]!r} and {value!r}."
                )


def _check_same_policy(digests: Sequence[str | None]) -> str | None:
    """Return the digest of the monitored policy; raise if there are several."""
    known = [digest for digest in dict.fromkeys(digests) if digest is not None]
    if len(known) > 1:
        raise ParameterError(
            f"The monitors to merge must have the same policy. Got monitors of "
            f"{len(known)} policies with the same target. Hint: audits of one policy say nothing "
            "about another."
        )
    return known[0] if known else None


def _watched_promise(policy: Any, promise: str | None) -> ClassPromise | None:
    """Return the promise about a class to watch; None if the policy has no such promises."""
    if not isinstance(policy, CertifiedClasses):
        if promise is not None:
            raise ParameterError(
                f"'promise' is for policies with promises about classes. Got {promise!r} with a "
                f"{type(policy).__name__}."
            )
        return None
    known = {str(each): each for each, point in policy.promises.items() if point.is_certified}
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

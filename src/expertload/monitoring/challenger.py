"""A second model scores the same cases in shadow: when may it take over?

Model A decides with its policy; model B decides nothing. Experts read what A delegates, and a
random sample of what A decides. B may take over once two things are shown; both must be, so at one
threshold neither level is split.

- *B keeps the promise*, by the evidence below. A case that A delegates is read with probability 1,
  another one with the audit rate.
- *The load is lower.* Of n cases that exactly one of the two accepts, B accepts k. If B accepts no
  more than A, the mean of ``(2 p)^k (2 - 2 p)^(n - k)`` over p in (1/2, 1) is not expected to grow.
  In closed form it is ``2^(n+1) B(k+1, n-k+1) P(Beta(k+1, n-k+1) > 1/2)``. A looser threshold
  always shows more, because 2 p is at least one and 2 - 2 p at most one: choosing the loosest
  threshold that keeps the promise needs no correction.

**Evidence over a stream of cases**, valid however often one looks.
Each case that is read and accepted is a bet that fewer than r = 1 - target of them are wrong
(`confirming_bets`), with the weight q / pi: pi is the probability with which the case is read, q
the smallest one. While r or more are wrong, the evidence *ever* reaches 1 / alpha with a
probability of at most alpha (Ville's inequality).

The threshold comes from the same stream. Bets run at several fixed thresholds, and 1 / (highest
evidence) is a p-value that holds at any time. Thresholds are tested from strict to loose: parts of
the level are granted at a quarter, half and three quarters of the cases, and handed on until a
threshold fails. So all that pass hold together.

Cases keep the order in which they came, and count as wrong until their label is known. Evidence is
the highest over all beginnings of the stream, so what was shown before an open case stays shown. Of
a cluster, such as a patient, only the first case that came counts, whether or not it is read; so
which one counts does not depend on any answer.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import betaincc, betaln

from expertload._check import (
    as_array,
    as_floats,
    check_fraction,
    check_level,
    check_same_length,
    message,
)
from expertload._files import write_atomically
from expertload._store import DocumentKind
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases, check_are_cases, reaches
from expertload.exceptions import InvalidInputError, ParameterError, RepeatedCaseError
from expertload.monitoring.audits import as_answers, as_inclusion, as_keys, check_least_inclusion
from expertload.monitoring.bets import MOST_LOG, advance, confirming_bets, start
from expertload.operating_point.certified import CertifiedPoint
from expertload.operating_point.certify import check_unweighted
from expertload.operating_point.graded import descend_from, granted_at
from expertload.operating_point.point import Origin, digits, origin_of

DOCUMENT = DocumentKind("expertload challenger monitor", 1)
N_THRESHOLDS = 20
# Shares of the cases, and the part of the level that is granted at the threshold of each.
GRANTS = ((0.25, 0.5), (0.5, 0.3), (0.75, 0.2))


class ChallengerMonitor:
    """Watches a model in shadow, and says when it may take over.

    Pass every case that both models have scored, in the order in which the cases came: with its
    label if an expert has read it, without one if not. You may look as often as you like.

    Parameters
    ----------
    target_accuracy : float
        The accuracy that the new model must keep among the cases it would accept, in (0, 1).
    thresholds : array-like or float
        Thresholds of the new model's confidence to test, fixed before these cases came. See
        `from_confidences`.
    confidence_level : float, default=0.95
        With at least this probability, no threshold is *ever* certified at which the accuracy is
        below the target. The same holds, separately, for calling the load lower when it is not.
    least_inclusion_probability : float, default=1.0
        The smallest probability with which a case is read: the audit rate of what is decided
        today. Fixed before the cases came.
    model_name : str, optional
        The new model. A model that was trained again is another one: see `restarted`.

    Examples
    --------
    The model of today decides the most confident half, of which a tenth is audited. The new one
    decides more:

    >>> import numpy as np
    >>> from expertload.monitoring import ChallengerMonitor
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.random(6000)
    >>> correct = rng.random(6000) < np.minimum(0.8 + 0.5 * confidence, 0.99)
    >>> decided = confidence + 0.1 * rng.standard_normal(6000) > 0.5
    >>> is_read = ~decided | (rng.random(6000) < 0.1)
    >>> monitor = ChallengerMonitor.from_confidences(
    ...     rng.random(500), target_accuracy=0.95, least_inclusion_probability=0.1
    ... )
    >>> monitor.update(
    ...     confidence,
    ...     np.where(is_read, correct, np.nan),
    ...     accepted_now=decided,
    ...     inclusion_probability=np.where(decided, 0.1, 1),
    ... ).may_switch
    True
    >>> print(f"load {monitor.load_now:.2f} now, {monitor.load_then:.2f} then")
    load 0.50 now, 0.10 then
    """

    def __init__(
        self,
        *,
        target_accuracy: float,
        thresholds: ArrayLike,
        confidence_level: float = 0.95,
        least_inclusion_probability: float = 1.0,
        model_name: str | None = None,
    ) -> None:
        self.target_accuracy = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
        self.confidence_level = check_level(confidence_level)
        given = as_floats(np.atleast_1d(as_array(thresholds, "thresholds")), "thresholds")
        self.thresholds: FloatArray = np.unique(given.astype(np.float64))[::-1]  # strict to loose
        self.least_inclusion_probability = check_least_inclusion(least_inclusion_probability)
        self.model_name = model_name
        self._columns: dict[str, list[Any]] = {}  # the counted cases, as `update` was given them
        self._places: dict[str | int | None, int] = {}  # where the case of a key is
        self._known_clusters: set[str | int] = set()

    @classmethod
    def from_confidences(cls, confidence: ArrayLike, **options: Any) -> Self:
        """Return a monitor with thresholds that accept 5, 10, … 100 % of earlier cases.

        Parameters
        ----------
        confidence : array-like of shape (n_cases,)
            What the new model said to cases that will not be counted; labels are not needed.
        **options
            Other options of the monitor.

        Examples
        --------
        >>> from expertload.monitoring import ChallengerMonitor
        >>> monitor = ChallengerMonitor.from_confidences(range(100), target_accuracy=0.9)
        >>> monitor.thresholds[:3].tolist()
        [95.0, 90.0, 85.0]
        """
        ranked = np.sort(as_floats(confidence, "confidence"))[::-1]
        shares = np.arange(1, N_THRESHOLDS + 1) / N_THRESHOLDS
        return cls(thresholds=ranked[np.ceil(shares * len(ranked)).astype(int) - 1], **options)

    def restarted(self, **options: Any) -> Self:
        """Return a monitor without cases, for a model that has changed.

        What was seen of the old model says nothing about the new one. The promise and the
        thresholds stay, unless `options` has others.
        """
        return type(self)(**{**self._promise, **options})

    # ------------------------------------------------------------------ cases

    def update(
        self,
        confidence: ArrayLike,
        correct: ArrayLike | None = None,
        *,
        accepted_now: ArrayLike = False,
        inclusion_probability: ArrayLike = 1.0,
        least_inclusion_probability: ArrayLike | None = None,
        is_read: ArrayLike | None = None,
        clusters: Any = None,
        key: Any = None,
    ) -> Self:
        """Count cases, in the order in which they came: all of them or, if one is invalid, none.

        Parameters
        ----------
        confidence : array-like of shape (n_cases,)
            The confidence of the new model.
        correct : array-like of shape (n_cases,), optional
            Whether the new model is right: 1, 0, or a grade between; None or NaN without a label.
        accepted_now : array-like of bool, default=False
            Which cases today's policy decides; none after an alarm.
        inclusion_probability : array-like or float, default=1.0
            The probability with which each case is read: 1 if it is delegated today, else the
            audit rate.
        least_inclusion_probability : array-like or float, optional
            The smallest probability at that time, if it differs from the monitor's.
        is_read : array-like of bool, optional
            Which cases are read, also if their label is still open. By default those with a label
            and those that are read with probability 1.
        clusters : array-like of str or int, optional
            The cluster of each case, such as its patient; the first case of a cluster counts. For
            all cases or for none.
        key : array-like of str or int, optional
            The key of each case, needed to pass a label later, to `answer`.
        """
        scores = as_floats(confidence, "confidence").astype(np.float64)
        n = len(scores)
        grades = np.full(n, np.nan) if correct is None else as_answers(correct)
        check_same_length(confidence=scores, correct=grades)
        if least_inclusion_probability is None:
            least_inclusion_probability = self.least_inclusion_probability
        inclusion = np.array(as_inclusion(inclusion_probability, n, "inclusion_probability"))
        least = as_inclusion(least_inclusion_probability, n, "least_inclusion_probability")
        must_be_read = ~np.isnan(grades) | (inclusion == 1)
        read = must_be_read if is_read is None else _flags(is_read, n, "is_read")
        if (inclusion < least).any():
            wanted = "must be at least least_inclusion_probability"
            raise ParameterError(message("inclusion_probability", wanted, f"{inclusion.min():g}"))
        if (must_be_read & ~read).any():
            wanted = "must be true for cases with a label or an inclusion probability of 1"
            raise ParameterError(message("is_read", wanted, "false for one of them"))
        columns = {
            "confidence": scores.tolist(),
            "correct": grades.tolist(),
            "accepted_now": _flags(accepted_now, n, "accepted_now").tolist(),
            "inclusion_probability": inclusion.tolist(),
            "least_inclusion_probability": least,
            "is_read": read.tolist(),
            "clusters": as_keys(clusters, n),
            "key": as_keys(key, n),
        }
        self._append(columns, self._counted(columns))
        return self

    def _counted(self, columns: dict[str, list[Any]]) -> list[int]:
        """Return the rows to count: all, or those that are the first of their cluster."""
        clusters, keys = columns["clusters"], columns["key"]
        seen = {*self._places}
        for key in keys:
            if key is not None and key in seen:
                raise RepeatedCaseError(
                    f"A monitor counts a case once. Got the case {key!r} again. Nothing was "
                    "counted. Hint: pass late labels to answer(correct, key=...)."
                )
            seen.add(key)
        if self.n_cases and (clusters[0] is None) == bool(self._known_clusters):
            wanted = "must be given for every case or for none"
            raise ParameterError(message("clusters", wanted, "them for some cases"))
        if clusters[0] is None:
            return list(range(len(keys)))
        first = {cluster: row for row, cluster in reversed([*enumerate(clusters)])}
        return sorted(row for name, row in first.items() if name not in self._known_clusters)

    def _append(self, columns: dict[str, list[Any]], rows: list[int]) -> None:
        keys = enumerate((columns["key"][row] for row in rows), start=self.n_cases)
        self._places |= {key: place for place, key in keys if key is not None}
        self._known_clusters |= {*columns["clusters"]} - {None}
        for name, values in columns.items():
            self._columns.setdefault(name, []).extend(values[row] for row in rows)
        self.__dict__.pop("_paths", None)

    def answer(self, correct: ArrayLike, *, key: Any) -> Self:
        """Fill in the labels of cases whose reviews were open.

        Parameters
        ----------
        correct : array-like of shape (n_cases,)
            Whether the new model is right.
        key : array-like of str or int
            The keys that `update` was given. Leave out cases that were not counted, because
            another of their cluster came first.

        Examples
        --------
        >>> from expertload.monitoring import ChallengerMonitor
        >>> monitor = ChallengerMonitor(target_accuracy=0.9, thresholds=0.5)
        >>> monitor.update([0.7, 0.8], key=["a", "b"]).answer([1], key=["b"]).n_open
        1
        """
        grades = as_answers(correct)
        keys = as_keys(key, len(grades))
        is_open = [
            name in self._places and math.isnan(self._columns["correct"][self._places[name]])
            for name in keys
        ]
        if not all(is_open):
            wanted = "must name cases whose reviews are open"
            raise ParameterError(message("key", wanted, f"{keys[is_open.index(False)]!r}"))
        for name, grade in zip(keys, grades.tolist(), strict=True):
            self._columns["correct"][self._places[name]] = grade
        self.__dict__.pop("_paths", None)
        return self

    def _column(self, name: str) -> AnyArray:
        dtype = bool if name in ("accepted_now", "is_read") else float
        return np.array(self._columns.get(name, ()), dtype=dtype)

    @property
    def n_cases(self) -> int:
        """The number of cases that count, read or not."""
        return len(self._columns.get("confidence", ()))

    @property
    def n_read(self) -> int:
        """The number of these that are read, including open ones."""
        return int(self._column("is_read").sum())

    @property
    def n_open(self) -> int:
        """The number of these whose label is still open."""
        return int((self._column("is_read") & np.isnan(self._column("correct"))).sum())

    # ------------------------------------------------------------------ evidence

    @property
    def needed_evidence(self) -> float:
        """The evidence that is enough, for the promise and for the load: 1 / alpha."""
        return 1 / (1 - self.confidence_level)

    @cached_property
    def _granted(self) -> FloatArray:
        """The part of the level that is granted at each threshold."""
        shares = np.arange(1, len(self.thresholds) + 1) / len(self.thresholds)
        return granted_at(shares, GRANTS) * (1 - self.confidence_level)

    @cached_property
    def _paths(self) -> FloatArray:
        """The evidence at each threshold after each case read, of shape (n_thresholds, n_read)."""
        read = self._column("is_read")
        accepted = reaches(self._column("confidence")[read], self.thresholds[:, None])
        inclusion = self._column("inclusion_probability")[read]
        weights = accepted * (self._column("least_inclusion_probability")[read] / inclusion)
        errors = 1 - np.nan_to_num(self._column("correct")[read], nan=0.0)
        bets = confirming_bets(self.target_accuracy)
        capital = start(bets, shape=(len(accepted),))
        together = np.broadcast_to(errors, accepted.shape)
        return advance(capital, together, weights, bets=bets, blocks=1)[1]

    @property
    def _highest(self) -> FloatArray:
        """The highest evidence so far at each threshold."""
        return np.asarray(self._paths.max(axis=1, initial=1.0))

    def _scaled(self, evidence: FloatArray) -> FloatArray:
        """Return the largest evidence, each scaled by the part of the level at its threshold."""
        return np.asarray((evidence.T * self._granted).max(axis=-1) * self.needed_evidence)

    @property
    def evidence(self) -> float:
        """The highest evidence that the promise is kept, on a scale where 1 / alpha is enough."""
        return float(self._scaled(self._highest))

    def history(self) -> FloatArray:
        """Return `evidence` after each case that is read, with the labels of today."""
        return np.asarray(np.maximum.accumulate(self._scaled(self._paths)))

    @property
    def certified(self) -> FloatArray:
        """The thresholds at which the promise is shown, strict to loose; they hold together."""
        runs = descend_from(1 / self._highest, self._granted)
        return np.concatenate([self.thresholds[run.begin :][: run.n_passed] for run in runs])

    @property
    def threshold(self) -> float:
        """The loosest threshold at which the promise is shown; infinite while there is none."""
        return float(self.certified[-1]) if self.is_certified else math.inf

    @property
    def is_certified(self) -> bool:
        """Whether the promise is shown at some threshold."""
        return len(self.certified) > 0

    # ------------------------------------------------------------------ what follows from it

    def point(self, origin: Origin | None = None) -> CertifiedPoint:
        """Return the policy of the new model that these cases certify.

        Its counts are of the cases counted here; errors are estimated from those that are read.
        `origin` says what the confidence is, the classes and the model.

        Examples
        --------
        >>> from expertload.monitoring import ChallengerMonitor
        >>> monitor = ChallengerMonitor(target_accuracy=0.9, thresholds=0.5)
        >>> point = monitor.update([0.7] * 60 + [0.3] * 20, [1] * 60 + [0] * 20).point()
        >>> point.threshold, point.expert_load, point.n_errors_spared
        (0.5, 0.25, 20.0)
        """
        if not self.n_cases:
            raise ParameterError("A policy needs cases. Got a monitor without any.")
        wrong = 1 - np.nan_to_num(self._column("correct"), nan=1.0)
        errors = wrong / self._column("inclusion_probability")
        accepted = reaches(self._column("confidence"), self.threshold)
        n_accepted = float(accepted.sum())
        n_delegated = self.n_cases - n_accepted
        return CertifiedPoint(
            threshold=self.threshold,
            n_accepted=n_accepted,
            n_delegated=n_delegated,
            n_errors=min(float(errors[accepted].sum()), n_accepted),
            n_errors_spared=min(float(errors[~accepted].sum()), n_delegated),
            target_accuracy=self.target_accuracy,
            confidence_level=self.confidence_level,
            method="stream",
            reason=None if self.is_certified else "not_enough_evidence",
            clusters="one_case_each" if self._known_clusters else None,
            origin=Origin(model_name=self.model_name) if origin is None else origin,
        )

    # ------------------------------------------------------------------ taking over

    @property
    def _then(self) -> BoolArray:
        """What the new model accepts: at `threshold`, or at the one nearest to being certified."""
        nearest = float(self.thresholds[np.argmax(self._highest * self._granted)])
        threshold = self.threshold if self.is_certified else nearest
        return reaches(self._column("confidence"), threshold)

    @property
    def load_now(self) -> float | None:
        """The share of cases that is delegated today; None before the first case."""
        return 1 - float(self._column("accepted_now").mean()) if self.n_cases else None

    @property
    def load_then(self) -> float | None:
        """The share delegated at `threshold`, or at the one that is nearest to being certified."""
        return 1 - float(self._then.mean()) if self.n_cases else None

    @property
    def load_evidence(self) -> float:
        """The evidence that the new model delegates less at this threshold; 1 / alpha is enough."""
        now, then = self._column("accepted_now"), self._then
        return _load_evidence(int((then & ~now).sum()), int((now & ~then).sum()))

    @property
    def may_switch(self) -> bool:
        """Whether it is shown that the promise is kept and that the load is lower."""
        return self.is_certified and self.load_evidence >= self.needed_evidence

    def summary(self) -> str:
        """Return in words whether the new model may take over, and what is missing."""
        if self.load_now is None or self.load_then is None:
            return "Not yet: there are no cases."
        needed, target = f"{self.needed_evidence:.6g}", f"{self.target_accuracy:.6g}"
        if not self.is_certified:
            verdict = (
                f"Not yet: it is not shown that an accuracy of {target} is kept (evidence "
                f"{self.evidence:.3g} of {needed}, cases read: {self.n_read})."
            )
        elif not self.may_switch:
            verdict = (
                f"Not yet: an accuracy of {target} is kept at confidence >= "
                f"{digits(self.threshold)}, but it is not shown that the load is lower (evidence "
                f"{self.load_evidence:.3g} of {needed})."
            )
        else:
            verdict = (
                f"The new model may take over at confidence >= {digits(self.threshold)}: an "
                f"accuracy of {target} is kept, and the load is lower."
            )
        return f"{verdict} Load {self.load_now:.1%} now, {self.load_then:.1%} then."

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values, for JSON; the threshold is None while there is none."""
        names = ("model_name", "target_accuracy", "confidence_level", "may_switch", "is_certified")
        more = ("evidence", "load_evidence", "needed_evidence", "load_now", "load_then")
        values = {name: getattr(self, name) for name in (*names, *more)}
        counts = {name: getattr(self, name) for name in ("n_cases", "n_read", "n_open")}
        threshold = self.threshold if self.is_certified else None
        return {**values, **counts, "threshold": threshold, "summary": self.summary()}

    # ------------------------------------------------------------------ files

    @property
    def _promise(self) -> dict[str, Any]:
        names = ("target_accuracy", "confidence_level", "least_inclusion_probability", "model_name")
        promise = {name: getattr(self, name) for name in names}
        return {**promise, "thresholds": self.thresholds.tolist()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the monitor as JSON; an older file is replaced completely or not at all."""
        labels = [None if math.isnan(g) else g for g in self._columns.get("correct", ())]
        columns = {**self._columns, "correct": labels}
        given = {
            name: values if any(value is not None for value in values) else None
            for name, values in columns.items()
        }
        write_atomically(path, DOCUMENT.write({"promise": self._promise, "cases": given}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a monitor that `save` wrote, and count its cases again; refuse a changed file."""
        document = DOCUMENT.read(path)
        promise, cases = (
            DOCUMENT.section(document.get(name), name) for name in ("promise", "cases")
        )
        try:
            monitor = cls(**promise)
            return monitor.update(**cases) if cases.get("confidence") else monitor
        except (InvalidInputError, TypeError) as error:
            DOCUMENT.refuse(f"its cases cannot be counted ({error})")


def certify_stream(
    cases: Cases,
    *,
    target_accuracy: float,
    thresholds: ArrayLike,
    confidence_level: float = 0.95,
    model_name: str | None = None,
) -> CertifiedPoint:
    """Certify a threshold on a growing stream of cases; call it as often as you like.

    For a new promise after an alarm, when all cases are read. `expertload.certify` is for one try:
    tried again and again with more cases, it certifies by luck.

    Parameters
    ----------
    cases : Cases
        All cases since the beginning, in the order in which they came. Of a cluster, the first one
        counts.
    target_accuracy : float
        The accuracy to promise, in (0, 1).
    thresholds : array-like
        Thresholds to test, fixed before the first case came, for example 20 quantiles of earlier
        confidences.
    confidence_level : float, default=0.95
        With at least this probability, no call ever certifies a threshold that misses the target.
    model_name : str, optional
        Saved with the point.

    Returns
    -------
    CertifiedPoint
        The loosest threshold that is certified so far; everything is delegated while none is.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.monitoring import certify_stream
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.random(1000)
    >>> correct = rng.random(1000) < np.minimum(0.8 + 0.5 * confidence, 0.99)
    >>> for n in (100, 400, 1000):
    ...     cases = Cases.from_correctness(correct[:n], confidence[:n])
    ...     point = certify_stream(cases, target_accuracy=0.95, thresholds=np.arange(0, 1, 0.05))
    ...     print(n, point.expert_load)
    100 1.0
    400 0.145
    1000 0.089
    """
    check_are_cases(cases)
    check_unweighted(cases.weight)
    monitor = ChallengerMonitor(
        target_accuracy=target_accuracy, thresholds=thresholds, confidence_level=confidence_level
    )
    clusters = None if cases.clusters is None else cases.clusters.tolist()
    monitor.update(cases.confidence, cases.correct, clusters=clusters)
    return replace(monitor.point(), origin=origin_of(cases, model_name))


def _flags(value: ArrayLike, n: int, name: str) -> BoolArray:
    """Return one boolean per case."""
    array = as_array(value, name)
    if array.shape not in ((), (n,)) or not np.isin(array, (0, 1)).all():
        wanted = f"must be true or false for each of {n} cases"
        raise ParameterError(message(name, wanted, f"an array of {array.dtype}, {array.shape}"))
    return np.broadcast_to(array.astype(bool), n)


def _load_evidence(gained: int, lost: int) -> float:
    """Return the evidence that cases are gained more often than lost, of those that differ."""
    won, missed = gained + 1, lost + 1
    with np.errstate(divide="ignore"):  # far below one: the evidence is zero
        log_tail = np.log(betaincc(won, missed, 0.5))
    log = (gained + lost + 1) * math.log(2) + betaln(won, missed) + log_tail
    return float(np.exp(min(log, MOST_LOG)))

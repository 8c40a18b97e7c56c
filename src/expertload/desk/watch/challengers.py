"""Models in shadow: the evidence that one may take over, and the steps in which it does.

The evidence is that of `expertload.monitoring.ChallengerMonitor`, computed from the answers that
are stored. They are counted in the order in which they came, so no answer changes what was shown
before it. The first ones only set the thresholds. After an alarm, and when the classes of a model
change, the evidence starts anew: what was seen before says nothing about what comes.

A model that takes over decides a share of the cases first, on trial; the active policy decides the
others. Which cases these are depends on a keyed hash. At a share of 1 its policy is the active one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson
from sqlalchemy import func, select

from expertload import __version__
from expertload.desk.intake.receiving import answer_by, classes_of
from expertload.desk.intake.routing import OF_NO_MODEL, read_policy
from expertload.desk.intake.sampling import is_set_apart
from expertload.desk.intake.shadows import PILOT, answer_row, as_sent
from expertload.desk.store.database import AnyRow, Transaction
from expertload.desk.store.tables import LIVE, monitors, policies
from expertload.desk.watch.policies import (
    AT_ONCE,
    activate,
    active_policy,
    add_policy,
    all_policies,
    begin,
    replace_active,
    stored_cases,
    trial_policy,
    withdraw,
)
from expertload.exceptions import DeskRefusedError
from expertload.monitoring import ChallengerMonitor
from expertload.operating_point.point import Origin

PROMISE = (0.95, 0.95)  # accuracy and confidence, if there was no policy yet


class Challenger(NamedTuple):
    """A model in shadow.

    Attributes
    ----------
    model : str
        Its name.
    n_answers : int
        Its answers to cases that are probabilities, of its present classes.
    n_missing : int
        The cases since its evidence began that it has not answered.
    last : int
        When its last answer came.
    monitor : ChallengerMonitor or None
        The evidence; None until enough answers have set the thresholds.
    policy : Row or None
        Its policy on trial, or the active one.
    """

    model: str
    n_answers: int
    n_missing: int
    last: int
    monitor: ChallengerMonitor | None
    policy: AnyRow | None

    @property
    def share(self) -> float:
        """The share of cases that it decides."""
        if self.policy is None:
            return 0.0
        return 1.0 if self.policy.share is None else float(self.policy.share)

    @property
    def may_switch(self) -> bool:
        """Whether the evidence is enough to take over."""
        return self.monitor is not None and self.monitor.may_switch

    def summary(self) -> str:
        """Return in words whether it may take over, and what is missing."""
        if self.monitor is None:
            return (
                f"Not yet: {self.n_answers} of the first {PILOT} valid answers, which set "
                "the thresholds, have come."
            )
        text = self.monitor.summary()
        if not self.monitor.is_certified:  # then there is no threshold for a load to come
            text = text.partition(" Load ")[0]
        if self.n_missing:
            n = self.monitor.n_cases
            text += f" It has not answered {self.n_missing} of {n} cases: these count as delegated."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values, for JSON."""
        nothing = {"may_switch": False, "threshold": None, "load_now": None, "load_then": None}
        evidence = nothing if self.monitor is None else self.monitor.to_dict()
        evidence.pop("model_name", None)
        if evidence["threshold"] is None:
            evidence["load_then"] = None
        return {
            "model": self.model,
            **evidence,
            "answers": self.n_answers,
            "missing": self.n_missing,
            "last": self.last / 1e6,
            "policy": None if self.policy is None else self.policy.id,
            "share": self.share,
            "summary": self.summary(),
        }


def challengers_of(transaction: Transaction) -> list[Challenger]:
    """Return every model in shadow, and those that decide since they were one."""
    stream = _Stream(transaction)
    names = transaction.rows(_MODELS, project=transaction.project.id)
    return [it for (model,) in names if (it := _challenger(stream, model)) is not None]


def find_challenger(transaction: Transaction, model: str) -> Challenger:
    """Return one model in shadow."""
    challenger = _challenger(_Stream(transaction), model)
    if challenger is None:
        raise DeskRefusedError(
            "not_found",
            f"No model '{model[:60]}' is in shadow.",
            "send its answers to POST /api/shadow.",
        )
    return challenger


def _challenger(stream: _Stream, model: str) -> Challenger | None:
    """Return a model in shadow; None if there is no answer of it, or if it is today's own model."""
    transaction, active = stream.transaction, stream.active
    deciding = [p for p in (trial_policy(transaction), active) if p is not None]
    policy = next((p for p in deciding if read_policy(p.document).model == model), None)
    newest = transaction.rows(_NEWEST, project=transaction.project.id, model=model)
    if not newest or (policy is not None and policy.source != "challenger"):
        return None
    ((classes, last, _),) = newest
    answers = stream.answers_of(model, classes)
    pilot = [answer for answer in answers if answer[3] is not None]
    if len(pilot) < PILOT:
        return Challenger(model, len(pilot), 0, last, None, policy)
    target, level = _promise(transaction)
    monitor = ChallengerMonitor.from_confidences(
        [confidence for _, _, _, confidence, _ in pilot[:PILOT]],
        target_accuracy=target,
        confidence_level=level,
        model_name=model,
    )
    (after, case, *_) = pilot[PILOT - 1]
    rows = [
        Seen(*(*stream.cases[number], predicted, confidence))
        for place, number, predicted, confidence, blind in answers
        if place > after and blind and number in stream.cases
    ]
    missing = set()
    if policy is None or policy is not active:  # otherwise, it answers these itself
        known = {number for _, number, *_ in answers}
        missing = {n for n in stream.cases if n > case and n not in known}
        # Without an answer they make no bet; they come last, and count for the load only.
        later = [Seen(*stream.cases[n])._replace(least=0.0) for n in sorted(missing)]
        rows += [row for row in later if row.model != model]
    now = stream.accepted_now(rows)
    # An earlier case of a patient who is not set apart may have taught the model. A case without a
    # patient cannot have: the model answered before an expert did.
    judged = [
        row
        for row in rows
        if row.id in now and (row.cluster is None or is_set_apart(transaction.project, row))
    ]
    count_cases(monitor, judged, [now[row.id] for row in judged])
    n_missing = sum(row.id in missing for row in judged)
    return Challenger(model, len(pilot), n_missing, last, monitor, policy)


def _promise(transaction: Transaction) -> tuple[float, float]:
    """Return the accuracy and the confidence that the latest policy promises."""
    latest = active_policy(transaction) or next(iter(all_policies(transaction)), None)
    if latest is None:
        return PROMISE
    point = read_policy(latest.document).point
    return point.target_accuracy, point.confidence_level


def last_alarm(transaction: Transaction) -> int:
    """Return the time of the last alarm; evidence from before it does not count."""
    alarms = select(func.max(monitors.c.alarmed)).where(transaction.in_project(monitors))
    return transaction.value(alarms) or 0


# ------------------------------------------------------------------ the stream


class Seen(NamedTuple):
    """A case as evidence sees it: how likely it was to be read, the label, a model's answer."""

    id: int
    key: str
    cluster: str | None
    model: str | None
    cause: str
    policy: int | None
    accepted: bool
    draw: float
    rate: float
    least: float
    label: str | None
    predicted: str | None = None
    confidence: float | None = None
    probabilities: Mapping[str, float | None] = {}  # None was sent as NaN

    @property
    def is_read(self) -> bool:
        """Whether experts read the case by design; a look-back does not count.

        Where nothing is audited, no case stands for what is decided, and none can count.
        """
        return self.least > 0 and (not self.accepted or self.draw < self.rate)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probability the model gave."""
        return tuple(name for name, p in self.probabilities.items() if p is not None)

    @property
    def unit(self) -> str:
        """What cases depend on together; without a cluster, a case is its own."""
        return f"k:{self.key}" if self.cluster is None else f"c:{self.cluster}"


# A case that was voided after somebody had answered it counts as wrong; golden cases are not real.
# What a settled audit found stays, also if a manager has opened the case again.
CASE = """
    c.id, c.key, c.cluster, c.model, c.cause, c.policy_id, c.accepted, c.draw, c.rate,
    coalesce(c.least, c.rate),
    CASE WHEN c.audit = 'right' THEN c.predicted WHEN c.state = 'closed' THEN live.label
         WHEN c.state = 'void' THEN '' END
"""
USABLE = """
    c.received > :since AND c.truth IS NULL
      AND (c.state <> 'void' OR EXISTS (SELECT 1 FROM answers AS a WHERE a.case_id = c.id))
"""
_OF_MODEL = "FROM shadows AS s WHERE s.project_id = :project AND s.model = :model"
_MODELS = (
    "SELECT DISTINCT model FROM shadows WHERE project_id = :project AND model <> '' ORDER BY model"
)
_NEWEST = f"SELECT s.classes, s.received, s.probabilities {_OF_MODEL} ORDER BY s.id DESC LIMIT 1"
# Since the model has its present classes.
_SINCE = f"> (SELECT coalesce(max(s.id), 0) {_OF_MODEL} AND s.classes <> :classes)"
_ANSWERS = f"SELECT id, case_id, predicted, confidence, blind {_OF_MODEL} AND s.id {_SINCE}"
# What it decided is stored with the case, and where it was, the answer of the model before.
_OWN = f"""
    SELECT min(b.id), c.id, c.probabilities FROM cases AS c JOIN shadows AS b ON b.case_id = c.id
    WHERE c.project_id = :project AND c.model = :model AND c.probabilities IS NOT NULL
      AND b.blind AND b.model IN :before AND b.id {_SINCE}
    GROUP BY c.id
"""
_CASES = f"""
    SELECT {CASE} FROM cases AS c {LIVE}
    WHERE c.project_id = :project AND c.id >= (SELECT min(case_id) FROM shadows) AND {USABLE}
    ORDER BY c.id
"""


class _Stream:
    """What the evidence about any model is made of, read once for all of them."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction, self.active = transaction, active_policy(transaction)
        self.policies = {p.id: read_policy(p.document) for p in all_policies(transaction)}
        self._now: dict[int, bool | None] = {}

    @cached_property
    def cases(self) -> dict[int, Any]:
        """The columns of cases that may count."""
        values = {"project": self.transaction.project.id, "since": last_alarm(self.transaction)}
        return {row[0]: row for row in self.transaction.rows(_CASES, **values)}

    def answers_of(self, model: str, classes: str) -> list[tuple[Any, ...]]:
        """Return place, case, class, confidence and blindness of a model's answers, in order."""
        values = {"project": self.transaction.project.id, "model": model, "classes": classes}
        answers = self.transaction.rows(_ANSWERS, **values)
        before = {"", *(policy.model or "" for policy in self.policies.values())} - {model}
        for place, case, written in self.transaction.rows(_OWN, before=list(before), **values):
            its = answer_row(model, as_sent(written))
            if its["classes"] == classes:
                answers.append((place, case, its["predicted"], its["confidence"], True))
        return sorted(answers)

    def accepted_now(self, rows: list[Seen]) -> dict[int, bool]:
        """Return whether today's policy decides each case; cases it cannot judge are left out."""
        if self.active is None:
            return {row.id: False for row in rows}
        policy = self.policies[self.active.id]
        same = {number for number, other in self.policies.items() if other is policy}
        for row in rows:
            again = row.policy in same and row.cause not in OF_NO_MODEL
            if again or row.policy == self.active.id:
                self._now[row.id] = bool(row.accepted)
        others = [row.id for row in rows if row.id not in self._now]
        # If today's model has no name, an answer under a policy for a named one is of another.
        named = {number for number, other in self.policies.items() if other.model is not None}
        name = policy.model or ""  # so nameless answers are stored beside a case
        for first in range(0, len(others), AT_ONCE):
            numbers = others[first : first + AT_ONCE]
            stored, sent = stored_cases(self.transaction, numbers, beside=name)
            answers = [answer_by(name, case) for case in sent]
            for case, its, route in zip(stored, answers, policy.route(answers), strict=True):
                is_its = policy.model or its.model == name or case.policy_id not in named
                comparable = is_its and route.cause not in OF_NO_MODEL
                self._now[case.id] = route.accepted if comparable else None
        return {row.id: now for row in rows if (now := self._now[row.id]) is not None}


def count_cases(
    monitor: ChallengerMonitor, rows: list[Seen], accepted_now: list[bool] | bool
) -> None:
    """Count cases in their order."""
    if not rows:
        return
    read = np.array([row.is_read for row in rows])
    labels = [
        float(row.label == row.predicted) if row.label is not None and row.is_read else np.nan
        for row in rows
    ]
    least = np.array([row.least for row in rows])
    inclusion = np.array([row.rate if row.accepted else 1.0 for row in rows])
    # Where no case has a cluster, the policy must not say that its promise is about clusters.
    in_clusters = any(row.cluster is not None for row in rows)
    monitor.update(
        # Without one it is never accepted, at whatever threshold.
        [-1.0 if row.confidence is None else row.confidence for row in rows],
        labels,
        accepted_now=accepted_now,
        # What is not read makes no bet, whatever its probability was.
        inclusion_probability=np.where(read, inclusion, 0.5),
        least_inclusion_probability=np.where(read, least, 0.5),
        is_read=read,
        clusters=[row.unit for row in rows] if in_clusters else None,
    )


# ------------------------------------------------------------------ taking over


def adopt(
    transaction: Transaction, model: str, share: float, *, seen: float | None = None
) -> int | None:
    """Let a model decide a share of the cases; return its policy, None if it decides none.

    Parameters
    ----------
    transaction : Transaction
        A transaction for writing.
    model : str
        The model.
    share : float
        From 0 to 1. At 1 the active policy ends; 0 is the way back.
    seen : float, optional
        The share that the manager saw; if it has changed since, nothing is done.
    """
    transaction.require_alone()
    challenger = find_challenger(transaction, model)
    _check(transaction, challenger, share, seen)
    policy = challenger.policy
    if policy is None:
        number = add_policy(transaction, _document(transaction, challenger), source="challenger")
        if share == 1:
            activate(transaction, number)
        else:
            begin(transaction, number, share=share)
        return number
    if share == 0:
        return _go_back(transaction, policy)
    state = "active" if share == 1 else "trial"
    if share == 1:
        replace_active(transaction, policy.id)
    event = transaction.event("policy.shared")
    values = {"share": None if share == 1 else share, "caught_up": 0}
    transaction.move(policies, policy, state, event, **values)
    return int(policy.id)


def _check(
    transaction: Transaction, challenger: Challenger, share: float, seen: float | None
) -> None:
    """Refuse a share that another manager has changed, or that nothing speaks for."""
    current, name = challenger.share, challenger.model
    if current == share or (seen is not None and seen != current):
        raise DeskRefusedError(
            "conflict",
            f"The model '{name}' decides a share of {current:g} now: somebody was faster.",
            "look again at what it decides.",
        )
    other = trial_policy(transaction)
    if challenger.policy is None and other is not None:
        raise DeskRefusedError(
            "conflict",
            f"The model '{read_policy(other.document).model}' is on trial.",
            "raise its share to 1, or take it back, first.",
        )
    if challenger.policy is None and not challenger.may_switch:
        raise DeskRefusedError("not_shown", challenger.summary())
    if current == 1 and share > 0:
        raise DeskRefusedError(
            "conflict",
            f"The model '{name}' decides all cases, and the policy before it has ended.",
            "take it back with a share of 0.",
        )


def _go_back(transaction: Transaction, policy: AnyRow) -> int | None:
    """End the policy of a model; the policy that it replaced, if any, decides again."""
    before = transaction.first(
        select(policies)
        .join(monitors, monitors.c.policy_id == policies.c.id)
        .where(
            transaction.in_project(policies),
            policies.c.reason == f"replaced by policy {policy.id}",
            monitors.c.alarmed.is_(None),
        )
    )
    if before is None:  # on trial, it has replaced none
        withdraw(transaction, policy.id, reason="taken back")
        return None
    number = add_policy(transaction, before.document, source="restored")
    activate(transaction, number)
    return number


def _document(transaction: Transaction, challenger: Challenger) -> str:
    """Return the policy that the evidence certifies."""
    project, model = transaction.project.id, challenger.model
    ((_, _, written),) = transaction.rows(_NEWEST, project=project, model=model)
    if challenger.monitor is None or written is None:
        raise DeskRefusedError("not_shown", challenger.summary(), "send more of its answers.")
    names, known = {*orjson.loads(written)}, classes_of(transaction)
    # Readers know the classes in this order.
    classes = tuple(known) if names == {*known} else tuple(sorted(names))
    return challenger.monitor.point(stream_origin(classes, model)).to_json()


def stream_origin(classes: tuple[str, ...], model: str | None) -> Origin:
    """Return the origin of a policy that is certified now, by the highest probability."""
    return Origin(
        ranked_by="top_probability",
        labels=classes,
        model_name=model,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        library_version=__version__,
    )

"""Receives cases: each is stored once, decided or queued, and always gets the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import select

from expertload.desk.intake.case import CONTROL, SentCase
from expertload.desk.intake.routing import Route, RoutingPolicy, read_policy, unrouted
from expertload.desk.intake.sampling import draw
from expertload.desk.store.database import SECOND, AnyRow, Event, Transaction, content_digest
from expertload.desk.store.tables import bodies, cases, decisions, readings
from expertload.exceptions import DeskRefusedError

Row = tuple[Event, dict[str, Any]]


class Outcome(NamedTuple):
    """The answer to a sent case: it is decided, or goes to an expert.

    Attributes
    ----------
    key : str
        The case.
    status : {"decided", "delegated"}
        Whether the policy decided it.
    label : str or None
        The decision.
    policy : int or None
        The policy that decided.
    cause : str
        Why: "above_threshold", "below_threshold", or what prevented an automatic decision.
    """

    key: str
    status: str
    label: str | None
    policy: int | None
    cause: str


def receive(transaction: Transaction, sent: Sequence[SentCase]) -> list[Outcome | DeskRefusedError]:
    """Store cases; return the outcome of each, or why it was refused. The others are stored."""
    first = {case.key: case for case in reversed(sent)}
    known = _known(transaction, list(first))
    new = sorted((c for c in first.values() if c.key not in known), key=lambda case: case.key)
    if new:
        outcomes = _store(transaction, new)
        known |= {case.key: (case.digest, outcomes[case.key]) for case in new}
    return [_answer(case, *known[case.key]) for case in sent]


def _answer(case: SentCase, digest: str, outcome: Outcome) -> Outcome | DeskRefusedError:
    if case.digest == digest:
        return outcome
    return DeskRefusedError(
        "conflict",
        f"The key '{case.key}' belongs to a case with other content.",
        "give every case its own key; a case that has changed is a new case.",
    )


def _known(transaction: Transaction, keys: list[str]) -> dict[str, tuple[str, Outcome]]:
    """Return the digest and the first outcome of the cases that are already stored."""
    rows = transaction.rows(_KNOWN, project=transaction.project.id, keys=keys)
    return {
        key: (
            digest,
            _decided(key, label, policy, cause) if kind == "auto" else _delegated(key, cause),
        )
        for key, digest, cause, kind, label, policy in rows
    }


def _decided(key: str, label: str | None, policy: int | None, cause: str) -> Outcome:
    return Outcome(key, "decided", label, policy, cause)


def _delegated(key: str, cause: str) -> Outcome:
    return Outcome(key, "delegated", None, None, cause)


_KNOWN = (
    "SELECT cases.key, cases.digest, cases.cause, first.kind, first.label, first.policy_id "
    "FROM cases "
    "LEFT JOIN decisions AS first ON first.case_id = cases.id AND first.version = 1 "
    "WHERE cases.project_id = :project AND cases.key IN :keys"
)


class _ActivePolicy(NamedTuple):
    """The active policy; `trusted` says whether it may decide now."""

    id: int
    since: int
    policy: RoutingPolicy
    trusted: bool


def _active_policy(transaction: Transaction) -> _ActivePolicy | None:
    """Return the active policy. With strict rules, it may decide only while it is confirmed."""
    rows = transaction.rows(_ACTIVE, project=transaction.project.id)
    if not rows:
        return None
    ((number, document, since, monitored),) = rows
    trusted = not transaction.project.rules.strict or monitored == "confirmed"
    return _ActivePolicy(number, since, read_policy(document), trusted)


_ACTIVE = (
    "SELECT policies.id, policies.document, policies.activated, monitors.state "
    "FROM policies LEFT JOIN monitors ON monitors.policy_id = policies.id "
    "WHERE policies.project_id = :project AND policies.state = 'active'"
)


def _store(transaction: Transaction, new: Sequence[SentCase]) -> dict[str, Outcome]:
    active = _active_policy(transaction)
    if active is None:
        routes = [unrouted(case, "no_policy") for case in new]
    else:
        routes = active.policy.route(new)
    batch = _Batch(transaction, active)
    numbers = transaction.new_ids(cases, len(new))
    outcomes = {
        case.key: batch.add(number, case, route)
        for number, case, route in zip(numbers, new, routes, strict=True)
    }
    batch.store()
    return outcomes


class _Batch:
    """The rows of several cases, collected and then written table by table."""

    def __init__(self, transaction: Transaction, active: _ActivePolicy | None) -> None:
        self.transaction = transaction
        self.policy = active.id if active else None
        self.trusted = active is not None and active.trusted
        self.rate = transaction.project.sampling_rate if self.trusted else 1.0
        self.made = max(transaction.now, active.since) if active else transaction.now
        self.due = transaction.now + transaction.project.rules.due_seconds * SECOND
        self.cases: list[Row] = []
        self.bodies: list[Row] = []
        self.decisions: list[Row] = []
        self.readings: list[Wanted] = []

    def add(self, number: int, case: SentCase, route: Route) -> Outcome:
        """Add one case: its row and, if it has them, its body, decision and reading."""
        project = self.transaction.project
        event = self.transaction.event("case.received", case_id=number)
        u = draw(project.secret, "quality", project.name, case.key)
        decided = route.accepted and self.trusted
        due = self.due if case.due is None else case.due
        cause = route.cause if decided or not route.accepted else "not_confirmed_yet"
        probabilities = _as_json(case.probabilities)
        row = {
            "id": number,
            "project_id": project.id,
            "key": case.key,
            "digest": case.digest,
            "state": "auto" if decided else "waiting",
            "model": case.model,
            "group_name": case.group,
            "cluster": case.cluster,
            "predicted": route.predicted,
            "confidence": route.confidence,
            "probabilities": probabilities,
            "probabilities_sha256": content_digest(probabilities),
            "accepted": route.accepted,
            "cause": cause,
            "policy_id": self.policy,
            "draw": u,
            "rate": self.rate,
            "audit": "open" if route.accepted and u < self.rate else None,
            "received": self.made,
            "due": due,
        }
        self.cases.append((event, row))
        if case.body is not None:
            body = {"kind": case.body.kind, "media_type": case.body.media_type}
            content = {"sha256": case.body.sha256, "content": case.body.content}
            self.bodies.append((event, {"id": number, **body, **content}))
        if not decided or u < self.rate:
            why = "quality" if decided else "delegated"
            self.readings.append(Wanted(number, due, event, why))
        if not decided:
            return _delegated(case.key, cause)
        self.decisions.append((event, self._decision(number, route)))
        return _decided(case.key, route.predicted, self.policy, cause)

    def _decision(self, number: int, route: Route) -> dict[str, Any]:
        return {
            "case_id": number,
            "version": 1,
            "kind": "auto",
            "label": route.predicted,
            "policy_id": self.policy,
            "reading_id": None,
            "made": self.made,
            "supersedes": None,
        }

    def store(self) -> None:
        """Write all rows, in the order of the foreign keys, and update the counters."""
        transaction = self.transaction
        transaction.insert_all(cases, self.cases)
        transaction.insert_all(bodies, self.bodies)
        if self.decisions:
            numbers = transaction.new_ids(decisions, len(self.decisions))
            for number, (_, row) in zip(numbers, self.decisions, strict=True):
                row["id"] = number
            transaction.insert_all(decisions, self.decisions)
        open_readings(transaction, self.readings)
        for name, n in (("received", len(self.cases)), ("decided", len(self.decisions))):
            transaction.count(name, n)
            transaction.count_hourly(name, n)


def _as_json(probabilities: dict[str, float] | None) -> str | None:
    """Write probabilities as JSON. JSON has no NaN, so NaN becomes null."""
    return None if probabilities is None else orjson.dumps(probabilities).decode()


def find_case(transaction: Transaction, key: str, *, locked: bool = True) -> AnyRow:
    """Return the row of a case, locked until this transaction ends; refuse an unknown key."""
    case = None
    if not CONTROL.search(key):  # no key has these, and PostgreSQL refuses to search for some
        ours = select(cases).where(transaction.in_project(cases), cases.c.key == key)
        case = transaction.first(ours.with_for_update() if locked else ours)
    if case is None:
        raise DeskRefusedError("not_found", f"There is no case '{key[:60]}'.")
    return case


# ------------------------------------------------------------------ readings


class Wanted(NamedTuple):
    """A case that somebody should read: when it is due, the event that records it, and why."""

    case: int
    due: int
    event: Event
    why: str


_NEW: dict[str, Any] = dict.fromkeys(str(c.name) for c in readings.columns)


def open_readings(
    transaction: Transaction,
    wanted: Sequence[Wanted],
    *,
    barred: int | None = None,
    root: int | None = None,
) -> None:
    """Ask somebody to read each of these cases, in the round that started with `root`."""
    if not wanted:
        return
    new = {
        **_NEW,
        "project_id": transaction.project.id,
        "state": "waiting",
        "barred": barred,
        "created": transaction.now,
    }
    rows = []
    numbers = transaction.new_ids(readings, len(wanted))
    for number, (case, due, event, why) in zip(numbers, wanted, strict=True):
        own = {"id": number, "case_id": case, "due": due, "why": why, "root": root or number}
        rows.append((event, new | own))
    transaction.insert_all(readings, rows)
    transaction.count_hourly("readings", len(rows))

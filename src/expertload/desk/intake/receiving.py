"""Receives cases: each is stored once, decided or queued, and always gets the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from expertload.desk.intake.body import Body
from expertload.desk.intake.case import SentCase
from expertload.desk.intake.readings import reading_row
from expertload.desk.intake.routing import Route, RoutingPolicy, read_policy, unrouted
from expertload.desk.intake.sampling import drawing
from expertload.desk.store import SECOND, Event, Transaction, content_digest
from expertload.desk.store.tables import bodies, cases, decisions, readings
from expertload.exceptions import DeskRefusedError

__all__ = ["Outcome", "receive"]


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
    """

    key: str
    status: str
    label: str | None
    policy: int | None


def receive(transaction: Transaction, sent: Sequence[SentCase]) -> list[Outcome | DeskRefusedError]:
    """Store cases; return the outcome of each, or why it was refused. The others are stored."""
    first = {case.key: case for case in reversed(sent)}
    known = _known(transaction, list(first))
    new = sorted((c for c in first.values() if c.key not in known), key=lambda case: case.key)
    outcomes = _store(transaction, new) if new else {}
    return [_answer(case, first[case.key], known.get(case.key), outcomes) for case in sent]


class _Stored(NamedTuple):
    """A case that is already stored, with its first decision, if there is one."""

    key: str
    digest: str
    kind: str | None
    label: str | None
    policy: int | None


def _answer(
    case: SentCase, first: SentCase, stored: _Stored | None, outcomes: dict[str, Outcome]
) -> Outcome | DeskRefusedError:
    digest = first.digest if stored is None else stored.digest
    if case.digest != digest:
        return DeskRefusedError(
            "conflict",
            f"The key '{case.key}' belongs to a case with other content.",
            "give every case its own key; a case that has changed is a new case.",
        )
    if stored is None:
        return outcomes[case.key]
    if stored.kind == "auto":
        return Outcome(case.key, "decided", stored.label, stored.policy)
    return Outcome(case.key, "delegated", None, None)


def _known(transaction: Transaction, keys: list[str]) -> dict[str, _Stored]:
    """Return the cases that are already stored."""
    found = transaction.rows(
        _KNOWN + transaction.among("keys"), project=transaction.project.id, keys=keys
    )
    return {row[0]: _Stored(*row) for row in found}


_KNOWN = (
    "SELECT cases.key, cases.digest, first.kind, first.label, first.policy_id FROM cases "
    "LEFT JOIN decisions AS first ON first.case_id = cases.id AND first.version = 1 "
    "WHERE cases.project_id = :project AND cases.key "
)


class _ActivePolicy(NamedTuple):
    """The active policy; `trusted` says whether it may decide now."""

    id: int
    since: int
    policy: RoutingPolicy
    trusted: bool


def _active_policy(transaction: Transaction) -> _ActivePolicy | None:
    """Return the active policy. With strict rules, it may decide only while it is confirmed."""
    found = transaction.rows(_ACTIVE, project=transaction.project.id)
    if not found:
        return None
    ((number, document, since, monitored),) = found
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
    rate = transaction.project.sampling_rate if active and active.trusted else 1.0
    batch = _Batch(transaction, active, rate)
    for number, case, route in zip(transaction.new_ids(cases, len(new)), new, routes, strict=True):
        batch.add(number, case, route)
    batch.store()
    return batch.outcomes


class _Batch:
    """The rows of several cases, collected and then written table by table."""

    def __init__(self, transaction: Transaction, active: _ActivePolicy | None, rate: float) -> None:
        self.transaction = transaction
        self.active = active
        self.rate = rate
        self.outcomes: dict[str, Outcome] = {}
        self.made = max(transaction.now, active.since) if active else transaction.now
        self._due = transaction.now + transaction.project.rules.due_seconds * SECOND
        self._draw = drawing(transaction.project, "quality")
        self._policy = active.id if active else None
        self._cases: list[tuple[Event, dict[str, Any]]] = []
        self._bodies: list[tuple[Event, dict[str, Any]]] = []
        self._decisions: list[tuple[Event, dict[str, Any]]] = []
        self._readings: list[tuple[Event, dict[str, Any]]] = []

    def add(self, number: int, case: SentCase, route: Route) -> None:
        """Add one case: its row and, if it has them, its body, decision and reading."""
        event = self.transaction.event("case.received", case_id=number)
        u = self._draw(case.key)
        decided = route.accepted and self.active is not None and self.active.trusted
        row = self._row(number, case, route, u, decided)
        self._cases.append((event, row))
        if case.body is not None:
            self._bodies.append((event, _body_row(number, case.body)))
        if decided:
            self._decisions.append((event, self._decision(number, route)))
            outcome = Outcome(case.key, "decided", route.predicted, self._policy)
        else:
            outcome = Outcome(case.key, "delegated", None, None)
        if not decided or u < self.rate:
            self._readings.append((event, self._reading(number, row["due"], decided)))
        self.outcomes[case.key] = outcome

    def _row(
        self, number: int, case: SentCase, route: Route, u: float, decided: bool
    ) -> dict[str, Any]:
        probabilities = _as_json(case.probabilities)
        return {
            "id": number,
            "project_id": self.transaction.project.id,
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
            "cause": route.cause if decided or not route.accepted else "not_confirmed_yet",
            "policy_id": self._policy,
            "draw": u,
            "rate": self.rate,
            "audit": "open" if route.accepted and u < self.rate else None,
            "received": self.made,
            "due": self._due if case.due is None else case.due,
        }

    def _decision(self, number: int, route: Route) -> dict[str, Any]:
        return {
            "case_id": number,
            "version": 1,
            "kind": "auto",
            "label": route.predicted,
            "policy_id": self._policy,
            "reading_id": None,
            "made": self.made,
            "supersedes": None,
        }

    def _reading(self, number: int, due: int, decided: bool) -> dict[str, Any]:
        why = "quality" if decided else "delegated"
        return reading_row(self.transaction.project.id, number, why, due=due, now=self.made)

    def store(self) -> None:
        """Write all rows, in the order of the foreign keys, and update the counters."""
        transaction = self.transaction
        transaction.insert_all(cases, self._cases)
        transaction.insert_all(bodies, self._bodies)
        for table, rows in ((decisions, self._decisions), (readings, self._readings)):
            for number, (_, row) in zip(
                transaction.new_ids(table, len(rows)) if rows else [], rows, strict=True
            ):
                row["id"] = number
                if table is readings:
                    row["root"] = number
            transaction.insert_all(table, rows)
        transaction.count("received", len(self._cases))
        transaction.count("decided", len(self._decisions))
        transaction.count_hourly("received", len(self._cases))
        transaction.count_hourly("decided", len(self._decisions))
        transaction.count_hourly("readings", len(self._readings))


def _body_row(number: int, body: Body) -> dict[str, Any]:
    return {
        "id": number,
        "kind": body.kind,
        "media_type": body.media_type,
        "sha256": body.sha256,
        "content": body.content,
    }


def _as_json(probabilities: dict[str, float] | None) -> str | None:
    """Write probabilities as JSON. JSON has no NaN, so NaN becomes null."""
    return None if probabilities is None else orjson.dumps(probabilities).decode()

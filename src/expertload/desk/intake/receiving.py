"""Receives cases: each is stored once, decided or queued, and always gets the same answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import Table, select

from expertload.desk.intake.case import CONTROL, SentCase, Shadow
from expertload.desk.intake.routing import Route, RoutingPolicy, read_policy, unrouted
from expertload.desk.intake.sampling import audit_rates, draw
from expertload.desk.intake.shadows import answer_row, as_json, receive_shadows
from expertload.desk.store.database import SECOND, AnyRow, Event, Project, Transaction
from expertload.desk.store.tables import bodies, cases, decisions, policies, readings, shadows
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
    stored = {case.key for case in new}
    again = [c for c in sent if c.shadow and c.key not in stored and c.digest == known[c.key][0]]
    refused = _add_shadows(transaction, again)
    return [refused.get(case.key) or _answer(case, *known[case.key]) for case in sent]


def _add_shadows(
    transaction: Transaction, again: Sequence[SentCase]
) -> dict[str, DeskRefusedError]:
    """Store the shadows of cases that are sent again; return what is refused, by key."""
    shadows = [Shadow(c.key, *answer) for c in again for answer in (c.shadow or {}).items()]
    results = receive_shadows(transaction, shadows) if shadows else []
    return {
        shadow.key: result
        for shadow, result in zip(shadows, results, strict=True)
        if isinstance(result, DeskRefusedError)
    }


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
        key: (digest, Outcome(key, "delegated" if by is None else "decided", label, by, cause))
        for key, digest, cause, label, by in rows
    }


_KNOWN = (
    "SELECT cases.key, cases.digest, cases.cause, first.label, first.policy_id FROM cases "
    "LEFT JOIN decisions AS first ON first.case_id = cases.id AND first.version = 1 "
    "AND first.kind = 'auto' WHERE cases.project_id = :project AND cases.key IN :keys"
)


class Decider(NamedTuple):
    """A policy that decides cases now: all of them, or on trial a share.

    Attributes
    ----------
    id, since : int
        Its number, and when it began.
    policy : RoutingPolicy
        What it decides.
    trusted : bool
        Whether it may decide now. With strict rules, it may only while it is confirmed.
    share : float or None
        On trial, the share of cases that it decides.
    doubtful : float or None
        Decisions below this confidence are audited more often; None while that is not known.
    """

    id: int
    since: int
    policy: RoutingPolicy
    trusted: bool
    share: float | None
    doubtful: float | None

    def rates(self, project: Project, route: Route) -> tuple[float, float]:
        """Return the probability that a case is read blind, and the smallest of any such case."""
        if not self.trusted:
            return 1.0, 1.0
        if self.doubtful is None:
            return project.sampling_rate, project.sampling_rate
        least, doubtful = audit_rates(project.sampling_rate, project.rules.doubtful_ratio)
        known = route.accepted and route.confidence is not None
        in_doubt = known and (route.confidence or 0.0) < self.doubtful
        return (doubtful if in_doubt else least), least


def deciders_of(transaction: Transaction) -> list[Decider]:
    """Return the policies that decide now: one on trial comes before the active one."""
    strict = transaction.project.rules.strict
    rows = transaction.rows(_DECIDERS, project=transaction.project.id)
    return [
        Decider(number, since, read_policy(document), not strict or confirmed, share, doubtful)
        for number, since, document, confirmed, share, doubtful in rows
    ]


_DECIDERS = (
    "SELECT policies.id, policies.activated, policies.document, "
    "coalesce(monitors.state, '') = 'confirmed', policies.share, monitors.doubtful "
    "FROM policies LEFT JOIN monitors ON monitors.policy_id = policies.id "
    "WHERE policies.project_id = :project AND policies.state IN ('active', 'trial') "
    "ORDER BY policies.state DESC"
)


class Routed(NamedTuple):
    """A case with the answer of the model that decides it, its policy, and where it goes."""

    case: SentCase
    decider: Decider | None
    route: Route

    @property
    def is_decided(self) -> bool:
        """Whether the policy decides the case now."""
        return self.route.accepted and self.decider is not None and self.decider.trusted

    def columns(self, project: Project, drawn: float) -> dict[str, Any]:
        """Return the columns of a case that depend on who decides it, and on its draw."""
        accepted = self.route.accepted
        rate, least = self.decider.rates(project, self.route) if self.decider else (1.0, 1.0)
        return {
            "predicted": self.route.predicted,
            "confidence": self.route.confidence,
            "accepted": accepted,
            "policy_id": self.decider.id if self.decider else None,
            "rate": rate,
            "audit": "open" if accepted and drawn < rate else None,
            "least": least if accepted else None,
            "twice": project.rules.audit_second_share if accepted else None,
        }

    def moment(self, now: int) -> int:
        """Return when it is decided: never before the policy began, whatever clocks say."""
        return max(now, self.decider.since) if self.decider else now

    def decision(self, case: int, kind: str, now: int) -> dict[str, Any]:
        """Return the first decision of a case, which the policy makes."""
        return {
            "case_id": case,
            "version": 1,
            "kind": kind,
            "label": self.route.predicted,
            "policy_id": self.decider.id if self.decider else None,
            "made": self.moment(now),
        }


def route_all(transaction: Transaction, sent: Sequence[SentCase]) -> list[Routed]:
    """Route cases, each by the one policy that decides it now."""
    routed: dict[int, Routed] = {}
    left = list(range(len(sent)))
    for decider in deciders_of(transaction):
        answers = {i: _answer_for(decider, sent[i], transaction.project) for i in left}
        mine = {i: case for i, case in answers.items() if case is not None}
        for i, route in zip(mine, decider.policy.route(list(mine.values())), strict=True):
            routed[i] = Routed(mine[i], decider, route)
        left = [i for i in left if i not in mine]
    routed |= {i: Routed(sent[i], None, unrouted(sent[i], "no_policy")) for i in left}
    return [routed[i] for i in range(len(sent))]


def _answer_for(decider: Decider, case: SentCase, project: Project) -> SentCase | None:
    """Return a case with the answer that a policy decides by; None if another policy decides it."""
    model = decider.policy.model
    if decider.share is not None:
        answered = case.model == model or model in (case.shadow or ())
        purpose = f"share of policy {decider.id}"
        if not answered or draw(project.secret, purpose, project.name, case.key) >= decider.share:
            return None
    return answer_by(model, case)


def answer_by(model: str | None, case: SentCase) -> SentCase:
    """Return a case with the answer of a model, if that is in shadow; else the case as it is."""
    if model is None or case.model == model or not case.shadow or model not in case.shadow:
        return case
    return case._replace(model=model, probabilities=case.shadow[model], confidence=None, label=None)


def _store(transaction: Transaction, new: Sequence[SentCase]) -> dict[str, Outcome]:
    batch = _Batch(transaction)
    numbers = transaction.new_ids(cases, len(new))
    outcomes = {
        case.key: batch.add(number, case, routed)
        for number, case, routed in zip(numbers, new, route_all(transaction, new), strict=True)
    }
    batch.store()
    return outcomes


class _Batch:
    """The rows of several cases, collected and then written table by table."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.due = transaction.now + transaction.project.rules.due_seconds * SECOND
        # In the order of the foreign keys.
        self.rows: dict[Table, list[Row]] = {t: [] for t in (cases, bodies, decisions, shadows)}
        self.readings: list[Wanted] = []

    def add(self, number: int, sent: SentCase, routed: Routed) -> Outcome:
        """Add one case: its row and, if it has them, its body, decision, reading and shadows."""
        project, now = self.transaction.project, self.transaction.now
        case, _, route = routed
        event = self.transaction.event("case.received", case_id=number)
        u = draw(project.secret, "quality", project.name, case.key)
        decided = routed.is_decided
        due = self.due if case.due is None else case.due
        cause = route.cause if decided or not route.accepted else "not_confirmed_yet"
        row = {
            "id": number,
            "project_id": project.id,
            "key": case.key,
            "digest": case.digest,
            "state": "auto" if decided else "waiting",
            "model": case.model,
            "group_name": case.group,
            "cluster": case.cluster,
            "probabilities": as_json(case.probabilities),
            "cause": cause,
            "draw": u,
            "received": routed.moment(now),
            "due": due,
            **routed.columns(project, u),
        }
        self.rows[cases].append((event, row))
        if case.body is not None:
            self.rows[bodies].append((event, {"id": number, **asdict(case.body)}))
        its = {"case_id": number, "blind": True, "project_id": project.id, "received": now}
        for name, given in _others(sent, case):
            self.rows[shadows].append((event, answer_row(name, given, **its)))
        if not decided or row["audit"]:
            self.readings.append(Wanted(number, due, event, "quality" if decided else "delegated"))
        if not decided:
            return Outcome(case.key, "delegated", None, None, cause)
        self.rows[decisions].append((event, routed.decision(number, "auto", now)))
        return Outcome(case.key, "decided", route.predicted, row["policy_id"], cause)

    def store(self) -> None:
        """Write all rows, and update the counters."""
        transaction = self.transaction
        for table, rows in self.rows.items():
            transaction.insert_all(table, rows)
        open_readings(transaction, self.readings)
        for name, rows in (("received", self.rows[cases]), ("decided", self.rows[decisions])):
            transaction.count(name, len(rows))
            transaction.count_hourly(name, len(rows))
            made_by = (row["policy_id"] for _, row in rows)
            for policy, n in Counter(filter(None, made_by)).items():
                transaction.count(f"{name} by policy {policy}", n)


def _others(sent: SentCase, deciding: SentCase) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the answers of the models that do not decide a case."""
    if not sent.shadow:
        return
    for model, given in sent.shadow.items():
        if model != deciding.model:
            yield model, given
    if sent.model != deciding.model and sent.probabilities is not None:
        yield sent.model or "", sent.probabilities


def find_case(transaction: Transaction, key: str, *, locked: bool = True) -> AnyRow:
    """Return the row of a case, locked until this transaction ends; refuse an unknown key."""
    case = None
    if not CONTROL.search(key):  # no key has these, and PostgreSQL refuses to search for some
        ours = select(cases).where(transaction.in_project(cases), cases.c.key == key)
        case = transaction.first(ours.with_for_update() if locked else ours)
    if case is None:
        raise DeskRefusedError("not_found", f"There is no case '{key[:60]}'.")
    return case


def decisions_of(transaction: Transaction, case: int) -> list[AnyRow]:
    """Return the decisions about a case, the current one last."""
    made = select(decisions).where(decisions.c.case_id == case)
    return transaction.all(made.order_by(decisions.c.version))


def classes_of(transaction: Transaction) -> tuple[str, ...]:
    """Return the classes in the project's rules, or else those of its latest policy.

    The classes of a withdrawn policy remain, because its cases are still read after it has ended.
    """
    if transaction.project.rules.classes:
        return transaction.project.rules.classes
    begun = select(policies.c.document).where(
        transaction.in_project(policies), policies.c.state != "draft"
    )
    latest = begun.order_by(policies.c.activated.desc(), policies.c.id.desc()).limit(1)
    document = transaction.value(latest)
    return () if document is None else read_policy(document).classes


def check_label(transaction: Transaction, label: str) -> None:
    """Refuse an answer or a truth that is not one of the classes, or that nobody could give."""
    classes = classes_of(transaction)
    if classes and label not in classes:
        hint = f"choose one of {', '.join(classes)}."[:300]
        raise DeskRefusedError("bad_label", f"'{label[:60]}' is not one of the classes.", hint)
    if not 1 <= len(label) <= 200 or not label.isprintable():
        raise DeskRefusedError("bad_label", "A label must have 1 to 200 printable characters.")


# ------------------------------------------------------------------ readings


class Wanted(NamedTuple):
    """A case that somebody should read: when it is due, the event that records it, and why."""

    case: int
    due: int
    event: Event
    why: str


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
    new = {"project_id": transaction.project.id, "created": transaction.now, "barred": barred}
    rows = []
    numbers = transaction.new_ids(readings, len(wanted))
    for number, (case, due, event, why) in zip(numbers, wanted, strict=True):
        own = {"id": number, "case_id": case, "due": due, "why": why, "root": root or number}
        rows.append((event, {**new, **own, "state": "waiting"}))
    transaction.insert_all(readings, rows)
    transaction.count_hourly("readings", len(rows))

"""The life of a policy: added as a draft, activated, withdrawn for good, looked back at.

A policy starts and ends while no case is being received. So every automatic decision lies within
its policy's time, even if the clocks of several servers differ.

After an alarm, experts read what the policy had decided: all of it or a sample. The draw that
selects the quality sample selects this sample too. So a share of 0.3 includes every case that a
share of 0.2 includes, and a case that was read is not read again.

When a policy begins, it decides waiting cases anew where it may: a switch empties the queue. A case
that nobody has taken yet is routed again, as if it came now. If a policy decides it, that is an
event and a decision of its own kind, "anew": the answer that its sender got stays as it was. A
look-back at the policy sends it to experts again. The policy looks at the queue in parts, and its
row records how far it has got, so a server that was killed continues there after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select

from expertload.desk.desk import Desk
from expertload.desk.intake.case import SentCase
from expertload.desk.intake.receiving import Routed, Wanted, open_readings, route_all
from expertload.desk.intake.routing import read_policy
from expertload.desk.intake.shadows import answer_row, as_json, as_sent
from expertload.desk.store.database import AnyRow, Event, Transaction
from expertload.desk.store.tables import (
    cases,
    decisions,
    in_state,
    monitors,
    policies,
    projects,
    readings,
    shadows,
)
from expertload.desk.trail.webhooks import announce
from expertload.exceptions import DeskRefusedError
from expertload.monitoring import AccuracyMonitor

MOST_AT_ONCE = 2_000  # in a look-back
AT_ONCE = 1_000  # waiting cases


def add_policy(transaction: Transaction, document: str, *, source: str = "uploaded") -> int:
    """Store a certified policy as a draft; return its number."""
    read_policy(document)
    event = transaction.event("policy.added")
    return transaction.insert(policies, event, state="draft", document=document, source=source)


def activate(transaction: Transaction, number: int) -> None:
    """Let a draft decide from now on; the policy before it ends."""
    transaction.require_alone()
    policy = find_policy(transaction, number)
    if policy.state != "draft":
        raise DeskRefusedError(
            "conflict",
            f"Policy {number} is {policy.state}, and only a draft can be activated.",
            "add the policy again; a withdrawn policy stays withdrawn.",
        )
    replace_active(transaction, number)
    event = begin(transaction, number)
    rate = transaction.project.rules.quality_rate
    transaction.update(projects, transaction.project.id, event, sampling_rate=rate)


def replace_active(transaction: Transaction, number: int) -> None:
    """End the active policy, because this one takes its place."""
    current = active_policy(transaction)
    if current is not None:
        withdraw(transaction, current.id, reason=f"replaced by policy {number}")


def begin(transaction: Transaction, number: int, *, share: float | None = None) -> Event:
    """Let a draft decide: all cases, or on trial a share; it will look at waiting cases too."""
    policy = find_policy(transaction, number)
    try:  # refuse a promise that audits of automatic decisions could never refute
        AccuracyMonitor.from_policy(read_policy(policy.document).point)
    except Exception as error:
        raise DeskRefusedError("cannot_be_watched", str(error)) from error
    event = transaction.event("policy.activated")
    started = {"activated": transaction.now, "share": share, "caught_up": 0}
    transaction.move(policies, policy, "trial" if share else "active", event, **started)
    nothing = {"evidence": 0.0, "audited": 0, "errors": 0, "open": 0, "bound": 0.0, "memory": "{}"}
    transaction.insert(monitors, event, policy_id=number, state="not refuted", **nothing)
    announce(transaction, "policy.activated", {"policy": number})
    return event


def withdraw(transaction: Transaction, number: int, *, reason: str) -> None:
    """End a policy for good: from now on everything goes to experts."""
    transaction.require_alone()
    policy = find_policy(transaction, number)
    if policy.state == "withdrawn":
        return
    last = transaction.value(select(func.max(decisions.c.made)).filter_by(policy_id=number))
    moment = max(transaction.now, last or 0, policy.activated or 0)
    event = transaction.event("policy.withdrawn")
    transaction.move(policies, policy, "withdrawn", event, withdrawn=moment, reason=reason)
    announce(transaction, "policy.withdrawn", {"policy": number, "reason": reason})


def all_policies(transaction: Transaction) -> list[AnyRow]:
    """Return every policy's row, the newest first."""
    query = select(policies).where(transaction.in_project(policies))
    return transaction.all(query.order_by(policies.c.id.desc()))


def find_policy(transaction: Transaction, number: int) -> AnyRow:
    """Return a policy's row."""
    return transaction.find(policies, number, "policy")


def active_policy(transaction: Transaction) -> AnyRow | None:
    """Return the active policy's row, if there is one."""
    return _policy_in(transaction, "active")


def trial_policy(transaction: Transaction) -> AnyRow | None:
    """Return the row of the policy that decides a share of the cases, if there is one."""
    return _policy_in(transaction, "trial")


def _policy_in(transaction: Transaction, state: str) -> AnyRow | None:
    chosen = transaction.in_project(policies), in_state(policies, state)
    return transaction.first(select(policies).where(*chosen))


# ------------------------------------------------------------------ looking back


def look_back(transaction: Transaction, policy: int, *, since: int = 0, share: float = 1.0) -> int:
    """Queue automatic decisions of a policy for experts; return how many.

    Parameters
    ----------
    transaction : Transaction
        A transaction for writing.
    policy : int
        The number of a withdrawn policy.
    since : int, default=0
        Queue only decisions made at this time or later, in microseconds since 1970.
    share : float, default=1.0
        Queue this share of the decisions, selected by their draw.

    Notes
    -----
    One call queues at most 2,000, so that readers and senders do not have to wait. Call it again
    until it returns 0.
    """
    if find_policy(transaction, policy).state != "withdrawn":
        raise DeskRefusedError(
            "conflict", f"Policy {policy} is not withdrawn.", "withdraw it first, then look back."
        )
    chosen = transaction.values(
        select(cases.c.id)
        .where(
            cases.c.policy_id == policy,
            cases.c.state == "auto",
            cases.c.received >= since,
            cases.c.draw < share,
            cases.c.audit.is_(None) | (cases.c.audit == "open"),
        )
        .order_by(cases.c.received, cases.c.id)
        .limit(MOST_AT_ONCE)
    )
    return _reopen(transaction, chosen)


def _reopen(transaction: Transaction, numbers: list[int]) -> int:
    """Reopen cases in a few statements, because writers wait meanwhile; return how many.

    A case that an answer has closed since it was chosen stays closed. If a reading of a case is
    already open, that one is enough.
    """
    reopened = sorted(transaction.rows(_REOPEN, numbers=numbers))
    transaction.count("cases.auto", -len(reopened))
    transaction.count("cases.waiting", len(reopened))
    already_open = {case for (case,) in transaction.rows(_READING, numbers=numbers)}
    wanted = []
    for number, due in reopened:
        event = transaction.event("case.looked_back", case_id=number)
        event.note(cases, number, {"state": "waiting"})
        if number not in already_open:
            wanted.append(Wanted(number, due, event, "look-back"))
    open_readings(transaction, wanted)
    return len(reopened)


_REOPEN = (
    "UPDATE cases SET state = 'waiting' WHERE id IN :numbers AND state = 'auto' "
    "AND (audit IS NULL OR audit = 'open') RETURNING id, due"
)
_READING = (
    "SELECT case_id FROM readings WHERE state IN ('waiting', 'leased') AND case_id IN :numbers"
)


# ------------------------------------------------------------------ deciding waiting cases anew


def decide_all_waiting(desk: Desk) -> int:
    """Let policies that have just begun look at the whole queue; return how many they decided."""
    decided = 0
    while desk.read(_behind) is not None:
        decided += desk.write(decide_waiting)
    return decided


def _behind(transaction: Transaction) -> AnyRow | None:
    """Return a policy that has not looked at all waiting cases yet."""
    behind = (policies.c.caught_up.is_not(None), policies.c.state.in_(("active", "trial")))
    return transaction.first(select(policies).where(transaction.in_project(policies), *behind))


def decide_waiting(transaction: Transaction) -> int:
    """Let a policy look at the next waiting cases; return how many were decided."""
    transaction.require_alone()
    policy = _behind(transaction)
    if policy is None:
        return 0
    waiting = transaction.all(
        select(readings.c.id, readings.c.case_id, readings.c.state)
        .join(cases, cases.c.id == readings.c.case_id)
        .where(
            transaction.in_project(readings),
            in_state(readings, "waiting"),
            readings.c.why == "delegated",
            readings.c.case_id > policy.caught_up,
            cases.c.truth.is_(None),  # readers, not models, are tested with these
        )
        .order_by(readings.c.case_id)
        .limit(AT_ONCE)
    )
    place = waiting[-1].case_id if len(waiting) == AT_ONCE else None
    event = transaction.event("waiting.decided_anew")
    transaction.update(policies, policy.id, event, caught_up=place)
    rows, sent = stored_cases(transaction, [reading.case_id for reading in waiting])
    routed = zip(waiting, rows, sent, route_all(transaction, sent), strict=True)
    decided = [case for case in routed if case[-1].is_decided]
    for case in decided:
        _decide(transaction, *case)
    return len(decided)


def stored_cases(
    transaction: Transaction, numbers: Sequence[int], *, beside: str | None = None
) -> tuple[list[AnyRow], list[SentCase]]:
    """Return the rows of cases, in their order, and the cases as sent, with shadows: all or one."""
    rows = transaction.all(select(cases).where(cases.c.id.in_(numbers)).order_by(cases.c.id))
    theirs = select(shadows).where(shadows.c.case_id.in_(numbers))
    given: dict[int, dict[str, dict[str, float]]] = {}
    for it in transaction.all(theirs if beside is None else theirs.filter_by(model=beside)):
        if it.probabilities is not None:
            given.setdefault(it.case_id, {})[it.model] = as_sent(it.probabilities)
    return rows, [
        SentCase(
            key=row.key,
            digest=row.digest,
            probabilities=None if row.probabilities is None else as_sent(row.probabilities),
            confidence=row.confidence,
            label=row.predicted,
            group=row.group_name,
            cluster=row.cluster,
            model=row.model,
            shadow=given.get(row.id),
        )
        for row in rows
    ]


def _decide(
    transaction: Transaction, reading: AnyRow, row: AnyRow, sent: SentCase, routed: Routed
) -> None:
    event = transaction.event("case.decided_anew", case_id=row.id)
    if routed.case.model != row.model:
        _swap_answers(transaction, event, row, sent, routed.case)
    values = routed.columns(transaction.project, row.draw)
    transaction.move(cases, row, "auto", event, **values)
    transaction.insert(decisions, event, **routed.decision(row.id, "anew", transaction.now))
    if values["audit"]:
        transaction.update(readings, reading.id, event, why="quality")
        # Its audits are no longer in the order in which they were counted.
        monitor = transaction.value(select(monitors.c.id).filter_by(policy_id=values["policy_id"]))
        transaction.update(monitors, monitor, event, memory="{}")
    else:
        transaction.move(readings, reading, "void", event, finished=transaction.now)
    payload = {"key": row.key, "label": routed.route.predicted, "corrects": False}
    announce(transaction, "case.decided", payload, case_id=row.id)


def _swap_answers(
    transaction: Transaction, event: Event, row: AnyRow, sent: SentCase, case: SentCase
) -> None:
    """Store the deciding model's answer with the case, and the other one as a shadow."""
    chosen = shadows.c.case_id == row.id, shadows.c.model == case.model
    shadow = transaction.value(select(shadows.c.id).where(*chosen))
    before = answer_row(sent.model or "", sent.probabilities or {})
    transaction.update(shadows, shadow, event, **before)
    answer = {"model": case.model, "probabilities": as_json(case.probabilities)}
    transaction.update(cases, row.id, event, **answer)

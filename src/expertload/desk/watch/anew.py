"""Decides waiting cases anew where a policy that began since may: a switch empties the queue.

A case that nobody has taken yet is routed again, as if it came now. If a policy decides it, that is
an event and a decision of its own kind, "anew": the answer that its sender got stays as it was. A
look-back at the policy sends it to experts again.

A policy looks at the queue in parts, and its row has the place where it is. So a server that is
killed goes on there after it has started again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from expertload.desk.desk import Desk
from expertload.desk.intake.case import SentCase
from expertload.desk.intake.receiving import Routed, route_all
from expertload.desk.intake.shadows import answer_row, as_json, as_sent
from expertload.desk.store.database import AnyRow, Event, Transaction
from expertload.desk.store.tables import (
    cases,
    decisions,
    in_state,
    monitors,
    policies,
    readings,
    shadows,
)
from expertload.desk.trail.webhooks import announce

AT_ONCE = 1_000


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
    transaction.update(policies, policy.id, transaction.event("policy.looked"), caught_up=place)
    rows, sent = stored_cases(transaction, [reading.case_id for reading in waiting])
    each = zip(waiting, rows, sent, route_all(transaction, sent), strict=True)
    decided = [case for case in each if case[-1].is_decided]
    for case in decided:
        _decide(transaction, *case)
    return len(decided)


def stored_cases(
    transaction: Transaction, numbers: Sequence[int]
) -> tuple[list[AnyRow], list[SentCase]]:
    """Return the rows of cases, in their order, and the cases as they were sent."""
    rows = transaction.all(select(cases).where(cases.c.id.in_(numbers)).order_by(cases.c.id))
    beside: dict[int, dict[str, dict[str, float]]] = {}
    for shadow in transaction.all(select(shadows).where(shadows.c.case_id.in_(numbers))):
        if shadow.probabilities is not None:
            answers = beside.setdefault(shadow.case_id, {})
            answers[shadow.model] = as_sent(shadow.probabilities)
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
            shadow=beside.get(row.id),
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

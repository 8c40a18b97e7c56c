"""The life of a policy: added as a draft, activated, withdrawn for good.

A policy starts and ends while no case is being received. So every automatic decision lies within
its policy's time, even if the clocks of several servers differ.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import func, select

from expertload.desk.intake import read_policy
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import decisions, in_state, monitors, policies, projects
from expertload.desk.trail import announce
from expertload.exceptions import DeskRefusedError

__all__ = [
    "activate",
    "active_policy",
    "add_policy",
    "all_policies",
    "find_policy",
    "withdraw",
]


def add_policy(transaction: Transaction, document: str, *, source: str = "uploaded") -> int:
    """Store a certified policy as a draft; return its number."""
    read_policy(document)
    event = transaction.event("policy.added")
    return transaction.insert(
        policies,
        event,
        project_id=transaction.project.id,
        state="draft",
        document=document,
        sha256=hashlib.sha256(document.encode()).hexdigest(),
        source=source,
        created=transaction.now,
    )


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
    _check_can_be_watched(policy)
    current = active_policy(transaction)
    if current is not None:
        withdraw(transaction, current.id, reason=f"replaced by policy {number}")
    event = transaction.event("policy.activated")
    transaction.move(policies, policy, "active", event, activated=transaction.now)
    transaction.insert(
        monitors,
        event,
        project_id=transaction.project.id,
        policy_id=number,
        state="not refuted",
        evidence=0.0,
        audited=0,
        errors=0,
        open=0,
        bound=0.0,
        memory="{}",
    )
    rate = transaction.project.rules.quality_rate
    transaction.update(projects, transaction.project.id, event, sampling_rate=rate)
    announce(transaction, "policy.activated", {"policy": number})


def withdraw(transaction: Transaction, number: int, *, reason: str) -> None:
    """End a policy for good: from now on everything goes to experts."""
    transaction.require_alone()
    policy = find_policy(transaction, number)
    if policy.state == "withdrawn":
        return
    last = transaction.connection.execute(
        select(func.max(decisions.c.made)).where(decisions.c.policy_id == number)
    ).scalar()
    moment = max(transaction.now, last or 0, policy.activated or 0)
    event = transaction.event("policy.withdrawn")
    transaction.move(policies, policy, "withdrawn", event, withdrawn=moment, reason=reason)
    announce(transaction, "policy.withdrawn", {"policy": number, "reason": reason})


def all_policies(transaction: Transaction) -> list[AnyRow]:
    """Return every policy's row, the newest first."""
    query = select(policies).where(policies.c.project_id == transaction.project.id)
    return list(transaction.connection.execute(query.order_by(policies.c.id.desc())).all())


def find_policy(transaction: Transaction, number: int) -> AnyRow:
    """Return a policy's row."""
    row = None
    if 0 <= number < 2**63:  # PostgreSQL refuses to search for other numbers
        row = transaction.connection.execute(
            select(policies).where(
                policies.c.project_id == transaction.project.id, policies.c.id == number
            )
        ).first()
    if row is None:
        raise DeskRefusedError("not_found", f"There is no policy {number}.")
    return row


def active_policy(transaction: Transaction) -> AnyRow | None:
    """Return the active policy's row, if there is one."""
    return transaction.connection.execute(
        select(policies).where(
            policies.c.project_id == transaction.project.id, in_state(policies, "active")
        )
    ).first()


def _check_can_be_watched(policy: AnyRow) -> None:
    """Refuse a policy whose promise audits of automatic decisions could never refute."""
    from expertload.monitoring import AccuracyMonitor

    try:
        AccuracyMonitor.from_policy(read_policy(policy.document).point)
    except Exception as error:
        raise DeskRefusedError("cannot_be_watched", str(error)) from error

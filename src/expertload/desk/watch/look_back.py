"""After an alarm, experts read what the policy had decided: all of it or a sample.

The draw that selects the quality sample selects this sample too. So a share of 0.3 includes every
case that a share of 0.2 includes, and a case that was read is not read again.
"""

from __future__ import annotations

from sqlalchemy import select

from expertload.desk.intake import open_reading
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import cases, readings
from expertload.desk.watch.policies import find_policy
from expertload.exceptions import DeskRefusedError

__all__ = ["look_back", "void_case"]

MOST_AT_ONCE = 2_000


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
    chosen = transaction.connection.execute(
        select(cases)
        .where(
            cases.c.policy_id == policy,
            cases.c.state == "auto",
            cases.c.received >= since,
            cases.c.draw < share,
            cases.c.audit.is_(None) | (cases.c.audit == "open"),
        )
        .order_by(cases.c.received, cases.c.id)
        .limit(MOST_AT_ONCE)
    ).all()
    for case in chosen:
        _reopen(transaction, case)
    return len(chosen)


def _reopen(transaction: Transaction, case: AnyRow) -> None:
    """Reopen a case; if a reading of it is already open, that one is enough."""
    event = transaction.event("case.looked_back", case_id=case.id)
    transaction.move(cases, case, "waiting", event)
    if not _open_readings(transaction, case.id):
        open_reading(transaction, case, "look-back", event)


def _open_readings(transaction: Transaction, case: int) -> list[AnyRow]:
    return list(
        transaction.connection.execute(
            select(readings).where(
                readings.c.case_id == case, readings.c.state.in_(("waiting", "leased"))
            )
        ).all()
    )


def void_case(transaction: Transaction, key: str, *, reason: str) -> None:
    """Take an open case out of the queue, for example if it was sent by mistake.

    If the case is in the quality sample, its audit stays open for good, so it never counts in
    favour of the promise.
    """
    case = transaction.connection.execute(
        select(cases).where(cases.c.project_id == transaction.project.id, cases.c.key == key)
    ).first()
    if case is None:
        raise DeskRefusedError("not_found", f"There is no case '{key[:60]}'.")
    if case.state not in ("waiting", "disputed"):
        raise DeskRefusedError(
            "conflict", f"The case is {case.state}, and only an open case can be voided."
        )
    event = transaction.event(f"case.voided: {reason[:200]}", case_id=case.id)
    transaction.move(cases, case, "void", event)
    for reading in _open_readings(transaction, case.id):
        transaction.move(readings, reading, "void", event, finished=transaction.now)

"""After an alarm, experts read what the policy had decided: all of it or a sample.

The draw that selects the quality sample selects this sample too. So a share of 0.3 includes every
case that a share of 0.2 includes, and a case that was read is not read again.
"""

from __future__ import annotations

from sqlalchemy import select

from expertload.desk.intake import Wanted, open_readings
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
    ).scalars()
    return _reopen(transaction, list(chosen))


def _reopen(transaction: Transaction, numbers: list[int]) -> int:
    """Reopen cases in a few statements, because writers wait meanwhile; return how many.

    A case that an answer has closed since it was chosen stays closed. If a reading of a case is
    already open, that one is enough.
    """
    reopened = sorted(
        transaction.rows(_REOPEN.format(transaction.among("numbers")), numbers=numbers)
    )
    transaction.count("cases.auto", -len(reopened))
    transaction.count("cases.waiting", len(reopened))
    reading = _READING + transaction.among("numbers")
    already_open = {case for (case,) in transaction.rows(reading, numbers=numbers)}
    wanted = []
    for number, due in reopened:
        event = transaction.event("case.looked_back", case_id=number)
        event.note(cases, number, {"state": "waiting"})
        if number not in already_open:
            wanted.append(Wanted(number, due, event))
    open_readings(transaction, wanted, "look-back")
    return len(reopened)


_REOPEN = (
    "UPDATE cases SET state = 'waiting' WHERE id {} AND state = 'auto' "
    "AND (audit IS NULL OR audit = 'open') RETURNING id, due"
)
_READING = "SELECT case_id FROM readings WHERE state IN ('waiting', 'leased') AND case_id "


def _open_readings(transaction: Transaction, case: int) -> list[AnyRow]:
    """Return the open readings of a case; nobody can take them before this transaction ends."""
    return list(
        transaction.connection.execute(
            select(readings)
            .where(readings.c.case_id == case, readings.c.state.in_(("waiting", "leased")))
            .with_for_update()
        ).all()
    )


def void_case(transaction: Transaction, key: str, *, reason: str) -> None:
    """Take an open case out of the queue, for example if it was sent by mistake.

    If the case is in the quality sample, its audit stays open for good, so it never counts in
    favour of the promise.
    """
    case = transaction.connection.execute(
        select(cases)
        .where(cases.c.project_id == transaction.project.id, cases.c.key == key)
        .with_for_update()
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

"""After an alarm: cases that were decided meanwhile are read again, all of them or a sample.

The draw that chose the quality sample chooses here too: a share of 0.3 includes every case that a
share of 0.2 did, and what was read already is not read twice.
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
        One that writes.
    policy : int
        Whose decisions; it must be withdrawn.
    since : int, default=0
        Only those made from this moment on, in microseconds since 1970.
    share : float, default=1.0
        Which share of them, by their draw.

    Notes
    -----
    At most 2,000 are queued in one commit, so that readers and senders are not kept waiting; call
    again until nothing is left.
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
    return _open(transaction, list(chosen))


def _open(transaction: Transaction, numbers: list[int]) -> int:
    """Open cases, a table at a time, for whoever writes waits meanwhile; return how many.

    A case that an answer has closed since it was chosen stays closed. A reading that is under way
    serves for its case.
    """
    opened = sorted(transaction.rows(_REOPEN.format(transaction.among("numbers")), numbers=numbers))
    transaction.count("cases.auto", -len(opened))
    transaction.count("cases.waiting", len(opened))
    reading = _READING + transaction.among("numbers")
    under_way = {case for (case,) in transaction.rows(reading, numbers=numbers)}
    wanted = []
    for number, due in opened:
        event = transaction.event("case.looked_back", case_id=number)
        event.note(cases, number, {"state": "waiting"})
        if number not in under_way:
            wanted.append(Wanted(number, due, event))
    open_readings(transaction, wanted, "look-back")
    return len(opened)


_REOPEN = (
    "UPDATE cases SET state = 'waiting' WHERE id {} AND state = 'auto' "
    "AND (audit IS NULL OR audit = 'open') RETURNING id, due"
)
_READING = "SELECT case_id FROM readings WHERE state IN ('waiting', 'leased') AND case_id "


def _open_readings(transaction: Transaction, case: int) -> list[AnyRow]:
    """Return the open readings of a case, which nobody else takes before this transaction ends."""
    return list(
        transaction.connection.execute(
            select(readings)
            .where(readings.c.case_id == case, readings.c.state.in_(("waiting", "leased")))
            .with_for_update()
        ).all()
    )


def void_case(transaction: Transaction, key: str, *, reason: str) -> None:
    """Take an open case out of the queue: sent by mistake, for example.

    If it was in the quality sample, its audit stays open for good: it never counts for the
    promise.
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

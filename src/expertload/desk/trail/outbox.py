"""What others are told: written in the transaction it tells of, delivered after it.

A message that is only sent after the commit can be lost, one that is sent before it can be a lie.
So it is a row first. An expert's decision waits until it can no longer be taken back.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import select, update

from expertload.desk.store import Transaction
from expertload.desk.store.tables import outbox, webhooks

__all__ = ["announce", "take_back"]


def announce(
    transaction: Transaction,
    kind: str,
    payload: dict[str, Any],
    *,
    case_id: int | None = None,
    delay: int = 0,
) -> None:
    """Put a message for every webhook of the project into the outbox."""
    hooks = transaction.connection.execute(
        select(webhooks.c.id).where(
            webhooks.c.project_id == transaction.project.id, webhooks.c.ended.is_(None)
        )
    ).scalars()
    text = json.dumps({"kind": kind, "at": transaction.now, **payload}, separators=(",", ":"))
    for hook in hooks.all():
        transaction.connection.execute(
            outbox.insert().values(
                project_id=transaction.project.id,
                webhook_id=hook,
                kind=kind,
                case_id=case_id,
                payload=text,
                state="waiting",
                attempts=0,
                next_try=transaction.now + delay,
                created=transaction.now,
            )
        )


def take_back(transaction: Transaction, case_id: int) -> bool:
    """Cancel what was to be told of a case; False if it has been told already."""
    of_case = (outbox.c.case_id == case_id) & (outbox.c.kind == "case.decided")
    told = transaction.connection.execute(
        select(outbox.c.id).where(of_case, outbox.c.state.in_(("sent", "sending")))
    ).first()
    if told is not None:
        return False
    waiting = of_case & (outbox.c.state == "waiting")
    transaction.connection.execute(update(outbox).where(waiting).values(state="cancelled"))
    return True

"""Messages to webhooks: stored in the transaction they report, delivered after it.

A message sent after the commit can get lost, and one sent before it can turn out to be wrong. So
each message is stored as a row first. An expert's decision is not sent before it can no longer be
taken back.
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
    """Cancel the messages about the decision of a case; return False if one was already sent."""
    of_case = (outbox.c.case_id == case_id) & (outbox.c.kind == "case.decided")
    sent = transaction.connection.execute(
        select(outbox.c.id).where(of_case, outbox.c.state.in_(("sent", "sending")))
    ).first()
    if sent is not None:
        return False
    waiting = of_case & (outbox.c.state == "waiting")
    transaction.connection.execute(update(outbox).where(waiting).values(state="cancelled"))
    return True

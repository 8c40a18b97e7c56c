"""Seals events in blocks that form a chain of hashes.

The hash of a block covers the hash before it and every byte of its events, so a change anywhere
breaks every block from there on. Somebody could rewrite the whole chain. So note its head outside
the desk: `verify` then checks whether that head is still in the chain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select

from expertload.desk.desk import Desk
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import events, seals

__all__ = ["FIRST", "SEALED", "hash_block", "last_seal", "seal_events"]

FIRST = "0" * 64
LARGEST_BLOCK = 10_000
# The columns that a block's hash covers. Their order must never change, and a new column would need
# its own hash.
SEALED = tuple(
    events.c[name] for name in ("id", "project_id", "at", "kind", "actor", "case_id", "changes")
)


def seal_events(desk: Desk) -> int:
    """Seal all events so far; return how many were sealed."""
    last = desk.write(_last_event)
    sealed = 0
    while (block := desk.read(_next_block, last)) is not None:
        sealed += desk.write(_seal, block)
    return sealed


def _last_event(transaction: Transaction) -> int:
    """Return the last event while nothing else runs, so that no earlier one can still appear."""
    transaction.require_alone()
    return transaction.connection.execute(select(func.max(events.c.id))).scalar() or 0


def _next_block(transaction: Transaction, last_event: int) -> dict[str, Any] | None:
    """Return the row of the next block, or None if nothing is left.

    Events never change, so they are hashed outside of the writing transaction, and nobody waits.
    """
    last = last_seal(transaction)
    rows = transaction.connection.execute(
        select(*SEALED)
        .where(events.c.id > (0 if last is None else last.last_event), events.c.id <= last_event)
        .order_by(events.c.id)
        .limit(LARGEST_BLOCK)
    ).all()
    if not rows:
        return None
    previous = FIRST if last is None else last.sha256
    return {
        "id": 1 if last is None else last.id + 1,
        "first_event": rows[0].id,
        "last_event": rows[-1].id,
        "n_events": len(rows),
        "previous": previous,
        "sha256": hash_block(previous, rows),
    }


def _seal(transaction: Transaction, block: dict[str, Any]) -> int:
    """Add a block, unless another server has added it; return how many events it has."""
    last = last_seal(transaction)
    if block["id"] != (1 if last is None else last.id + 1):
        return 0
    transaction.connection.execute(seals.insert().values(**block, sealed=transaction.now))
    return int(block["n_events"])


def last_seal(transaction: Transaction) -> AnyRow | None:
    """Return the newest block, whose hash is the head of the chain."""
    return transaction.connection.execute(
        select(seals).order_by(seals.c.id.desc()).limit(1)
    ).first()


def hash_block(previous: str, rows: Iterable[AnyRow]) -> str:
    """Return the hash of the previous hash and every field of these events, in order."""
    digest = hashlib.sha256(previous.encode())
    for row in rows:
        for value in row:
            data = b"-" if value is None else str(value).encode()
            digest.update(len(data).to_bytes(8, "big") + data)  # the length separates fields
    return digest.hexdigest()

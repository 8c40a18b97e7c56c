"""Events in a chain of hashes, sealed in blocks.

Each block's hash is over the one before it and every byte of its events, so a change anywhere
breaks every block from there on. A chain proves nothing to those who could have rewritten all of
it: note its head outside, and `verify` can be asked whether that head is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sqlalchemy import func, select

from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store._tables import events, seals

__all__ = ["FIRST", "hash_block", "seal"]

FIRST = "0" * 64
LARGEST_BLOCK = 10_000


def seal(transaction: Transaction) -> int:
    """Seal the events since the last block; return how many were sealed.

    Runs alone, so that no event with a smaller number can appear after its block was sealed.
    """
    transaction.require_alone()
    sealed = 0
    while n := _seal_block(transaction):
        sealed += n
    return sealed


def _seal_block(transaction: Transaction) -> int:
    last = transaction.connection.execute(
        select(seals).order_by(seals.c.id.desc()).limit(1)
    ).first()
    rows = transaction.connection.execute(
        select(events)
        .where(events.c.id > (0 if last is None else last.last_event))
        .order_by(events.c.id)
        .limit(LARGEST_BLOCK)
    ).all()
    if not rows:
        return 0
    previous = FIRST if last is None else last.sha256
    number = (transaction.connection.execute(select(func.max(seals.c.id))).scalar() or 0) + 1
    transaction.connection.execute(
        seals.insert().values(
            id=number,
            first_event=rows[0].id,
            last_event=rows[-1].id,
            n_events=len(rows),
            previous=previous,
            sha256=hash_block(previous, rows),
            sealed=transaction.now,
        )
    )
    return len(rows)


def hash_block(previous: str, rows: Iterable[AnyRow]) -> str:
    """Return the hash over the block before and every field of these events."""
    digest = hashlib.sha256(previous.encode())
    for row in rows:
        for value in (
            row.id,
            row.project_id,
            row.at,
            row.kind,
            row.actor,
            row.case_id,
            row.changes,
        ):
            data = b"-" if value is None else str(value).encode()
            digest.update(len(data).to_bytes(8, "big") + data)  # lengths keep fields apart
    return digest.hexdigest()

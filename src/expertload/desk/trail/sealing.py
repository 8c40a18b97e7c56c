"""Events in a chain of hashes, sealed in blocks.

Each block's hash is over the one before it and every byte of its events, so a change anywhere
breaks every block from there on. A chain proves nothing to those who could have rewritten all of
it: note its head outside, and `verify` can be asked whether that head is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sqlalchemy import func, select

from expertload.desk.desk import Desk
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import events, seals

__all__ = ["FIRST", "hash_block", "last_seal", "seal", "seal_events"]

FIRST = "0" * 64
LARGEST_BLOCK = 10_000


def seal_events(desk: Desk) -> int:
    """Seal everything that has happened until now; return how many events were sealed."""
    upto = desk.write(_watermark)
    sealed = 0
    while n := desk.write(seal, upto):
        sealed += n
    return sealed


def _watermark(transaction: Transaction) -> int:
    """Return the last event there is while nothing else runs: none before it can still appear."""
    transaction.require_alone()
    return transaction.connection.execute(select(func.max(events.c.id))).scalar() or 0


def seal(transaction: Transaction, upto: int) -> int:
    """Seal one block; return how many events it has. Two sealers cannot make the same block."""
    last = last_seal(transaction)
    rows = transaction.connection.execute(
        select(events)
        .where(events.c.id > (0 if last is None else last.last_event), events.c.id <= upto)
        .order_by(events.c.id)
        .limit(LARGEST_BLOCK)
    ).all()
    if not rows:
        return 0
    previous = FIRST if last is None else last.sha256
    transaction.connection.execute(
        seals.insert().values(
            id=1 if last is None else last.id + 1,
            first_event=rows[0].id,
            last_event=rows[-1].id,
            n_events=len(rows),
            previous=previous,
            sha256=hash_block(previous, rows),
            sealed=transaction.now,
        )
    )
    return len(rows)


def last_seal(transaction: Transaction) -> AnyRow | None:
    """Return the newest block, whose hash is the head of the chain."""
    return transaction.connection.execute(
        select(seals).order_by(seals.c.id.desc()).limit(1)
    ).first()


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

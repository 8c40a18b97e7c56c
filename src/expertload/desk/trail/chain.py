"""Events that nobody can change unnoticed: sealed in a chain of hashes, and compared with the rows.

The hash of a block covers the hash before it and every byte of its events, so a change anywhere
breaks every block from there on. Somebody could rewrite the whole chain. So note its head outside
the desk: `verify` then checks whether that head is still in the chain. It also rebuilds the tables
from the events, to find rows that were changed without an event.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, func, select

from expertload.desk.store.database import AnyRow, Transaction, content_digest
from expertload.desk.store.tables import events, metadata, seals

if TYPE_CHECKING:
    from expertload.desk.desk import Desk

LARGEST_BLOCK = 10_000
MOST_PROBLEMS = 20
# The columns that a block's hash covers. Their order must never change, and a new column would need
# its own hash.
SEALED = tuple(
    events.c[name] for name in ("id", "project_id", "at", "kind", "actor", "case_id", "changes")
)
BEFORE_THE_FIRST: Any = SimpleNamespace(id=0, last_event=0, sha256="0" * 64)

# The tables whose changes events record.
UNRECORDED = {"sessions", "counters", "events", "seals", "outbox"}
RECORDED = {table.name: table for table in metadata.sorted_tables if table.name not in UNRECORDED}
ROWS_AT_ONCE, BODIES_AT_ONCE = 1_000, 10  # bodies may be large
Rows = dict[int, dict[str, Any]]
Change = tuple[str, int, dict[str, Any]]


# ------------------------------------------------------------------ sealing


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
    return transaction.value(select(func.max(events.c.id))) or 0


def _next_block(transaction: Transaction, last_event: int) -> dict[str, Any] | None:
    """Return the row of the next block, or None if nothing is left.

    Events never change, so they are hashed outside of the writing transaction, and nobody waits.
    """
    last = _last_block(transaction)
    rows = _events_between(transaction, last.last_event, last_event, most=LARGEST_BLOCK)
    if not rows:
        return None
    return {
        "id": last.id + 1,
        "first_event": rows[0].id,
        "last_event": rows[-1].id,
        "n_events": len(rows),
        "previous": last.sha256,
        "sha256": _hash_block(last.sha256, rows),
    }


def _seal(transaction: Transaction, block: dict[str, Any]) -> int:
    """Add a block, unless another server has added it; return how many events it has."""
    if block["id"] != _last_block(transaction).id + 1:
        return 0
    transaction.connection.execute(seals.insert().values(**block, sealed=transaction.now))
    return int(block["n_events"])


def _last_block(transaction: Transaction) -> Any:
    query = select(seals).order_by(seals.c.id.desc()).limit(1)
    return transaction.first(query) or BEFORE_THE_FIRST


def _events_between(
    transaction: Transaction, after: int, last: int, *, most: int | None = None
) -> list[AnyRow]:
    query = select(*SEALED).where(events.c.id > after, events.c.id <= last).order_by(events.c.id)
    return transaction.all(query.limit(most))


def _hash_block(previous: str, rows: Iterable[AnyRow]) -> str:
    """Return the hash of the previous hash and every field of these events, in order."""
    digest = hashlib.sha256(previous.encode())
    for row in rows:
        for value in row:
            data = b"-" if value is None else str(value).encode()
            digest.update(len(data).to_bytes(8, "big") + data)  # the length separates fields
    return digest.hexdigest()


# ------------------------------------------------------------------ verifying


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a verification.

    Attributes
    ----------
    n_blocks, n_events, n_unsealed : int
        Blocks, events in them, and events after the last block.
    head : str or None
        The hash of the last block. Note it outside the desk.
    problems : tuple of str
        One sentence for each problem; empty if there is none.
    """

    n_blocks: int
    n_events: int
    n_unsealed: int
    head: str | None
    problems: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def verify(transaction: Transaction, *, head: str | None = None, tables: bool = True) -> Verdict:
    """Compute the whole chain again, and compare the tables with the events.

    Parameters
    ----------
    transaction : Transaction
        A transaction for reading.
    head : str, optional
        A head that was noted earlier; it must still be in the chain.
    tables : bool, default=True
        Whether to compare the tables too, which needs memory for all rows.
    """
    problems: list[str] = []
    last, n_events, n_blocks, heads = BEFORE_THE_FIRST, 0, 0, set()
    for block in transaction.all(select(seals).order_by(seals.c.id)):
        n_blocks += 1
        rows = _events_between(transaction, last.last_event, block.last_event)
        if block.id != n_blocks or block.previous != last.sha256:
            problems.append(f"Block {n_blocks} does not follow the one before it.")
        elif len(rows) != block.n_events or _hash_block(last.sha256, rows) != block.sha256:
            problems.append(
                f"Block {block.id} is not as it was sealed: one of the events "
                f"{last.last_event + 1} to {block.last_event} was changed, added or removed."
            )
        heads.add(block.sha256)
        last, n_events = block, n_events + len(rows)
    if transaction.value(select(events.c.kind).order_by(events.c.id).limit(1)) != "project.made":
        problems.append("The first event, which made the project, is missing: events were removed.")
    if head is not None and head not in heads:
        why = "is not in the chain: the chain was cut short or rewritten."
        if not re.fullmatch("[0-9a-f]{64}", head):
            why = "is mistyped: a head has 64 digits from 0 to 9 and a to f."
        problems.append(f"The head {head} {why}")
    if tables:
        different = differences(transaction)
        problems += islice(different, MOST_PROBLEMS)
        if next(different, None) is not None:
            problems.append(
                f"There are more differences: only the first {MOST_PROBLEMS} are listed."
            )
    unsealed = select(func.count()).select_from(events).where(events.c.id > last.last_event)
    return Verdict(
        n_blocks=n_blocks,
        n_events=n_events,
        n_unsealed=transaction.connection.execute(unsealed).scalar_one(),
        head=last.sha256 if n_blocks else None,
        problems=tuple(problems),
    )


def differences(transaction: Transaction) -> Iterator[str]:
    """Yield a sentence for each difference between a table and the events."""
    rebuilt, unreadable = replay(transaction)
    for number in unreadable:
        yield f"The changes of event {number} cannot be read."
    for table in RECORDED.values():
        yield from _different(transaction, table, rebuilt[table.name])


def replay(transaction: Transaction) -> tuple[dict[str, Rows], list[int]]:
    """Return the rows as the events give them, and the events whose changes cannot be read."""
    rebuilt: dict[str, Rows] = {name: {} for name in RECORDED}
    unreadable = []
    query = select(events.c.id, events.c.changes).order_by(events.c.id)
    for number, written in _stream(transaction, query):
        changes = read_changes(written)
        if changes is None:
            unreadable.append(number)
        for name, row, values in changes or ():
            rebuilt[name].setdefault(row, {}).update(values)
    return rebuilt, unreadable


def read_changes(written: str) -> list[Change] | None:
    """Return the changes that an event records; None if they are not as the desk writes them."""
    try:
        changes = json.loads(written)
    except (ValueError, RecursionError):
        return None
    return changes if isinstance(changes, list) and all(map(_is_change, changes)) else None


def _is_change(change: Any) -> bool:
    match change:
        case [str(name), int(), dict()]:
            return name in RECORDED
    return False


def _different(transaction: Transaction, table: Table, rows: Rows) -> Iterator[str]:
    """Compare a table; of content that is too large for events, they have the digest."""
    columns = [c for c in table.columns if "digest" in c.info or not c.info.get("secret")]
    at_once = BODIES_AT_ONCE if table.name == "bodies" else ROWS_AT_ONCE
    n_rows = 0
    for row in _stream(transaction, select(*columns), at_once):
        expected = rows.get(row.id)
        if expected is None:
            yield f"Row {row.id} of {table.name} is in no event."
            continue
        n_rows += 1
        named = f" ('{expected['key']}')" if "key" in expected else ""
        for column, value in zip(columns, row, strict=True):
            digest = column.info.get("digest")
            recorded = expected.get(digest or column.name)
            if column.name != "id" and recorded != (content_digest(value) if digest else value):
                yield (
                    f"Row {row.id} of {table.name}{named}: '{column.name}' differs from the events."
                )
    if n_rows < len(rows):
        missing = len(rows) - n_rows
        yield f"{missing} row(s) of {table.name} are in the events, but not in the table."


def _stream(transaction: Transaction, query: Any, at_once: int = ROWS_AT_ONCE) -> Iterator[Any]:
    with transaction.connection.execute(query, execution_options={"yield_per": at_once}) as rows:
        yield from rows

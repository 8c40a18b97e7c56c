"""Rebuilds the tables from the events, to find rows that were changed without an event."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Table, select

from expertload.desk.store import Transaction
from expertload.desk.store.tables import (
    answers,
    bodies,
    cases,
    decisions,
    events,
    memberships,
    metadata,
    monitors,
    policies,
    projects,
    readings,
    skips,
    tokens,
    users,
    webhooks,
)

__all__ = ["differences", "replay"]

RECORDED = (
    projects,
    users,
    memberships,
    tokens,
    policies,
    cases,
    bodies,
    decisions,
    readings,
    answers,
    skips,
    monitors,
    webhooks,
)
# Content that is too large for events, which record its digest in the column `sha256`.
DIGESTED = ((policies, policies.c.document), (bodies, bodies.c.content))
ROWS_AT_ONCE, CONTENTS_AT_ONCE = 1_000, 10
Rows = dict[int, dict[str, Any]]


def replay(transaction: Transaction) -> dict[str, Rows]:
    """Return the rows of every recorded table, as the events give them."""
    rebuilt: dict[str, Rows] = {table.name: {} for table in RECORDED}
    for (changes,) in _stream(transaction, select(events.c.changes).order_by(events.c.id)):
        for name, row, values in json.loads(changes):
            rebuilt[name].setdefault(row, {}).update(values)
    return rebuilt


def differences(transaction: Transaction) -> Iterator[str]:
    """Yield a sentence for each difference between a table and the events."""
    rebuilt = replay(transaction)
    for table in RECORDED:
        yield from _different(transaction, table, rebuilt[table.name])
    for table, content in DIGESTED:
        yield from _changed_content(transaction, table, content)


def _different(transaction: Transaction, table: Table, rows: Rows) -> Iterator[str]:
    columns = [c for c in metadata.tables[table.name].columns if not c.info.get("secret")]
    found = 0
    for row in _stream(transaction, select(*columns)):
        found += 1
        expected = rows.get(row.id)
        if expected is None:
            yield f"Row {row.id} of {table.name} is in no event."
            continue
        for column in columns:
            value = getattr(row, column.name)
            if column.name != "id" and value != expected.get(column.name):
                yield f"Row {row.id} of {table.name}: '{column.name}' differs from the events."
    if found < len(rows):
        yield f"{len(rows) - found} row(s) of {table.name} are in the events, but not in the table."


def _changed_content(transaction: Transaction, table: Table, content: Column[Any]) -> Iterator[str]:
    query = select(table.c.id, table.c.sha256, content)
    for number, digest, value in _stream(transaction, query, CONTENTS_AT_ONCE):
        data = value.encode() if isinstance(value, str) else value
        if hashlib.sha256(data).hexdigest() != digest:
            yield f"Row {number} of {table.name}: '{content.name}' does not match its digest."


def _stream(transaction: Transaction, query: Any, at_once: int = ROWS_AT_ONCE) -> Iterator[Any]:
    options = {"yield_per": at_once}
    yield from transaction.connection.execute(query, execution_options=options)

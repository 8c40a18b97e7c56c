"""Rebuilds the tables from the events, to find rows that were changed without an event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Table, select

from expertload.desk.store import Transaction, content_digest
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

__all__ = ["differences", "read_changes", "replay"]

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
# Content that is too large for events, which record its digest.
DIGESTED = tuple(c for table in RECORDED for c in table.columns if "digest" in c.info)
ROWS_AT_ONCE, BODIES_AT_ONCE = 1_000, 10  # bodies may be large
NAMES = [table.name for table in RECORDED]  # a list: a name that was changed may not be hashable
Rows = dict[int, dict[str, Any]]
Change = tuple[str, int, dict[str, Any]]


def replay(transaction: Transaction) -> dict[str, Rows]:
    """Return the rows of every recorded table, as the events give them."""
    return _replay(transaction)[0]


def _replay(transaction: Transaction) -> tuple[dict[str, Rows], list[int]]:
    """Return the rows as the events give them, and the events whose changes cannot be read."""
    rebuilt: dict[str, Rows] = {table.name: {} for table in RECORDED}
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
    if not isinstance(change, list) or len(change) != 3:
        return False
    name, row, values = change
    return name in NAMES and isinstance(row, int) and isinstance(values, dict)


def differences(transaction: Transaction) -> Iterator[str]:
    """Yield a sentence for each difference between a table and the events."""
    rebuilt, unreadable = _replay(transaction)
    for number in unreadable:
        yield f"The changes of event {number} cannot be read."
    for table in RECORDED:
        yield from _different(transaction, table, rebuilt[table.name])
    for content in DIGESTED:
        yield from _changed_content(transaction, content, rebuilt[content.table.name])


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
                yield _said(column, row.id, expected)
    if found < len(rows):
        yield f"{len(rows) - found} row(s) of {table.name} are in the events, but not in the table."


def _changed_content(transaction: Transaction, content: Column[Any], rows: Rows) -> Iterator[str]:
    query = select(content.table.c.id, content)
    at_once = BODIES_AT_ONCE if content is bodies.c.content else ROWS_AT_ONCE
    for number, value in _stream(transaction, query, at_once):
        expected = rows.get(number, {})
        if content_digest(value) != expected.get(content.info["digest"]):
            yield _said(content, number, expected)


def _said(column: Column[Any], number: int, expected: dict[str, Any]) -> str:
    """Say where a difference is; a case is named by the key that its event has."""
    named = f" ('{expected['key']}')" if "key" in expected else ""
    return f"Row {number} of {column.table.name}{named}: '{column.name}' differs from the events."


def _stream(transaction: Transaction, query: Any, at_once: int = ROWS_AT_ONCE) -> Iterator[Any]:
    options = {"yield_per": at_once}
    with transaction.connection.execute(query, execution_options=options) as found:
        yield from found

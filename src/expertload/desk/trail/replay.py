"""The tables, told by the events alone: what no event tells of has been changed behind our back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Table, select

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

TOLD = (
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
Rows = dict[int, dict[str, Any]]


def replay(transaction: Transaction) -> dict[str, Rows]:
    """Return the rows of every told table, from the first event to the last."""
    told: dict[str, Rows] = {table.name: {} for table in TOLD}
    for (changes,) in _stream(transaction, select(events.c.changes).order_by(events.c.id)):
        for name, row, values in json.loads(changes):
            told[name].setdefault(row, {}).update(values)
    return told


def differences(transaction: Transaction) -> Iterator[str]:
    """Say, a sentence each, where a table is not what the events tell."""
    told = replay(transaction)
    for table in TOLD:
        yield from _different(transaction, table, told[table.name])


def _different(transaction: Transaction, table: Table, rows: Rows) -> Iterator[str]:
    columns = [c for c in metadata.tables[table.name].columns if not c.info.get("secret")]
    found = 0
    for row in _stream(transaction, select(*columns)):
        found += 1
        expected = rows.get(row.id)
        if expected is None:
            yield f"No event tells of row {row.id} of {table.name}."
            continue
        for column in columns:
            value = getattr(row, column.name)
            if column.name != "id" and value != expected.get(column.name):
                yield (
                    f"Row {row.id} of {table.name} has another '{column.name}' than the events "
                    f"tell."
                )
    if found < len(rows):
        yield f"{len(rows) - found} row(s) of {table.name} are gone that events tell of."


def _stream(transaction: Transaction, query: Any) -> Iterator[Any]:
    options = {"yield_per": 1_000}
    yield from transaction.connection.execute(query, execution_options=options)

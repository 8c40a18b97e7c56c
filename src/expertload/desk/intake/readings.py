"""A reading: one person is asked to read one case, for a stated reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from expertload.desk.store import Event, Transaction
from expertload.desk.store.tables import readings

__all__ = ["Wanted", "open_readings", "reading_row"]


class Wanted(NamedTuple):
    """A case that somebody should read, when it is due, and the event that records it."""

    case: int
    due: int
    event: Event


_NEW: dict[str, Any] = dict.fromkeys(str(c.name) for c in readings.columns)


def reading_row(
    project: int, case: int, why: str, *, due: int, now: int, barred: int | None = None
) -> dict[str, Any]:
    """Return the row of a new reading, without its id."""
    return {
        **_NEW,
        "project_id": project,
        "case_id": case,
        "why": why,
        "state": "waiting",
        "due": due,
        "barred": barred,
        "created": now,
    }


def open_readings(
    transaction: Transaction,
    wanted: Sequence[Wanted],
    why: str,
    *,
    barred: int | None = None,
    root: int | None = None,
) -> None:
    """Add a reading of each of these cases, in the round that started with `root`."""
    if not wanted:
        return
    project, now, rows = transaction.project.id, transaction.now, []
    numbers = transaction.new_ids(readings, len(wanted))
    for number, (case, due, event) in zip(numbers, wanted, strict=True):
        row = reading_row(project, case, why, due=due, now=now, barred=barred)
        rows.append((event, {**row, "id": number, "root": root or number}))
    transaction.insert_all(readings, rows)
    transaction.count_hourly("readings", len(rows))

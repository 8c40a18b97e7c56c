"""A reading: one person is asked to read one case, for a stated reason."""

from __future__ import annotations

from typing import Any

from expertload.desk.store import AnyRow, Event, Transaction
from expertload.desk.store.tables import readings

__all__ = ["open_reading", "reading_row"]


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


def open_reading(
    transaction: Transaction,
    case: AnyRow,
    why: str,
    event: Event,
    *,
    barred: int | None = None,
    root: int | None = None,
) -> int:
    """Ask for a reading of a case; it belongs to the round that began with `root`."""
    row = reading_row(
        transaction.project.id, case.id, why, due=case.due, now=transaction.now, barred=barred
    )
    number = transaction.new_ids(readings, 1)[0]
    transaction.count_hourly("readings")
    return transaction.insert(readings, event, **{**row, "id": number, "root": root or number})

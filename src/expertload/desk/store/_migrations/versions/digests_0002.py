"""Records the digests of probabilities that were stored before events had them.

The tables stay as they are. A digest shows changes from now on; what was changed before, nobody can
tell.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import orjson
from alembic import op
from sqlalchemy import Connection, text

from expertload.desk.store.database import content_digest

revision = "0002"
down_revision = "0001"

AT_ONCE = 200  # cases in an event, which the audit page can still show
_OLD = (
    "SELECT project_id, id, probabilities FROM cases "
    "WHERE probabilities IS NOT NULL ORDER BY project_id, id"
)
_EVENT = text(
    "INSERT INTO events (project_id, at, kind, changes) "
    "VALUES (:project, :at, 'cases.digested', :changes)"
)


def upgrade() -> None:
    """Add events with the digest of every probability that is stored."""
    connection, now = op.get_bind(), time.time_ns() // 1_000
    for project, changes in _changes(connection):
        written = orjson.dumps(changes).decode()
        connection.execute(_EVENT, {"project": project, "at": now, "changes": written})


def _changes(connection: Connection) -> Iterator[tuple[int, list[Any]]]:
    """Yield what an event records, for some cases of one project at a time."""
    stored = connection.execute(text(_OLD), execution_options={"yield_per": AT_ONCE})
    for part in stored.partitions(AT_ONCE):
        for project, rows in groupby(part, key=lambda row: row.project_id):
            changes = [
                ("cases", row.id, {"probabilities_sha256": content_digest(row.probabilities)})
                for row in rows
            ]
            yield project, changes

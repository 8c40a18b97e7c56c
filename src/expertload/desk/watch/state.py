"""The state of the desk, read from counters, so that the cost does not grow with the backlog."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import func, select, text

from expertload.desk.intake import read_policy
from expertload.desk.store import Transaction
from expertload.desk.store.tables import counters, in_state, monitors, readings, seals
from expertload.desk.watch.capacity import capacity_of
from expertload.desk.watch.drift import load_shift
from expertload.desk.watch.policies import active_policy

__all__ = ["count_of", "state_of"]

MOST_LOOKED_AT = 500


def count_of(transaction: Transaction) -> dict[str, int]:
    """Return every counter, except those of single hours."""
    rows = transaction.connection.execute(
        select(counters.c.name, func.sum(counters.c.value).label("value"))
        .where(counters.c.project_id == transaction.project.id, counters.c.name.not_like("%@%"))
        .group_by(counters.c.name)
    )
    return {row.name: int(row.value) for row in rows}


def state_of(transaction: Transaction) -> dict[str, Any]:
    """Return counts, load, backlog, the policy and the state of its promise."""
    counts = count_of(transaction)
    received, decided = counts.get("received", 0), counts.get("decided", 0)
    return {
        "project": transaction.project.name,
        "counts": {
            "received": received,
            "decided": decided,
            "delegated": received - decided,
            "closed": counts.get("cases.closed", 0),
            "answers": counts.get("answers.counted", 0),
            "late": counts.get("answers.late", 0),
            "skips": counts.get("skips", 0),
        },
        "load": (received - decided) / received if received else None,
        "backlog": {
            "waiting": counts.get("readings.waiting", 0),
            "leased": counts.get("readings.leased", 0),
            "disputed": counts.get("cases.disputed", 0),
            "oldest_seconds": _oldest(transaction),
            "stuck": _stuck(transaction),
        },
        "sampling_rate": transaction.project.sampling_rate,
        "strict": transaction.project.rules.strict,
        "capacity": asdict(capacity_of(transaction)),
        "shift": None if (shift := load_shift(transaction)) is None else asdict(shift),
        "policy": _policy(transaction),
        "monitor": _monitor(transaction),
        "head": transaction.connection.execute(
            select(seals.c.sha256).order_by(seals.c.id.desc()).limit(1)
        ).scalar(),
    }


def _oldest(transaction: Transaction) -> float:
    """Return the age of the oldest reading that waits; others may be due before it."""
    created = transaction.connection.execute(
        select(func.min(readings.c.created)).where(
            readings.c.project_id == transaction.project.id, in_state(readings, "waiting")
        )
    ).scalar()
    return 0.0 if created is None else max(0, transaction.now - created) / 1e6


def _stuck(transaction: Transaction) -> int:
    """Return how many of the readings that are due first nobody may take.

    A second reading needs somebody who has not read the case, and a dispute needs an arbiter.
    Readings that nobody may take stay in the queue, so they end up at its front. Looking only there
    is enough, and costs the same however long the queue is.
    """
    found = transaction.connection.execute(
        _STUCK,
        {"project": transaction.project.id, "now": transaction.now, "most": MOST_LOOKED_AT},
    )
    return int(found.scalar_one())


_STUCK = text("""
    WITH people AS (
      SELECT m.user_id, m.role FROM memberships AS m
      WHERE m.project_id = :project AND m.ended IS NULL
      UNION
      SELECT t.user_id, t.role FROM tokens AS t
      WHERE t.project_id = :project AND t.revoked IS NULL
        AND (t.expires IS NULL OR t.expires > :now)
    )
    SELECT count(*) FROM (
      SELECT r.case_id, r.why, r.barred FROM readings AS r
      WHERE r.project_id = :project AND r.state = 'waiting'
      ORDER BY r.due, r.id LIMIT :most
    ) AS head
    WHERE NOT EXISTS (
      SELECT 1 FROM people JOIN users ON users.id = people.user_id
      WHERE users.disabled IS NULL
        AND (people.role = 'arbiter' OR (people.role = 'reader' AND head.why <> 'arbiter'))
        AND (head.barred IS NULL OR head.barred <> users.id)
        AND NOT EXISTS (
          SELECT 1 FROM readings AS theirs
          WHERE theirs.case_id = head.case_id AND theirs.reader = users.id)
    )
""")


def _policy(transaction: Transaction) -> dict[str, Any] | None:
    row = active_policy(transaction)
    if row is None:
        return None
    point = read_policy(row.document).point
    return {
        "id": row.id,
        "target_accuracy": point.target_accuracy,
        "expert_load": point.expert_load,
        "activated": row.activated / 1e6,
    }


def _monitor(transaction: Transaction) -> dict[str, Any] | None:
    """Return the monitor of the latest policy, also after it was withdrawn."""
    row = transaction.connection.execute(
        select(monitors)
        .where(monitors.c.project_id == transaction.project.id)
        .order_by(monitors.c.id.desc())
        .limit(1)
    ).first()
    if row is None:
        return None
    return {
        "policy": row.policy_id,
        "state": row.state,
        "evidence": row.evidence,
        "alarm_at": 1 / transaction.project.rules.alarm_level,
        "audited": row.audited,
        "errors": row.errors,
        "open": row.open,
        "bound": row.bound,
        "alarmed": None if row.alarmed is None else row.alarmed / 1e6,
    }

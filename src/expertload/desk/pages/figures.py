"""What the manager's pages read from the desk, besides its state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import func, select, text

from expertload.desk.intake import read_policy
from expertload.desk.pages.pictures import (
    Bars,
    Before,
    Course,
    Gauge,
    course_of,
    evidence_gauge,
    hourly_bars,
)
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import answers, cases, counters, events, readings
from expertload.desk.watch import all_policies, find_policy, state_of
from expertload.desk.watch.quality import WARNING_EVIDENCE

__all__ = ["Overview", "history", "overview"]

HOUR = 3_600_000_000
N_HOURS = 24
MOST_AUDITS = 5_000
MOST_PAIRS = 2_000
NEWS = ("monitor.alarm", "monitor.warning", "policy.activated", "policy.withdrawn")


class Drawn(NamedTuple):
    """How many decisions of a policy have been drawn for a blind check, up to now.

    The monitor is updated by answers; only this also counts what was drawn since the last one.
    """

    n: int
    unanswered: int


@dataclass(frozen=True)
class Overview:
    """Everything that the overview shows."""

    state: dict[str, Any]
    target: float | None
    accuracy: float | None
    agreement: tuple[int, int]
    bars: Bars | None
    course: Course | None
    gauge: Gauge | None
    drawn: Drawn
    news: list[AnyRow]


def overview(transaction: Transaction) -> Overview:
    """Read the overview from one snapshot."""
    state = state_of(transaction)
    shown = _promise(transaction, state["monitor"]) if state["monitor"] else _NOTHING
    return Overview(
        state=state,
        target=shown[0],
        accuracy=shown[1],
        course=shown[2],
        gauge=shown[3],
        drawn=shown[4],
        agreement=_agreement(transaction),
        bars=hourly_bars(_hours(transaction)),
        news=_news(transaction),
    )


_Promise = tuple[float | None, float | None, Course | None, Gauge | None, Drawn]
_NOTHING: _Promise = (None, None, None, None, Drawn(0, 0))


def _promise(transaction: Transaction, monitor: dict[str, Any]) -> _Promise:
    """Return the promised accuracy, that so far, its course, the evidence and the checks."""
    point = read_policy(find_policy(transaction, monitor["policy"]).document).point
    target = float(point.target_accuracy)
    settled = monitor["audited"] - monitor["open"]
    accuracy = 1 - monitor["errors"] / settled if settled > 0 else None
    gauge = evidence_gauge(monitor["evidence"], WARNING_EVIDENCE, monitor["alarm_at"])
    drawn = _drawn(transaction, monitor["policy"])
    return target, accuracy, _course(transaction, monitor, target, drawn), gauge, drawn


def _drawn(transaction: Transaction, policy: int) -> Drawn:
    row = transaction.connection.execute(
        select(func.count(), func.count().filter(cases.c.audit == "open")).where(
            cases.c.policy_id == policy, cases.c.audit.is_not(None)
        )
    ).one()
    return Drawn(int(row[0]), int(row[1]))


def _course(
    transaction: Transaction, monitor: dict[str, Any], target: float, drawn: Drawn
) -> Course | None:
    """Draw the latest audits that the monitor has counted, so that the line ends at its bound."""
    rows = transaction.connection.execute(
        select(cases.c.audit)
        .where(cases.c.policy_id == monitor["policy"], cases.c.audit.is_not(None))
        .order_by(cases.c.id.desc())
        .offset(max(0, drawn.n - monitor["audited"]))
        .limit(MOST_AUDITS)
    ).scalars()
    audits = np.array(list(rows)[::-1], dtype=object)
    wrong, is_open = (audits == "wrong").astype(float), (audits == "open").astype(float)
    before = Before(
        monitor["audited"] - len(audits),
        monitor["errors"] - int(wrong.sum()),
        monitor["open"] - int(is_open.sum()),
    )
    level = 1 - transaction.project.rules.alarm_level
    return course_of(wrong, is_open, target, level, before=before)


def _hours(transaction: Transaction) -> list[tuple[datetime, int, int, int]]:
    """Return the last hours, starting with the first in which something happened."""
    last = transaction.now // HOUR
    hours = range(last - N_HOURS + 1, last + 1)
    kinds = ("received", "decided", "answers")
    names = [f"{kind}@{hour}" for kind in kinds for hour in hours]
    rows = transaction.connection.execute(
        select(counters.c.name, func.sum(counters.c.value).label("n"))
        .where(counters.c.project_id == transaction.project.id, counters.c.name.in_(names))
        .group_by(counters.c.name)
    )
    found = {row.name: int(row.n) for row in rows}
    shown: list[tuple[datetime, int, int, int]] = []
    for hour in hours:
        came, decided, given = (found.get(f"{kind}@{hour}", 0) for kind in kinds)
        if shown or came or given or hour >= last - 7:
            shown.append((datetime.fromtimestamp(hour * 3_600, UTC), came, decided, given))
    return shown


def _agreement(transaction: Transaction) -> tuple[int, int]:
    """Return in how many of the latest second readings both readers agreed, and of how many."""
    second, first = readings.alias("second"), readings.alias("first")
    its, theirs = answers.alias("its"), answers.alias("theirs")
    pairs = (
        select(its.c.label.label("one"), theirs.c.label.label("other"))
        .select_from(
            second.join(first, first.c.id == second.c.root)
            .join(its, its.c.id == first.c.answer_id)
            .join(theirs, theirs.c.id == second.c.answer_id)
        )
        .where(second.c.project_id == transaction.project.id, second.c.why == text("'second'"))
        .order_by(second.c.id.desc())
        .limit(MOST_PAIRS)
    )
    rows = transaction.connection.execute(pairs).all()
    return sum(row.one == row.other for row in rows), len(rows)


def _news(transaction: Transaction) -> list[AnyRow]:
    query = (
        select(events.c.at, events.c.kind)
        .where(
            events.c.project_id == transaction.project.id,
            events.c.case_id.is_(None),
            events.c.kind.in_(NEWS),
        )
        .order_by(events.c.id.desc())
        .limit(6)
    )
    return list(transaction.connection.execute(query).all())


def history(transaction: Transaction) -> list[dict[str, Any]]:
    """Return every policy, the newest first."""
    rows = all_policies(transaction)
    return [{"row": row, "point": read_policy(row.document).point} for row in rows]

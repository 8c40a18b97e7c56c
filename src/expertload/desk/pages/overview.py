"""The charts of managers, and what the overview reads from the desk.

Charts are computed as numbers that the template writes as SVG, as in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import select

from expertload._typing import FloatArray
from expertload.desk.intake.golden import PEOPLE
from expertload.desk.intake.routing import read_policy
from expertload.desk.pages.page import hour, number
from expertload.desk.store.database import HOUR, AnyRow, Transaction
from expertload.desk.store.tables import cases, events
from expertload.desk.watch.challengers import Challenger
from expertload.desk.watch.policies import find_policy
from expertload.desk.watch.quality import drawn_audits, later_audits, weight_of
from expertload.desk.watch.state import hourly_counts, state_of
from expertload.monitoring import accuracy_lower_bound
from expertload.monitoring.accuracy import WARNING_EVIDENCE
from expertload.report.scale import Frame, Tick, round_ticks

N_HOURS = 24
MOST_AUDITS = 5_000
MOST_POINTS = 200
NEWS = ("monitor.alarm", "monitor.warning", "policy.activated", "policy.withdrawn")
WIDE = Frame(width=720, height=300, left=52, right=704, top=16, bottom=262)


def overview(transaction: Transaction) -> dict[str, Any]:
    """Read everything that the overview shows from one snapshot."""
    state = state_of(transaction)
    return {
        "state": state,
        **_promise(transaction, state["monitor"]),
        "bars": hourly_bars(_hours(transaction)),
        "news": _news(transaction),
        "second_reader": second_reader(transaction),
    }


def second_reader(transaction: Transaction) -> str:
    """Return who reads audits again: "asked", "missing" where only one may read, or "not asked".

    The default stays what the promise needs. A single reader may repeat the model's mistakes, and
    then wrong decisions pass for right, so their agreement counts only if a manager says so.
    """
    if not transaction.project.rules.audit_second_share:
        return "not asked"
    people = transaction.rows(
        f"SELECT count(DISTINCT people.id) FROM ({PEOPLE}) AS people",
        project=transaction.project.id,
        now=transaction.now,
    )
    return "asked" if people[0][0] > 1 else "missing"


def _promise(transaction: Transaction, monitor: dict[str, Any] | None) -> dict[str, Any]:
    """Return the promised accuracy, that so far, its course, the evidence, and what was drawn."""
    if monitor is None:
        return dict.fromkeys(("alike", "target", "accuracy", "course", "gauge", "drawn"))
    point = read_policy(find_policy(transaction, monitor["policy"]).document).point
    target, counted = float(point.target_accuracy), monitor["counted"]
    # The monitor is updated by answers; only this also counts what was drawn since the last one.
    n_drawn, unanswered = drawn_audits(transaction, monitor["policy"])
    return {
        "alike": counted == monitor["audited"] - monitor["open"],  # every audit counts 1
        "target": target,
        "accuracy": 1 - monitor["counted_errors"] / counted if counted else None,
        "course": _course(transaction, monitor, target, n_drawn - monitor["audited"]),
        "gauge": _evidence_gauge(monitor["evidence"], WARNING_EVIDENCE, monitor["alarm_at"]),
        "drawn": {"n": n_drawn, "unanswered": unanswered},
    }


def _hours(transaction: Transaction) -> list[tuple[datetime, int, int, int]]:
    """Return the last hours, starting with the first in which something happened."""
    last = transaction.now // HOUR
    hours = range(last - N_HOURS + 1, last + 1)
    counts = [
        hourly_counts(transaction, kind, hours) for kind in ("received", "decided", "answers")
    ]
    shown: list[tuple[datetime, int, int, int]] = []
    for since_1970 in hours:
        came, decided, given = (count.get(since_1970, 0) for count in counts)
        if shown or came or given or since_1970 >= last - 7:
            shown.append((datetime.fromtimestamp(since_1970 * 3_600, UTC), came, decided, given))
    return shown


def _news(transaction: Transaction) -> list[AnyRow]:
    query = (
        select(events.c.at, events.c.kind)
        .where(transaction.in_project(events), events.c.case_id.is_(None))
        .where(events.c.kind.in_(NEWS))
        .order_by(events.c.id.desc())
        .limit(6)
    )
    return transaction.all(query)


# ------------------------------------------------------------------ accuracy over time


def _whole_ticks(
    place: Callable[[float], FloatArray], low: float, high: float, n: int
) -> list[Tick]:
    """Return about n ticks at whole numbers; `place` is the x or y of a frame."""
    values = (v for v in round_ticks(low, high, n) if v == int(v) and v >= low)
    return [Tick(float(place(v)), number(v)) for v in values]


def _course(
    transaction: Transaction, monitor: dict[str, Any], target: float, n_newer: int
) -> dict[str, Any] | None:
    """Draw the latest audits that the monitor has counted, so that the line ends at its bound."""
    before_them = (
        select(cases.c.id)
        .where(cases.c.policy_id == monitor["policy"], cases.c.audit.is_not(None))
        .order_by(cases.c.id.desc())
        .offset(MOST_AUDITS + n_newer)
        .limit(1)
    )
    after = transaction.value(before_them) or 0
    later = later_audits(transaction, monitor["policy"], after)
    rows = later[: len(later) - n_newer]
    audits = np.array([row.audit for row in rows], dtype=object)
    weight = np.array([weight_of(row) for row in rows])
    wrong, is_open = (audits == "wrong").astype(float), (audits == "open").astype(float)
    level = 1 - transaction.project.rules.alarm_level
    return course_of(wrong, is_open, weight, monitor, target, level)


def course_of(
    wrong: FloatArray,
    is_open: FloatArray,
    weight: FloatArray,
    monitor: Mapping[str, float],
    target: float,
    level: float,
) -> dict[str, Any] | None:
    """Draw the latest audits of a monitor in the order in which their cases were decided.

    Parameters
    ----------
    wrong, is_open, weight : array
        For each audit, 1 if the decision was wrong, 1 if nobody has answered yet, and how much it
        counts.
    monitor : mapping
        What all audits come to: "audited", "open", "counted", "counted_errors". Those before the
        ones to draw are counted and not drawn.
    target : float
        The promised accuracy.
    level : float
        The confidence level of the bound. It is valid however often one looks, and open audits
        count as wrong for it.
    """
    n = len(wrong)
    if n < 2:
        return None
    at = np.unique(np.linspace(1, n, min(n, MOST_POINTS)).astype(int))
    known = (1 - is_open) * weight
    errors = monitor["counted_errors"] - wrong @ weight + np.cumsum(wrong * weight)[at - 1]
    answered = monitor["counted"] - known.sum() + np.cumsum(known)[at - 1]
    opened = monitor["open"] - is_open.sum() + np.cumsum(is_open * weight)[at - 1]
    total = answered + opened
    points = (monitor["audited"] - n + at).astype(float)
    estimate = 1 - np.maximum(errors, 0) / np.maximum(answered, 1e-9)
    # Sums of weights that differ by rounding must not leave the range from none to all.
    not_right = np.clip(errors + opened, 0, total)
    bound = np.asarray(accuracy_lower_bound(not_right, total, confidence_level=level))
    late = at >= min(10, n)
    lowest = min(target, float(bound[late][-1]), float(estimate[late].min()))
    floor = max(0.0, np.floor(10 * lowest - 0.5) / 10)
    frame = replace(WIDE, x_range=(points[0], points[-1]), y_range=(floor, 1.0))
    shown, hidden = np.maximum(bound, floor), np.maximum(estimate, floor)
    return {
        "frame": frame,
        "x_ticks": _whole_ticks(frame.x, *frame.x_range, 6),
        "y_ticks": frame.y_ticks(4),
        "estimate": frame.path(points, hidden),
        "bound": frame.path(points, shown),
        "area": frame.area(points, shown, np.ones(len(at))),
        "target": float(frame.y(target)),
    }


# ------------------------------------------------------------------ evidence for a challenger


def evidence_chart(challenger: Challenger) -> dict[str, Any] | None:
    """Draw the evidence that the promise is kept after each case read, on a logarithmic scale."""
    monitor = challenger.monitor
    if monitor is None or monitor.n_read < 2:
        return None
    path, needed = np.asarray(monitor.history()), monitor.needed_evidence
    at = np.unique(np.linspace(0, len(path) - 1, min(len(path), MOST_POINTS)).astype(int))
    top = float(np.log10(needed)) * 1.25
    heights: FloatArray = np.clip(np.log10(np.maximum(path[at], 1.0)), 0, top)
    frame = replace(WIDE, x_range=(1.0, float(len(path))), y_range=(0.0, top))
    levels = [v for v in (1.0, 2.0, 5.0, 10.0, 50.0, 100.0) if np.log10(v) < top] + [needed]
    return {
        "frame": frame,
        "x_ticks": _whole_ticks(frame.x, 1, len(path), 5),
        "y_ticks": [Tick(float(frame.y(np.log10(v))), f"{v:.3g}") for v in levels],
        "path": frame.path((at + 1).astype(float), heights),
        "needed": float(frame.y(np.log10(needed))),
    }


# ------------------------------------------------------------------ cases by the hour


def hourly_bars(hours: list[tuple[datetime, int, int, int]]) -> dict[str, Any] | None:
    """Draw hours, each (start, received, decided, answers).

    Automatic decisions are at the bottom of a bar, cases for experts on top of them.
    """
    most = max((max(received, answered) for _, received, _, answered in hours), default=0)
    if not most:
        return None
    frame = replace(WIDE, x_range=(0.0, float(len(hours))), y_range=(0.0, most * 1.05))
    columns = []
    for i, (start, received, decided, answered) in enumerate(hours):
        auto, top = float(frame.y(decided)), float(frame.y(received))
        column = {
            "x": round(float(frame.x(i + 0.15)), 1),
            "width": round(float(frame.x(0.7) - frame.x(0)), 1),
            "auto_top": auto,
            "auto_height": frame.bottom - auto,
            "expert_top": top,
            "expert_height": auto - top,
            "answers": float(frame.y(answered)),
            "start": start,
            "text": f"{received} came, {received - decided} to experts, {answered} answers",
        }
        columns.append(column)
    return {
        "frame": frame,
        "x_ticks": _hour_ticks(frame, [start for start, *_ in hours]),
        "y_ticks": _whole_ticks(frame.y, 0, most, 4),
        "columns": columns,
    }


def _hour_ticks(frame: Frame, starts: list[datetime]) -> list[Tick]:
    """Label the last hour and, if there are many, every third one before it."""
    last, step = len(starts) - 1, 1 if len(starts) <= 8 else 3
    return [
        Tick(float(frame.x(i + 0.5)), hour(starts[i]), (last - i) // step % 2 == 1)
        for i in range(last % step, last + 1, step)
    ]


def _evidence_gauge(evidence: float, warn_at: float, alarm_at: float) -> dict[str, Any]:
    """Place evidence on a logarithmic line from one to the alarm, in percent of the width."""

    def place(value: float) -> float:
        return round(100 * float(np.clip(np.log(max(value, 1.0)) / np.log(alarm_at), 0, 1)), 1)

    # Evidence multiplies, so far beyond the alarm its exact size says nothing more.
    much = 10 * alarm_at
    size = f"More than {much:.3g}" if evidence > much else f"{evidence:.3g}"
    return {"value": place(evidence), "warn": place(warn_at), "text": f"{size} of {alarm_at:.3g}"}

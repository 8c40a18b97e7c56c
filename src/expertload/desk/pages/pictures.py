"""The manager's charts, computed as numbers that templates write as SVG, as in the report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray
from expertload.desk.pages.render import hour, number
from expertload.monitoring import accuracy_lower_bound
from expertload.report.scale import Frame, Tick, round_ticks

__all__ = ["Bars", "Before", "Course", "Gauge", "course_of", "evidence_gauge", "hourly_bars"]

WIDE = Frame(width=720, height=300, left=52, right=704, top=16, bottom=262)
MOST_POINTS = 200


@dataclass(frozen=True)
class Course:
    """How accuracy and its bound developed with the audits."""

    frame: Frame
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    estimate: str
    bound: str
    area: str
    target: float


class Before(NamedTuple):
    """The audits before those that a picture shows."""

    n: int = 0
    wrong: int = 0
    unanswered: int = 0


def course_of(
    wrong: FloatArray,
    is_open: FloatArray,
    target: float,
    level: float,
    *,
    before: Before = Before(),  # noqa: B008 - it cannot be changed
) -> Course | None:
    """Draw audits in the order in which their cases were decided.

    Parameters
    ----------
    wrong, is_open : array
        For each audit, 1 if the decision was wrong, 1 if nobody has answered yet.
    target : float
        The promised accuracy.
    level : float
        The confidence level of the bound. It is valid however often one looks, and open audits
        count as wrong for it.
    before : Before
        Earlier audits, which are counted but not drawn.
    """
    n = len(wrong)
    if n < 2:
        return None
    at = np.unique(np.linspace(1, n, min(n, MOST_POINTS)).astype(int))
    errors = before.wrong + np.cumsum(wrong)[at - 1]
    opened = before.unanswered + np.cumsum(is_open)[at - 1]
    points = (before.n + at).astype(float)
    settled = np.maximum(points - opened, 1)
    estimate = 1 - errors / settled
    bound = np.asarray(accuracy_lower_bound(errors + opened, points, confidence_level=level))
    late = at >= min(10, n)
    lowest = min(target, float(bound[late][-1]), float(estimate[late].min()))
    floor = max(0.0, np.floor(10 * lowest - 0.5) / 10)
    frame = replace(WIDE, x_range=(points[0], points[-1]), y_range=(floor, 1.0))
    shown, hidden = np.maximum(bound, floor), np.maximum(estimate, floor)
    x_ticks = [
        Tick(float(frame.x(v)), number(v)) for v in round_ticks(*frame.x_range, 6) if v == int(v)
    ]
    return Course(
        frame,
        x_ticks,
        frame.y_ticks(4),
        frame.path(points, hidden),
        frame.path(points, shown),
        frame.area(points, shown, np.ones(len(at))),
        float(frame.y(target)),
    )


@dataclass(frozen=True)
class Column:
    """One hour: automatic decisions at the bottom, cases for experts on top of them."""

    x: float
    width: float
    auto_top: float
    auto_height: float
    expert_top: float
    expert_height: float
    answers: float
    start: datetime
    said: str


@dataclass(frozen=True)
class Bars:
    """A bar for each hour."""

    frame: Frame
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    columns: list[Column] = field(default_factory=list)


def hourly_bars(hours: list[tuple[datetime, int, int, int]]) -> Bars | None:
    """Draw hours, each (start, received, decided, answers)."""
    most = max((max(received, answers) for _, received, _, answers in hours), default=0)
    if not most:
        return None
    frame = replace(WIDE, x_range=(0.0, float(len(hours))), y_range=(0.0, most * 1.05))
    columns = []
    for i, (start, received, decided, answers) in enumerate(hours):
        auto, top = float(frame.y(decided)), float(frame.y(received))
        columns.append(
            Column(
                x=round(float(frame.x(i + 0.15)), 1),
                width=round(float(frame.x(0.7) - frame.x(0)), 1),
                auto_top=auto,
                auto_height=frame.bottom - auto,
                expert_top=top,
                expert_height=auto - top,
                answers=float(frame.y(answers)),
                start=start,
                said=f"{received} came, {received - decided} to experts, {answers} answers",
            )
        )
    ticks = [Tick(float(frame.y(v)), number(v)) for v in round_ticks(0, most, 4) if v == int(v)]
    return Bars(frame, _hour_ticks(frame, [start for start, *_ in hours]), ticks, columns)


def _hour_ticks(frame: Frame, starts: list[datetime]) -> list[Tick]:
    """Label the last hour and, if there are many, every third one before it."""
    last, step = len(starts) - 1, 1 if len(starts) <= 8 else 3
    return [
        Tick(float(frame.x(i + 0.5)), hour(starts[i]), (last - i) // step % 2 == 1)
        for i in range(last % step, last + 1, step)
    ]


@dataclass(frozen=True)
class Gauge:
    """How close the evidence is to the alarm, in percent of the width."""

    value: float
    warn: float
    said: str


def evidence_gauge(evidence: float, warn_at: float, alarm_at: float) -> Gauge:
    """Place evidence on a logarithmic line from one to the alarm."""

    def place(value: float) -> float:
        return round(100 * float(np.clip(np.log(max(value, 1.0)) / np.log(alarm_at), 0, 1)), 1)

    # Evidence multiplies, so far beyond the alarm its exact size says nothing more.
    much = 10 * alarm_at
    said = f"More than {much:.3g}" if evidence > much else f"{evidence:.3g}"
    return Gauge(place(evidence), place(warn_at), f"{said} of {alarm_at:.3g}")

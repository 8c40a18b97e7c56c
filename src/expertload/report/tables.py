"""Tables of groups and classes, with the counts at every stop of the slider.

Each row is a part of the cases at one threshold. For every stop, the page has the numbers of
accepted cases and of errors in each part; shares and intervals are computed from them. Most counts
do not change from one stop to the next, so only changes are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from expertload._typing import FloatArray
from expertload.evaluation import ClassEvaluation, Evaluation, GroupEvaluation, Members
from expertload.report.charts import Dot
from expertload.report.scale import Frame
from expertload.report.stops import Stops

__all__ = ["PartRow", "PartTable", "part_tables"]

# The number of rows shown at first, and the largest number of rows on a page.
FIRST_ROWS, MOST_ROWS = 12, 1000
# A table that is only a little longer is shown completely.
FEW_MORE = 4
STRIP = Frame(width=160, height=18, left=4, right=156, top=0, bottom=18)  # as in tables.js


@dataclass(frozen=True)
class PartRow:
    """A group or a class, and the position of its interval on the strip."""

    part: GroupEvaluation
    dot: Dot | None
    is_folded: bool

    @property
    def confusions(self) -> list[tuple[str, float]]:
        """The classes that were predicted instead of this one."""
        return [*self.part.confused_with] if isinstance(self.part, ClassEvaluation) else []


@dataclass(frozen=True, kw_only=True)
class PartTable:
    """All rows of a table, worst first, and how they change along the slider."""

    number: int
    kind: str
    rows: list[PartRow]
    n_left_out: int
    target_on_strip: float
    moves: dict[str, Any]

    @property
    def n_folded(self) -> int:
        """The number of rows that are hidden at first."""
        return sum(row.is_folded for row in self.rows)


def part_tables(index: int, evaluation: Evaluation, stops: Stops) -> list[PartTable]:
    """Return the tables of the model with this index: groups and classes, if there are any."""
    members, answers = evaluation.members, evaluation.answers
    tables = []
    if members is not None:
        tables.append(_table(2 * index, "group", evaluation.groups, members, evaluation, stops))
    if answers is not None:
        members = Members(answers.names, answers.target)
        classes = evaluation.classes
        tables.append(_table(2 * index + 1, "class", classes, members, evaluation, stops))
    return tables


def _table(
    number: int,
    kind: str,
    parts: Sequence[GroupEvaluation],
    members: Members,
    evaluation: Evaluation,
    stops: Stops,
) -> PartTable:
    shown = parts[:MOST_ROWS]
    strip = _strip(shown, evaluation.target_accuracy)
    fold = FIRST_ROWS if len(shown) > FIRST_ROWS + FEW_MORE else len(shown)
    return PartTable(
        number=number,
        kind=kind,
        rows=[PartRow(part, _dot(part, strip), i >= fold) for i, part in enumerate(shown)],
        n_left_out=len(parts) - len(shown),
        target_on_strip=float(strip.x(evaluation.target_accuracy)),
        moves={
            "kind": kind,
            "strip": strip.x_range,
            **_moves([part.name for part in shown], members, evaluation, stops),
        },
    )


# ------------------------------------------------------------------ along the slider


def _moves(
    names: Sequence[str], members: Members, evaluation: Evaluation, stops: Stops
) -> dict[str, Any]:
    cases = evaluation.cases
    correct, confidence, weight = cases.correct, cases.confidence, cases.weight
    rows = {name: row for row, name in enumerate(names)}
    row_of = np.array([rows.get(name, -1) for name in members.names])[members.of_case]
    kept = np.flatnonzero(row_of >= 0)
    # A case is accepted at all stops before this one.
    last = np.searchsorted(stops.threshold, confidence[kept], side="right")
    place = row_of[kept] * (len(stops.threshold) + 1) + last
    shape = (len(names), len(stops.threshold) + 1)

    def counted(values: FloatArray) -> FloatArray:
        sums = np.bincount(place, values, shape[0] * shape[1]).astype(np.float64).reshape(shape)
        still: FloatArray = np.cumsum(sums[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return still

    mass = np.ones(len(kept)) if weight is None else weight[kept]
    series = {
        "accepted": counted(mass),
        "errors": counted(mass * (1.0 - correct[kept].astype(np.float64))),
    }
    if weight is not None:  # intervals need Kish's effective number of cases
        series |= {"squares": counted(mass**2), "counts": counted((mass > 0).astype(np.float64))}
    z = float(ndtri((1 + evaluation.confidence_level) / 2))
    return {"z": z, **{name: [_changes(row) for row in rows] for name, rows in series.items()}}


def _changes(values: FloatArray) -> list[float | int]:
    """Return pairs of a stop and the value from there on, for every change.

    Examples
    --------
    >>> _changes(np.array([9.0, 9.0, 4.5, 0.0, 0.0]))
    [0, 9, 2, 4.5, 3, 0]
    """
    stops = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    pairs: list[float | int] = []
    for stop, value in zip(stops.tolist(), values[stops].tolist(), strict=True):
        pairs += [stop, int(value) if value == int(value) else value]
    return pairs


# ------------------------------------------------------------------ on the strip


def _strip(parts: Sequence[GroupEvaluation], target: float) -> Frame:
    """Return the scale of the strip, from the lowest interval up to one."""
    seen = [part.accepted_accuracy for part in parts if part.accepted_accuracy]
    lows = [interval.low for interval in (*seen, *(part.accuracy for part in parts))]
    return replace(STRIP, x_range=(min(*lows, target, 0.99), 1.0))


def _dot(part: GroupEvaluation, strip: Frame) -> Dot | None:
    seen = part.accepted_accuracy
    if seen is None:
        return None
    x, low, high = (float(strip.x(value)) for value in (seen.estimate, seen.low, seen.high))
    return Dot(x, 9.0, low, high)

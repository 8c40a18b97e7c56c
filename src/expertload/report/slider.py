"""The thresholds that the slider offers, their numbers, and which of them are certified.

A page cannot hold a million thresholds, and no slider could select them. So those nearest to every
fifth of a percent of load are kept, and those with a label. Nothing is interpolated.

All certified thresholds hold together, so a reader may use any. Nothing is certified between two
stretches, or between thresholds that were tested separately; these are drawn as dots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import numpy as np

from expertload._format import percent, promised
from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.display._draw import ANY_HERE, AT_DOTS
from expertload.evaluation import Evaluation
from expertload.operating_point import CertifiedThresholds
from expertload.report.scale import Frame

# In pixels, as in the style sheet: a stretch shorter than its stroke is wide is drawn as a dot.
STROKE = 9


@dataclass(frozen=True)
class Strokes:
    """The certified part of a curve, as SVG paths: stretches, and single thresholds as dots."""

    stretches: str = ""
    dots: str = ""

    @property
    def legend(self) -> str:
        """The text of the legend; empty if there are no strokes."""
        if self.stretches:
            return ANY_HERE
        return AT_DOTS if self.dots else ""


def certified_strokes(
    frame: Frame, evaluation: Evaluation, load: FloatArray, accuracy: FloatArray
) -> Strokes:
    """Draw the certified part of a curve that runs through these loads and accuracies."""
    stretches, dots = [], []
    at, height = evaluation.curve.expert_load, evaluation.curve.accuracy
    for first, last in _spans(evaluation):
        if frame.x(at[last]) - frame.x(at[first]) < STROKE:
            middle = [(first + last) // 2]
            dots.append(frame.path(at[middle], height[middle]) + "h0")
            continue
        ends, inside = [first, last], (load > at[first]) & (load < at[last])
        x, y = (
            np.insert(whole[ends], 1, line[inside])
            for whole, line in ((at, load), (height, accuracy))
        )
        stretches.append(frame.path(x, y))
    return Strokes("".join(stretches), "".join(dots))


def certified_in_words(load: FloatArray, is_certified: BoolArray) -> str:
    """Return the loads at which thresholds are certified, in words; empty if there are none.

    Examples
    --------
    >>> certified_in_words(np.array([0.0, 0.25, 0.5, 0.75]), np.array([True, True, False, True]))
    'certified at loads of 0 % to 25 %, 75 %'
    """
    pairs = zip(load.tolist(), is_certified.tolist(), strict=True)
    runs = [[at for at, _ in run] for passed, run in groupby(pairs, lambda p: p[1]) if passed]
    spans = [" to ".join(percent(at) for at in dict.fromkeys((run[0], run[-1]))) for run in runs]
    return f"certified at loads of {', '.join(spans)}" if spans else ""


def _passed(evaluation: Evaluation) -> CertifiedThresholds:
    point = evaluation.certification
    return CertifiedThresholds() if point is None else point.passed


def _spans(evaluation: Evaluation) -> list[tuple[int, int]]:
    """Return the first and last row of each stretch; single thresholds are their own stretch."""
    passed = _passed(evaluation)
    listed = passed.steps.threshold
    ranges = passed.ranges if passed.is_continuous else np.column_stack([listed, listed])
    rows = np.searchsorted(evaluation.curve.thresholds, np.reshape(ranges, (-1, 2)))
    return [(int(first), int(last)) for first, last in rows[::-1]]


N_STEPS = 500


@dataclass(frozen=True, kw_only=True)
class Stops:
    """The thresholds of the slider, loads ascending; the last one delegates everything."""

    threshold: FloatArray
    accepted: FloatArray
    errors: FloatArray
    low: FloatArray
    high: FloatArray
    certified: BoolArray
    marks: list[tuple[str, int]]  # the stops that have a label
    start: int

    @property
    def load(self) -> FloatArray:
        """The share delegated at each stop."""
        return np.asarray((self.accepted[0] - self.accepted) / self.accepted[0])

    def to_dict(self) -> dict[str, Any]:
        """Return the input of the page's script; infinity, which JSON lacks, is null."""
        return {
            "threshold": [*map(float, self.threshold[:-1]), None],
            "accepted": [_plain(v) for v in self.accepted.tolist()],
            "errors": [_plain(v) for v in self.errors.tolist()],
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "certified": self.certified.astype(int).tolist(),
            "start": self.start,
        }


def _plain(value: float) -> float | int:
    """Return counts without a decimal point, which saves a third of the bytes."""
    return int(value) if value == int(value) else value


def find_stops(evaluation: Evaluation) -> Stops:
    """Return the thresholds for one model."""
    table, curve, band = evaluation.cases.tally, evaluation.curve, evaluation.band
    at_point = int(np.searchsorted(curve.thresholds, evaluation.operating_point.threshold))
    targets = [  # a load of 1 is that of no row
        (target, int(np.searchsorted(curve.expert_load, load)) if load < 1 else len(curve.accuracy))
        for target, load in evaluation.loads.items()
    ]
    wanted = [at_point, *(row for _, row in targets), *chain(*_spans(evaluation))]
    rows = _spread(curve.expert_load, wanted)
    threshold = curve.thresholds[rows].astype(np.float64)
    start, passed = int(np.searchsorted(rows, at_point)), _passed(evaluation)
    if start < len(rows):  # the certified threshold may lie between confidences
        threshold[start] = evaluation.operating_point.threshold
    return Stops(
        threshold=np.append(threshold, math.inf),
        accepted=np.append(table.accepted[rows], 0.0),
        errors=np.append(table.accepted_errors[rows], 0.0),
        low=band.low[rows],
        high=band.high[rows],
        certified=np.array([*(value in passed for value in threshold.tolist()), False]),
        marks=_marks(evaluation, rows, targets, start),
        start=start,
    )


def _spread(loads: FloatArray, wanted: list[int]) -> IntArray:
    """Return the rows nearest to evenly spaced loads, and the given ones, ascending."""
    n = len(loads)
    if n <= N_STEPS:
        return np.arange(n)
    grid = np.arange(N_STEPS + 1) / N_STEPS
    right = np.clip(np.searchsorted(loads, grid), 1, n - 1)
    nearest = right - (grid - loads[right - 1] < loads[right] - grid)
    return np.unique([*nearest.tolist(), *(row for row in wanted if row < n)])


def _marks(
    evaluation: Evaluation, rows: IntArray, targets: list[tuple[float, int]], start: int
) -> list[tuple[str, int]]:
    marks = [("Decide everything", 0)]
    if math.isfinite(evaluation.operating_point.threshold):
        kind = "Certified" if evaluation.is_certified else "Chosen"
        marks.append((f"{kind} for {promised(evaluation.target_accuracy)}", start))
    marks += [
        (f"{promised(target)} here", int(np.searchsorted(rows, row)))
        for target, row in targets
        if row < len(evaluation.curve.thresholds)
        and (evaluation.is_certified or target != evaluation.target_accuracy)
    ]
    return [*marks, ("Delegate everything", len(rows))]

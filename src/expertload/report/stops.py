"""The thresholds that the slider offers, and the numbers at each of them.

A page cannot hold a million thresholds, and no slider could select them. So those nearest to every
fifth of a percent of load are kept, and those with a label. Nothing is interpolated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._format import promised
from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.evaluation import Evaluation
from expertload.report.certified import are_certified, certified_rows

__all__ = ["Mark", "Stops", "find_stops"]

N_STEPS = 500


@dataclass(frozen=True)
class Mark:
    """A stop with a label."""

    label: str
    stop: int


@dataclass(frozen=True, kw_only=True)
class Stops:
    """The thresholds of the slider, loads ascending; the last one delegates everything."""

    threshold: FloatArray
    accepted: FloatArray
    errors: FloatArray
    low: FloatArray
    high: FloatArray
    certified: BoolArray
    marks: tuple[Mark, ...]
    start: int

    @property
    def load(self) -> FloatArray:
        """The share delegated at each stop."""
        shares: FloatArray = (self.accepted[0] - self.accepted) / self.accepted[0]
        return shares

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
    targets = [(t, _row_of_load(curve.expert_load, load)) for t, load in evaluation.loads.items()]
    wanted = [at_point, *(row for _, row in targets), *certified_rows(evaluation)]
    rows = _spread(curve.expert_load, wanted)
    threshold = curve.thresholds[rows].astype(np.float64)
    start = int(np.searchsorted(rows, at_point))
    if start < len(rows):  # the certified threshold may lie between confidences
        threshold[start] = evaluation.operating_point.threshold
    return Stops(
        threshold=np.append(threshold, math.inf),
        accepted=np.append(table.accepted[rows], 0.0),
        errors=np.append(table.accepted_errors[rows], 0.0),
        low=band.low[rows],
        high=band.high[rows],
        certified=np.append(are_certified(evaluation, threshold), False),
        marks=_marks(evaluation, rows, targets, start),
        start=start,
    )


def _row_of_load(loads: FloatArray, load: float) -> int:
    return len(loads) if load == 1 else int(np.searchsorted(loads, load))


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
) -> tuple[Mark, ...]:
    marks = [Mark("Decide everything", 0)]
    if math.isfinite(evaluation.operating_point.threshold):
        kind = "Certified" if evaluation.is_certified else "Chosen"
        marks.append(Mark(f"{kind} for {promised(evaluation.target_accuracy)}", start))
    marks += [
        Mark(f"{promised(target)} here", int(np.searchsorted(rows, row)))
        for target, row in targets
        if row < len(evaluation.curve.thresholds) and _is_new(evaluation, target)
    ]
    return (*marks, Mark("Delegate everything", len(rows)))


def _is_new(evaluation: Evaluation, target: float) -> bool:
    return evaluation.is_certified or target != evaluation.target_accuracy

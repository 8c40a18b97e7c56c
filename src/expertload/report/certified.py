"""Shows which thresholds are certified: on the slider, along the curve, and in words.

All of them hold together, so a reader may use any. Nothing is certified between two stretches, or
between thresholds that were tested separately; these are drawn as dots.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from expertload._format import percent
from expertload._typing import BoolArray, FloatArray
from expertload.display._curve import ANY_HERE, AT_DOTS
from expertload.evaluation import Evaluation
from expertload.operating_point import CertifiedThresholds
from expertload.report.scale import Frame

__all__ = ["Strokes", "are_certified", "certified_in_words", "certified_rows", "certified_strokes"]

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


def are_certified(evaluation: Evaluation, thresholds: FloatArray) -> BoolArray:
    """Return which of the thresholds are certified."""
    passed = _passed(evaluation)
    return np.array([threshold in passed for threshold in thresholds.tolist()], dtype=np.bool_)


def certified_rows(evaluation: Evaluation) -> list[int]:
    """Return the rows at the ends of the certified stretches, as stops for the slider."""
    return [row for span in _spans(evaluation) for row in span]


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
    said = [" to ".join(percent(at) for at in dict.fromkeys((run[0], run[-1]))) for run in runs]
    return f"certified at loads of {', '.join(said)}" if said else ""


def _passed(evaluation: Evaluation) -> CertifiedThresholds:
    found = evaluation.certification
    return CertifiedThresholds() if found is None else found.passed


def _spans(evaluation: Evaluation) -> list[tuple[int, int]]:
    """Return the first and last row of each stretch; single thresholds are their own stretch."""
    passed = _passed(evaluation)
    listed = passed.steps.threshold
    ranges = passed.ranges if passed.is_continuous else np.column_stack([listed, listed])
    rows = np.searchsorted(evaluation.curve.thresholds, np.reshape(ranges, (-1, 2)))
    return [(int(first), int(last)) for first, last in rows[::-1]]

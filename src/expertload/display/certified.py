"""Draws the certified part of a curve; any of its thresholds may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.display.labels import GUIDE_LINE
from expertload.display.style import GREEN
from expertload.display.vertices import visible
from expertload.operating_point import CertifiedPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from expertload.operating_point import OperatingPoint

__all__ = ["ANY_HERE", "AT_DOTS", "draw_certified"]

ANY_HERE = "certified: any threshold here keeps the promise"
AT_DOTS = "certified: the thresholds at the dots keep the promise"
WIDTH = 8


def draw_certified(ax: Axes, point: OperatingPoint) -> Line2D | None:
    """Mark the thresholds that passed, under the curve; draws nothing if there are none.

    The legend has one entry for it, for any number of points and curves.
    """
    if not isinstance(point, CertifiedPoint) or not len(point.passed):
        return None
    is_continuous = point.passed.is_continuous
    text = ANY_HERE if is_continuous else AT_DOTS
    is_named = any(line.get_label() == text for line in ax.lines)
    load, accuracy = _with_gaps(point)
    (line,) = ax.plot(load, accuracy, color=GREEN, gid=GUIDE_LINE, alpha=0.45)
    line.set(zorder=1.8, label="_" if is_named else text)
    line.set(linewidth=WIDTH if is_continuous else 0, solid_capstyle="butt")
    alone = _alone(load) if is_continuous else np.arange(len(load))
    if len(alone):  # a line of one point would be invisible
        line.set(marker="o", markersize=WIDTH, markeredgewidth=0, markevery=alone.tolist())
    return line


def _alone(load: FloatArray) -> IntArray:
    """Return the points with a gap on both sides."""
    breaks: IntArray = np.append(-1, np.flatnonzero(np.isnan(load)))
    found: IntArray = breaks[1:][np.diff(breaks) == 2] - 1
    return found


def _with_gaps(point: CertifiedPoint) -> tuple[FloatArray, FloatArray]:
    """Return loads and accuracies of passed thresholds, with a gap after each stretch."""
    loads: list[FloatArray] = []
    accuracies: list[FloatArray] = []
    for stretch in reversed(point.passed.stretches):
        load = 1 - stretch.n_accepted[::-1] / point.n_cases
        accuracy = 1 - (stretch.n_errors / stretch.n_accepted)[::-1]
        seen = visible(load, accuracy)
        loads.append(np.append(load[seen], np.nan))
        accuracies.append(np.append(accuracy[seen], np.nan))
    return np.concatenate(loads), np.concatenate(accuracies)

"""The parts of COC curves: the points of a line, scale, colours, bands, marked points.

Between two thresholds a random part of the cases at the lower one is accepted. The correct mass
accepted, accuracy times accepted share, then falls in a straight line with the load, so accuracy
itself moves on a hyperbola; beyond the last threshold it is constant. Intervals follow the same
rule: they are linear in the same quantities, and so always contain the curve.

Curves and bands have a mark (matplotlib's ``gid``), so that they can be found when the next curve
is drawn on the same axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expertload._check import check_same_length, check_unit_interval, message
from expertload._format import percent
from expertload._typing import FloatArray, IntArray
from expertload.display import _draw
from expertload.exceptions import ParameterError
from expertload.operating_point import CertifiedPoint
from expertload.significance import COCBand

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

    from expertload.operating_point import OperatingPoint


# Steps in the logarithm of the accepted share: a chord then misses the hyperbola by at most
# STEP**2 / 4, a quarter of a thousandth of the axis.
STEP = 1 / 32
# No figure is much wider than this many pixels; four vertices per pixel show everything visible.
COLUMNS = 1024


def along_curve(
    expert_load: FloatArray, *values: FloatArray, columns: int = COLUMNS
) -> tuple[FloatArray, ...]:
    """Return loads from 0 to 1 and, at each, the values that randomised thresholds reach."""
    accepted = np.exp(-np.arange(0, -math.log(1 - expert_load[-1]), STEP))
    loads = np.unique(np.concatenate([expert_load, 1 - accepted]))
    drawn = [_randomised(expert_load, value, loads) for value in values]
    keep = visible(loads, drawn[0], columns)
    return (
        np.append(loads[keep], 1.0),
        *(np.append(d[keep], v[-1]) for d, v in zip(drawn, values, strict=True)),
    )


def mean_curve(
    curves: Sequence[tuple[FloatArray, FloatArray]],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return loads, the mean accuracy of several curves there, and their standard deviation.

    The loads include every threshold of every curve, so that no corner is cut.
    """
    last = max(load[-1] for load, _ in curves)
    accepted = np.exp(-np.arange(0, -math.log(1 - last), STEP))
    loads = np.unique(np.concatenate([load for load, _ in curves] + [1 - accepted]))
    values = np.stack(
        [_randomised(load, accuracy, np.minimum(loads, load[-1])) for load, accuracy in curves]
    )
    spread = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(loads))
    ends = (1.0, values[:, -1].mean(), spread[-1])
    columns = (loads, values.mean(axis=0), spread)
    loads, mean, spread = (np.append(c, e) for c, e in zip(columns, ends, strict=True))
    return loads, mean, spread


def _randomised(expert_load: FloatArray, value: FloatArray, at: FloatArray) -> FloatArray:
    mass: FloatArray = np.interp(at, expert_load, value * (1 - expert_load))
    return mass / (1 - at)


def visible(x: FloatArray, y: FloatArray, columns: int = COLUMNS) -> IntArray:
    """Return which points of a line to draw, `x` ascending in [0, 1].

    In every column of pixels, the first, last, lowest and highest points determine the picture; all
    others would be drawn over them.
    """
    if len(x) <= 4 * columns:
        return np.arange(len(x))
    starts = np.unique(np.searchsorted(x, np.arange(columns) / columns))
    starts = starts[starts < len(x)]
    ends = np.append(starts[1:], len(x))
    spans = list(zip(starts, ends, strict=True))
    lowest = [a + y[a:b].argmin() for a, b in spans]
    highest = [a + y[a:b].argmax() for a, b in spans]
    return np.unique(np.concatenate([starts, ends - 1, lowest, highest])).astype(np.int64)


def check_curve_points(expert_load: FloatArray, accuracy: FloatArray) -> None:
    """Raise unless loads and accuracies can be those of a curve, as `coc_curve` returns them."""
    check_same_length(expert_load=expert_load, accuracy=accuracy)
    check_unit_interval(accuracy, "accuracy")
    ascending = expert_load[0] == 0 and (np.diff(expert_load) > 0).all() and expert_load[-1] < 1
    if not ascending:
        raise ParameterError(
            message(
                "expert_load",
                "must rise from 0 and stay below 1",
                f"values from {expert_load[0]:g} to {expert_load[-1]:g}",
                "pass the result of coc_curve",
            )
        )


CURVE, BAND, FOLD = "expertload-coc-curve", "expertload-coc-band", "expertload-coc-fold"
ALPHA_ALONE, ALPHA_AMONG_OTHERS = 0.20, 0.11
# Beyond this load, too few cases are left for their accuracy to set the scale.
LOAD_THAT_SETS_THE_SCALE = 0.9


def next_style(ax: Axes) -> dict[str, Any]:
    """Return the line style of the next curve on these axes."""
    return {"linewidth": 1.8, **_draw.line_style(len(_curves(ax)))}


def zoom(ax: Axes, load: FloatArray, accuracy: FloatArray, band: COCBand | None) -> None:
    """Show the range of accuracies that matters, up to 100 %; keep limits that are already set."""
    first = not _curves(ax)
    if first and not ax.get_autoscaley_on():
        return
    if first:
        ax.set_xlim(0, 1)
        _set_bottom(ax, 1)
    lower = accuracy if band is None else band.low
    show_down_to(ax, float(lower[load <= LOAD_THAT_SETS_THE_SCALE].min()))


def show_down_to(ax: Axes, accuracy: float) -> None:
    """Extend the vertical axis downwards if necessary, with a margin."""
    _set_bottom(ax, min(ax.get_ylim()[0], accuracy - 0.06 * (1.02 - accuracy)))


def make_room_below(ax: Axes) -> None:
    """Lower the bottom by a quarter of the height, for a legend that does not fit elsewhere."""
    bottom = ax.get_ylim()[0]
    _set_bottom(ax, bottom - (1 - bottom) / 3)


def _set_bottom(ax: Axes, bottom: float) -> None:
    bottom = max(-0.02, bottom)  # no accuracy is lower than zero
    ax.set_ylim(bottom, 1 + max(0.02 * (1 - bottom), 1e-6))


def draw_line(
    ax: Axes, load: FloatArray, accuracy: FloatArray, *, label: str, **style: Any
) -> Line2D:
    """Draw a curve, with its true shape between points."""
    (line,) = ax.plot(*along_curve(load, accuracy), gid=CURVE, **style)
    return _draw.name_line(line, label)


def draw_band(
    ax: Axes, accuracy: FloatArray, band: COCBand | None, line: Line2D
) -> PolyCollection | None:
    """Draw the band of a curve in its colour; with many bands, each is lighter."""
    if band is None:
        return None
    load, _, low, high = along_curve(band.expert_load, accuracy, band.low, band.high)
    area = ax.fill_between(load, low, high, color=line.get_color(), linewidth=0, gid=BAND)
    alpha = ALPHA_ALONE if len(_curves(ax)) == 1 else ALPHA_AMONG_OTHERS
    for each in ax.collections:
        if each.get_gid() == BAND:
            each.set_alpha(alpha)
    return area


def finish(ax: Axes, legend_title: str | None) -> None:
    """Label the axes."""
    ax.set(xlabel="Expert load (share of cases delegated)", ylabel="Accuracy among the accepted")
    _draw.quiet(ax, "x", "y")
    if any(_draw.is_named(line) for line in _curves(ax)):
        _draw.add_legend(ax, legend_title)


def _curves(ax: Axes) -> list[Line2D]:
    return [line for line in ax.lines if line.get_gid() == CURVE]


class PointMarks(NamedTuple):
    """The artists of one point; for a certified one, also the certified part of the curve."""

    dot: Line2D
    guide: Line2D
    label: Annotation
    certified: Line2D | None = None


def mark_operating_point(
    ax: Axes, point: OperatingPoint, colour: Any, label: str | None
) -> PointMarks:
    """Mark a point; one that delegates everything has no accuracy and is drawn on the axis."""
    load, accuracy = point.expert_load, point.accuracy
    if accuracy is None:
        marks = draw_marks(ax, (load, 0), colour, label or "everything delegated", on_axis=True)
    else:
        show_down_to(ax, accuracy)
        text = f"{percent(accuracy)} accuracy at {percent(load)} load"
        marks = draw_marks(ax, (load, accuracy), colour, label or text)
    if not _draw.settle_legend(ax):
        make_room_below(ax)
        _draw.settle_legend(ax)
    return marks


def draw_marks(
    ax: Axes, point: tuple[float, float], colour: Any, text: str, *, on_axis: bool = False
) -> PointMarks:
    """Draw the dot, the guides down and to the left, and the label.

    With `on_axis` the point is hollow, and its height is a share of the axes' height.
    """
    x, y = point
    transform = ax.get_xaxis_transform() if on_axis else ax.transData
    (guide,) = ax.plot(
        [0, x, x], [y, y, 0], color=_draw.GUIDE, gid=_draw.GUIDE_LINE, transform=transform
    )
    guide.set(linewidth=0.9, linestyle=(0, (4, 3)), zorder=1.5)
    (dot,) = ax.plot(x, y, marker="o", color=colour, transform=transform)
    dot.set(markersize=7, markerfacecolor="white" if on_axis else colour, zorder=4)
    dot.set_clip_on(False)  # a dot on the edge must not be cut in half
    return PointMarks(dot, guide, _draw.label_point(ax, text, point, transform))


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
    again = any(line.get_label() == text for line in ax.lines)
    load, accuracy = _with_gaps(point)
    (line,) = ax.plot(load, accuracy, color=_draw.GREEN, gid=_draw.GUIDE_LINE, alpha=0.45)
    line.set(zorder=1.8, label="_" if again else text)
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

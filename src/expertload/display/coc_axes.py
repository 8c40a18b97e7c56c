"""The shared parts of COC curves on the same axes: scale, colours, bands and legend.

Curves and bands have a mark (matplotlib's ``gid``), so that they can be found when the next curve
is drawn on the same axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expertload.display.style import (
    add_legend,
    is_named,
    line_style,
    name_line,
    percent_axis,
    quiet,
)
from expertload.display.vertices import along_curve, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D

    from expertload._typing import FloatArray
    from expertload.significance import COCBand

__all__ = ["draw_band", "draw_fold", "draw_line", "draw_mean", "finish", "next_style", "zoom"]

CURVE, BAND, FOLD = "expertload-coc-curve", "expertload-coc-band", "expertload-coc-fold"
ALPHA_ALONE, ALPHA_AMONG_OTHERS = 0.20, 0.11
# Beyond this load, too few cases are left for their accuracy to set the scale.
LOAD_THAT_SETS_THE_SCALE = 0.9


def next_style(ax: Axes) -> dict[str, Any]:
    """Return the line style of the next curve on these axes."""
    return {"linewidth": 1.8, **line_style(len(_curves(ax)))}


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
    return name_line(line, label)


def draw_fold(ax: Axes, load: FloatArray, accuracy: FloatArray, colour: Any) -> Line2D:
    """Draw the curve of one of several folds, as a light line."""
    (line,) = ax.plot(*along_curve(load, accuracy), gid=FOLD, color=colour)
    line.set(linewidth=0.9, alpha=0.35)
    return line


def draw_mean(
    ax: Axes,
    load: FloatArray,
    accuracy: FloatArray,
    spread: FloatArray | None,
    *,
    label: str,
    **style: Any,
) -> tuple[Line2D, PolyCollection | None]:
    """Draw a mean curve with points close enough for straight lines, and its spread."""
    keep = visible(load, accuracy)
    x, y = load[keep], accuracy[keep]
    (line,) = ax.plot(x, y, gid=CURVE, **style)
    band = None
    if spread is not None:
        low, high = (y - spread[keep]).clip(0, 1), (y + spread[keep]).clip(0, 1)
        band = ax.fill_between(x, low, high, color=line.get_color(), linewidth=0, gid=BAND)
        band.set_alpha(ALPHA_AMONG_OTHERS)
    return name_line(line, label), band


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
    percent_axis(ax, "x", "y")
    quiet(ax)
    if any(is_named(line) for line in _curves(ax)):
        add_legend(ax, legend_title)


def _curves(ax: Axes) -> list[Line2D]:
    return [line for line in ax.lines if line.get_gid() == CURVE]

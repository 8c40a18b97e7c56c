"""Draws a reliability diagram: dots, their gaps to the diagonal, and bars below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expertload.display.style import (
    add_legend,
    draw_diagonal,
    is_named,
    line_style,
    name_line,
    percent_axis,
    quiet,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch

    from expertload._typing import FloatArray
    from expertload.metrics.calibration import ReliabilityCurve

__all__ = ["draw_diagram", "draw_histogram"]

CURVE = "expertload-reliability-curve"
SMALLEST_DOT, LARGEST_DOT = 12.0, 64.0


def draw_diagram(
    ax: Axes, curve: ReliabilityCurve, label: str, title: str | None
) -> tuple[Line2D, LineCollection]:
    """Draw the points, their distances from the diagonal, and the diagonal, only once."""
    style = line_style(sum(line.get_gid() == CURVE for line in ax.lines))
    draw_diagonal(ax)
    (line,) = ax.plot(
        curve.confidence,
        curve.accuracy,
        gid=CURVE,
        linewidth=1.2,
        clip_on=False,
        **style,
    )
    gaps = ax.vlines(
        curve.confidence,
        curve.accuracy,
        curve.confidence,
        color=style["color"],
        alpha=0.3,
        linewidth=4,
    )
    area = SMALLEST_DOT + (LARGEST_DOT - SMALLEST_DOT) * curve.share / curve.share.max()
    ax.scatter(
        curve.confidence, curve.accuracy, s=area, color=style["color"], zorder=3, clip_on=False
    )
    name_line(line, label)
    _finish(ax, title)
    return line, gaps


def _finish(ax: Axes, title: str | None) -> None:
    ax.set(xlim=(0, 1), ylim=(-0.01, 1.01), xlabel="Confidence", ylabel="Accuracy")
    percent_axis(ax, "x", "y")
    quiet(ax)
    if ax.get_legend_handles_labels()[0] or any(map(is_named, ax.lines)):
        add_legend(ax, title)


def draw_histogram(
    ax: Axes | None, shares: FloatArray | None, line: Line2D, diagram: Axes
) -> StepPatch | None:
    """Draw how often each confidence occurs, in the colour of the model's line."""
    if ax is None or shares is None:
        return None
    edges = np.linspace(0, 1, len(shares) + 1)
    bars = ax.stairs(shares, edges, fill=True, color=line.get_color(), alpha=0.45)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel="Confidence", ylabel="Share of cases")
    percent_axis(ax, "x", "y")
    quiet(ax)
    if ax.get_shared_x_axes().joined(ax, diagram):
        diagram.set_xlabel("")
    return bars

"""Draws an outlier score: two histograms, and the ROC curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expertload.display.style import (
    BLUE,
    INK,
    VERMILION,
    add_legend,
    draw_diagonal,
    line_style,
    name_line,
    percent,
    percent_axis,
    quiet,
)
from expertload.display.vertices import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from expertload._typing import ArrayLike, FloatArray

__all__ = ["draw_densities", "draw_roc"]

CURVE = "expertload-roc-curve"
AXIS_LABELS = {
    "outlier": ("False positive rate (inliers flagged)", "True positive rate (outliers flagged)"),
    "inlier": ("False positive rate (outliers kept)", "True positive rate (inliers kept)"),
}


def draw_densities(
    ax: Axes,
    histogram: tuple[ArrayLike, ArrayLike, ArrayLike],
    threshold: float | None,
    tpr: float,
    positive: str,
) -> None:
    """Draw the share of inliers and of outliers at each score, and the threshold."""
    edges, inlier, outlier = histogram
    for shares, colour, label in ((inlier, BLUE, "inliers"), (outlier, VERMILION, "outliers")):
        ax.stairs(shares, edges, fill=True, color=colour, alpha=0.35, label=label)
        ax.stairs(shares, edges, color=colour, linewidth=1.4)
    if threshold is not None:
        side = "above" if positive == "outlier" else "below"
        text = f"{percent(tpr)} of {positive}s {side}"
        ax.axvline(threshold, color=INK, linewidth=1, dashes=(4, 3), label=text)
    ax.set(xlabel="Outlier score", ylabel="Share of each group", ylim=(0, None))
    percent_axis(ax, "y")
    quiet(ax)
    add_legend(ax)


def draw_roc(ax: Axes, false: FloatArray, true: FloatArray, *, label: str, positive: str) -> Line2D:
    """Draw an ROC curve, and once the diagonal of a random score."""
    style = line_style(sum(line.get_gid() == CURVE for line in ax.lines))
    draw_diagonal(ax)
    keep = visible(false, true)
    (line,) = ax.plot(false[keep], true[keep], gid=CURVE, linewidth=1.8, **style)
    name_line(line, label)
    x_label, y_label = AXIS_LABELS[positive]
    ax.set(xlim=(0, 1), ylim=(0, 1.01), xlabel=x_label, ylabel=y_label)
    percent_axis(ax, "x", "y")
    quiet(ax)
    if label:
        add_legend(ax)
    return line

"""Marks a point on a curve: a dot, guides to both axes, and a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from expertload.display.coc_axes import make_room_below, show_down_to
from expertload.display.labels import GUIDE_LINE, label_point, settle_legend
from expertload.display.style import GUIDE, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

    from expertload.operating_point import OperatingPoint

__all__ = ["PointMarks", "draw_marks", "mark_operating_point"]


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
    if not settle_legend(ax):
        make_room_below(ax)
        settle_legend(ax)
    return marks


def draw_marks(
    ax: Axes, point: tuple[float, float], colour: Any, text: str, *, on_axis: bool = False
) -> PointMarks:
    """Draw the dot, the guides down and to the left, and the label.

    With `on_axis` the point is hollow, and its height is a share of the axes' height.
    """
    x, y = point
    transform = ax.get_xaxis_transform() if on_axis else ax.transData
    (guide,) = ax.plot([0, x, x], [y, y, 0], color=GUIDE, gid=GUIDE_LINE, transform=transform)
    guide.set(linewidth=0.9, linestyle=(0, (4, 3)), zorder=1.5)
    (dot,) = ax.plot(x, y, marker="o", color=colour, transform=transform)
    dot.set(markersize=7, markerfacecolor="white" if on_axis else colour, zorder=4)
    dot.set_clip_on(False)  # a dot on the edge must not be cut in half
    return PointMarks(dot, guide, label_point(ax, text, point, transform))

"""Places labels and the legend where they cover least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expertload.display.axes import figure_of
from expertload.display.style import INK, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox, Transform

__all__ = ["GUIDE_LINE", "label_point", "settle_legend"]

# The mark of lines that may be covered: dashed guides from a dot to the axes.
GUIDE_LINE = "expertload-guide"


# Possible places of a label, in points from its dot, in order of preference: below and to the right
# is free on most curves, because they rise; one line further away is the last resort.
OFFSETS = tuple(
    (8 * right, far * up)
    for far in range(8, 160, 16)
    for right, up in ((1, -1), (-1, 1), (-1, -1), (1, 1))
)
LEGEND_PLACES: tuple[Any, ...] = (
    "lower right",
    "upper left",
    "lower left",
    "upper right",
    "lower center",
    "upper center",
    "center right",
    "center left",
)
# The penalties of a place: leaving the axes, covering a label or a dot, crossing a curve, being one
# line further away, crossing a guide.
OUTSIDE, ON_MARK, ON_CURVE, FURTHER, ON_GUIDE = 1000, 100, 30, 2, 1


def label_point(
    ax: Axes, text: str, point: tuple[float, float], transform: Transform
) -> Annotation:
    """Write `text` next to a point, away from lines and other labels."""
    label = ax.annotate(
        text,
        point,
        xycoords=transform,
        xytext=OFFSETS[0],
        textcoords="offset points",
        fontsize=SMALL,
        color=INK,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.8, "linewidth": 0},
        zorder=5,
    )
    label.set_in_layout(False)  # trying a place must not change the layout of the axes
    figure_of(ax).draw_without_rendering()  # the layout decides where the axes are
    # min returns the first of equals, which is the preferred one.
    return _move(label, min(OFFSETS, key=lambda offset: _cost(ax, _move(label, offset))))


def settle_legend(ax: Axes) -> bool:
    """Move the legend to where it covers least; return whether it covers nothing.

    Matplotlib's own "best" place counts a label no more than one vertex of a line.
    """
    legend = ax.get_legend()
    if legend is None:
        return True

    def cost(place: Any) -> int:
        legend.set_loc(place)
        box = legend.get_window_extent()
        dots = _vertices_covered(ax, box.padded(10), single=True)
        lines = _vertices_covered(ax, box, single=False) + _lines_crossed(ax, box)
        return 10_000 * (_texts_covered(ax, box) + dots) + lines

    best = min(LEGEND_PLACES, key=cost)
    return cost(best) == 0


def _move(label: Annotation, offset: tuple[float, float]) -> Annotation:
    label.xyann = offset
    label.set_horizontalalignment("left" if offset[0] > 0 else "right")
    label.set_verticalalignment("bottom" if offset[1] > 0 else "top")
    return label


def _cost(ax: Axes, label: Annotation) -> int:
    box = label.get_window_extent()
    outside = not (ax.bbox.contains(box.x0, box.y0) and ax.bbox.contains(box.x1, box.y1))
    texts = _texts_covered(ax, box) - 1  # not the legend itself
    dots = _vertices_covered(ax, box.padded(4), single=True)
    return (
        OUTSIDE * outside
        + ON_MARK * (texts + dots)
        + ON_CURVE * _lines_crossed(ax, box)
        + FURTHER * int(abs(label.xyann[1]) // 16)
        + ON_GUIDE * _lines_crossed(ax, box, guides=True)
    )


def _texts_covered(ax: Axes, box: Bbox) -> int:
    return sum(box.overlaps(text.get_window_extent()) for text in ax.texts)


def _vertices_covered(ax: Axes, box: Bbox, *, single: bool) -> int:
    """Count vertices in the box, of dots (lines of a single vertex) or of curves."""
    vertices = (np.asarray(path.vertices) for path in _paths(ax, guides=False))
    return sum(int(box.count_contains(v)) for v in vertices if (len(v) == 1) == single)


def _lines_crossed(ax: Axes, box: Bbox, *, guides: bool = False) -> int:
    return sum(path.intersects_bbox(box, filled=False) for path in _paths(ax, guides=guides))


def _paths(ax: Axes, *, guides: bool) -> list[Path]:
    """Return the lines of the axes in pixels: the guides, or all others."""
    return [
        line.get_transform().transform_path(line.get_path())
        for line in ax.lines
        if (line.get_gid() == GUIDE_LINE) == guides
    ]

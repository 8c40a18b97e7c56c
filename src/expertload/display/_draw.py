"""Axes, style, labels and legends that all plots share.

The palette is Okabe and Ito's without yellow, which is too pale for lines on white. Everything is
set on the given axes; matplotlib's global settings are never changed.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expertload._check import message, require_extra
from expertload.exceptions import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    AxesOrPair = Axes | Sequence[Axes] | None
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.path import Path
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox, Transform


def figure_of(ax: Axes) -> Figure:
    """Return the whole figure, also of axes in a subfigure."""
    return ax.figure.figure


def one_axes(ax: Axes | None, **layout: Any) -> Axes:
    """Return `ax`, or the axes of a new figure."""
    axes: Axes = _axes(ax, most=1, **layout)[0]
    return axes


def two_axes(ax: AxesOrPair, **layout: Any) -> tuple[Axes, Axes | None]:
    """Return the main axes and the second ones; None if there is only one."""
    axes = _axes(ax, most=2, **layout)
    return axes[0], axes[1] if len(axes) == 2 else None


def _axes(ax: AxesOrPair, *, most: int, **layout: Any) -> list[Any]:
    if ax is not None:
        return _check_axes(ax, most=most)
    pyplot = require_extra("matplotlib.pyplot", "plot", "Plotting")
    return list(np.ravel(pyplot.subplots(layout="constrained", **layout)[1]))


def _check_axes(ax: Any, *, most: int) -> list[Any]:
    """Return one axes or a sequence of at most `most` as a list."""
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if not 1 <= len(given) <= most or not all(hasattr(each, "get_figure") for each in given):
        wanted = "must be matplotlib axes" if most == 1 else "must be one or two matplotlib axes"
        raise ParameterError(message("ax", wanted, f"{ax!r}"))
    return given


BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
PALETTE = (BLUE, VERMILION, GREEN, "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK, GUIDE, GRID = "#333333", "#767676", "#E3E3E3"
SMALL = 9.0
LEGEND_WIDTH = 48
# The attribute of a line that holds its literal label.
LITERAL = "_expertload_label"
DIAGONAL = "expertload-diagonal"


def line_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of line number `index`; dashes distinguish repeated colours."""
    dashes = ("-", "--", ":")[index // len(PALETTE) % 3]
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": dashes}


def percent_axis(ax: Axes, *which: Literal["x", "y"]) -> None:
    """Label the ticks of an axis in percent."""
    ticker = require_extra("matplotlib.ticker", "plot", "Plotting")
    for name in which:
        axis = ax.xaxis if name == "x" else ax.yaxis
        axis.set_major_formatter(ticker.FuncFormatter(_tick))


def _tick(share: float, position: int | None = None) -> str:
    """Return a tick label with only the decimals it needs: 95 %, 97.5 %."""
    return f"{round(100 * share, 6):g}\N{NO-BREAK SPACE}%"


def quiet(ax: Axes) -> None:
    """Keep only the two spines with ticks, and put the grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)


def draw_diagonal(ax: Axes) -> None:
    """Draw the diagonal as a dashed guide, only once on the same axes."""
    if not any(line.get_gid() == DIAGONAL for line in ax.lines):
        ax.plot([0, 1], [0, 1], color=GUIDE, linewidth=1, dashes=(4, 3), gid=DIAGONAL, zorder=1.5)


def with_name(name: str | None, numbers: str) -> str:
    """Return a model's name and its numbers, wrapped for a legend."""
    if name is None:
        return numbers
    joined = f"{name}: {numbers}" if numbers else name
    return joined if len(joined) <= LEGEND_WIDTH else f"{_wrapped(name)}\n{numbers}".rstrip("\n")


def _wrapped(name: str) -> str:
    return textwrap.fill(name, LEGEND_WIDTH)


def name_line(line: Line2D, label: str) -> Line2D:
    """Set the literal label of a line for `add_legend`; "" leaves it out of the legend.

    Matplotlib would hide a label that begins with an underscore, and read text between dollar signs
    as mathematics.
    """
    if label:
        line.set_label(label)
        setattr(line, LITERAL, label)
    return line


def is_named(line: Line2D) -> bool:
    """Whether `name_line` gave the line a label."""
    return hasattr(line, LITERAL)


def add_legend(ax: Axes, title: str | None = None) -> Legend:
    """Draw the legend where it covers least, with the literal labels of `name_line`."""
    others = ax.get_legend_handles_labels()[0]
    hidden = [line for line in ax.lines if is_named(line) and line not in others]
    drawn = [each for each in ax.get_children() if each in others or each in hidden]
    handles: list[Any] = [*drawn, *(each for each in others if each not in drawn)]
    literal = [getattr(each, LITERAL, None) for each in handles]
    labels = ["." if is_named(each) else each.get_label() for each in handles]
    legend = ax.legend(
        handles,
        labels,
        loc="best",
        fontsize=SMALL,
        title=title,
        title_fontsize=SMALL,
        framealpha=0.85,
    )
    for written, text in zip(legend.get_texts(), literal, strict=True):
        if text is not None:
            written.set_parse_math(False)
            written.set_text(text)
    legend.get_title().set_parse_math(False)
    legend.set_alignment("left")
    legend.get_frame().set_edgecolor(GRID)
    return legend


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

"""The style of plots: colours that colour-blind readers can distinguish, and plain axes.

The palette is Okabe and Ito's without yellow, which is too pale for lines on white. Everything is
set on the given axes; matplotlib's global settings are never changed.
"""

from __future__ import annotations

import math
import textwrap
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from expertload._validation import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

__all__ = [
    "add_legend",
    "draw_diagonal",
    "is_named",
    "line_style",
    "name_line",
    "percent",
    "percent_axis",
    "quiet",
    "with_name",
]

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


def percent(share: float) -> str:
    """Return a share in percent, with enough decimals not to read falsely as 0 or 100.

    Examples
    --------
    >>> percent(0.95), percent(0.2871), percent(0.99996), percent(1.0)
    ('95 %', '28.7 %', '99.996 %', '100 %')
    """
    number = 100 * share
    decimals = next(
        d for d in count(1) if d > 8 or number in (0, 100) or 0 < float(f"{number:.{d}f}") < 100
    )
    return f"{round(number, decimals):.{decimals}f}".rstrip("0").rstrip(".") + " %"


def promised(share: float) -> str:
    """Return a target or a level in percent: as it was given, or rounded down if it is long.

    A promise of 99.75 % must not read as one of 99.8 %.

    Examples
    --------
    >>> promised(0.95), promised(0.9975), promised(1 - 0.05 / 6)
    ('95 %', '99.75 %', '99.16 %')
    """
    number = round(100 * share, 9)
    if number != round(number, 5) or (number == 100 and share < 1):
        number = math.floor(10_000 * share) / 100
    return f"{number:.8g} %"


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

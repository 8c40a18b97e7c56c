"""Axes, style, labels and legends that all plots share.

The palette is Okabe and Ito's without yellow, which is too pale for lines on white. Everything is
set on the given axes; matplotlib's global settings are never changed.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from expertload._answers import cases_of
from expertload._check import message, require_extra
from expertload._typing import ArrayLike
from expertload.cases import Cases
from expertload.exceptions import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    AxesOrPair = Axes | Sequence[Axes] | None
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation
    from matplotlib.transforms import Transform


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


class Drawn:
    """What all displays have once they are drawn."""

    ax_: Axes
    figure_: Figure

    def _draw_on(self, ax: Axes) -> None:
        self.ax_, self.figure_ = ax, figure_of(ax)


class OfPredictions(Drawn):
    """A display of one model, which `from_cases` computes and draws."""

    takes_confidence: ClassVar[bool] = True
    from_cases: ClassVar[Any]

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        confidence: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        **options: Any,
    ) -> Self:
        """Compute the numbers of a classifier and draw them.

        Parameters
        ----------
        y_true, y_proba, confidence, sample_weight, labels
            As in `expertload.coc_curve`; a reliability diagram is about the top probability, and
            takes no other confidence.
        **options
            Options of `from_cases`.

        Returns
        -------
        display
            The display, drawn.

        Examples
        --------
        >>> from expertload.display import COCDisplay
        >>> y_true = [0, 1, 1, 0]
        >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
        >>> display = COCDisplay.from_predictions(y_true, y_proba, name="toy")
        >>> display.line_.get_label()
        'toy: AUCOC 0.966 [0.027, 1.000]'
        """
        cls._check_confidence(confidence)
        rows = {"confidence": confidence, "sample_weight": sample_weight, "labels": labels}
        made: Self = cls.from_cases(Cases.from_predictions(y_true, y_proba, **rows), **options)
        return made

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        confidence: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """Compute the numbers of a fitted classifier and draw them.

        Parameters
        ----------
        estimator : object
            Anything with ``predict_proba`` and ``classes_``, such as a scikit-learn classifier.
        X : array-like
            What the estimator predicts from.
        y : array-like of shape (n_cases,)
            True labels; labels that the estimator does not know count as errors.
        confidence : array-like of shape (n_cases,), optional
            The confidence that ranks cases, as in `from_predictions`; the top probability by
            default.
        sample_weight : array-like of shape (n_cases,), optional
            How much each case counts.
        name : str, optional
            The name for the legend, that of the estimator's class by default.
        **options
            Options of `from_cases`.

        Returns
        -------
        display
            The display, drawn.
        """
        cls._check_confidence(confidence)
        cases = cases_of(estimator, X, y, confidence=confidence, sample_weight=sample_weight)
        name = type(estimator).__name__ if name is None else name
        made: Self = cls.from_cases(cases, name=name, **options)
        return made

    @classmethod
    def _check_confidence(cls, confidence: ArrayLike | None) -> None:
        if confidence is not None and not cls.takes_confidence:
            raise TypeError(f"{cls.__name__} takes no confidence: it is about the top probability.")


BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
PALETTE = (BLUE, VERMILION, GREEN, "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK, GUIDE, GRID = "#333333", "#767676", "#E3E3E3"
SMALL = 9.0
LEGEND_WIDTH = 48
DIAGONAL = "expertload-diagonal"


def line_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of line number `index`; dashes distinguish repeated colours."""
    dashes = ("-", "--", ":")[index // len(PALETTE) % 3]
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": dashes}


def _tick(share: float, position: int | None = None) -> str:
    """Return a tick label with only the decimals it needs: 95 %, 97.5 %."""
    return f"{round(100 * share, 6):g}\N{NO-BREAK SPACE}%"


def quiet(ax: Axes, *percent: Literal["x", "y"]) -> None:
    """Keep the two spines with ticks, put the grid behind the data, label some axes in percent."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ticker = require_extra("matplotlib.ticker", "plot", "Plotting")
    for name in percent:
        axis = ax.xaxis if name == "x" else ax.yaxis
        axis.set_major_formatter(ticker.FuncFormatter(_tick))


def draw_diagonal(ax: Axes) -> None:
    """Draw the diagonal as a dashed guide, only once on the same axes."""
    if not any(line.get_gid() == DIAGONAL for line in ax.lines):
        ax.plot([0, 1], [0, 1], color=GUIDE, linewidth=1, dashes=(4, 3), gid=DIAGONAL, zorder=1.5)


def with_name(name: str | None, numbers: str) -> str:
    """Return a model's name and its numbers, wrapped for a legend."""
    if name is None:
        return numbers
    joined = f"{name}: {numbers}" if numbers else name
    if len(joined) <= LEGEND_WIDTH:
        return joined
    return f"{textwrap.fill(name, LEGEND_WIDTH)}\n{numbers}".rstrip("\n")


def name_line(line: Line2D, label: str) -> Line2D:
    """Set the label of a line as it is written; "" leaves the line out of the legend.

    Matplotlib would hide a label that begins with an underscore, and read text between dollar signs
    as mathematics.
    """
    if label:
        hidden = "\N{ZERO WIDTH SPACE}" if label.startswith("_") else ""
        line.set_label(hidden + label.replace("$", r"\$"))
    return line


def is_named(line: Line2D) -> bool:
    """Whether the line is in the legend."""
    return not str(line.get_label()).startswith("_")


def add_legend(ax: Axes, title: str | None = None) -> Legend:
    """Draw the legend where it covers least."""
    legend = ax.legend(
        loc="best", fontsize=SMALL, title=title, title_fontsize=SMALL, framealpha=0.85
    )
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

    def cost(offset: tuple[float, float]) -> float:
        _move(label, offset)
        return _cost(ax, label) + FURTHER * (abs(offset[1]) // 16)

    # min returns the first of equals, which is the preferred one.
    return _move(label, min(OFFSETS, key=cost))


def settle_legend(ax: Axes) -> bool:
    """Move the legend to where it covers least; return whether it covers no mark and no curve.

    Matplotlib's own "best" place counts a label no more than one vertex of a line.
    """
    legend = ax.get_legend()
    if legend is None:
        return True

    def cost(place: Any) -> int:
        legend.set_loc(place)
        return _cost(ax, legend)

    return cost(min(LEGEND_PLACES, key=cost)) < ON_CURVE


def _move(label: Annotation, offset: tuple[float, float]) -> Annotation:
    label.xyann = offset
    label.set_horizontalalignment("left" if offset[0] > 0 else "right")
    label.set_verticalalignment("bottom" if offset[1] > 0 else "top")
    return label


def _cost(ax: Axes, artist: Annotation | Legend) -> int:
    """Return the penalty of what a label or the legend covers where it is."""
    box = artist.get_window_extent()
    texts = [text for text in ax.texts if text is not artist]
    cost = ON_MARK * sum(box.overlaps(text.get_window_extent()) for text in texts)
    if not all(map(ax.bbox.padded(1).contains, box.intervalx, box.intervaly)):
        cost += OUTSIDE
    for line in ax.lines:
        path = line.get_transform().transform_path(line.get_path())
        vertices = np.asarray(path.vertices)
        if len(vertices) == 1:
            cost += ON_MARK * int(box.padded(4).count_contains(vertices))
        elif path.intersects_bbox(box, filled=False):
            cost += ON_GUIDE if line.get_gid() == GUIDE_LINE else ON_CURVE
    return cost

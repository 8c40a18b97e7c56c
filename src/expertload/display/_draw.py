"""What all plots share: axes, style, labels and legends; and the parts of COC curves.

The palette is Okabe and Ito's without yellow, which is too pale for lines on white. Everything is
set on the given axes; matplotlib's global settings are never changed.

Between two thresholds a random part of the cases at the lower one is accepted. The correct mass
accepted, accuracy times accepted share, then falls in a straight line with the load, so accuracy
itself moves on a hyperbola; beyond the last threshold it is constant. Intervals follow the same
rule: they are linear in the same quantities, and so always contain the curve.

Curves and bands have a mark (matplotlib's ``gid``), so that they can be found when the next curve
is drawn on the same axes.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from expertload._answers import cases_of
from expertload._check import check_same_length, check_unit_interval, message, require_extra
from expertload._format import percent
from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload.cases import Cases
from expertload.exceptions import ParameterError
from expertload.operating_point import CertifiedPoint
from expertload.significance import COCBand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation
    from matplotlib.transforms import Transform

    from expertload.operating_point import OperatingPoint

    AxesOrPair = Axes | Sequence[Axes] | None


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
    """Return the given axes as a list, or those of a new figure; refuse more than `most`."""
    if ax is None:
        pyplot = require_extra("matplotlib.pyplot", "plot", "Plotting")
        return list(np.ravel(pyplot.subplots(layout="constrained", **layout)[1]))
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if not 1 <= len(given) <= most or not all(hasattr(axes, "get_figure") for axes in given):
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


def _tick(share: float, position: float = 0) -> str:
    """Return a tick label with only the decimals it needs: 95 %, 97.5 %."""
    return f"{round(100 * share, 6):g}\N{NO-BREAK SPACE}%"


def quiet(ax: Axes, *percent: Literal["x", "y"]) -> None:
    """Keep the two spines with ticks, put the grid behind the data, label some axes in percent."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    for name in percent:
        axis = ax.xaxis if name == "x" else ax.yaxis
        axis.set_major_formatter(_tick)


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


# ------------------------------------------------------------------ COC curves

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


def _set_bottom(ax: Axes, bottom: float) -> None:
    bottom = max(-0.02, bottom)  # no accuracy is lower than zero
    ax.set_ylim(bottom, 1 + max(0.02 * (1 - bottom), 1e-6))


def draw_band(
    ax: Axes, accuracy: FloatArray, band: COCBand | None, line: Line2D
) -> PolyCollection | None:
    """Draw the band of a curve in its colour; with many bands, each is lighter."""
    if band is None:
        return None
    load, _, low, high = along_curve(band.expert_load, accuracy, band.low, band.high)
    area = ax.fill_between(load, low, high, color=line.get_color(), linewidth=0, gid=BAND)
    alpha = ALPHA_ALONE if len(_curves(ax)) == 1 else ALPHA_AMONG_OTHERS
    for drawn in ax.collections:
        if drawn.get_gid() == BAND:
            drawn.set_alpha(alpha)
    return area


def finish(ax: Axes, legend_title: str | None) -> None:
    """Label the axes."""
    ax.set(xlabel="Expert load (share of cases delegated)", ylabel="Accuracy among the accepted")
    quiet(ax, "x", "y")
    if any(is_named(line) for line in _curves(ax)):
        add_legend(ax, legend_title)


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
    if not settle_legend(ax):  # make room below: a quarter of the new height
        bottom = ax.get_ylim()[0]
        _set_bottom(ax, bottom - (1 - bottom) / 3)
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
    (line,) = ax.plot(load, accuracy, color=GREEN, gid=GUIDE_LINE, alpha=0.45)
    line.set(zorder=1.8, label="_" if again else text)
    line.set(linewidth=WIDTH if is_continuous else 0, solid_capstyle="butt")
    alone = _alone(load) if is_continuous else np.arange(len(load))
    if len(alone):  # a line of one point would be invisible
        line.set(marker="o", markersize=WIDTH, markeredgewidth=0, markevery=alone.tolist())
    return line


def _alone(load: FloatArray) -> IntArray:
    """Return the points with a gap on both sides."""
    breaks: IntArray = np.append(-1, np.flatnonzero(np.isnan(load)))
    return np.asarray(breaks[1:][np.diff(breaks) == 2] - 1)


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

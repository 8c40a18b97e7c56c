"""Plots outlier scores: their distributions and the ROC curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from expertload._check import check_fraction, check_option
from expertload._format import percent
from expertload._names import Positive
from expertload._typing import ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases
from expertload.display import _draw
from expertload.metrics.outliers import check_outlier_cases, opposite
from expertload.tally import COMPARISON_SLACK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from expertload.display._draw import AxesOrPair


SIZE = (9.6, 4.4)
# Scores such as the energy have long tails. A thousandth on either side is not drawn, so that a few
# cases do not squeeze all others into one bar.
TAIL = 0.001

CURVE = "expertload-roc-curve"
AXIS_LABELS = {
    "outlier": ("False positive rate (inliers flagged)", "True positive rate (outliers flagged)"),
    "inlier": ("False positive rate (outliers kept)", "True positive rate (inliers kept)"),
}


class OutlierDisplay(_draw.Drawn):
    """The histograms of an outlier score for inliers and outliers, and its ROC curve.

    Parameters
    ----------
    is_outlier, outlier_score, sample_weight
        As in `expertload.metrics.outlier_auroc_score`: higher means more out of distribution.
    tpr, positive
        As in `expertload.metrics.fpr_at_tpr_error`. The curve is marked at `tpr`.
    name : str, optional
        The score's or the model's name, for the legend.

    Attributes
    ----------
    ax_, scores_ax_, figure_ : matplotlib Axes (the second may be None) and Figure
        Where the ROC curve and the histograms were drawn.
    line_ : matplotlib Line2D
        The ROC curve.
    mark_ : PointMarks
        ``dot``, ``guide`` and ``label`` where the true positive rate reaches `tpr`.

    Examples
    --------
    >>> from expertload.display import OutlierDisplay
    >>> display = OutlierDisplay.from_scores([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> display.line_.get_label(), display.mark_.label.get_text()
    ('AUROC 0.750', 'FPR 50 % at 95 % TPR')
    """

    def __init__(
        self,
        is_outlier: ArrayLike,
        outlier_score: ArrayLike,
        *,
        tpr: float = 0.95,
        positive: Positive = "outlier",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        self.positive = check_option(positive, get_args(Positive), "positive")
        self.tpr = check_fraction(tpr, "tpr")
        self.name = name
        cases = check_outlier_cases(is_outlier, outlier_score, sample_weight)
        table = (cases if positive == "outlier" else opposite(cases)).tally
        true, false = table.accepted_correct[::-1], table.accepted_errors[::-1]
        self.true_positive_rate: FloatArray = np.append(0.0, true / true[-1])
        self.false_positive_rate: FloatArray = np.append(0.0, false / false[-1])
        self.auroc = float(np.trapezoid(self.true_positive_rate, self.false_positive_rate))
        self.histogram = _histogram(cases)
        # The first point of the curve flags nothing, so scores are one place behind.
        threshold = float(table.confidence[::-1][max(self._reached() - 1, 0)])
        self.threshold = threshold if positive == "outlier" else -threshold

    @classmethod
    def from_scores(
        cls,
        is_outlier: ArrayLike,
        outlier_score: ArrayLike,
        *,
        ax: AxesOrPair = None,
        **options: Any,
    ) -> Self:
        """Compute histograms and ROC curve of an outlier score and draw them.

        Parameters
        ----------
        is_outlier, outlier_score, **options
            Those of the display.
        ax : matplotlib Axes or pair of Axes, optional
            Where to draw: the ROC curve alone, or histograms and ROC curve. A new figure by
            default.
        """
        return cls(is_outlier, outlier_score, **options).plot(ax)

    @property
    def fpr_at_tpr(self) -> float:
        """The false positive rate where the true positive rate first reaches `tpr`."""
        return float(self.false_positive_rate[self._reached()])

    def _reached(self) -> int:
        return int(np.argmax(self.true_positive_rate >= self.tpr - COMPARISON_SLACK))

    def plot(self, ax: AxesOrPair = None, *, name: str | None = None) -> Self:
        """Draw the ROC curve, and the histograms where there are axes for them.

        Parameters
        ----------
        ax : matplotlib Axes or pair of Axes, optional
            Where to draw: the ROC curve alone, or histograms and ROC curve. A new figure by
            default.
        name : str, optional
            The name for the legend, instead of the display's own.
        """
        layout: dict[str, Any] = {"figsize": SIZE, "ncols": 2, "width_ratios": (1.1, 1)}
        first, second = _draw.two_axes(ax, **layout)
        self.scores_ax_ = None if second is None else first
        self._draw_on(first if second is None else second)
        if self.scores_ax_ is not None:
            self._draw_densities(self.scores_ax_)
        label = _draw.with_name(self.name if name is None else name, f"AUROC {self.auroc:.3f}")
        self.line_ = self._draw_roc(label)
        x, y = self.fpr_at_tpr, float(self.true_positive_rate[self._reached()])
        text = f"FPR {percent(x)} at {percent(self.tpr)} TPR"
        self.mark_ = _draw.draw_marks(self.ax_, (x, y), self.line_.get_color(), text)
        _draw.settle_legend(self.ax_)
        return self

    def _draw_densities(self, ax: Axes) -> None:
        """Draw the share of inliers and of outliers at each score, and the threshold."""
        edges, inlier, outlier = self.histogram
        for shares, colour, label in (
            (inlier, _draw.BLUE, "inliers"),
            (outlier, _draw.VERMILION, "outliers"),
        ):
            ax.stairs(shares, edges, fill=True, color=colour, alpha=0.35, label=label)
            ax.stairs(shares, edges, color=colour, linewidth=1.4)
        side = "above" if self.positive == "outlier" else "below"
        text = f"{percent(self.tpr)} of {self.positive}s {side}"
        ax.axvline(self.threshold, color=_draw.INK, linewidth=1, dashes=(4, 3), label=text)
        ax.set(xlabel="Outlier score", ylabel="Share of each group", ylim=(0, None))
        _draw.quiet(ax, "y")
        _draw.add_legend(ax)

    def _draw_roc(self, label: str) -> Line2D:
        """Draw the ROC curve, and once the diagonal of a random score."""
        ax, false, true = self.ax_, self.false_positive_rate, self.true_positive_rate
        style = _draw.line_style(sum(line.get_gid() == CURVE for line in ax.lines))
        _draw.draw_diagonal(ax)
        keep = _draw.visible(false, true)
        (line,) = ax.plot(false[keep], true[keep], gid=CURVE, linewidth=1.8, **style)
        _draw.name_line(line, label)
        x_label, y_label = AXIS_LABELS[self.positive]
        ax.set(xlim=(0, 1), ylim=(0, 1.01), xlabel=x_label, ylabel=y_label)
        _draw.quiet(ax, "x", "y")
        _draw.add_legend(ax)
        return line


def _histogram(cases: Cases) -> tuple[FloatArray, FloatArray, FloatArray]:
    outlier, score, weight = cases.correct, cases.confidence, cases.weight
    weight = np.ones(len(score)) if weight is None else weight
    low = float(np.quantile(score, TAIL, method="lower"))
    high = float(np.quantile(score, 1 - TAIL, method="higher"))
    edges = np.histogram_bin_edges(score, bins=40, range=(low, high))

    def shares(side: BoolArray) -> FloatArray:
        counts: FloatArray = np.histogram(score[side], edges, weights=weight[side])[0]
        return counts / float(weight[side].sum())

    return edges, shares(~outlier), shares(outlier)

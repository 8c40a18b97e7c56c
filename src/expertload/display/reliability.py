"""Plots reliability: does a confidence of 90 % mean right in 90 % of cases?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from expertload._typing import FloatArray
from expertload.cases import Cases, check_are_cases
from expertload.display import _draw
from expertload.metrics.calibration import Strategy, kolmogorov_smirnov_error, reliability_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import StepPatch

    from expertload.display._draw import AxesOrPair


SIZE = (5.4, 6.2)
CURVE = "expertload-reliability-curve"
SMALLEST_DOT, LARGEST_DOT = 12.0, 64.0


class ReliabilityDisplay(_draw.OfPredictions):
    """A reliability diagram, and below it how often each confidence occurs.

    Use `from_cases`, `from_predictions` or `from_estimator`, which compute and draw.

    Parameters
    ----------
    cases : Cases
        The cases; made from correctness, they need confidences in [0, 1].
    n_bins, strategy
        As in `expertload.metrics.reliability_curve`.
    name : str, optional
        The model's name, for the legend.

    Attributes
    ----------
    ax_, histogram_ax_, figure_ : matplotlib Axes (the second may be None) and Figure
        Where the diagram and the histogram were drawn.
    line_, gaps_ : matplotlib Line2D and LineCollection
        The points, and their distances from the diagonal.
    bars_ : matplotlib StepPatch or None
        The histogram.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.display import ReliabilityDisplay
    >>> cases = Cases.from_correctness([0, 1, 0, 1, 1], [0.45, 0.55, 0.65, 0.70, 0.75])
    >>> display = ReliabilityDisplay.from_cases(cases, n_bins=5, strategy="width")
    >>> display.line_.get_label()
    'ECE 0.020, KS 0.130'
    """

    takes_confidence = False

    def __init__(
        self,
        cases: Cases,
        *,
        n_bins: int = 15,
        strategy: Strategy = "mass",
        name: str | None = None,
    ) -> None:
        check_are_cases(cases)
        cases = cases.by_probability
        curve = reliability_curve(cases, n_bins=n_bins, strategy=strategy)
        self.confidence, self.accuracy, self.share = curve
        self.expected_error = curve.expected_error
        self.kolmogorov_smirnov_error = kolmogorov_smirnov_error(cases)
        counts, _ = np.histogram(cases.confidence, bins=20, range=(0, 1), weights=cases.weight)
        self.histogram: FloatArray = counts / counts.sum()
        self.binning = f"{n_bins} bins of equal {strategy}"
        self.name = name

    @classmethod
    def from_cases(cls, cases: Cases, *, ax: AxesOrPair = None, **options: Any) -> Self:
        """Compute the diagram of cases and draw it.

        Parameters
        ----------
        cases, **options
            Those of the display.
        ax : matplotlib Axes or pair of Axes, optional
            Where to draw: the diagram alone, or diagram and histogram. A new figure by default.
        """
        return cls(cases, **options).plot(ax)

    def plot(self, ax: AxesOrPair = None, *, name: str | None = None) -> Self:
        """Draw the diagram, and the histogram where there are axes for it.

        Parameters
        ----------
        ax : matplotlib Axes or pair of Axes, optional
            Where to draw: the diagram alone, or diagram and histogram. A new figure by default.
        name : str, optional
            The name for the legend, instead of the display's own.
        """
        layout: dict[str, Any] = {"figsize": SIZE, "nrows": 2, "sharex": True}
        first, self.histogram_ax_ = _draw.two_axes(ax, height_ratios=(4, 1), **layout)
        self._draw_on(first)
        errors = f"ECE {self.expected_error:.3f}, KS {self.kolmogorov_smirnov_error:.3f}"
        self._draw_diagram(_draw.with_name(self.name if name is None else name, errors))
        self.bars_: StepPatch | None = None
        if self.histogram_ax_ is not None:
            self.bars_ = self._draw_histogram(self.histogram_ax_)
        return self

    def _draw_diagram(self, label: str) -> None:
        """Draw the points, their distances from the diagonal, and the diagonal, only once."""
        ax, x, y = self.ax_, self.confidence, self.accuracy
        style = _draw.line_style(sum(line.get_gid() == CURVE for line in ax.lines))
        _draw.draw_diagonal(ax)
        (self.line_,) = ax.plot(x, y, gid=CURVE, linewidth=1.2, clip_on=False, **style)
        self.gaps_ = ax.vlines(x, y, x, color=style["color"], alpha=0.3, linewidth=4)
        area = SMALLEST_DOT + (LARGEST_DOT - SMALLEST_DOT) * self.share / self.share.max()
        ax.scatter(x, y, s=area, color=style["color"], zorder=3, clip_on=False)
        _draw.name_line(self.line_, label)
        ax.set(xlim=(0, 1), ylim=(-0.01, 1.01), xlabel="Confidence", ylabel="Accuracy")
        _draw.quiet(ax, "x", "y")
        _draw.add_legend(ax, f"ECE over {self.binning}")

    def _draw_histogram(self, ax: Axes) -> StepPatch:
        """Draw how often each confidence occurs, in the colour of the model's line."""
        edges = np.linspace(0, 1, len(self.histogram) + 1)
        bars = ax.stairs(self.histogram, edges, fill=True, color=self.line_.get_color(), alpha=0.45)
        ax.set(xlim=(0, 1), ylim=(0, None), xlabel="Confidence", ylabel="Share of cases")
        _draw.quiet(ax, "x", "y")
        if ax.get_shared_x_axes().joined(ax, self.ax_):
            self.ax_.set_xlabel("")
        return bars

"""Plots the evidence against a promise over time, and the lower bound of the accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expertload._format import promised
from expertload.display import _draw
from expertload.monitoring.accuracy import WARNING_EVIDENCE

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from expertload.display._draw import AxesOrPair
    from expertload.monitoring import AccuracyMonitor

SIZE = (7.2, 5.4)
# The evidence at the bottom of the plot: below it, nothing speaks against the promise.
LEAST_SHOWN = 0.01
# The plot ends at this many times the evidence of an alarm; a higher line leaves it.
MOST_TIMES = 100


class EvidenceDisplay(_draw.Drawn):
    """The evidence against a promise after each audit, and the bound of the accuracy.

    Parameters
    ----------
    monitor : AccuracyMonitor
        With at least one audit.

    Attributes
    ----------
    ax_, bound_ax_, figure_ : matplotlib Axes (the second may be None) and Figure
        Where evidence and bound were drawn.
    refuted_at : int or None
        The number of the audit that refuted the promise, counted from 1; None if none has.
    line_ : matplotlib Line2D
        The evidence.
    bound_line_ : matplotlib Line2D or None
        The bound.
    alarm_ : matplotlib Line2D or None
        The dot where the promise was refuted.

    Examples
    --------
    >>> from expertload.display import EvidenceDisplay
    >>> from expertload.monitoring import AccuracyMonitor
    >>> monitor = AccuracyMonitor(target_accuracy=0.9).update([1, 0, 1, 1, 0, 0, 0, 0])
    >>> display = EvidenceDisplay.from_monitor(monitor)
    >>> display.refuted_at, display.alarm_ is not None
    (8, True)
    """

    def __init__(self, monitor: AccuracyMonitor) -> None:
        history = monitor.history()
        self.evidence, self.lower_bound = history.evidence, history.lower_bound
        self.decided_at = history.decided_at
        self.target_accuracy = monitor.target_accuracy
        self.alarm_evidence = monitor.alarm_evidence
        self.refuted_at = monitor.refuted_at

    @classmethod
    def from_monitor(cls, monitor: AccuracyMonitor, *, ax: AxesOrPair = None) -> Self:
        """Draw the history of a monitor.

        Parameters
        ----------
        monitor : AccuracyMonitor
            With at least one audit.
        ax : matplotlib Axes or pair of Axes, optional
            Where to draw: the evidence alone, or evidence and bound. A new figure by default.
        """
        return cls(monitor).plot(ax)

    def plot(self, ax: AxesOrPair = None) -> Self:
        """Draw the evidence, and the bound where there are axes for it.

        Parameters
        ----------
        ax : matplotlib Axes or pair of Axes, optional
            Where to draw: the evidence alone, or evidence and bound. A new figure by default.
        """
        layout: dict[str, Any] = {"figsize": SIZE, "nrows": 2, "sharex": True}
        first, self.bound_ax_ = _draw.two_axes(ax, height_ratios=(3, 2), **layout)
        self._draw_on(first)
        self._draw_evidence(self.ax_)
        self.bound_line_ = None if self.bound_ax_ is None else self._draw_bound(self.bound_ax_)
        (self.bound_ax_ or self.ax_).set_xlabel("Audited cases, in the order of their decisions")
        return self

    # ------------------------------------------------------------------ evidence

    def _draw_evidence(self, ax: Axes) -> None:
        audits = np.arange(1, len(self.evidence) + 1)
        colour = _draw.BLUE if self.refuted_at is None else _draw.VERMILION
        shown = np.maximum(self.evidence, np.finfo(float).tiny)  # zero has no logarithm
        (self.line_,) = ax.plot(audits, shown, color=colour, linewidth=1.4, label="evidence")
        _guide(ax, self.alarm_evidence, f"refuted at {self.alarm_evidence:.4g}", _draw.VERMILION)
        _guide(ax, WARNING_EVIDENCE, f"warning at {WARNING_EVIDENCE:g}", _draw.GUIDE)
        alarm = self.alarm_evidence
        highest = float(np.clip(self.evidence.max(), alarm, MOST_TIMES * alarm))
        ax.set(
            yscale="log",
            ylim=(LEAST_SHOWN, 5 * highest),
            xlim=(0, max(len(audits), 2)),
            ylabel="Evidence against",
        )
        ax.set_title(
            f"Is the accuracy of automatic decisions at least {promised(self.target_accuracy)}?",
            loc="left",
            fontsize=11,
            color=_draw.INK,
        )
        _draw.quiet(ax)
        # powers of ten as 0.01, 1 and 1,000
        ax.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}" if y >= 1 else f"{y:g}")
        self.alarm_ = self._mark_alarm(ax)

    def _mark_alarm(self, ax: Axes) -> Line2D | None:
        number = self.refuted_at
        if number is None:
            return None
        moment = "" if self.decided_at is None else self.decided_at[number - 1]
        when = moment and f", {moment.partition('T')[0]}"
        height = float(self.evidence[number - 1])
        (dot,) = ax.plot([number], [height], "o", color=_draw.VERMILION, markersize=6, zorder=4)
        _draw.label_point(ax, f"refuted by audit {number}{when}", (number, height), ax.transData)
        return dot

    # ------------------------------------------------------------------ bound

    def _draw_bound(self, ax: Axes) -> Line2D:
        audits = np.arange(1, len(self.lower_bound) + 1)
        (line,) = ax.plot(audits, self.lower_bound, color=_draw.BLUE, linewidth=1.4)
        _guide(ax, self.target_accuracy, f"promised {promised(self.target_accuracy)}", _draw.GUIDE)
        low = min(self.target_accuracy - 0.15, self.lower_bound[-1] - 0.05)
        ax.set(ylim=(max(low, 0), 1.005), ylabel="Average accuracy\nis at least")
        _draw.quiet(ax, "y")
        return line


def _guide(ax: Axes, height: float, text: str, colour: str) -> None:
    """Draw a horizontal dashed line, with a label at its left end."""
    ax.axhline(height, color=colour, linewidth=1, linestyle=(0, (4, 3)), zorder=1.5)
    ax.annotate(
        text,
        (0, height),
        xycoords=("axes fraction", "data"),
        xytext=(4, 2),
        textcoords="offset points",
        fontsize=_draw.SMALL,
        color=colour,
        bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.8, "linewidth": 0},
    )

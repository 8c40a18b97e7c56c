"""Plots the team's curve: the accuracy of model and experts together against the expert load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from expertload._format import percent
from expertload.display import _draw
from expertload.display._curve import visible
from expertload.team import Combiner, TeamCurve, team_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from expertload.cases import Cases

SIZE = (6.4, 4.6)


class TeamDisplay(_draw.Drawn):
    """Experts alone, the model alone, both together, and their answers combined.

    Parameters
    ----------
    curve : TeamCurve
        As `expertload.team.team_curve` returns it.
    combined : TeamCurve, optional
        The same with a `Combiner`.
    expert_load : float, optional
        A load to mark on the curve.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the curves were drawn.
    line_, combined_ : matplotlib Line2D
        The curves; `combined_` is None without a second one.
    experts_, model_ : matplotlib Line2D
        The accuracy of experts alone and of the model alone.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.display import TeamDisplay
    >>> cases = Cases.from_predictions(
    ...     [0, 1, 1, 0], [0.1, 0.4, 0.8, 0.3], expert_answers=[0, 1, 0, 0]
    ... )
    >>> TeamDisplay.from_cases(cases, combine=None).experts_.get_label()
    'experts alone: 75 %'
    """

    def __init__(
        self,
        curve: TeamCurve,
        *,
        combined: TeamCurve | None = None,
        expert_load: float | None = None,
    ) -> None:
        self.curve, self.combined, self.expert_load = curve, combined, expert_load

    @classmethod
    def from_cases(
        cls,
        cases: Cases,
        *,
        combine: Combiner | None = None,
        expert_load: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Compute the curves of cases with experts' answers and draw them.

        Parameters
        ----------
        cases, combine
            As in `expertload.team.team_curve`; without `combine`, there is no combined curve.
        expert_load : float, optional
            A load to mark on the curve.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        combined = None if combine is None else team_curve(cases, combine=combine)
        return cls(team_curve(cases), combined=combined, expert_load=expert_load).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        self._draw_on(_draw.one_axes(ax, figsize=SIZE))
        ends = {"experts alone": self.curve.accuracy[-1], "model alone": self.curve.accuracy[0]}
        self.experts_, self.model_ = (
            _draw.name_line(
                self.ax_.axhline(
                    float(accuracy), color=_draw.GUIDE, linestyle=dashes, linewidth=1.2
                ),
                f"{name}: {percent(float(accuracy))}",
            )
            for (name, accuracy), dashes in zip(ends.items(), ("--", ":"), strict=True)
        )
        self.line_ = self._line(self.curve, "together", _draw.BLUE)
        self.combined_: Line2D | None = None
        if self.combined is not None:
            self.combined_ = self._line(self.combined, "combined", _draw.GREEN)
        if self.expert_load is not None:
            self.ax_.axvline(self.expert_load, color=_draw.VERMILION, linewidth=1.2)
        self.ax_.set_xlabel("Expert load (share of cases delegated)")
        self.ax_.set_ylabel("Accuracy of model and experts, all cases")
        _draw.quiet(self.ax_, "x", "y")
        _draw.add_legend(self.ax_)
        return self

    def _line(self, curve: TeamCurve, name: str, colour: str) -> Line2D:
        rows = visible(curve.expert_load, curve.accuracy)
        (line,) = self.ax_.plot(
            curve.expert_load[rows], curve.accuracy[rows], color=colour, linewidth=1.8
        )
        best = curve.best
        at, load = float(curve.accuracy[best]), float(curve.expert_load[best])
        return _draw.name_line(line, f"{name}: at best {percent(at)}, load {percent(load)}")

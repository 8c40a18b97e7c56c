"""Draws the ladder: the expert load after each step, one panel for each data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expertload.lab.ladder.steps import STEPS
from expertload.lab.results.compare import mean_difference
from expertload.lab.results.measures import find_published
from tools.evidence.files import LADDER, read_records
from tools.evidence.ladder_tables import ASIDE, TITLES, numbers, read_ladder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, BLUE, GREY = "#222222", "#0072b2", "#8a8a8a"
PAPERS_NETWORK = "resnet50"


def draw_ladder(plt: Any) -> Any:
    """Draw the load at the first target accuracy: means over seeds, with 95 % intervals."""
    known = {record["experiment"] for record in read_records(LADDER)}
    names = [name for name in TITLES if name in known]
    figure, every = plt.subplots(
        1, len(names), figsize=(2.7 * len(names) + 1.4, 2.6), sharey=True, squeeze=False
    )
    for name, axes in zip(names, every[0], strict=True):
        _draw_one(axes, name)
    figure.tight_layout()
    return figure


def _draw_one(axes: Axes, name: str) -> None:
    steps = {step: seeds for step, seeds in read_ladder(name).items() if step not in ASIDE}
    target = 100 * float(next(iter(steps["plain"].values()))["first_target"])
    for step, seeds in steps.items():
        place = list(STEPS).index(step)
        loads = [100 * load for load in numbers(seeds, "first_load").values()]
        mean = mean_difference(loads)  # the difference from zero: the mean and its interval
        color = INK if step == "plain" else BLUE
        axes.plot([mean.low, mean.high], [place, place], color=color, linewidth=1.8)
        axes.plot(mean.difference, place, "o", color=color, markersize=5)
        axes.annotate(
            f"{mean.difference:.1f}",
            (mean.difference, place),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=color,
        )
    _draw_published(axes, name.removeprefix("ladder-"), f"load@{target:g}")
    axes.set_title(TITLES[name])
    axes.set_xlabel(f"expert load (%) at {target:g} % accuracy")
    axes.set_yticks(range(len(STEPS)), list(STEPS.values()))
    axes.set_ylim(len(STEPS) - 0.5, -0.7)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.15)
    axes.grid(axis="x", color="#eeeeee", zorder=0)


def _draw_published(axes: Axes, data: str, number: str) -> None:
    """Mark the lowest load that the paper published for these data, if there is one."""
    published = find_published(data, PAPERS_NETWORK)
    figures = {} if published is None else published.figures
    loads = [figure[number] for figure in figures.values() if number in figure]
    if loads:
        axes.axvline(min(loads), color=GREY, linestyle=":", linewidth=1.2, zorder=0)
        axes.annotate(
            "paper's best",
            (min(loads), 0),
            (-2, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7,
            color=GREY,
            rotation=90,
        )

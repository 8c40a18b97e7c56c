"""Draws the figures of the evidence from the CSV in `results/`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from expertload._files import replaced_whole
from expertload.losses.build import LOSS_NAMES
from tools.evidence import files
from tools.evidence.experiments import SUMMARY, by_seed, chosen_rows, paired, rows_of
from tools.evidence.files import CURVES, LADDER, LOOP, PUSHES, read_records
from tools.evidence.ladder_figure import draw_ladder
from tools.evidence.loop_tables import draw_loop

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, BLUE, ORANGE, GREY = "#222222", "#0072b2", "#d55e00", "#b5b5b5"
# The losses with their own colour; all others are grey.
STYLES: dict[str, dict[str, Any]] = {
    "ce": {"color": INK, "linewidth": 1.6, "linestyle": "--"},
    "ce+aucoc": {"color": BLUE, "linewidth": 1.8},
    "focal": {"color": ORANGE, "linewidth": 1.6, "linestyle": "--"},
    "focal+aucoc": {"color": ORANGE, "linewidth": 1.8},
}
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "legend.frameon": False,
}


def draw_figures(folder: Path) -> Iterator[Path]:
    """Draw all figures into a folder."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawings = {
        "coc_curves": _draw_curves,
        "differences": _draw_differences,
        "push_by_confidence": _draw_pushes,
        "ladder": draw_ladder,
        "loop": draw_loop,
    }
    with plt.rc_context(STYLE):
        for name, draw in drawings.items():
            figure = draw(plt)
            path = folder / f"{name}.png"
            # No version or date inside, so that the same numbers give the same file.
            inside = {"Software": None, "Source": fingerprint(name)}
            with replaced_whole(path) as draft:
                figure.savefig(draft, format="png", dpi=130, bbox_inches="tight", metadata=inside)
            plt.close(figure)
            yield path


def fingerprint(figure: str) -> str:
    """Return a digest of the numbers in a figure; a picture with another one is out of date."""
    of_experiments = [files.HERE / f"{name}.csv" for name in SUMMARY]
    sources = {
        "coc_curves": [CURVES],
        "differences": [path for path in of_experiments if path.exists()],
        "push_by_confidence": [PUSHES],
        "ladder": [LADDER],
        "loop": [LOOP],
    }[figure]
    return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _axes(plt: Any, height: float) -> tuple[Any, dict[str, Axes]]:
    names = [name for name in SUMMARY if rows_of(name)]
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.1 * len(names) + 0.6, height), squeeze=False
    )
    return figure, dict(zip(names, axes[0], strict=True))


# ------------------------------------------------------------------ curves


def _draw_curves(plt: Any) -> Any:
    curves = _read_curves()
    figure, every = _axes(plt, 3.3)
    for name, axes in every.items():
        own = curves.get(name, {})
        for loss in sorted(own, key=lambda loss: loss in STYLES):
            style = STYLES.get(loss, {"color": GREY, "linewidth": 0.8})
            label = loss if loss in STYLES else "other losses"
            axes.plot(*zip(*own[loss], strict=True), label=label, **style)
        axes.set_title(SUMMARY[name][0])
        axes.set_xlabel("expert load")
        axes.set_xlim(0, 0.95)
        axes.grid(color="#eeeeee", zorder=0)
    first = next(iter(every.values()))
    first.set_ylabel("accuracy of automatic decisions")
    handles = dict(zip(*reversed(first.get_legend_handles_labels()), strict=True))
    order = [name for name in (*STYLES, "other losses") if name in handles]
    first.legend([handles[name] for name in order], order, loc="lower right", fontsize=8)
    figure.tight_layout()
    return figure


def _read_curves() -> dict[str, dict[str, list[tuple[float, float]]]]:
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for record in read_records(CURVES):
        points = curves.setdefault(record["experiment"], {}).setdefault(record["loss"], [])
        points.append((float(record["expert_load"]), float(record["accuracy"])))
    return curves


# ------------------------------------------------------------------ differences


def _draw_differences(plt: Any) -> Any:
    """Draw every loss against cross-entropy: a dot per seed, and the mean with its interval."""
    figure, every = _axes(plt, 3.3)
    found = {
        name: {loss: by_seed(rows) for loss, rows in chosen_rows(name).items()} for name in every
    }
    trained = set().union(*found.values()) - {"ce"}
    losses = [loss for loss in LOSS_NAMES if loss in trained]
    for name, axes in every.items():
        own = found[name]
        reach = _reach(own)
        for height, loss in enumerate(reversed(losses)):
            if loss in own:
                _draw_difference(axes, height, loss, own[loss], own["ce"], reach)
        axes.set_xlim(-reach, reach)
        axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_title(SUMMARY[name][0])
        axes.set_xlabel("AUCOC against ce, points")
        axes.set_ylim(-0.6, len(losses) - 0.4)
        first = axes is next(iter(every.values()))
        axes.set_yticks(range(len(losses)), reversed(losses) if first else [""] * len(losses))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#eeeeee", zorder=0)
    figure.tight_layout()
    return figure


def _points(own: dict[int, float], ce: dict[int, float]) -> list[float]:
    return [100 * (own[seed] - ce[seed]) for seed in sorted(own.keys() & ce.keys())]


def _reach(own: dict[str, dict[int, float]]) -> float:
    """Return the range of the axis: nearly all seeds, so that one failed run does not set it."""
    points = [abs(point) for values in own.values() for point in _points(values, own["ce"])]
    return 1.25 * float(np.quantile(points, 0.95))


def _draw_difference(
    axes: Axes,
    height: int,
    loss: str,
    own: dict[int, float],
    ce: dict[int, float],
    reach: float,
) -> None:
    color = BLUE if "aucoc" in loss else "#777777"
    for point in _points(own, ce):
        beyond = abs(point) > reach
        marker = ("<" if point < 0 else ">") if beyond else "o"
        place = 0.98 * math.copysign(reach, point) if beyond else point
        axes.plot(place, height, marker, color=color, alpha=0.35, markersize=5 if beyond else 3)
    change = paired(own, ce)
    if change.n > 2:  # the interval of two seeds is wider than any picture
        axes.plot([100 * change.low, 100 * change.high], [height] * 2, color=color, linewidth=1.6)
    axes.plot(100 * change.mean, height, "D", color=color, markersize=5)


# ------------------------------------------------------------------ who learns

PUSH_STYLES: dict[str, dict[str, Any]] = {
    "cross-entropy": {"color": INK, "linestyle": "--"},
    "focal": {"color": ORANGE, "linestyle": "--"},
    "AUCOC": {"color": BLUE, "linewidth": 2.0},
    "AUCOC, reflected": {"color": "#009e73", "linewidth": 2.0},
}


def _draw_pushes(plt: Any) -> Any:
    """Draw how each loss moves the confidence of right and wrong cases."""
    records = [r for r in read_records(PUSHES) if r["experiment"] == "dermamnist-cpu"]
    figure, both = plt.subplots(1, 2, figsize=(7.4, 3.1))
    for axes, cases in zip(both, ("right", "wrong"), strict=True):
        for loss, style in PUSH_STYLES.items():
            own = [r for r in records if (r["loss"], r["cases"]) == (loss, cases)]
            tenths = [int(r["tenth"]) for r in own]
            axes.plot(tenths, [float(r["push"]) for r in own], label=loss, **style)
        axes.axhline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_title(f"cases that are {cases}")
        axes.set_xlabel("tenth of confidence")
        axes.set_xticks(range(1, 11))
        axes.grid(color="#eeeeee", zorder=0)
    both[0].set_ylabel("push on the predicted class\n(above zero: more confident)")
    both[1].legend(fontsize=8)
    figure.tight_layout()
    return figure

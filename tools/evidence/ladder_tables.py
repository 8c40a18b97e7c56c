"""Makes the tables of the ladder from results/ladder.csv."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, stdev

from expertload.lab.ladder.steps import STEPS
from expertload.lab.results.compare import mean_difference
from expertload.significance import Comparison
from tools.evidence import files
from tools.evidence.experiments import by_seed, paired, rows_of
from tools.evidence.files import read_records
from tools.evidence.markdown import DASH, p_value, spread, table

TITLES = {
    "ladder-retinamnist": "RetinaMNIST",
    "ladder-dermamnist": "DermaMNIST",
    "ladder-cifar100": "CIFAR-100",
    "ladder-fashion-mnist": "Fashion-MNIST",
}
ASIDE = {"aucoc_always": "AUCOC whatever validation says"}
LAST = "networks"  # the last step that every ladder has

BySeed = dict[int, dict[str, str]]


def read_ladder(experiment: str) -> dict[str, BySeed]:
    """Return the lines of a data set, by step and by seed."""
    steps: dict[str, BySeed] = {}
    for record in read_records(files.LADDER):
        if record["experiment"] == experiment:
            steps.setdefault(record["step"], {})[int(record["seed"])] = record
    order = [*STEPS, *ASIDE]
    return dict(sorted(steps.items(), key=lambda item: order.index(item[0])))


def numbers(lines: BySeed, name: str) -> dict[int, float]:
    """Return one number for each seed."""
    return {seed: float(record[name]) for seed, record in lines.items()}


def change(after: BySeed, before: BySeed, name: str) -> Comparison | None:
    """Return after minus before over the seeds that both have; None if fewer than two."""
    a, b = numbers(after, name), numbers(before, name)
    shared = sorted(a.keys() & b.keys())
    return mean_difference([a[s] - b[s] for s in shared]) if len(shared) > 1 else None


def before(steps: dict[str, BySeed], step: str) -> str | None:
    """Return the step that a step is compared with; None for the first."""
    if step in ASIDE:
        return LAST
    climbed = [name for name in steps if name not in ASIDE]
    place = climbed.index(step)
    return climbed[place - 1] if place else None


# ------------------------------------------------------------------ one data set


def ladder(experiment: str) -> str:
    """Return a table of the steps, and what each adds to the step before it."""
    steps = read_ladder(experiment)
    if not steps:
        return table([], [])
    first, second = _targets(steps)
    headings = [
        "step",
        "seeds",
        "test AUCOC (%)",
        "accuracy (%)",
        f"load at {first}",
        f"load at {second}",
        f"certified load at {first}",
        "AUCOC, against the step before",
        f"load at {first}, against the step before",
        "p",
        f"load at {first}, against the first step",
        "training (s)",
        "passes an image",
    ]
    return table(headings, [_line(steps, step) for step in steps])


def _targets(steps: dict[str, BySeed]) -> tuple[str, str]:
    record = next(iter(next(iter(steps.values())).values()))
    first, second = (
        f"{100 * float(record[name]):g} %" for name in ("first_target", "second_target")
    )
    return first, second


def _line(steps: dict[str, BySeed], step: str) -> list[str]:
    own, previous = steps[step], before(steps, step)
    earlier = None if previous is None else steps.get(previous)
    load = None if earlier is None else change(own, earlier, "first_load")
    whole = None if earlier is None else change(own, steps["plain"], "first_load")
    area = None if earlier is None else change(own, earlier, "aucoc")
    return [
        {**STEPS, **ASIDE}[step] + _how_often_taken(step, own),
        str(len(own)),
        spread([*numbers(own, "aucoc").values()]),
        *(
            spread([*numbers(own, name).values()], decimals=1)
            for name in ("accuracy", "first_load", "second_load", "certified_load")
        ),
        points(area, decimals=2),
        points(load),
        DASH if load is None else p_value(load.p_value),
        points(whole),
        f"{median(numbers(own, 'seconds').values()):.0f}",
        f"{fmean(numbers(own, 'passes').values()):.1f}",
    ]


def _how_often_taken(step: str, own: BySeed) -> str:
    """Return in how many seeds validation data favoured a step, if they were used."""
    if step != "aucoc":
        return ""
    taken = sum(int(record["taken"]) for record in own.values())
    return f", taken in {taken} of {len(own)}"


def points(difference: Comparison | None, *, decimals: int = 1) -> str:
    """Write a difference in points, with its interval at 95 %."""
    if difference is None or difference.low is None or difference.high is None:
        return DASH
    ends = [f"{100 * v:+.{decimals}f}" for v in (difference.low, difference.high)]
    return f"{100 * difference.difference:+.{decimals}f} ({ends[0]} to {ends[1]})"


def ladder_calibration() -> str:
    """Return a table of how well calibrated the first and the last step are, by data set."""
    measures = {"ece": "ECE (%)", "nll": "log loss", "brier": "Brier score"}
    lines = []
    for name in _names():
        steps = read_ladder(name)
        for step in (next(iter(steps)), *([LAST] if LAST in steps else [])):
            found = [[*numbers(steps[step], measure).values()] for measure in measures]
            lines.append(
                [
                    f"{TITLES.get(name, name)}, {STEPS[step].removeprefix('+ ')}",
                    str(len(steps[step])),
                    spread(found[0], decimals=1),
                    *(f"{fmean(own):.3f} ± {stdev(own):.3f}" for own in found[1:]),
                ]
            )
    return table(["calibration on test cases", "seeds", *measures.values()], lines)


def ladder_unclipped() -> str:
    """Return a table of the first step with and without clipping, by data set."""
    lines = []
    for name in _names():
        plain, rows = read_ladder(name)["plain"], rows_of(f"{name}-plain-unclipped")
        if not rows:
            continue
        target = f"load@{100 * float(next(iter(plain.values()))['first_target']):g}"
        free = {"aucoc": by_seed(rows), "first_load": by_seed(rows, target)}
        changes = [paired(own, numbers(plain, number)) for number, own in free.items()]
        lines.append(
            [
                f"{TITLES[name]} at {target.partition('@')[2]} %",
                str(changes[0].n),
                spread([*numbers(plain, "first_load").values()], decimals=1),
                spread([*free["first_load"].values()], decimals=1),
                str(changes[1]),
                str(changes[0]),
            ]
        )
    headings = [
        "cross-entropy alone",
        "seeds",
        "load (%), clipped at 2",
        "load, not clipped",
        "change of the load",
        "change of AUCOC",
    ]
    return table(headings, lines)


# ------------------------------------------------------------------ all data sets


HEADINGS = (
    "expert load (%)",
    "seeds",
    "cross-entropy",
    "top of the ladder",
    "change (95 % interval)",
    "relative",
    "p",
    "certified, before",
    "certified, top",
    "AUCOC alone adds",
)
BRIEF = (
    "expert load (%)",
    "cross-entropy",
    "top of the ladder",
    "change (95 % interval)",
    "relative",
)


def ladder_summary(headings: Sequence[str] = HEADINGS) -> str:
    """Return one line per data set: cross-entropy, the top of the ladder, and AUCOC by itself."""
    lines = [dict(zip(HEADINGS, _summary(name), strict=True)) for name in _names()]
    return table(headings, [[line[heading] for heading in headings] for line in lines])


def _names() -> list[str]:
    """Return the data sets that have a ladder, in the order of the tables."""
    names = dict.fromkeys(record["experiment"] for record in read_records(files.LADDER))
    return sorted(names, key=[*TITLES, *names].index)


def ladder_in_brief() -> str:
    """Return the columns of the summary that fit on the first page."""
    return ladder_summary(BRIEF)


def _summary(name: str) -> list[str]:
    steps = read_ladder(name)
    plain = steps["plain"]
    top: BySeed = {}  # the last step that each seed has
    for step in (step for step in steps if step not in ASIDE):
        top |= steps[step]
    load = change(top, plain, "first_load")
    aside = steps.get("aucoc_always")
    alone = None if aside is None else change(aside, steps[LAST], "first_load")
    mean = fmean(numbers(plain, "first_load").values())
    return [
        f"{TITLES.get(name, name)} at {_targets(steps)[0]}",
        str(len(top)),
        spread([*numbers(plain, "first_load").values()], decimals=1),
        spread([*numbers(top, "first_load").values()], decimals=1),
        points(load),
        DASH if load is None else f"{100 * load.difference / mean:+.0f} %",
        DASH if load is None else p_value(load.p_value),
        spread([*numbers(plain, "certified_load").values()], decimals=1),
        spread([*numbers(top, "certified_load").values()], decimals=1),
        points(alone),
    ]

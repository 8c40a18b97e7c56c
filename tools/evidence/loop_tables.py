"""Makes the tables and the picture of the loop from results/loop.csv."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from scipy.stats import binom

from expertload.lab.results.compare import mean_difference
from tools.evidence import files
from tools.evidence.files import read_records
from tools.evidence.loop import SETTINGS
from tools.evidence.markdown import DASH, table

ARMS = {
    "learns": "learns from what is read",
    "never": "never learns",
    "random": "as many labels, drawn at random",
    "weighted": "weights 1 / inclusion probability",
    "aucoc": "AUCOC in training",
}
# Below the target by more than the test cases explain: one-sided, at this level.
LEVEL = 0.05
COLORS = {
    "learns": "#0072b2",
    "never": "#222222",
    "random": "#d55e00",
    "weighted": "#8a8a8a",
    "aucoc": "#009e73",
}

Rounds = dict[int, list[dict[str, str]]]


def read_loop(experiment: str) -> dict[str, Rounds]:
    """Return the rounds of a data set, by arm and by seed."""
    arms: dict[str, Rounds] = {arm: {} for arm in ARMS}
    for record in read_records(files.LOOP):
        if record["experiment"] == experiment:
            arms[record["arm"]].setdefault(int(record["seed"]), []).append(record)
    return {arm: seeds for arm, seeds in arms.items() if seeds}


def experiments() -> list[str]:
    """Return the data sets that were played."""
    return [name for name in SETTINGS if read_loop(name)]


def loop() -> str:
    """Return a table of what every arm needs, and how it kept the promise."""
    headings = ["data, promise", "arm", "load, first round", "load, last round", "readings"]
    headings += ["fewer than without learning", "rounds below the promise"]
    lines = []
    for name in experiments():
        arms = read_loop(name)
        title = f"{SETTINGS[name].title}, {100 * _target(arms):g} %"
        for arm, seeds in arms.items():
            lines.append([title, ARMS[arm], *_numbers(arm, seeds, arms, SETTINGS[name].n_test)])
            title = ""
    return table(headings, lines)


def loop_rounds() -> str:
    """Return a table of the mean load in each round of the arm that learns."""
    lines = []
    for name in experiments():
        for arm in ("learns", "never"):
            loads = _by_round(read_loop(name)[arm], "load")
            lines.append(
                [
                    f"{SETTINGS[name].title}, {ARMS[arm]}",
                    *(f"{100 * fmean(own):.0f}" for own in loads),
                ]
            )
    return table(["load (%) in round", *map(str, range(1, len(lines[0]) if lines else 1))], lines)


def _numbers(arm: str, seeds: Rounds, arms: dict[str, Rounds], n_test: int) -> list[str]:
    loads = _by_round(seeds, "load")
    readings = _readings(seeds)
    return [
        f"{100 * fmean(loads[0]):.1f}",
        _with_interval([100 * load for load in loads[-1]]),
        f"{fmean(readings.values()):,.0f}",
        DASH if arm == "never" else _fewer(readings, _readings(arms["never"])),
        _below(seeds, n_test),
    ]


def _with_interval(values: list[float]) -> str:
    mean = mean_difference(values)  # the difference from zero: the mean and its interval
    return f"{mean.difference:.1f} ({mean.low:.1f} to {mean.high:.1f})"


def _fewer(readings: dict[int, int], never: dict[int, int]) -> str:
    """Return how many fewer readings there are, as a share, with its interval over seeds."""
    shares = [100 * (1 - readings[seed] / never[seed]) for seed in sorted(readings)]
    mean = mean_difference(shares)
    return f"{mean.difference:.0f} % ({mean.low:.0f} to {mean.high:.0f})"


def _below(seeds: Rounds, n_test: int) -> str:
    """Return in how many rounds test cases were below the promise, and clearly so."""
    below, clearly, total = 0, 0, 0
    for record in (each for rounds in seeds.values() for each in rounds):
        total += 1
        if not record["test_decided_accuracy"]:
            continue
        accuracy, target = float(record["test_decided_accuracy"]), float(record["target"])
        decided = round((1 - float(record["test_load"])) * n_test)
        below += accuracy < target
        clearly += bool(binom.cdf(round(accuracy * decided), decided, target) < LEVEL)
    return f"{below} of {total}, {clearly} clearly"


def _readings(seeds: Rounds) -> dict[int, int]:
    return {seed: sum(int(each["readings"]) for each in own) for seed, own in seeds.items()}


def _by_round(seeds: Rounds, name: str) -> list[list[float]]:
    """Return one number of each round, one entry for each seed; leave out missing ones."""
    rounds = zip(*seeds.values(), strict=True)
    return [[float(each[name]) for each in own if each[name]] for own in rounds]


def _target(arms: dict[str, Rounds]) -> float:
    return float(next(iter(arms["learns"].values()))[0]["target"])


# ------------------------------------------------------------------ the picture


def draw_loop(plt: Any) -> Any:
    """Draw the load in each round, and below it the accuracy of what was decided."""
    names = experiments()
    figure, every = plt.subplots(
        2,
        len(names),
        figsize=(2.7 * len(names) + 0.8, 4.4),
        sharex=True,
        squeeze=False,
        height_ratios=(2, 1),
    )
    for name, load, accuracy in zip(names, *every, strict=True):
        arms = read_loop(name)
        for arm, seeds in arms.items():
            _draw_arm(load, accuracy, arm, seeds)
        load.set_title(SETTINGS[name].title)
        load.set_ylim(0, 102)
        accuracy.axhline(100 * _target(arms), color="#222222", linewidth=1, linestyle="--")
        accuracy.set_xlabel("round")
    every[0][0].set_ylabel("expert load (%)")
    every[1][0].set_ylabel("decided and right (%)")
    every[0][0].legend(fontsize=7)
    figure.tight_layout()
    return figure


def _draw_arm(load: Any, accuracy: Any, arm: str, seeds: Rounds) -> None:
    loads = [[100 * each for each in own] for own in _by_round(seeds, "load")]
    rounds = range(1, len(loads) + 1)
    width = 1.8 if arm == "learns" else 1.1
    load.plot(rounds, list(map(fmean, loads)), color=COLORS[arm], linewidth=width, label=ARMS[arm])
    if arm == "learns":
        means = [mean_difference(own) for own in loads]
        low, high = [mean.low for mean in means], [mean.high for mean in means]
        load.fill_between(rounds, low, high, color=COLORS[arm], alpha=0.15, linewidth=0)
    right = _by_round(seeds, "test_decided_accuracy")
    shown = [(place, 100 * fmean(own)) for place, own in enumerate(right, start=1) if own]
    if shown:
        accuracy.plot(*zip(*shown, strict=True), color=COLORS[arm], linewidth=width)

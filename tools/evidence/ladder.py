"""The ladder of steps that lower the load: turns finished runs into results/ladder.csv.

For each data set, the recipe NAME-plain has the first step, and the recipe NAME has all others:
with augmentation and averaged weights, with cross-entropy and with AUCOC. Each network has its own
seed; the seeds s and s + 100 form a pair, whose networks answer together. One line of the CSV is
one step of one pair. Up to test-time augmentation, it is the mean over those networks of the pair
that have a plain run, which may be only the first. `aucoc_always` is not part of the ladder: it
uses AUCOC whatever validation data say, and is compared with the mean of the networks without
AUCOC.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from expertload.exceptions import FileFormatError
from expertload.lab.ladder.outcome import LadderRow, measure_step
from expertload.lab.ladder.steps import Climb
from expertload.lab.results.rows import finished_runs, runs_of_loss
from expertload.lab.runs.finished import FinishedRun
from tools.evidence.files import LADDER, Record, update_records

ARMS = {"plain": ("-plain", "ce"), "augmented": ("", "ce"), "aucoc": ("", "ce+aucoc")}
ALWAYS = ("augmentation",)  # always applied, to see what the step does
APART = 100  # between the two seeds of a pair

Seeds = dict[int, FinishedRun]


def measure_ladders(
    runs: Path, *, data_dir: Path | None = None, into: Path = LADDER
) -> Iterator[str]:
    """Measure every ladder whose runs are in a folder; yield a message when each is written.

    The lines of other data sets are kept.
    """
    for name in ladder_names(runs):
        records = list(_records(runs, name, data_dir))
        update_records(into, records, [name])
        yield f"{name}: {len({record['seed'] for record in records})} seeds"


def ladder_names(runs: Path) -> list[str]:
    """Return the ladders whose runs are in a folder; raise an error if there are none."""
    names = sorted(path.name.removesuffix("-plain") for path in runs.glob("*-plain"))
    if not names:
        raise FileFormatError(
            f"There is no folder NAME-plain in {runs}. Hint: name the folder that `lab sweep` "
            "writes the runs of experiments/ladder to."
        )
    return names


def _records(runs: Path, name: str, data_dir: Path | None) -> Iterator[Record]:
    arms = read_arms(runs, name, data_dir)
    for seed in sorted(seed for seed in arms["plain"] if seed < APART):
        pair = arms_of_pair(arms, seed)
        first = arms["plain"][seed]
        ladder = Climb(pair, always=ALWAYS)
        targets = first.config.evaluation.target_accuracies
        for step in ladder.steps:
            numbers = measure_step(step, ladder.test_labels, targets)
            yield _record(name, first, numbers, numbers.step)
        forced = Climb(pair, always=(*ALWAYS, "aucoc")).steps[-1]
        if forced.name == "aucoc":
            numbers = measure_step(forced, ladder.test_labels, targets)
            yield _record(name, first, numbers, "aucoc_always")


def read_arms(runs: Path, name: str, data_dir: Path | None = None) -> dict[str, Seeds]:
    """Return the finished runs of a ladder, by arm and by seed."""
    return {
        arm: _by_seed(runs / f"{name}{end}", loss, data_dir) for arm, (end, loss) in ARMS.items()
    }


def _by_seed(folder: Path, loss: str, data_dir: Path | None) -> Seeds:
    """Return the finished runs of an arm by seed, with the options chosen on validation data."""
    done = finished_runs(folder) if folder.is_dir() else []
    if loss not in {run.config.loss.name for run in done}:
        return {}
    runs = [FinishedRun(path, data_dir=data_dir) for path in runs_of_loss(folder, loss)]
    return {run.config.seed: run for run in runs}


def arms_of_pair(arms: dict[str, Seeds], seed: int) -> dict[str, list[FinishedRun]]:
    """Return the runs of a pair: that of the seed and, if there is one, the other."""
    pair = (seed, seed + APART)
    return {arm: [runs[s] for s in pair if s in runs] for arm, runs in arms.items()}


def _record(name: str, run: FinishedRun, numbers: LadderRow, step: str) -> Record:
    (first, load), (second, second_load), *_ = numbers.loads.items()
    return {
        "experiment": name,
        "model": run.config.model.name,
        "seed": run.config.seed,
        "step": step,
        "taken": int(numbers.is_taken),
        "choice": numbers.choice,
        "validation_aucoc": numbers.validation_aucoc,
        "aucoc": numbers.aucoc,
        "accuracy": numbers.accuracy,
        "first_target": first,
        "first_load": load,
        "second_target": second,
        "second_load": second_load,
        "ece": numbers.ece,
        "nll": numbers.nll,
        "brier": numbers.brier,
        "certified": numbers.certified,
        "certified_load": numbers.certified_load,
        "certified_accuracy": numbers.certified_accuracy,
        "seconds": numbers.seconds,
        "passes": numbers.passes,
    }

"""`python -m tools.evidence.settle RUNS` trains the recipes claim-resnet9-*, one run after another.

Stop it whenever you like, also by kill -9: started again, it skips finished runs and resumes an
interrupted one at the end of its last epoch, to the bit on the same number of threads. A second
process with the same folder trains other runs of the queue. Runs in results/*.csv are finished too,
so another machine can go on where one stopped. The rule that the queue follows is in
experiments/claim/claim-resnet9-usual-tuning.toml. `python -m tools.evidence claim RUNS` then reads
the runs into CSV.

A processor without bfloat16 instructions takes an hour for an epoch. Give it a whole seed in single
precision (`--seed 13 --precision 32-true`): the losses of a seed are compared with each other, so
they must be trained alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import torch
from rich.console import Console

from expertload.exceptions import RunInUseError, TrainingDivergedError
from expertload.lab import RunConfig, RunFolder, load_recipe, train
from expertload.lab.results.rows import ResultRow, best_options, options_of
from expertload.lab.runs.recipe import LossConfig
from expertload.lab.training.progress import Reporter
from tools.evidence.experiments import by_seed, rows_of

ARMS = ("usual", "authors")
TUNING_SEED = 0
FRESH_SEEDS = (10, 11, 12, 13)
SECONDS_TO_WAIT = 60

Run = tuple[Path, RunConfig]


class Queue:
    """The runs of the experiment in their order; those of the chosen weight once it is chosen."""

    def __init__(self, runs: Path, *, seed: int | None = None, precision: str = "") -> None:
        self.runs = runs
        self.seed = seed
        self.precision = precision
        self.diverged: set[Path] = set()

    def __iter__(self) -> Iterator[Run]:
        return (run for run in self._all() if self.seed in (None, run[1].seed))

    def _all(self) -> Iterator[Run]:
        for arm in ARMS:  # how far apart are the arms?
            yield self._run(arm, "ce", FRESH_SEEDS[0])
        for arm in ARMS:
            yield from self._tuning(arm)
        for seed in FRESH_SEEDS:  # complete seeds, wherever it is stopped
            for arm in ARMS:
                yield self._run(arm, "ce", seed)
                if (chosen := self._chosen(arm)) is not None:
                    yield self._run(arm, chosen, seed)
        for seed in FRESH_SEEDS:
            yield self._run("usual", "focal", seed)
            yield self._run("usual", "gce", seed)
        for seed in FRESH_SEEDS[:2]:
            yield self._run("steps", "ce", seed)
        for arm in ARMS:  # what the weights gained in tuning
            yield self._run(f"{arm}-tuning", "ce", TUNING_SEED)

    def is_open(self, run: Run) -> bool:
        """Whether a run still has to be trained."""
        folder, config = run
        if folder in self.diverged or RunFolder(folder).is_done:
            return False
        published = by_seed(_published(folder.parent.name, config.loss), split="validation")
        return config.seed not in published

    def _run(self, arm: str, loss: str | LossConfig, seed: int) -> Run:
        recipe = load_recipe(f"claim-resnet9-{arm}")
        candidate = recipe.candidates(loss)[0] if isinstance(loss, str) else loss
        config = recipe.run(candidate, seed)
        if self.precision:
            changed = config.training.model_copy(update={"precision": self.precision})
            config = config.model_copy(update={"training": changed})
        return self.runs / recipe.name / config.run_name, config

    def _tuning(self, arm: str) -> list[Run]:
        """Return the runs that the weight is chosen by."""
        candidates = load_recipe(f"claim-resnet9-{arm}-tuning").candidates("ce+aucoc")
        return [self._run(f"{arm}-tuning", candidate, TUNING_SEED) for candidate in candidates]

    def _chosen(self, arm: str) -> LossConfig | None:
        """Return the loss with the weight that was best in tuning; None before tuning is over."""
        runs = self._tuning(arm)
        if any(self.is_open(run) for run in runs):
            return None
        tried = {options_of(config.loss): config.loss for _, config in runs}
        scores = {options_of(config.loss): _scores(folder, config) for folder, config in runs}
        best = best_options(scores, measure="aucoc", seeds=[TUNING_SEED])
        return None if best is None else tried[best]


def _published(recipe: str, loss: LossConfig) -> list[ResultRow]:
    """Return the rows of a loss that are in the CSV."""
    options = options_of(loss)
    return [row for row in rows_of(recipe) if (row.loss, row.options) == (loss.name, options)]


def _scores(folder: Path, config: RunConfig) -> dict[int, float]:
    """Return the validation AUCOC of a run by its seed; none if it diverged."""
    run = RunFolder(folder)
    if run.is_done:
        return {config.seed: run.validation_score("aucoc")}
    return by_seed(_published(folder.parent.name, config.loss), split="validation")


def settle(queue: Queue, *, data_dir: Path | None = None) -> None:
    """Train all runs of the queue that are open, and that no other process is training."""
    while True:
        in_use = 0
        for folder, config in queue:
            if not queue.is_open((folder, config)):
                continue
            _say(f"{folder.parent.name}/{folder.name}")
            try:
                reporter = Reporter(Console(width=160), folder=folder)
                train(config, folder, data_dir=data_dir, accelerator="cpu", reporter=reporter)
            except RunInUseError:
                _say("another process trains it")
                in_use += 1
                continue
            except TrainingDivergedError as error:
                _say(f"DIVERGED {error}")
                queue.diverged.add(folder)
            break  # from the start of the queue again, because a weight may have been chosen
        else:
            if not in_use:
                _say("finished: there is nothing left to train")
                return
            time.sleep(SECONDS_TO_WAIT)


def _say(line: str) -> None:
    print(f"{datetime.now():%m-%d %H:%M:%S}  {line}", flush=True)


def main() -> None:
    """Train what is left to train, on one thread."""
    parser = argparse.ArgumentParser(prog="python -m tools.evidence.settle", description=__doc__)
    parser.add_argument("runs", type=Path, help="folder with one folder of runs per recipe")
    parser.add_argument("--data-dir", type=Path, help="where data files are")
    parser.add_argument("--list", action="store_true", help="show the queue, and train nothing")
    parser.add_argument("--seed", type=int, help="train this seed alone")
    parser.add_argument("--precision", default="", help="instead of that of the recipes")
    arguments = parser.parse_args()
    if arguments.precision and arguments.seed is None:
        parser.error("--precision needs --seed: the losses of a seed must be trained alike")
    queue = Queue(arguments.runs, seed=arguments.seed, precision=arguments.precision)
    if arguments.list:
        for folder, config in queue:
            state = "open" if queue.is_open((folder, config)) else "done"
            print(state, f"{folder.parent.name}/{folder.name}")
        return
    torch.set_num_threads(1)
    settle(queue, data_dir=arguments.data_dir)


if __name__ == "__main__":
    main()

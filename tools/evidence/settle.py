"""`python -m tools.evidence.settle RUNS` trains the recipes claim-resnet9-*, one run after another.

Stop it whenever you like, also by kill -9: started again, it skips finished runs and resumes an
interrupted one at the end of its last epoch, to the bit on the same number of threads. A second
process with the same folder trains other runs of the queue. The rule that the queue follows is in
experiments/claim/claim-resnet9-usual-tuning.toml. `python -m tools.evidence claim RUNS` then reads
the runs into CSV.
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
from expertload.lab.runs.recipe import LossConfig
from expertload.lab.sweeps.sweep import choose_options
from expertload.lab.training.progress import ConsoleReporter

ARMS = ("usual", "authors")
TUNING_SEED = 0
FRESH_SEEDS = (10, 11, 12, 13)
SECONDS_TO_WAIT = 60

Run = tuple[Path, RunConfig]


class Queue:
    """The runs of the experiment in their order; those of the chosen weight once it is chosen."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.diverged: set[Path] = set()

    def __iter__(self) -> Iterator[Run]:
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
        folder, _ = run
        return folder not in self.diverged and not RunFolder(folder).is_done

    def _run(self, arm: str, loss: str | LossConfig, seed: int) -> Run:
        recipe = load_recipe(f"claim-resnet9-{arm}")
        candidate = recipe.candidates(loss)[0] if isinstance(loss, str) else loss
        config = recipe.run(candidate, seed)
        return self.runs / recipe.name / config.run_name, config

    def _tuning(self, arm: str) -> list[Run]:
        """Return the runs that the weight is chosen by."""
        candidates = load_recipe(f"claim-resnet9-{arm}-tuning").candidates("ce+aucoc")
        return [self._run(f"{arm}-tuning", candidate, TUNING_SEED) for candidate in candidates]

    def _chosen(self, arm: str) -> LossConfig | None:
        """Return the loss with the weight that was best in tuning; None before tuning is over."""
        if any(self.is_open(run) for run in self._tuning(arm)):
            return None
        choice = choose_options(
            load_recipe(f"claim-resnet9-{arm}-tuning"),
            "ce+aucoc",
            [TUNING_SEED],
            lambda candidate, seed: self._run(f"{arm}-tuning", candidate, seed)[0],
        )
        return None if choice is None else choice.chosen


def settle(queue: Queue, *, data_dir: Path | None = None) -> None:
    """Train all runs of the queue that are open, and that no other process is training."""
    while True:
        in_use = 0
        for folder, config in queue:
            if not queue.is_open((folder, config)):
                continue
            _say(f"{folder.parent.name}/{folder.name}")
            try:
                reporter = ConsoleReporter(Console(width=160), folder=folder)
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
    arguments = parser.parse_args()
    queue = Queue(arguments.runs)
    if arguments.list:
        for run in dict.fromkeys(folder for folder, _ in queue):
            print("done" if RunFolder(run).is_done else "open", f"{run.parent.name}/{run.name}")
        return
    torch.set_num_threads(1)
    settle(queue, data_dir=arguments.data_dir)


if __name__ == "__main__":
    main()

"""Trains the arms of a ladder; each is a sweep, so a stopped one can be continued."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from expertload.exceptions import ExpertLoadError
from expertload.lab.data import Dataset
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.recipe import Recipe
from expertload.lab.sweeps.launch import Launcher, ProcessLauncher
from expertload.lab.sweeps.sweep import Observer, Sweep

__all__ = ["Narrator", "Silent", "Trainer"]


class Narrator(Protocol):
    """Reports the progress of a ladder."""

    def say(self, line: str) -> None:
        """Report the next step."""

    def watching(self) -> AbstractContextManager[Observer]:
        """Return a context that shows the progress of a sweep."""


class Silent:
    """Reports nothing."""

    def say(self, line: str) -> None:
        """Say nothing."""

    def watching(self) -> AbstractContextManager[Observer]:
        """Watch in silence."""
        return nullcontext(Observer())


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """Trains the networks of an arm, unless they are trained already.

    Attributes
    ----------
    folder : Path
        The folder that holds a folder for each arm.
    data : Dataset
    seeds : sequence of int
    jobs : int
        The number of networks to train in parallel.
    narrator : Narrator
    data_dir, accelerator
        As in `expertload.lab.train`.
    launcher : Launcher or None
        None for processes on this machine.
    """

    folder: Path
    data: Dataset
    seeds: Sequence[int]
    jobs: int
    narrator: Narrator
    data_dir: str | Path | None = None
    accelerator: str = "auto"
    launcher: Launcher | None = None

    def train(self, recipe: Recipe, arm: str, loss: str, how: str) -> list[FinishedRun]:
        """Return the finished runs of an arm, in the order of seeds."""
        sweep = Sweep(recipe, self.folder / arm, losses=[loss], seeds=self.seeds, dataset=self.data)
        missing = len(sweep.waiting())
        done = "" if missing else "; all are trained"
        self.narrator.say(f"{len(self.seeds)} networks: {how}{done}")
        if missing:
            with self.narrator.watching() as observer:
                sweep.run(self._launcher(sweep), jobs=self.jobs, observer=observer)
        for name, log in sweep.report.failed.items():
            raise ExpertLoadError(
                f"The run {name} failed: {sweep.report.reason(name)} Hint: {log} has more; then "
                "run the same command again to continue."
            )
        return [FinishedRun(sweep.folder(run).path) for run in sweep.final_runs(loss)]

    def _launcher(self, sweep: Sweep) -> Launcher:
        if self.launcher is not None:
            return self.launcher
        return ProcessLauncher(
            jobs=self.jobs,
            data_dir=None if self.data_dir is None else str(Path(self.data_dir).resolve()),
            accelerator=self.accelerator,
            allow=sweep.imports(),
        )

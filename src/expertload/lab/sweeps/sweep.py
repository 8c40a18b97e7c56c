"""A grid of runs, trained in parallel; hyper-parameters are chosen along the way.

For each loss, all candidates are trained with the tuning seeds. The one with the best validation
score, by the rule of `expertload.lab.results.rows`, is then trained with every seed, and
``choice.json`` records the choice. Test results are in the same folders, but are not read here. The
remaining work is always derived from the run folders, so a stopped or killed sweep continues when
it is started again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from expertload.lab.data import Dataset
from expertload.lab.results.rows import best_options, options_of
from expertload.lab.runs.finished import describe_loss, options_in_words
from expertload.lab.runs.folder import RunFolder, make_folder, read_json_object, write_json
from expertload.lab.runs.network import build_network
from expertload.lab.runs.origin import import_paths, refuse_changed_origin
from expertload.lab.runs.recipe import LossConfig, Recipe, RunConfig
from expertload.lab.sweeps.launch import Job, Launcher
from expertload.losses import build_loss


@dataclass(frozen=True)
class Choice:
    """The candidate chosen for a loss, and the scores of all candidates.

    Attributes
    ----------
    chosen : LossConfig
    metric : str
        The validation metric by which candidates were compared.
    scores : tuple of (LossConfig, dict)
        Each candidate with its score for each tuning seed, None for a run that failed. Empty if
        there was nothing to choose.
    """

    chosen: LossConfig
    metric: str
    scores: tuple[tuple[LossConfig, dict[str, float | None]], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain values."""
        return {
            "chosen": self.chosen.model_dump(exclude={"name"}),
            "metric": f"validation {self.metric}",
            "candidates": [
                {**candidate.model_dump(exclude={"name"}), "scores": scores}
                for candidate, scores in self.scores
            ],
        }


class Observer:
    """Prints the events of a sweep to a console, a line each; nothing if there is none."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(quiet=True)

    def _say(self, line: str, style: str = "") -> None:
        stamp = time.strftime("%H:%M:%S")
        self.console.print(Text(f"{stamp}  {line}", style), highlight=False, soft_wrap=True)

    def started(self, run: RunConfig) -> None:
        """Print which run has started."""
        self._say(f"started  {_run_label(run)}")

    def ended(self, run: RunConfig, *, well: bool) -> None:
        """Print which run has ended, and how."""
        self._say(f"{'done' if well else 'FAILED':<7}  {_run_label(run)}", "" if well else "red")

    def chosen(self, loss: str, choice: Choice) -> None:
        """Print which candidate was chosen."""
        if choice.scores:
            self._say(f"chosen   {loss} with {options_in_words(choice.chosen.settings)}", "bold")


@dataclass
class SweepReport:
    """How a sweep ended.

    Attributes
    ----------
    n_done : int
        The number of runs with results, including earlier ones.
    failed : dict
        The log of each run that failed, by run name.
    """

    n_done: int = 0
    failed: dict[str, Path] = field(default_factory=dict)

    def reason(self, name: str) -> str:
        """Return the last line of a failed run's log, which usually has the reason."""
        try:
            lines = self.failed[name].read_text(errors="replace").strip().splitlines()
        except OSError:
            return "It left no log."
        return lines[-1] if lines else "The log is empty; the run may have been killed."


def print_report(console: Console, report: SweepReport) -> None:
    """Print how many runs are done, and the logs of those that failed.

    Examples
    --------
    >>> from rich.console import Console
    >>> from expertload.lab.sweeps.sweep import SweepReport, print_report
    >>> print_report(Console(), SweepReport(n_done=12))
    <BLANKLINE>
    12 runs are done.
    """
    console.print(f"\n{_counted(report.n_done)} done.", highlight=False)
    if report.failed:
        console.print(Text(f"{_counted(len(report.failed))} not:", "red"))
    for name, log in report.failed.items():
        console.print(Text.assemble((f"  {name}\n", "bold"), f"    {report.reason(name)}"))
        console.print(Text(f"    log: {log}", "dim"), soft_wrap=True)


def _counted(n: int) -> str:
    return "1 run is" if n == 1 else f"{n} runs are"


def _run_label(run: RunConfig) -> str:
    return f"{describe_loss(run.loss)}, seed {run.seed}"


class Sweep:
    """The runs of a recipe for some losses and seeds.

    Parameters
    ----------
    recipe : Recipe
    out : path
        The folder for run folders and ``choice.json``.
    losses : sequence of str
    seeds : sequence of int
    tuning_seeds : sequence of int, optional
        The first of `seeds` by default.
    dataset : Dataset, optional
        The recipe's data. If given, earlier runs that were trained on other data, or with other
        versions of your code, are refused.

    Examples
    --------
    >>> from expertload.lab.runs.recipe import load_recipe
    >>> from expertload.lab.sweeps.sweep import Sweep
    >>> sweep = Sweep(load_recipe("digits"), "nowhere", losses=["ce"], seeds=range(3))
    >>> [run.seed for run in sweep.waiting()]
    [0, 1, 2]
    """

    def __init__(
        self,
        recipe: Recipe,
        out: str | Path,
        *,
        losses: Sequence[str],
        seeds: Sequence[int],
        tuning_seeds: Sequence[int] | None = None,
        dataset: Dataset | None = None,
    ) -> None:
        self.recipe, self.out, self.dataset = recipe, Path(out), dataset
        self._checked: set[str] = set()
        self.losses, self.seeds = list(losses), list(seeds)
        self.tuning_seeds = list(tuning_seeds) if tuning_seeds else self.seeds[:1]
        self.choices: dict[str, Choice] = {}
        self.running: dict[str, tuple[RunConfig, Job]] = {}
        self.report = SweepReport()
        self._recorded: set[str] = set()
        self._candidates = {loss: recipe.candidates(loss) for loss in self.losses}
        self._runs: dict[tuple[str, int], RunConfig] = {}
        for loss, candidates in self._candidates.items():
            for candidate in candidates:  # reports a wrong option once
                build_loss(loss, weight=candidate.weight, **candidate.options)

    # -------------------------------------------------------------- what there is to do

    def folder(self, run: RunConfig) -> RunFolder:
        """The folder of a run."""
        return RunFolder(self.out / run.run_name)

    def is_open(self, run: RunConfig) -> bool:
        """Whether a run has not ended."""
        if run.run_name in self.running:
            return True
        if run.run_name in self.report.failed:
            return False
        folder = self.folder(run)
        if folder.is_done and self.dataset is not None and run.run_name not in self._checked:
            refuse_changed_origin(folder, run, self.dataset)
            self._checked.add(run.run_name)
        return not folder.is_done

    def tuning_runs(self, loss: str) -> list[RunConfig]:
        """Return the runs that compare candidates; empty if there is only one candidate."""
        candidates = self._candidates[loss]
        if len(candidates) == 1:
            return []
        return [self._run(c, seed) for c in candidates for seed in self.tuning_seeds]

    def final_runs(self, loss: str) -> list[RunConfig]:
        """Return the runs of the chosen candidate; empty before the choice."""
        choice = self.choices.get(loss)
        return [self._run(choice.chosen, seed) for seed in self.seeds] if choice else []

    def waiting(self) -> list[RunConfig]:
        """Return the runs that can be started now: tuning runs first, then seed by seed."""
        self._choose()
        return [r for r in self.planned() if r.run_name not in self.running and self.is_open(r)]

    def planned(self) -> list[RunConfig]:
        """Return all runs known so far: tuning runs first, then seed by seed."""
        tuning = [run for loss in self.losses for run in self.tuning_runs(loss)]
        final = [run for loss in self.losses for run in self.final_runs(loss)]
        final.sort(key=lambda run: run.seed)
        return list({run.run_name: run for run in [*tuning, *final]}.values())

    def _choose(self) -> None:
        """Choose the candidate of every loss whose tuning runs have ended."""
        for loss in self.losses:
            if loss not in self.choices and not any(map(self.is_open, self.tuning_runs(loss))):
                choice = self._choice(loss)
                if choice is not None:
                    self.choices[loss] = choice

    def _choice(self, loss: str) -> Choice | None:
        """Return the candidate with the best mean validation score; None if all failed.

        A candidate that failed with one of the tuning seeds is not chosen.
        """
        metric = self.recipe.training.select_by
        candidates = {options_of(candidate): candidate for candidate in self._candidates[loss]}
        if len(candidates) == 1:
            return Choice(next(iter(candidates.values())), metric)
        scores: dict[str, dict[int, float]] = {}
        for options, candidate in candidates.items():
            folders = {s: self.folder(self._run(candidate, s)) for s in self.tuning_seeds}
            scores[options] = {
                seed: folder.validation_score(metric)
                for seed, folder in folders.items()
                if folder.is_done
            }
        best = best_options(scores, measure=metric, seeds=self.tuning_seeds)
        if best is None:
            return None
        known = tuple(
            (candidates[options], {str(seed): own.get(seed) for seed in self.tuning_seeds})
            for options, own in scores.items()
        )
        return Choice(candidates[best], metric, known)

    def _run(self, loss: LossConfig, seed: int) -> RunConfig:
        """Return the run of a candidate and a seed; cached, because every tick needs its name."""
        key = loss.model_dump_json(), seed
        if key not in self._runs:
            self._runs[key] = self.recipe.run(loss, seed)
        return self._runs[key]

    def imports(self) -> list[str]:
        """The import paths in the recipe for these losses; runs may import no others."""
        every = [self._run(c, 0) for candidates in self._candidates.values() for c in candidates]
        return list(dict.fromkeys(path for run in every for path in import_paths(run)))

    # -------------------------------------------------------------- doing it

    def run(self, launcher: Launcher, *, jobs: int, observer: Observer) -> SweepReport:
        """Train all remaining runs, at most `jobs` in parallel.

        A failed run does not stop the others. On an interrupt, the workers are stopped; the next
        call continues from what they have saved.
        """
        if self.waiting():
            self._check_network()
        try:
            while True:
                waiting = self.waiting()
                self._record_choices(observer)
                if not waiting and not self.running:
                    break
                for run in waiting[: jobs - len(self.running)]:
                    self._start(run, launcher, observer)
                time.sleep(launcher.poll_seconds)
                self._collect(launcher, observer)
        finally:
            for _, job in self.running.values():
                job.stop()
        self.report.n_done = sum(self.folder(run).is_done for run in self.planned())
        return self.report

    def _check_network(self) -> None:
        """Build the network once: what is wrong with it is then not reported by every run."""
        if self.dataset is not None:
            with torch.random.fork_rng(devices=[]):  # runs of this process keep their numbers
                build_network(self.recipe.model, self.dataset)

    def _record_choices(self, observer: Observer) -> None:
        new = [loss for loss in self.choices if loss not in self._recorded]
        if new:
            make_folder(self.out)
            path = self.out / "choice.json"
            before = read_json_object(path) if path.exists() else {}  # of other losses
            own = {loss: choice.to_dict() for loss, choice in self.choices.items()}
            write_json(path, {**before, **own})
        for loss in new:
            self._recorded.add(loss)
            observer.chosen(loss, self.choices[loss])

    def _start(self, run: RunConfig, launcher: Launcher, observer: Observer) -> None:
        folder = self.folder(run)
        folder.create(run)
        self.running[run.run_name] = (run, launcher.start(folder.path))
        observer.started(run)

    def _collect(self, launcher: Launcher, observer: Observer) -> None:
        for name, (run, job) in list(self.running.items()):
            if job.ended():
                del self.running[name]
                well = self.folder(run).is_done
                if not well:
                    self.report.failed[name] = launcher.log_of(self.folder(run).path)
                observer.ended(run, well=well)

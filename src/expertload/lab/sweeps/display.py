"""Shows the progress of a sweep: a live table on a terminal, plain lines in a log file."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from expertload.lab.runs.finished import describe_loss, options_in_words
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.recipe import RunConfig
from expertload.lab.sweeps.sweep import Choice, Observer, Sweep, SweepReport


def _run_label(run: RunConfig) -> str:
    return f"{describe_loss(run.loss)}, seed {run.seed}"


def _mean_and_spread(scores: list[float]) -> str:
    if not scores:
        return ""
    spread = f" ± {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.4f}{spread}"


class LogLines(Observer):
    """One line when a run starts or ends, and one when a candidate is chosen."""

    def __init__(self, console: Console) -> None:
        self.console = console

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


class LiveTable(Observer):
    """Shows a row for each loss and a bar for each run in training."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.begun = time.monotonic()

    def tick(self, sweep: Sweep) -> None:
        """Redraw the table."""
        self.live.update(self.render(sweep))

    def render(self, sweep: Sweep) -> RenderableType:
        """Draw the state of a sweep."""
        seconds = int(time.monotonic() - self.begun)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        title = Text.assemble((sweep.recipe.name, "bold"), (f"  {sweep.out}  {clock}", "dim"), "\n")
        return Group(title, _losses(sweep), Text(), _running(sweep))


def _losses(sweep: Sweep) -> Table:
    metric = sweep.recipe.training.select_by
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for heading in ("loss", "tuning", "chosen", "runs"):
        table.add_column(heading)
    table.add_column(f"validation {metric}", justify="right")
    for loss in sweep.losses:
        tuning, final = sweep.tuning_runs(loss), sweep.final_runs(loss)
        choice = sweep.choices.get(loss)
        done = [folder for run in final if (folder := sweep.folder(run)).is_done]
        table.add_row(
            loss,
            _marks(sweep, tuning) if tuning else Text("-", "dim"),
            options_in_words(choice.chosen.settings) if choice else "",
            _marks(sweep, final),
            _mean_and_spread([folder.validation_score(metric) for folder in done]),
        )
    return table


def _marks(sweep: Sweep, runs: list[RunConfig]) -> Text:
    """Return one symbol per run: done, failed, in training or waiting; counts if there are many."""
    if len(runs) > 20:
        n_done = sum(sweep.folder(run).is_done for run in runs)
        return Text(f"{n_done} of {len(runs)}")
    return Text.assemble(*(_sign(sweep, run) for run in runs))


def _sign(sweep: Sweep, run: RunConfig) -> tuple[str, str]:
    if run.run_name in sweep.running:
        return "◐", "cyan"
    if run.run_name in sweep.report.failed:
        return "✗", "red"
    return ("●", "green") if sweep.folder(run).is_done else ("○", "dim")


def _running(sweep: Sweep) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for run, _ in sweep.running.values():
        last = _last_epoch(sweep.folder(run))
        n_epochs, n_done = run.training.epochs, last.get("epoch", 0)
        table.add_row(
            _run_label(run),
            ProgressBar(total=n_epochs, completed=n_done, width=30),
            f"epoch {min(n_done + 1, n_epochs)}/{n_epochs}",
            f"AUCOC {last['aucoc']:.4f}" if last else "",
        )
    return table


def _last_epoch(folder: RunFolder) -> dict[str, Any]:
    """Return the newest line of a run's metrics; empty if there is none."""
    with contextlib.suppress(OSError, IndexError):
        last: dict[str, Any] = json.loads(
            (folder.path / "metrics.jsonl").read_text().splitlines()[-1]
        )
        return last
    return {}


@contextlib.contextmanager
def observing(console: Console) -> Iterator[Observer]:
    """Return a live table for a terminal, or log lines otherwise.

    Examples
    --------
    >>> from rich.console import Console
    >>> from expertload.lab.sweeps.display import observing
    >>> with observing(Console(force_terminal=False)) as observer:
    ...     type(observer).__name__
    'LogLines'
    """
    if not console.is_terminal:
        yield LogLines(console)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield LiveTable(live)


def print_report(console: Console, report: SweepReport) -> None:
    """Print how many runs are done, and the logs of those that failed.

    Examples
    --------
    >>> from rich.console import Console
    >>> from expertload.lab.sweeps.sweep import SweepReport
    >>> from expertload.lab.sweeps.display import print_report
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

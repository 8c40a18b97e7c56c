"""Reports the progress of a run: a live bar on a terminal, one line per epoch in a log.

The numbers of every epoch can also be written for TensorBoard.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from expertload._check import require_extra
from expertload.lab.runs.recipe import RunConfig


class Reporter:
    """Receives the events of training; reports nothing, unless a subclass does."""

    def start(self, config: RunConfig, *, first_epoch: int, n_batches: int) -> None:
        """Training starts, or resumes, at an epoch."""

    def step(self, epoch: int, number: int) -> None:
        """A batch is finished."""

    def epoch(self, record: dict[str, Any], *, best_epoch: int) -> None:
        """An epoch is finished and saved."""

    def done(self, results: dict[str, Any]) -> None:
        """The run is finished."""

    def found(self, results: dict[str, Any], *, finished: datetime) -> None:
        """The run was finished before; nothing is trained."""

    def close(self) -> None:
        """Called last, whether or not the run is finished."""


class ConsoleReporter(Reporter):
    """Prints one line per epoch, and on a terminal a bar that moves with every batch."""

    def __init__(self, console: Console | None = None, *, folder: Path | None = None) -> None:
        self.console = console or Console()
        self.folder = folder
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._epochs = 0

    def start(self, config: RunConfig, *, first_epoch: int, n_batches: int) -> None:
        """Print what is trained, and whether it is resumed."""
        self._epochs = config.training.epochs
        resumed = f", resumed at epoch {first_epoch + 1}" if first_epoch else ""
        where = f" on {config.data.name} with {config.model.name}, seed {config.seed}{resumed}"
        self.console.print(Text.assemble((config.loss.name, "bold"), where))
        if self.console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            total = self._epochs * n_batches
            self._task = self._progress.add_task(
                "training", total=total, completed=first_epoch * n_batches
            )
            self._progress.start()

    def step(self, epoch: int, number: int) -> None:
        """Move the bar."""
        if self._progress is not None:
            self._progress.update(
                self._task, advance=1, description=f"epoch {epoch + 1}/{self._epochs}"
            )

    def epoch(self, record: dict[str, Any], *, best_epoch: int) -> None:
        """Print the numbers of an epoch, marked if it is the best so far."""
        mark = " *" if best_epoch == record["epoch"] else ""
        averaged = record.get("averaged_aucoc")
        beside = "" if averaged is None else f" (averaged {averaged:.4f})"
        self.console.print(
            f"epoch {record['epoch']:>3}/{self._epochs}  loss {record['train_loss']:.4f}  "
            f"AUCOC {record['aucoc']:.4f}{beside}  accuracy {record['accuracy']:.4f}  "
            f"ECE {record['ece']:.4f}  {record['seconds']:.1f} s{mark}",
            highlight=False,
        )

    def found(self, results: dict[str, Any], *, finished: datetime) -> None:
        """Print that nothing was trained, and the test results."""
        self.console.print(
            f"finished on {finished:%Y-%m-%d at %H:%M}, nothing trained", highlight=False
        )
        self.done(results)

    def done(self, results: dict[str, Any]) -> None:
        """Remove the bar and print the test results."""
        self.close()
        test = results["test"]
        averaged = "averaged " if results.get("weights") == "averaged" else ""
        self.console.print(
            f"test: AUCOC {test['aucoc']:.4f}  accuracy {test['accuracy']:.4f}  "
            f"({averaged}weights of epoch {results['best_epoch']})",
            highlight=False,
        )
        if self.folder is not None:
            self.console.print(Text(f"folder: {self.folder}"), soft_wrap=True)

    def close(self) -> None:
        """Remove the bar, so that it does not mix with later output."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class TensorBoardReporter(ConsoleReporter):
    """Writes the numbers of every epoch for TensorBoard too, in the run's folder.

    A resumed run adds another file, and TensorBoard ignores the earlier records of epochs that are
    trained again.
    """

    def __init__(self, console: Console | None = None, *, folder: Path) -> None:
        super().__init__(console, folder=folder)
        require_extra("tensorboard", "tensorboard", "Writing TensorBoard files")
        self._writer: Any = None

    def start(self, config: RunConfig, *, first_epoch: int, n_batches: int) -> None:
        """Open the files."""
        super().start(config, first_epoch=first_epoch, n_batches=n_batches)
        from torch.utils.tensorboard import SummaryWriter

        folder = f"{self.folder}/tensorboard"
        self._writer = SummaryWriter(folder, purge_step=first_epoch + 1)

    def epoch(self, record: dict[str, Any], *, best_epoch: int) -> None:
        """Write every number of an epoch."""
        super().epoch(record, best_epoch=best_epoch)
        for name, value in record.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, record["epoch"])

    def close(self) -> None:
        """Close the files."""
        super().close()
        if self._writer is not None:
            self._writer.close()

"""Reports the progress of a run, with one line per epoch."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from expertload.lab.runs.recipe import RunConfig


class Reporter:
    """Prints the events of training to a console; nothing if there is none."""

    def __init__(self, console: Console | None = None, *, folder: Path | None = None) -> None:
        self.console = console or Console(quiet=True)
        self.folder = folder

    def start(self, config: RunConfig, *, first_epoch: int) -> None:
        """Print what is trained, and whether it is resumed."""
        resumed = f", resumed at epoch {first_epoch + 1}" if first_epoch else ""
        where = f" on {config.data.name} with {config.model.name}, seed {config.seed}{resumed}"
        self.console.print(Text.assemble((config.loss.name, "bold"), where))

    def epoch(self, record: dict[str, Any], *, n_epochs: int, best_epoch: int) -> None:
        """Print the numbers of an epoch, marked if it is the best so far."""
        mark = " *" if best_epoch == record["epoch"] else ""
        averaged = record.get("averaged_aucoc")
        beside = "" if averaged is None else f" (averaged {averaged:.4f})"
        self.console.print(
            f"epoch {record['epoch']:>3}/{n_epochs}  loss {record['train_loss']:.4f}  "
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
        """Print the test results."""
        test = results["test"]
        averaged = "averaged " if results.get("weights") == "averaged" else ""
        self.console.print(
            f"test: AUCOC {test['aucoc']:.4f}  accuracy {test['accuracy']:.4f}  "
            f"({averaged}weights of epoch {results['best_epoch']})",
            highlight=False,
        )
        if self.folder is not None:
            self.console.print(Text(f"folder: {self.folder}"), soft_wrap=True)

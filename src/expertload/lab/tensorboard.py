"""The numbers of every epoch as TensorBoard files, beside the JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expertload._validation import require_extra
from expertload.lab.recipe import RunConfig

__all__ = ["TensorBoardReporter"]


class TensorBoardReporter:
    """Writes event files that ``tensorboard --logdir`` reads.

    Parameters
    ----------
    folder : Path
        Made when training starts. A run that goes on adds a file of its own, and TensorBoard
        leaves out what an earlier one has of epochs that are trained again.
    """

    def __init__(self, folder: Path) -> None:
        require_extra("tensorboard", "tensorboard", "Writing TensorBoard files")
        self.folder = folder
        self._writer: Any = None

    def start(self, config: RunConfig, *, first_epoch: int, n_batches: int) -> None:
        """Open the files."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self.folder), purge_step=first_epoch)

    def step(self, epoch: int, number: int) -> None:
        """Nothing: epochs are what is written."""

    def epoch(self, record: dict[str, Any], *, best_epoch: int) -> None:
        """Write every number of an epoch."""
        for name, value in record.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, record["epoch"])

    def done(self, results: dict[str, Any]) -> None:
        """Nothing: the results are in `results.json`."""

    def close(self) -> None:
        """Close the files."""
        if self._writer is not None:
            self._writer.close()

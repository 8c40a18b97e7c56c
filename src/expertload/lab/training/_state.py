"""Where a run stands: saved whole at the end of each epoch, and taken up again after a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from expertload.exceptions import FileFormatError
from expertload.lab.results.measures import find_measure
from expertload.lab.runs._weights import save_weights
from expertload.lab.runs.folder import RunFolder
from expertload.lab.training._checkpoint import (
    generator_state,
    load_checkpoint,
    restore_generator,
    save_checkpoint,
)
from expertload.lab.training._global_batch import gather_rows

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["TrainingState", "gather_generators"]


class TrainingState:
    """Where a run stands: next epoch, history, best epoch; saved whole at the end of each epoch."""

    def __init__(
        self,
        run: RunFolder,
        network: nn.Module,
        loss: nn.Module,
        optimiser: torch.optim.Optimizer,
        fabric: Fabric,
    ) -> None:
        self.run, self.network, self.loss = run, network, loss
        self.optimiser, self.fabric = optimiser, fabric
        self.history: list[dict[str, Any]] = []
        self.best_epoch = -1  # its place in the history

    @property
    def epoch(self) -> int:
        """The epoch to train next."""
        return len(self.history)

    def resume(self) -> None:
        """Go back to the end of the last epoch that was saved, if there is one."""
        if not self.run.last.exists():
            return
        checkpoint = load_checkpoint(self.run.last)
        try:
            self.network.load_state_dict(checkpoint.model)
            self.loss.load_state_dict(checkpoint.loss)
            self.optimiser.load_state_dict(checkpoint.optimiser)
            _lay_out_like_parameters(self.optimiser)
            self._resume_progress(checkpoint.progress)
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise FileFormatError(
                f"{self.run.last} does not fit this network: {error}. Hint: was the network "
                "changed? Choose another folder, or remove this one to start over."
            ) from error
        # A process that was not there before keeps the generator that it has been given.
        if self.fabric.global_rank in checkpoint.generators:
            restore_generator(checkpoint.generators[self.fabric.global_rank], self.fabric.device)
        if self.fabric.is_global_zero:
            self._write_what_follows()
        self.fabric.barrier()

    def _resume_progress(self, progress: dict[str, Any]) -> None:
        self.fabric.strategy.precision.load_state_dict(progress["precision"])
        # Numbered here as well: checkpoints used to count epochs from zero.
        self.history = [
            {**record, "epoch": number}
            for number, record in enumerate(progress["history"], start=1)
        ]
        self.best_epoch = progress["best_epoch"]

    def advance(self, record: dict[str, Any], select_by: str) -> None:
        """Take in a finished epoch and save everything."""
        self.history.append(record)
        sign = 1 if find_measure(select_by).higher_is_better else -1
        self.best_epoch = int(np.argmax([sign * r[select_by] for r in self.history]))  # the first
        generators = gather_generators(self.fabric.device)
        if self.fabric.is_global_zero:
            self._save(generators)
        self.fabric.barrier()

    def _save(self, generators: list[Tensor]) -> None:
        # The checkpoint first: it decides which epoch is the best, and `resume` writes what is
        # missing. The other way round, an epoch that turns out worse when it is trained again,
        # as it may in another number of processes, would have taken the place of the best.
        save_checkpoint(
            self.run.last,
            model=self.network.state_dict(),
            loss=self.loss.state_dict(),
            optimiser=self.optimiser.state_dict(),
            generators=generators,
            progress={
                "history": self.history,
                "best_epoch": self.best_epoch,
                # The scale of half-precision gradients; nothing at other precisions.
                "precision": self.fabric.strategy.precision.state_dict(),
            },
        )
        self._write_what_follows()

    def _write_what_follows(self) -> None:
        """Write what follows from the checkpoint: best weights if they are its own, and metrics."""
        if self.best_epoch == self.epoch - 1:
            facts = {"epoch": self.best_epoch}
            save_weights(self.run.best, self.network.state_dict(), facts)
        self.run.write_metrics(self.history)


def gather_generators(device: torch.device) -> list[Tensor]:
    """The generator state of every process, in the order of ranks."""
    # torch keeps the state of a GPU's generator in main memory, where NCCL gathers nothing.
    own = generator_state(device).to(device)
    return [rows[0].cpu() for rows in gather_rows(own[None])]


def _lay_out_like_parameters(optimiser: torch.optim.Optimizer) -> None:
    """Give moments the memory layout of their weights, which a file does not keep."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            state = optimiser.state[parameter]
            for key, value in state.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    state[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)

"""One training step: passes over one or more batches, clipping, the optimiser, the average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from expertload.lab.data.loader import Batch
from expertload.lab.runs.recipe import TrainingConfig
from expertload.lab.training.average import WeightAverage
from expertload.lab.training.global_batch import GlobalBatchLoss
from expertload.lab.training.parts import explaining_lone_images
from expertload.lab.training.sharpness import Sharpness

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["Step"]


class Step:
    """One step of the optimiser, on one batch or on a group of several."""

    def __init__(
        self,
        model: nn.Module,
        network: nn.Module,
        loss: nn.Module,
        optimiser: torch.optim.Optimizer,
        training: TrainingConfig,
        fabric: Fabric,
        average: WeightAverage | None = None,
    ) -> None:
        self.model, self.optimiser, self.training = model, optimiser, training
        self.fabric, self.average = fabric, average
        self.loss = GlobalBatchLoss(loss).to(fabric.device)  # a user's loss may have buffers
        rho = training.sam_rho
        self.sharpness = None if rho is None else Sharpness(network, loss, rho, fabric.device)
        self.begin()

    def begin(self) -> None:
        """Start an epoch."""
        self.model.train()
        self.total = torch.zeros((), device=self.fabric.device)
        self.clipped = torch.zeros((), device=self.fabric.device)

    def take(self, batch: Batch, group: int, *, is_last: bool) -> None:
        """Process one of several batches; after the last one, update the weights."""
        if self.sharpness is not None:
            self.sharpness.before_the_first_pass()
        self.total += self._pass(batch, group, is_last=is_last)
        if not is_last:
            return
        if self.sharpness is not None:
            with self.sharpness.climbed():
                self._pass(batch, group, is_last=True)
        self._clip()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None and self.training.ema_epochs is not None:
            self.average.update()

    def _pass(self, batch: Batch, group: int, *, is_last: bool) -> Tensor:
        """Add the gradient of a batch to the gradients so far, and return its loss."""
        with self.fabric.no_backward_sync(self.model, enabled=not is_last):  # type: ignore[arg-type]
            with explaining_lone_images(len(batch.labels)):
                logits = self.model(batch.images)  # (n, classes)
            value: Tensor = self.loss(logits, batch.labels, batch.indices)
            self.fabric.backward(value / group)
        return value.detach()

    def _clip(self) -> None:
        longest = self.training.clip_norm
        if longest is None:
            return
        norm = self.fabric.clip_gradients(
            self.model,
            self.optimiser,
            max_norm=longest,
            error_if_nonfinite=False,
        )
        if norm is not None:
            self.clipped += norm > longest

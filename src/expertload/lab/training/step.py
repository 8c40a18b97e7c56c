"""One training step: passes over one or more batches, clipping, the optimiser, the average.

Averages of the weights along training often predict better than the last weights. An exponential
moving average (EMA) is taken after every step. With decay d, the weights after step t count
``d ** (T - t)`` at step T, divided by the sum of all counts: so the random weights at the start
never count, and after one step the average is the weights themselves.

Batch normalisation keeps statistics of its inputs, and averaged weights change these inputs. So the
statistics are not averaged but measured: training batches go through the averaged network before it
is evaluated.

References
----------
Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel

from expertload.exceptions import ParameterError
from expertload.lab.data.loader import Batch
from expertload.lab.runs.recipe import TrainingConfig
from expertload.losses.base import on_whole_batch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@dataclass(eq=False)
class Step:
    """One step of the optimiser, on one batch or on a group of several."""

    model: nn.Module
    loss: nn.Module
    optimiser: torch.optim.Optimizer
    training: TrainingConfig
    fabric: Fabric
    average: WeightAverage | None = None

    def __post_init__(self) -> None:
        refuse_trainable(self.loss)
        self.loss.to(self.fabric.device)  # a user's loss may have buffers
        self.begin()

    def begin(self) -> None:
        """Start an epoch."""
        self.model.train()
        self.total = torch.zeros((), device=self.fabric.device)
        self.clipped = torch.zeros((), device=self.fabric.device)

    def take(self, batch: Batch, group: int, *, is_last: bool) -> None:
        """Process one of several batches; after the last one, update the weights."""
        self.total += self._pass(batch, group, is_last=is_last)
        if not is_last:
            return
        self._clip()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update()

    def _pass(self, batch: Batch, group: int, *, is_last: bool) -> Tensor:
        """Add the gradient of a batch to the gradients so far, and return its loss."""
        with self.fabric.no_backward_sync(self.model, enabled=not is_last):  # type: ignore[arg-type]
            with batch_norm_hint(len(batch.labels)):
                logits = self.model(batch.images)  # (n, classes)
            value = on_whole_batch(self.loss, logits, batch.labels)
            self.fabric.backward(value / group)
        return value.detach()

    def _clip(self) -> None:
        longest = self.training.clip_norm
        if longest is None:
            return
        norm = self.fabric.clip_gradients(
            self.model, self.optimiser, max_norm=longest, error_if_nonfinite=False
        )
        if norm is not None:
            self.clipped += norm > longest


def refuse_trainable(loss: nn.Module) -> None:
    """Raise if a loss has trainable parameters: the optimiser has only those of the network."""
    if any(parameter.requires_grad for parameter in loss.parameters()):
        raise ParameterError(
            f"The loss {type(loss).__name__} has trainable parameters, but only the network "
            "is trained. Hint: make them buffers, or options to try in the recipe."
        )


@contextmanager
def batch_norm_hint(n_images: int) -> Iterator[None]:
    """Explain what to do if batch normalisation refuses a single image.

    It accepts one if its feature map has several pixels, so only the network can tell.
    """
    try:
        yield
    except ValueError as error:
        if n_images > 1 or "more than 1 value per channel" not in str(error):
            raise
        raise ParameterError(
            "A batch has a single image, but the batch normalisation of this network needs more "
            "than one value per channel. Hint: training.drop_last=true skips a last batch that is "
            "smaller than the others; or choose another training.batch_size."
        ) from error


MOST_BATCHES = 50  # batches to measure statistics on; more would hardly change them


class WeightAverage:
    """The mean of a network's weights along its training.

    Parameters
    ----------
    network : Module
        The network whose parameters are averaged. Buffers are the network's own, except for the
        statistics of batch normalisation.
    decay : float
        The decay of the exponential mean.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self._average = AveragedModel(network, multi_avg_fn=self._add)

    @property
    def count(self) -> int:
        """How many weights are averaged."""
        return int(self._average.n_averaged)

    @property
    def state(self) -> dict[str, Tensor]:
        """The averaged weights, named as those of the network."""
        return self._average.module.state_dict()

    def update(self) -> None:
        """Add the current weights to the average."""
        self._average.update_parameters(self.network)

    def _add(
        self, averaged: Sequence[Tensor], current: Sequence[Tensor], count: Tensor | int
    ) -> None:
        # In double precision: after long runs, single precision would round the share away.
        n = int(count) + 1
        share = (1 - self.decay) / (1 - self.decay**n)
        for mean, new in zip(averaged, current, strict=True):
            mean.lerp_(new, share)

    @contextmanager
    def applied(
        self, batches: Iterable[Tensor], forward: Callable[[Tensor], object]
    ) -> Iterator[None]:
        """Use the averaged weights in the network for a while, with newly measured statistics.

        Parameters
        ----------
        batches : iterable of Tensor
            Batches of images, as in training.
        forward : callable
            The forward pass of the network, including its wrappers.
        """
        was_training = self.network.training
        kept = {name: value.clone() for name, value in self.network.state_dict().items()}
        try:
            self.network.load_state_dict(self.state)
            _measure_statistics(self.network, batches, forward)
            self._average.module.load_state_dict(self.network.state_dict())
            self.network.eval()
            yield
        finally:
            self.network.load_state_dict(kept)
            self.network.train(was_training)

    def resume(self, state: Mapping[str, Tensor], count: int) -> None:
        """Restore `state` and `count`."""
        self._average.module.load_state_dict(state)
        self._average.n_averaged.fill_(count)


def make_average(
    network: nn.Module, training: TrainingConfig, steps_per_epoch: int
) -> WeightAverage | None:
    """Return the average of the settings; None if they have none."""
    if training.ema_epochs is None:
        return None
    # With this decay, the mean age of the averaged weights is the requested number of epochs.
    return WeightAverage(network, max(0.0, 1 - 1 / (training.ema_epochs * steps_per_epoch)))


@torch.no_grad()
def _measure_statistics(
    network: nn.Module, batches: Iterable[Tensor], forward: Callable[[Tensor], object]
) -> None:
    """Set the statistics of batch normalisation to their mean over some batches.

    Unlike torch's ``update_bn``, this leaves dropout as it is for predictions.
    """
    layers = [
        layer
        for layer in network.modules()
        if isinstance(layer, _BatchNorm) and layer.track_running_stats
    ]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    network.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches
        layer.train()
    try:
        for images in islice(batches, MOST_BATCHES):
            forward(images)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum

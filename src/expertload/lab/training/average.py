"""Averages of the weights along training, which often predict better than the last weights.

An exponential moving average (EMA) is taken after every step. With decay d, the weights after step
t count ``d ** (T - t)`` at step T, divided by the sum of all counts: so the random weights at the
start never count, and after one step the average is the weights themselves. Stochastic weight
averaging (SWA) counts the ends of epochs equally, from a given epoch on.

Batch normalisation keeps statistics of its inputs, and averaged weights change these inputs. So the
statistics are not averaged but measured: training batches go through the averaged network before it
is evaluated.

References
----------
Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
Izmailov et al., "Averaging weights leads to wider optima and better generalization", UAI 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel

from expertload.lab.runs.recipe import TrainingConfig

MOST_BATCHES = 50  # batches to measure statistics on; more would hardly change them


class WeightAverage:
    """The mean of a network's weights along its training.

    Parameters
    ----------
    network : Module
        The network whose parameters are averaged. Buffers are the network's own, except for the
        statistics of batch normalisation.
    decay : float or None
        The decay of the exponential mean; None for the plain mean.
    """

    def __init__(self, network: nn.Module, decay: float | None) -> None:
        self.network, self.decay = network, decay
        self._average = AveragedModel(network, multi_avg_fn=self._add)

    @property
    def count(self) -> int:
        """How many weights are averaged."""
        return int(self._average.n_averaged)

    @property
    def state(self) -> dict[str, Tensor]:
        """The averaged weights, named as those of the network."""
        state: dict[str, Tensor] = self._average.module.state_dict()
        return state

    def update(self) -> None:
        """Add the current weights to the average."""
        self._average.update_parameters(self.network)

    def _add(
        self, averaged: Sequence[Tensor], current: Sequence[Tensor], count: Tensor | int
    ) -> None:
        # In double precision: after long runs, single precision would round the share away.
        n = int(count) + 1
        share = 1 / n if self.decay is None else (1 - self.decay) / (1 - self.decay**n)
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
        own = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        was_training = self.network.training
        try:
            self.network.load_state_dict(self.state)
            _measure_statistics(self.network, batches, forward)
            self._average.module.load_state_dict(self.network.state_dict())
            self.network.eval()
            yield
        finally:
            self.network.load_state_dict(own)
            self.network.train(was_training)

    def resume(self, state: Mapping[str, Tensor], count: int) -> None:
        """Restore `state` and `count`."""
        self._average.module.load_state_dict(state)
        self._average.n_averaged.fill_(count)


def make_average(
    network: nn.Module, training: TrainingConfig, steps_per_epoch: int
) -> WeightAverage | None:
    """Return the average of the settings; None if they have none."""
    if training.ema_epochs is not None:
        # With this decay, the mean age of the averaged weights is the requested number of epochs.
        return WeightAverage(network, max(0.0, 1 - 1 / (training.ema_epochs * steps_per_epoch)))
    return WeightAverage(network, None) if training.swa_start is not None else None


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

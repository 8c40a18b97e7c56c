"""Sharpness-aware minimisation (SAM): uses the gradient at the worst weights nearby.

The weights move a step of length rho up the gradient. The loss is computed again there, and its
gradient is used to update the original weights. A step costs two passes.

Side effects of a pass (statistics of batch normalisation, the memory of a loss, random numbers for
dropout) happen only once: the second pass uses the same random numbers and changes no statistics.

References
----------
Foret et al., "Sharpness-aware minimization for efficiently improving generalization", ICLR 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from expertload.lab.training.checkpoint import generator_state, restore_generator

__all__ = ["Sharpness"]


class Sharpness:
    """Moves weights to the worst loss nearby, and back.

    Parameters
    ----------
    network, loss : Module
    rho : float
        The length of the step.
    device : torch.device
    """

    def __init__(
        self, network: nn.Module, loss: nn.Module, rho: float, device: torch.device
    ) -> None:
        self.network, self.loss, self.rho, self.device = network, loss, rho, device
        self._random = generator_state(device)

    def before_the_first_pass(self) -> None:
        """Store the state of the random numbers."""
        self._random = generator_state(self.device)

    @contextmanager
    def climbed(self) -> Iterator[None]:
        """Move up the gradient of the first pass, and clear the gradients for the second."""
        moved = [p for p in self.network.parameters() if p.grad is not None]
        before = [p.detach().clone() for p in moved]
        remembered = {k: v.clone() for k, v in self.loss.state_dict().items()}
        after = generator_state(self.device)
        with torch.no_grad():
            norm = torch.linalg.vector_norm(
                torch.stack([torch.linalg.vector_norm(_gradient(p)) for p in moved])
            )
            for parameter in moved:
                parameter.add_(_gradient(parameter) * (self.rho / norm.clamp_min(1e-12)))
                parameter.grad = None
        restore_generator(self._random, self.device)
        try:
            with _statistics_kept(self.network):
                yield
        finally:
            restore_generator(after, self.device)
            self.loss.load_state_dict(remembered)
            with torch.no_grad():
                for parameter, value in zip(moved, before, strict=True):
                    parameter.copy_(value)


def _gradient(parameter: Tensor) -> Tensor:
    return parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)


@contextmanager
def _statistics_kept(network: nn.Module) -> Iterator[None]:
    """Let batch normalisation use a batch without updating its statistics."""
    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]
    kept = [{name: b.clone() for name, b in layer.named_buffers()} for layer in layers]
    try:
        yield
    finally:
        with torch.no_grad():
            for layer, buffers in zip(layers, kept, strict=True):
                for name, buffer in layer.named_buffers():
                    buffer.copy_(buffers[name])

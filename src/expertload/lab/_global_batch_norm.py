"""Batch normalisation over the batch of all processes, on any device.

``torch.nn.SyncBatchNorm`` works on GPUs alone. This one is built from differentiable reductions,
so that two processes on CPUs train to the weights that one process would.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

__all__ = ["synchronise_batch_norm"]


class _SumOverProcesses(torch.autograd.Function):
    """A sum that every process gets; each one's term therefore moves all of their results."""

    @staticmethod
    def forward(ctx: FunctionCtx, term: Tensor) -> Tensor:
        total = term.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def _sum_over_processes(term: Tensor) -> Tensor:
    total: Tensor = _SumOverProcesses.apply(term)  # type: ignore[no-untyped-call]
    return total


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """A `BatchNorm2d` whose statistics are those of all processes' rows together."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name torch gave it
        """Normalise a batch of shape (n, channels, height, width)."""
        if not self.training or dist.get_world_size() == 1:
            return super().forward(input)
        rows = input.transpose(0, 1).flatten(1)  # (channels, positions)
        count = input.new_full((1,), rows.shape[1])
        sums = _sum_over_processes(torch.cat([rows.sum(dim=1), count]))
        mean = sums[:-1] / sums[-1]
        # A second pass for the squares: the one-pass formula loses digits in float32.
        squares = _sum_over_processes(((rows - mean[:, None]) ** 2).sum(dim=1))
        variance = squares / sums[-1]
        self._update_statistics(mean.detach(), squares.detach(), sums[-1].detach())
        scale = self.weight * torch.rsqrt(variance + self.eps)
        shift = self.bias - mean * scale
        normalised: Tensor = input * scale[:, None, None] + shift[:, None, None]
        return normalised

    def _update_statistics(self, mean: Tensor, squares: Tensor, count: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.momentum is None:
            return
        unbiased = squares / (count - 1).clamp_min(1)
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)


def synchronise_batch_norm(model: nn.Module) -> nn.Module:
    """Replace every `BatchNorm2d` of a model by one that sees the whole batch.

    Names and shapes of all weights stay as they are, so checkpoints fit either kind.
    """
    for module in model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = GlobalBatchNorm2d
    return model

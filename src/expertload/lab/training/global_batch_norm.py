"""Batch normalisation over the combined batch of all processes, on any device.

``torch.nn.SyncBatchNorm`` works only on GPUs. This one is built from differentiable reductions,
so that two processes on CPUs train to the weights that one process would. GPUs use it too, so
the code that is tested on CPUs is the code that runs on GPUs.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from expertload.exceptions import ParameterError

__all__ = ["synchronise_batch_norm"]


class _SumOverProcesses(torch.autograd.Function):
    """The sum over processes, returned to every process; gradients are summed in the same way."""

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


class _GlobalStatistics(_BatchNorm):
    """Batch norm with the statistics of the rows of all processes."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name torch gave it
        """Normalise a batch of shape (n, channels, ...)."""
        of_the_batch = self.training or self.running_mean is None
        if not of_the_batch or dist.get_world_size() == 1:
            return super().forward(input)
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        # Half precision cannot hold the size of a large batch, and has few digits for its sums.
        wide = input.to(torch.promote_types(input.dtype, torch.float32))
        rows = wide.transpose(0, 1).flatten(1)  # (channels, positions)
        count = rows.new_full((1,), rows.shape[1])
        sums = _sum_over_processes(torch.cat([rows.sum(dim=1), count]))
        mean = sums[:-1] / sums[-1]
        # A second pass for the squares: the one-pass formula loses digits in float32.
        squares = _sum_over_processes(((rows - mean[:, None]) ** 2).sum(dim=1))
        if self.training and self.track_running_stats:
            self._update_statistics(mean.detach(), squares.detach(), sums[-1].detach())
        scale = torch.rsqrt(squares / sums[-1] + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale
        if self.bias is not None:
            shift = shift + self.bias
        channels = (-1, *(1,) * (input.dim() - 2))
        return (wide * scale.view(channels) + shift.view(channels)).to(input.dtype)

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, squares: Tensor, count: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        momentum = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # then the running mean covers all batches so far
                momentum = 1 / float(self.num_batches_tracked)
        unbiased = squares / (count - 1).clamp_min(1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum or 0.0)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum or 0.0)


@cache
def _global(kind: type[_BatchNorm]) -> type[_BatchNorm]:
    """Derive a class from `kind` that uses the statistics of all processes."""
    return type(f"Global{kind.__name__}", (_GlobalStatistics, kind), {})


def synchronise_batch_norm(model: nn.Module) -> nn.Module:
    """Let every batch norm layer of a model use the combined batch of all processes.

    Names and shapes of all weights stay the same, so checkpoints fit both kinds.

    Raises
    ------
    ParameterError
        If the model has a kind of batch norm that normalises in its own way.
    """
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm | _GlobalStatistics):
            continue  # already synchronised
        if isinstance(module, _BatchNorm):
            _refuse_custom_forward(type(module))
            module.__class__ = _global(type(module))  # type: ignore[arg-type]
    return model


def _refuse_custom_forward(kind: type[_BatchNorm]) -> None:
    if kind.forward is not _BatchNorm.forward:
        raise ParameterError(
            f"Training in several processes cannot synchronise {kind.__name__}, which normalises "
            "in its own way (it has a forward). Hint: use torch's BatchNorm, or train in one "
            "process."
        )

"""Training in several processes as in one: the loss and batch normalisation of the whole batch.

Losses of a whole batch (AUCOC, MMCE, soft ECE, soft AvUC) have another value on half a batch. Here
every process gathers the logits of all processes, computes the loss of the whole batch, and lets
the gradient flow only through its own rows. Data-parallel training then averages the gradients of
the processes, so each gradient is multiplied by their number. The weights get the gradient of the
loss of the whole batch, as in one process.

``torch.nn.SyncBatchNorm`` works only on GPUs. The batch normalisation here is built from
differentiable reductions, so that two processes on CPUs train to the weights that one process
would. GPUs use it too, so the code that is tested on CPUs is the code that runs on GPUs.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from expertload._check import message
from expertload.exceptions import ParameterError, ShapeError
from expertload.losses.per_case import call_loss, needs_cases


class GlobalBatchLoss(nn.Module):
    """Computes a loss on the rows of all processes; in a single process, the plain loss.

    Parameters
    ----------
    loss : Module
        Takes the logits and targets of a batch and returns a scalar. It must not have trainable
        parameters: the optimiser has only those of the network.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        if any(parameter.requires_grad for parameter in loss.parameters()):
            raise ParameterError(
                f"The loss {type(loss).__name__} has trainable parameters, but only the network "
                "is trained. Hint: make them buffers, or options to try in the recipe."
            )
        self.loss = loss

    def forward(self, logits: Tensor, target: Tensor, cases: Tensor | None = None) -> Tensor:
        """Compute the loss; its value is the same in every process.

        `cases` are the indices of the cases. A loss with a memory of cases gets the cases of all
        processes in every process, so that all memories are the same.
        """
        world = _world_size()
        if world == 1:
            return self._of(logits, target, cases)
        rows = gather_rows(logits.detach())
        rows[dist.get_rank()] = logits
        numbers = None
        if cases is not None and needs_cases(self.loss):
            numbers = torch.cat(gather_rows(cases))
        value = self._of(torch.cat(rows), torch.cat(gather_rows(target)), numbers)
        # Keeps the value, and multiplies the gradient by the number of processes.
        return value + (world - 1) * (value - value.detach())

    def _of(self, logits: Tensor, target: Tensor, cases: Tensor | None) -> Tensor:
        value = call_loss(self.loss, logits, target, cases)
        if value.ndim:
            got, hint = f"a tensor of {value.ndim} dimension(s)", 'build it with reduction="mean"'
            raise ShapeError(message("loss", "must return a scalar", got, hint))
        return value


def gather_rows(own: Tensor) -> list[Tensor]:
    """Return the rows of all processes, in the order of ranks; their numbers may differ."""
    world = _world_size()
    if world == 1:
        return [own]
    sizes = [torch.zeros(1, dtype=torch.int64, device=own.device) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(own)], device=own.device))
    # Gathering needs equal shapes, so shorter ones are padded first and cut afterwards.
    padded = own.new_zeros((max(int(size) for size in sizes), *own.shape[1:]))
    padded[: len(own)] = own
    rows = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(rows, padded)
    return [row[: int(size)] for row, size in zip(rows, sizes, strict=True)]


def _world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


# ------------------------------------------------------------------ batch normalisation


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
            if type(module).forward is not _BatchNorm.forward:
                raise ParameterError(
                    f"Training in several processes cannot synchronise {type(module).__name__}, "
                    "which normalises in its own way (it has a forward). Hint: use torch's "
                    "BatchNorm, or train in one process."
                )
            module.__class__ = _global(type(module))  # type: ignore[arg-type]
    return model

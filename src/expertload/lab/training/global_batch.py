"""Computes a loss on the combined batch of all processes.

Losses of a whole batch (AUCOC, MMCE, soft ECE, soft AvUC) have another value on half a batch. Here
every process gathers the logits of all processes, computes the loss of the whole batch, and lets
the gradient flow only through its own rows. Data-parallel training then averages the gradients of
the processes, so each gradient is multiplied by their number. The weights get the gradient of the
loss of the whole batch, as in one process.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from expertload._validation import check_scalar_loss
from expertload.exceptions import ParameterError
from expertload.losses.per_case import call_loss, needs_cases

__all__ = ["GlobalBatchLoss", "gather_rows"]


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
        check_scalar_loss(value.ndim, "loss")
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

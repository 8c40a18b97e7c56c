"""The batch of all processes together.

Each process contributes a few numbers a sample, so that gathering them is cheap beside the model.
Processes may hold different numbers of samples, or none: shorter ones are filled up with zeros, and
a row of weights, zero on the filling, says what counts.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["GlobalBatch", "gather_batch"]


class GlobalBatch(NamedTuple):
    """Rows over all processes, where this process's samples start, and how many processes."""

    rows: Tensor
    start: int
    processes: int


def gather_batch(rows: Tensor) -> GlobalBatch:
    """Gather `rows` (k, n) of every process; alone, a process gets its own."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return GlobalBatch(rows, 0, 1)
    processes = dist.get_world_size()
    longest = torch.tensor([rows.shape[1]], device=rows.device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    width = int(longest)
    padded = rows.new_zeros(rows.shape[0], width)
    padded[:, : rows.shape[1]] = rows
    parts = [torch.empty_like(padded) for _ in range(processes)]
    dist.all_gather(parts, padded)
    return GlobalBatch(torch.cat(parts, dim=1), dist.get_rank() * width, processes)

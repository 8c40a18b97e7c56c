"""Gathers the combined batch of all processes.

Each process contributes a few numbers per sample, so gathering them is cheap compared with the
model. Processes may hold different numbers of samples, or none: shorter ones are padded with zeros,
and a row of weights is zero for the padding.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist

from expertload.losses.kde.array_namespace import Array, on_host

__all__ = ["GlobalBatch", "gather_batch"]


class GlobalBatch(NamedTuple):
    """The rows of all processes, where this process's rows start, and the number of processes."""

    rows: Array
    start: int
    processes: int


def gather_batch(rows: Array) -> GlobalBatch:
    """Gather `rows` (k, n) of all processes; a single process gets its own."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return GlobalBatch(rows, 0, 1)
    local = torch.as_tensor(rows)
    longest = torch.tensor([local.shape[1]], device=local.device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    padded = local.new_zeros(len(local), int(longest))
    padded[:, : local.shape[1]] = local
    parts = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, padded)
    everyone = torch.cat(parts, dim=1)
    gathered = everyone.numpy() if on_host(rows) else everyone
    return GlobalBatch(gathered, dist.get_rank() * int(longest), len(parts))

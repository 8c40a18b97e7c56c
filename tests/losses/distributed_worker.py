"""One process of a distributed job; writes what it got to the folder.

Every process draws the same batch and keeps its own part, so that the test can compare.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from expertload.losses import AUCOCLoss, aucoc_upper_bound_loss

CLASSES = 4


def whole_batch(sizes):
    generator = torch.Generator().manual_seed(0)
    inputs = 2 * torch.randn(sum(sizes), CLASSES, generator=generator, dtype=torch.float64)
    target = torch.randint(0, CLASSES, (sum(sizes),), generator=generator)
    if len(target) > 4:
        target[1:4] = -100
    return inputs, target


def model():
    layer = torch.nn.Linear(CLASSES, CLASSES, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(CLASSES) + 0.1 * torch.arange(CLASSES))
        layer.bias.zero_()
    return layer


def main(rank: int, sizes: tuple[int, ...], folder: Path, mode: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=len(sizes),
        timeout=datetime.timedelta(seconds=60),
    )
    inputs, target = whole_batch(sizes)
    start = sum(sizes[:rank])
    mine = slice(start, start + sizes[rank])
    inputs, target = inputs[mine], target[mine]
    if mode == "die" and rank == 1:
        os._exit(3)

    criterion = AUCOCLoss(sync_distributed=True)
    leaf = inputs.clone().requires_grad_()
    loss = criterion(leaf, target)
    loss.backward()
    bound = aucoc_upper_bound_loss(inputs, target, sync_distributed=True)
    # As one text of all rows: a text has another length in every process.
    as_text = criterion(inputs.T[None], target[None])

    wrapped = DistributedDataParallel(model())
    criterion(wrapped(inputs), target).backward()
    np.savez(
        folder / f"{rank}.npz",
        loss=loss.item(),
        gradient=leaf.grad.numpy(),
        bound=bound.item(),
        as_text=as_text.item(),
        weight_gradient=wrapped.module.weight.grad.numpy(),
    )
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may outlive the interpreter's shutdown, and then abort it

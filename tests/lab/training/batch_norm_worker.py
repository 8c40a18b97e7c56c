"""One of two processes that share batches; writes what batch norm made of them.

Every process draws the same batches and keeps its own part, so that the test can compare.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from expertload.lab.training.setup import synchronise_batch_norm

SHARES = (slice(0, 40), slice(40, 64))


class Own(nn.BatchNorm2d):
    """A kind of one's own, which normalises as torch's does."""


# The layer, the shape of its batch and the precision: of sums over few and over many numbers.
CASES = {
    "1d": (lambda: nn.BatchNorm1d(5), (64, 5), torch.float64),
    "1d, long": (lambda: nn.BatchNorm1d(5), (64, 5, 7), torch.float64),
    "2d": (lambda: nn.BatchNorm2d(5), (64, 5, 6, 7), torch.float64),
    "3d": (lambda: nn.BatchNorm3d(5), (64, 5, 2, 3, 4), torch.float64),
    "a subclass": (lambda: Own(5), (64, 5, 6, 7), torch.float64),
    "no weights": (lambda: nn.BatchNorm2d(5, affine=False), (64, 5, 6, 7), torch.float64),
    "no statistics": (
        lambda: nn.BatchNorm2d(5, track_running_stats=False),
        (64, 5, 6, 7),
        torch.float64,
    ),
    "mean of all batches": (
        lambda: nn.BatchNorm2d(5, momentum=None),
        (64, 5, 6, 7),
        torch.float64,
    ),
    "float32": (lambda: nn.BatchNorm2d(5), (64, 5, 6, 7), torch.float32),
    "bfloat16": (lambda: nn.BatchNorm2d(5), (64, 5, 40, 40), torch.bfloat16),
    "float16": (lambda: nn.BatchNorm2d(5), (64, 5, 40, 40), torch.float16),
}


def layer_of(make, dtype):
    """A layer with weights that show; they stay in float32 where the batch is in half of it."""
    layer = make().to(torch.promote_types(dtype, torch.float32))
    with torch.no_grad():
        for number, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.linspace(0.5, 2, len(parameter)) + number)
    return layer


def batches(shape, dtype):
    """Two batches, and the gradient that comes back from behind the first."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn((3, *shape), generator=generator, dtype=torch.float64)
    return (2 + 1.5 * draws[0]).to(dtype), (1 - draws[1]).to(dtype), draws[2].to(dtype)


def passes(layer, first, second, slopes):
    """What comes of some rows: two outputs in training, one after it, and all gradients."""
    leaf = first.clone().requires_grad_()
    layer.train()
    out = layer(leaf)
    out.backward(slopes)
    with torch.no_grad():
        again = layer(second)
        layer.eval()
        after = layer(second)
    return {
        "out": out.detach(),
        "again": again,
        "after": after,
        "gradient": leaf.grad,
        "weights": {name: parameter.grad for name, parameter in layer.named_parameters()},
        "statistics": dict(layer.named_buffers()),
    }


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=len(SHARES),
        timeout=datetime.timedelta(seconds=60),
    )
    found = {}
    for name, (make, shape, dtype) in CASES.items():
        layer = synchronise_batch_norm(nn.Sequential(layer_of(make, dtype)))[0]
        found[name] = passes(layer, *(batch[SHARES[rank]] for batch in batches(shape, dtype)))
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may outlive the interpreter's shutdown, and then abort it

"""The baseline losses against cross-entropy: forward and backward, float32, two threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.measure import best_times, row
from expertload.losses import (
    adaptive_focal_loss,
    focal_loss,
    generalised_cross_entropy_loss,
    mmce_loss,
    soft_avuc_loss,
    soft_ece_loss,
)

Loss = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, Loss] = {
    "focal": focal_loss,
    "adaptive focal": adaptive_focal_loss,
    "generalised cross-entropy": generalised_cross_entropy_loss,
    "MMCE": mmce_loss,
    "soft ECE": soft_ece_loss,
    "soft AvUC": soft_avuc_loss,
}


def mmce_with_all_pairs(logits: Tensor, target: Tensor) -> Tensor:
    """Return MMCE as it is usually written, without the sort."""
    confidence, predicted = logits.softmax(1).max(1)
    right = (predicted == target).to(confidence)
    gap = (right - confidence) / torch.where(right > 0, right.sum(), (1 - right).sum())
    kernel = torch.exp(-(confidence[:, None] - confidence).abs() / 0.4)
    return (gap @ kernel @ gap).clamp_min(1e-10).sqrt()


def step(loss: Loss, logits: Tensor, target: Tensor, loops: int) -> None:
    for _ in range(loops):
        logits.grad = None
        loss(logits, target).backward()


def times(losses: list[Loss], n: int, classes: int, repeats: int) -> list[float]:
    """Return the best times of the losses on one random batch."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n, classes, generator=generator).requires_grad_()
    target = torch.randint(classes, (n,), generator=generator)
    loops = max(1, 2000 // n)
    return best_times(*(partial(step, f, logits, target, loops) for f in losses), repeats=repeats)


def against_cross_entropy(n: int, classes: int, repeats: int) -> None:
    base, *ours = times([cross_entropy, *LOSSES.values()], n, classes, repeats)
    for name, seconds in zip(LOSSES, ours, strict=True):
        what = f"{name}, n = {n:,}, {classes} classes: relative to cross-entropy"
        row(what, seconds / base, at_most=10)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(2)
    against_cross_entropy(512, 100, repeats=100)
    against_cross_entropy(1_000_000, 10, repeats=3)
    ours, dense = times([mmce_loss, mmce_with_all_pairs], 8192, 10, repeats=3)
    row("MMCE, n = 8,192: faster than with all pairs written out", dense / ours, at_least=10)


if __name__ == "__main__":
    main()

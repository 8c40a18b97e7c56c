"""Baseline losses against cross-entropy: forward and backward, float32, two threads.

Run with ``python -m benchmarks.baseline_losses``. Each figure is a ratio to
``torch.nn.functional.cross_entropy`` on the same batch in the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from expertload.losses import (
    adaptive_focal_loss,
    focal_loss,
    mmce_loss,
    soft_avuc_loss,
    soft_ece_loss,
)

Loss = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, Loss] = {
    "focal": focal_loss,
    "adaptive focal": adaptive_focal_loss,
    "MMCE (sorted)": mmce_loss,
    "soft ECE": soft_ece_loss,
    "soft AvUC": soft_avuc_loss,
}
SIZES = ((512, 100), (8192, 100), (1_000_000, 10))
LIMIT = 10.0  # what every loss is to stay under at 512 cases of 100 classes


def dense_mmce(logits: Tensor, target: Tensor) -> Tensor:
    """MMCE with all pairs written out: the rival of the sorted form."""
    confidence, predicted = logits.softmax(1).max(1)
    right = (predicted == target).to(confidence)
    size = torch.where(right > 0, right.sum(), (1 - right).sum())
    gap = (right - confidence) / size
    kernel = torch.exp(-(confidence[:, None] - confidence).abs() / 0.4)
    return (gap @ kernel @ gap).clamp_min(0).sqrt()


def seconds(loss: Loss, logits: Tensor, target: Tensor) -> float:
    """Best time of one forward and backward pass, over several repeats."""
    loops, repeats = max(1, 10_000 // len(target)), 5 if len(target) > 10_000 else 25
    best = float("inf")
    for _ in range(repeats):
        start = perf_counter()
        for _ in range(loops):
            logits.grad = None
            loss(logits, target).backward()
        best = min(best, (perf_counter() - start) / loops)
    return best


def measure(n: int, classes: int) -> dict[str, float]:
    """Ratios to cross-entropy at one size; the rival with all pairs only where it is quick."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n, classes, generator=generator).requires_grad_()
    target = torch.randint(classes, (n,), generator=generator)
    rivals = {"MMCE (all pairs)": dense_mmce} if n <= 512 else {}
    base = seconds(cross_entropy, logits, target)
    return {name: seconds(loss, logits, target) / base for name, loss in (LOSSES | rivals).items()}


def main() -> None:
    torch.set_num_threads(2)
    print("forward + backward as a multiple of F.cross_entropy (float32, 2 threads)")
    for n, classes in SIZES:
        print(f"\n  n = {n:,}, {classes} classes")
        for name, ratio in measure(n, classes).items():
            over = "   over the limit" if n == 512 and name in LOSSES and ratio > LIMIT else ""
            print(f"    {name:<18}{ratio:8.1f} x{over}")


if __name__ == "__main__":
    main()

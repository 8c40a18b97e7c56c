"""AUCOCLoss against cross-entropy and against a dense rewrite, forward and backward, in float32.

Times are CPU times of one thread, because ratios of wall clock times depend on what else runs.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.measure import row
from expertload.losses import aucoc_loss

Loss = Callable[[Tensor, Tensor], Tensor]


class DenseAUCOC(torch.autograd.Function):
    """The rival: the loss exactly as in the paper, with n-by-n matrices."""

    @staticmethod
    def forward(ctx, r: Tensor, s: Tensor) -> Tensor:
        """Return the loss; keep its gradient by confidence and by true-class probability."""
        n = len(r)
        h = r.std() * n**-0.2
        thresholds = r.sort().values
        z = (thresholds[:, None] - r) / h
        cdf = torch.special.ndtr(z)
        gauss = torch.exp(-0.5 * z * z)
        to_one, to_zero = (1 - r) / h, r / h
        upper = torch.special.ndtr(to_one)
        tau = cdf.mean(1) - torch.special.ndtr(-to_zero).mean()
        joint = ((s * upper).sum() - cdf @ s) / n
        steps = torch.diff(tau, prepend=tau.new_zeros(1))
        weight = 0.5 * (steps + torch.cat((steps[1:], steps.new_zeros(1))))
        a = weight / (1 - tau)
        area = a @ joint
        expected = a * (gauss @ s) / gauss.sum(1)
        by_s = (upper * a.sum() - a @ cdf) / n
        inner = s * (a @ gauss - torch.exp(-0.5 * to_one**2) * a.sum())
        outer = expected @ gauss - torch.exp(-0.5 * to_zero**2) * expected.sum()
        by_r = (inner - outer) / (n * h * math.sqrt(2 * math.pi))
        ctx.save_for_backward(by_r / area, by_s / area)
        return -area.log()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        """Scale the gradient that the forward pass has computed."""
        by_r, by_s = ctx.saved_tensors
        return -grad_output * by_r, -grad_output * by_s


def dense_aucoc_loss(logits: Tensor, target: Tensor) -> Tensor:
    probability = logits.softmax(1)
    r = probability.max(1).values
    s = probability.gather(1, target[:, None]).squeeze(1)
    return DenseAUCOC.apply(r, s)


in_log_odds = partial(aucoc_loss, smoothing="log_odds")


def batch(n: int, classes: int, shape: str = "trained") -> tuple[Tensor, Tensor]:
    """Return the logits of a half-trained model, which is right on about two thirds."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(n, classes, generator=generator)
    if shape == "saturated":
        logits *= 20
    elif shape == "tied":
        logits = logits.round()
    guess = torch.randint(0, classes, (n,), generator=generator)
    right = torch.rand(n, generator=generator) < 0.6
    return logits, torch.where(right, logits.argmax(1), guess)


def seconds(losses: list[Loss], n: int, classes: int, *, budget: float = 2.0) -> list[float]:
    """Return the best CPU time of each loss; they take turns, so that noise slows down all."""
    logits, target = batch(n, classes)
    best = [math.inf] * len(losses)
    end = time.perf_counter() + budget
    turn = 0
    while turn < 3 or time.perf_counter() < end:
        for i, loss in enumerate(losses):
            for _ in range(max(1, 20_000 // n)):
                leaf = logits.detach().requires_grad_()
                start = time.process_time()
                loss(leaf, target).backward()
                best[i] = min(best[i], time.process_time() - start)
        turn += 1
    return best


def speed() -> None:
    dense, entropy, ours = seconds([dense_aucoc_loss, cross_entropy, aucoc_loss], 512, 100)
    row("AUCOCLoss, n = 512, 100 classes: relative to cross-entropy", ours / entropy, at_most=10)
    row("    faster than the dense rewrite", dense / ours, at_least=1.5)
    dense, ours = seconds([dense_aucoc_loss, aucoc_loss], 8192, 100)
    row("AUCOCLoss, n = 8192, 100 classes: faster than dense", dense / ours, at_least=100)
    entropy, ours = seconds([cross_entropy, aucoc_loss], 1_000_000, 10)
    row(
        "AUCOCLoss, n = 1,000,000, 10 classes: relative to cross-entropy",
        ours / entropy,
        at_most=10,
    )
    theirs, ours = seconds([aucoc_loss, in_log_odds], 8192, 100)
    row("AUCOCLoss, n = 8192: log odds, relative to the paper's kernel", ours / theirs, at_most=1.5)


def methods() -> None:
    """Compare `auto` with the better of the two methods."""
    for n in (2, 16, 64, 512, 2048, 4096):
        named = [partial(aucoc_loss, method=method) for method in ("auto", "exact", "fast")]
        auto, exact, fast = seconds(named, n, 10)
        row(
            f"    n = {n}: auto, relative to the better method",
            auto / min(exact, fast),
            at_most=1.2,
        )


PEAK = """
from pathlib import Path
from benchmarks.losses import batch
from expertload.losses import aucoc_loss

def kilobytes(name):
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1])

logits, target = batch(1_000_000, 10)
logits.requires_grad_()
# On a small batch first, so that libraries are loaded and do not count.
aucoc_loss(logits[:20000].detach().requires_grad_(), target[:20000]).backward()
before = kilobytes("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
aucoc_loss(logits, target).backward()
print(kilobytes("VmHWM") - before)
"""


def memory() -> None:
    """Measure the peak memory of a process beyond what it held before; only on Linux."""
    if not Path("/proc/self/clear_refs").exists():
        return
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    row("    peak memory beyond the input", int(done.stdout) / 1e6, unit="GB", at_most=1)


def accuracy() -> None:
    """Compare fast with exact in float64; the worst over sizes and shapes."""
    worst_loss = worst_gradient = 0.0
    for n in (2, 10, 100, 1000, 10_000):
        for shape in ("trained", "saturated", "tied"):
            logits, target = batch(n, 10, shape)
            results = []
            for method in ("fast", "exact"):
                leaf = logits.double().requires_grad_()
                loss = aucoc_loss(leaf, target, method=method)
                loss.backward()
                results.append((loss.item(), leaf.grad.numpy()))
            (fast, fast_grad), (exact, exact_grad) = results
            worst_loss = max(worst_loss, abs(fast - exact))
            scale = max(float(np.abs(exact_grad).max()), 1e-300)
            worst_gradient = max(
                worst_gradient, float(np.abs(fast_grad - exact_grad).max()) / scale
            )
    row("fast against exact in float64: loss", worst_loss, unit="", at_most=1e-5)
    row("    gradient, relative", worst_gradient, unit="", at_most=1e-4)


def main() -> None:
    torch.set_num_threads(1)
    speed()
    memory()
    accuracy()
    methods()

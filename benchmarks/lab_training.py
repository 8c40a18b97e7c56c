"""The training loop with every loss: ResNet-20, batches of 128 images of 32 x 32, 100 classes.

Images per second are those of the lab's own loop, loader and clipping included. What a loss adds
to a step is measured twice: by the loops, whose difference drowns in the noise of a busy machine,
and by the loss alone, forward and backward on logits, set against the step of cross-entropy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import nn

from benchmarks.measure import best_times, row
from expertload.lab.data import Augmentation, Normalisation, Split
from expertload.lab.data.loader import BatchLoader
from expertload.lab.models import resnet20
from expertload.lab.progress import SilentReporter
from expertload.lab.recipe import TrainingConfig
from expertload.lab.train import _fabric, _prepare, _train_epoch
from expertload.losses.build import LOSS_NAMES, build_loss

BATCH_SIZE, N_BATCHES, N_CLASSES = 128, 3, 100
TRAINING = TrainingConfig(epochs=1, batch_size=BATCH_SIZE, learning_rate=0.1)


def make_loader() -> BatchLoader:
    rng = np.random.default_rng(0)
    n = BATCH_SIZE * N_BATCHES
    images = rng.integers(0, 256, size=(n, 32, 32, 3), dtype=np.uint8)
    return BatchLoader(
        Split(images, rng.integers(0, N_CLASSES, size=n)),
        batch_size=BATCH_SIZE,
        normalisation=Normalisation.symmetric(3),
        augmentation=Augmentation(padding=4, flip=True),
        shuffle=True,
    )


def epoch(loss: nn.Module, loader: BatchLoader) -> Callable[[], float]:
    """One epoch of the lab's loop on a network of its own."""
    torch.manual_seed(0)
    fabric = _fabric("32-true", "cpu", 1, 1)
    model, optimiser = _prepare(resnet20(N_CLASSES), TRAINING, fabric)
    return partial(
        _train_epoch, model, loss, optimiser, loader, 0, TRAINING, fabric, SilentReporter()
    )


def on_logits(loss: nn.Module, times: int = 20) -> Callable[[], None]:
    """The loss alone, forward and backward, several times."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(BATCH_SIZE, N_CLASSES, generator=generator).requires_grad_()
    target = torch.randint(N_CLASSES, (BATCH_SIZE,), generator=generator)

    def run() -> None:
        for _ in range(times):
            logits.grad = None
            loss(logits, target).backward()

    return run


def main() -> None:
    """Print the table."""
    torch.set_num_threads(min(2, torch.get_num_threads()))
    losses = {name: build_loss(name) for name in LOSS_NAMES}
    loader = make_loader()
    loops = best_times(*(epoch(loss, loader) for loss in losses.values()), repeats=3)
    alone = best_times(*(on_logits(loss) for loss in losses.values()), repeats=10)
    loading = best_times(lambda: list(loader.epoch(0)), repeats=10)[0]
    step = loops[0] / N_BATCHES
    print(f"{'':<14}{'images/s':>10}{'loop adds':>11}{'loss alone adds':>17}")
    for name, loop, own in zip(losses, loops, alone, strict=True):
        added = (own - alone[0]) / 20 / step
        rate = BATCH_SIZE * N_BATCHES / loop
        print(f"{name:<14}{rate:>10.0f}{loop / loops[0] - 1:>11.1%}{added:>17.2%}")
    added = (alone[LOSS_NAMES.index("ce+aucoc")] - alone[0]) / 20 / step
    row("ce+aucoc adds to a step of ce, ResNet-20", 100 * added, unit="%", at_most=3)
    row("the loader's share of a step", 100 * loading / loops[0], unit="%", at_most=10)


if __name__ == "__main__":
    main()

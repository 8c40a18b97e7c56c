"""The training loop with every loss: ResNet-20, batches of 128 images of 32 x 32, 100 classes.

Images per second are those of the lab's own loop, including loader and clipping. What a loss adds
to a step is measured twice: with whole loops, whose difference is lost in the noise of a busy
machine, and with the loss alone, forward and backward on logits, relative to a step with
cross-entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.measure import best_times, row
from expertload.lab.data import Augmentation, Normalisation, Split
from expertload.lab.data.loader import BatchLoader
from expertload.lab.models import build_model
from expertload.lab.runs.recipe import TrainingConfig
from expertload.lab.training.loop import _train_epoch
from expertload.lab.training.setup import launch_fabric, prepare
from expertload.lab.training.step import Step, make_average
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
        normalisation=Normalisation((0.5,) * 3, (0.5,) * 3),
        augmentation=Augmentation(padding=4, flip=True),
        shuffle=True,
    )


class Cost(NamedTuple):
    """The cost of a loss: the loop's speed, and what it adds to a step with cross-entropy."""

    images_per_second: float
    loop_adds: float
    loss_adds: float


def epoch(
    loss: nn.Module, loader: BatchLoader, network: str, training: TrainingConfig = TRAINING
) -> Callable[[], object]:
    """Return a function that runs one epoch of the lab's loop on a new network."""
    torch.manual_seed(0)
    fabric = launch_fabric("32-true", "cpu", 1, 1)
    built = build_model(network, num_classes=N_CLASSES)
    model, optimiser = prepare(built, training, fabric)
    average = make_average(built, training, N_BATCHES)
    step = Step(model, loss, optimiser, training, fabric, average)
    return partial(_train_epoch, step, loader, 0)


def on_logits(loss: nn.Module, times: int = 20) -> Callable[[], None]:
    """Return a function that runs the loss alone, forward and backward, several times."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(BATCH_SIZE, N_CLASSES, generator=generator).requires_grad_()
    target = torch.randint(N_CLASSES, (BATCH_SIZE,), generator=generator)

    def run() -> None:
        for _ in range(times):
            logits.grad = None
            loss(logits, target).backward()

    return run


def measure(
    network: str = "resnet20",
    *,
    names: Sequence[str] = LOSS_NAMES,
    threads: int = 2,
    repeats: int = 3,
) -> tuple[dict[str, Cost], float]:
    """Return the cost of losses, cross-entropy first, and the loader's share of a step."""
    torch.set_num_threads(min(threads, torch.get_num_threads()))
    losses = {name: build_loss(name) for name in names}
    loader = make_loader()
    epochs = [epoch(loss, loader, network) for loss in losses.values()]
    loops = best_times(*epochs, repeats=repeats)
    alone = best_times(*(on_logits(loss) for loss in losses.values()), repeats=10)
    loading = best_times(lambda: list(loader.epoch(0)), repeats=10)[0]
    step = loops[0] / N_BATCHES
    costs = {
        name: Cost(
            images_per_second=BATCH_SIZE * N_BATCHES / loop,
            loop_adds=loop / loops[0] - 1,
            loss_adds=(own - alone[0]) / 20 / step,
        )
        for name, loop, own in zip(losses, loops, alone, strict=True)
    }
    return costs, loading / loops[0]


def measure_average(network: str = "resnet20") -> float:
    """Return what averaged weights add to an epoch."""
    settings = [TRAINING, TRAINING.model_copy(update={"ema_epochs": 5.0})]
    loader, loss = make_loader(), build_loss("ce")
    plain, averaged = best_times(*(epoch(loss, loader, network, s) for s in settings), repeats=3)
    return averaged / plain - 1


def main() -> None:
    """Print the table."""
    costs, loading = measure()
    print(f"{'':<14}{'images/s':>10}{'loop adds':>11}{'loss alone adds':>17}")
    for name, cost in costs.items():
        rate, loop, loss = cost
        print(f"{name:<14}{rate:>10.0f}{loop:>11.1%}{loss:>17.2%}")
    added = 100 * costs["ce+aucoc"].loss_adds
    row("what ce+aucoc adds to a step with ce, ResNet-20", added, unit="%", at_most=3)
    row("the loader's share of a step, including augmentation", 100 * loading, unit="%", at_most=10)
    row("what averaging weights adds to a step", 100 * measure_average(), unit="%", at_most=5)


if __name__ == "__main__":
    main()

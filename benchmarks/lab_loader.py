"""The loader's share of a training step: ResNet-20, batch 128, 32 x 32 images.

The rival is the step itself: forward, backward and update. A loader that takes a small share of
it on one thread is never the bottleneck, with any augmentation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle

import numpy as np
import torch

from expertload.lab.data import Augmentation, Normalisation, Split
from expertload.lab.data.loader import Batch, BatchLoader
from expertload.lab.models import build_model

BATCH_SIZE = 128
REPEATS = 5


AUGMENTATIONS = {
    "none": Augmentation(),
    "frame and flip": Augmentation(padding=4, flip=True),
    "frame and symmetries": Augmentation(padding=4, symmetries=True),
    "reflected frame and symmetries": Augmentation(padding=4, symmetries=True, reflect=True),
}


def make_loader(augmentation: Augmentation) -> BatchLoader:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(10_000, 32, 32, 3), dtype=np.uint8)
    return BatchLoader(
        Split(images, rng.integers(0, 100, size=10_000)),
        batch_size=BATCH_SIZE,
        normalisation=Normalisation((0.5,) * 3, (0.5,) * 3),
        augmentation=augmentation,
        shuffle=True,
        drop_last=True,
    )


def seconds(action: Callable[[], object], times: int) -> float:
    """Return the best mean over several repeats."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(times):
            action()
        best = min(best, (time.perf_counter() - started) / times)
    return best


def training_step(batch: Batch) -> Callable[[], object]:
    model = build_model("resnet20", num_classes=100).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(batch.images), batch.labels).backward()
        optimiser.step()

    return step


def endless(loader: BatchLoader) -> Iterator[Batch]:
    for epoch in cycle(range(100)):
        yield from loader.epoch(epoch)


def main() -> None:
    torch.set_num_threads(min(2, torch.get_num_threads()))
    plain = endless(make_loader(Augmentation()))
    training = seconds(training_step(next(plain)), times=2)
    print(f"ResNet-20 step, batch of {BATCH_SIZE}  {1e3 * training:8.2f} ms")
    for name, augmentation in AUGMENTATIONS.items():
        batches = endless(make_loader(augmentation))
        loading = seconds(partial(next, batches), times=20)
        print(f"loader, {name:<22} {1e3 * loading:8.2f} ms {loading / (loading + training):8.2%}")


if __name__ == "__main__":
    main()

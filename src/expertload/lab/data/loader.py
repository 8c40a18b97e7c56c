"""Makes reproducible batches of tensors from arrays of bytes.

A batch depends only on (seed, epoch, number). No state is carried from batch to batch, so a killed
run continues exactly by requesting its epoch again. Order and augmentation are drawn for the
*global* batch, and each rank takes its share. So two processes together see the same data as one
process, to the last bit.

All operations work on whole batches: one gather of bytes for crop and mirror image together, one
conversion to float. There are no worker processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from expertload._typing import AnyArray
from expertload._validation import check_count
from expertload.exceptions import ParameterError
from expertload.lab.data.augmenting import change_floats, draw, move_pixels
from expertload.lab.data.dataset import Augmentation, Normalisation, Split

__all__ = ["Batch", "BatchLoader"]

_ORDER, _AUGMENTATION = 0, 1  # separates the streams of random numbers


class Batch(NamedTuple):
    """One rank's share of a batch.

    Attributes
    ----------
    images : Tensor
        float32, shape (n, channels, height, width), normalised.
    labels : Tensor
        int64, shape (n,)
    indices : Tensor
        int64, shape (n,): the rows of the split.
    """

    images: Tensor
    labels: Tensor
    indices: Tensor


class BatchLoader:
    """Serve a split in batches.

    Parameters
    ----------
    split : Split
    batch_size : int
        The size of the global batch, over all ranks.
    normalisation : Normalisation
    augmentation : Augmentation, optional
        Without it, images are not changed.
    shuffle : bool, default=False
        Draw a new order each epoch.
    seed : int, default=0
        Seed of the order and the augmentation.
    drop_last : bool, default=False
        Skip the last batch if it is smaller than the others. Otherwise it stays smaller; it is
        never padded with repeated images.
    rank, world_size : int, default=0 and 1
        Which share to serve. Shares of a batch differ by one image at most, and all ranks serve
        the same number of batches. If the last batch has fewer images than there are ranks, some
        of its shares are empty.
    device : str or torch.device, default="cpu"
        Where the bytes are kept and batches are made.

    Examples
    --------
    >>> from expertload.lab.data import load_dataset
    >>> from expertload.lab.data.loader import BatchLoader
    >>> digits = load_dataset("digits")
    >>> loader = BatchLoader(digits.test, batch_size=128, normalisation=digits.normalisation)
    >>> [len(batch.labels) for batch in loader.epoch(0)]
    [128, 128, 128, 116]
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        normalisation: Normalisation,
        augmentation: Augmentation | None = None,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        device: str | torch.device = "cpu",
    ) -> None:
        self.batch_size = check_count(batch_size, "batch_size", "BatchLoader")
        self.world_size = check_count(world_size, "world_size", "BatchLoader")
        self.rank = check_count(rank, "rank", "BatchLoader", minimum=0)
        if self.rank >= self.world_size:
            raise ParameterError(
                f"The 'rank' parameter of BatchLoader must be below the world size. Got rank "
                f"{rank} of {world_size}."
            )
        self.seed = check_count(seed, "seed", "BatchLoader", minimum=0)
        self.augmentation = None if augmentation == Augmentation() else augmentation
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.device = torch.device(device)
        self._bytes = _tensor(split.images, self.device)
        self._labels = _tensor(split.labels, self.device)
        self._scale, self._offset = _affine(normalisation, self.device)

    def __len__(self) -> int:
        """The number of batches in an epoch, the same on every rank."""
        whole, rest = divmod(len(self._labels), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Serve one epoch."""
        order = self._order(epoch)
        for number in range(len(self)):
            yield self._batch(order, epoch, number)

    def _order(self, epoch: int) -> Tensor:
        n = len(self._labels)
        if not self.shuffle:
            return torch.arange(n)
        return torch.randperm(n, generator=_generator(self.seed, _ORDER, epoch))

    def _batch(self, order: Tensor, epoch: int, number: int) -> Batch:
        rows = order[number * self.batch_size : (number + 1) * self.batch_size]
        share = _share(len(rows), self.rank, self.world_size)
        mine = rows[share].to(self.device)
        images = self._bytes[mine]
        if self.augmentation is None:
            return Batch(self._normalise(_floats(images)), self._labels[mine], mine)
        generator = _generator(self.seed, _AUGMENTATION, epoch, number)
        chances = draw(self.augmentation, len(rows), generator).take(share, self.device)
        moved = _floats(move_pixels(images, chances, padding=self.augmentation.padding))
        changed = change_floats(moved, chances, self.augmentation)
        return Batch(self._normalise(changed), self._labels[mine], mine)

    def _normalise(self, images: Tensor) -> Tensor:
        return images.mul_(self._scale).add_(self._offset)


def _floats(images: Tensor) -> Tensor:
    """Bytes (n, height, width, channels) to floats (n, channels, height, width)."""
    return images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)


def _tensor(array: AnyArray, device: torch.device) -> Tensor:
    """Return a tensor on the array's own memory if it is writable, else on a copy."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(device)


def _generator(*key: int) -> torch.Generator:
    """Return a generator that depends only on the key."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)  # torch takes 63 bits


def _share(n: int, rank: int, world_size: int) -> slice:
    """Return a rank's rows of a batch; the ranks' numbers of rows differ by one at most."""
    return slice(n * rank // world_size, n * (rank + 1) // world_size)


def _affine(normalisation: Normalisation, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return scale and offset, so that a byte times scale plus offset is normalised."""
    mean = torch.tensor(normalisation.mean, dtype=torch.float64)
    std = torch.tensor(normalisation.std, dtype=torch.float64)
    scale, offset = 1 / (255 * std), -mean / std
    shape = (-1, 1, 1)
    return scale.float().view(shape).to(device), offset.float().view(shape).to(device)

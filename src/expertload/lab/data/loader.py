"""Makes reproducible batches of tensors from arrays of bytes.

A batch depends only on (seed, epoch, number). No state is carried from batch to batch, so a killed
run continues exactly by requesting its epoch again. Order and augmentation are drawn for the
*global* batch, and each rank takes its share. So two processes together see the same data as one
process, to the last bit.

All operations work on whole batches. Moving pixels (shifts, mirror images, the eight symmetries) is
one gather of bytes. There are no worker processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the customary name

from expertload._check import check_count
from expertload._typing import AnyArray
from expertload.exceptions import ParameterError
from expertload.lab.data.dataset import Augmentation, Normalisation, Split

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
        Draw a new order each epoch. If the images have weights, draw as many images as there are,
        with replacement, in proportion to their weights.
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
        self.batch_size = check_count(batch_size, "batch_size")
        self.seed = check_count(seed, "seed", minimum=0)
        self.rank, self.world_size = rank, world_size
        self.augmentation = None if augmentation == Augmentation() else augmentation
        self.shuffle, self.drop_last = shuffle, drop_last
        self.device = torch.device(device)
        self._bytes = _tensor(split.images, self.device)
        self._labels = _tensor(split.labels, self.device)
        self._weights = None if split.weights is None else torch.as_tensor(split.weights)
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
        generator = _generator(self.seed, _ORDER, epoch)
        if self._weights is None:
            return torch.randperm(n, generator=generator)
        return torch.multinomial(self._weights, n, replacement=True, generator=generator)

    def _batch(self, order: Tensor, epoch: int, number: int) -> Batch:
        rows = order[number * self.batch_size : (number + 1) * self.batch_size]
        share = _share(len(rows), self.rank, self.world_size)
        mine = rows[share].to(self.device)
        images = self._bytes[mine]
        how = self.augmentation
        if how is not None:
            generator = _generator(self.seed, _AUGMENTATION, epoch, number)
            chances = draw(how, len(rows), generator).take(share, self.device)
            images = move_pixels(images, chances, padding=how.padding, reflect=how.reflect)
        return Batch(_floats(images).mul_(self._scale).add_(self._offset), self._labels[mine], mine)


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


# ------------------------------------------------------------------ augmentation


class Chances(NamedTuple):
    """The random changes for each image of a batch; one row per image.

    Attributes
    ----------
    top, left : Tensor of int64
        The position at which the image is cut from its padded frame.
    mirrored, upended, transposed : Tensor of bool
        Whether left and right, top and bottom, rows and columns are exchanged.
    """

    top: Tensor
    left: Tensor
    mirrored: Tensor
    upended: Tensor
    transposed: Tensor

    def take(self, share: slice, device: torch.device) -> Chances:
        """Return the rows of some images, on the device of the images."""
        return Chances(*(chance[share].to(device) for chance in self))


def draw(augmentation: Augmentation, n: int, generator: torch.Generator) -> Chances:
    """Draw the random changes for n images.

    Examples
    --------
    >>> import torch
    >>> from expertload.lab.data import Augmentation
    >>> from expertload.lab.data.loader import draw
    >>> chances = draw(Augmentation(padding=2), 1000, torch.Generator().manual_seed(0))
    >>> sorted(set(chances.top.tolist())), bool(chances.mirrored.any())
    ([0, 1, 2, 3, 4], False)
    """
    how = augmentation
    # The order of draws is part of the result: a new kind of change must be drawn last.
    top, left = torch.randint(0, 2 * how.padding + 1, (2, n), generator=generator)
    mirrored = torch.rand(n, generator=generator) < 0.5
    upended, transposed = torch.rand((2, n), generator=generator) < 0.5
    return Chances(
        *(top, left),
        mirrored & (how.flip or how.symmetries),
        upended & (how.flip_vertical or how.symmetries),
        transposed & how.symmetries,
    )


def move_pixels(
    images: Tensor, chances: Chances, *, padding: int = 0, reflect: bool = False
) -> Tensor:
    """Cut each image from its padded frame; mirror, flip and transpose it as drawn.

    Parameters
    ----------
    images : Tensor of uint8, shape (n, height, width, channels)
    chances : Chances
    padding : int, default=0
        The width of the padding.
    reflect : bool, default=False
        Whether the padding is a mirror image of the border, and not black.

    Examples
    --------
    >>> import torch
    >>> from expertload.lab.data import Augmentation
    >>> from expertload.lab.data.loader import draw, move_pixels
    >>> chances = draw(Augmentation(), 1, torch.Generator().manual_seed(0))
    >>> image = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8).view(1, 2, 2, 1)
    >>> move_pixels(image, chances._replace(mirrored=torch.tensor([True]))).flatten().tolist()
    [2, 1, 4, 3]
    """
    n, height, width, channels = images.shape
    changed = chances.mirrored | chances.upended | chances.transposed
    if padding == 0 and not changed.any():
        return images
    columns = _positions(width, chances.mirrored) + chances.left[:, None]
    rows = _positions(height, chances.upended) + chances.top[:, None]
    if reflect:
        framed = images
        rows, columns = _reflected(rows - padding, height), _reflected(columns - padding, width)
    else:
        framed = F.pad(images, (0, 0, padding, padding, padding, padding))
    # One gather of whole pixels from a flat list: several times faster than indexing three axes.
    first_row = torch.arange(n, device=images.device)[:, None] * framed.shape[1]
    pixels = (first_row + rows)[:, :, None] * framed.shape[2] + columns[:, None, :]
    if chances.transposed.any():
        if height != width:
            raise ParameterError(
                f"Images must be square for the eight symmetries (data.augment.symmetries). Got "
                f"{height} x {width}. Hint: flip and flip_vertical work for any image."
            )
        pixels = torch.where(chances.transposed[:, None, None], pixels.transpose(1, 2), pixels)
    chosen = framed.view(-1, channels).index_select(0, pixels.reshape(-1))
    return chosen.view(n, height, width, channels)


def _positions(length: int, reversed_: Tensor) -> Tensor:
    """Return 0, 1, ... or the reverse order; one row per image."""
    forward = torch.arange(length, device=reversed_.device)
    return torch.where(reversed_[:, None], forward.flip(0), forward)


def _reflected(positions: Tensor, length: int) -> Tensor:
    """Return positions outside an image as those of the mirror image that continues it."""
    period = max(2 * (length - 1), 1)
    along = positions.remainder(period)
    return torch.minimum(along, period - along)

"""Finds the images for a name of outliers, and converts them for the network.

A name is that of a data set, for its test images, or ``corrupted:fog:3``, for the run's own test
images under a corruption. With ``all``, or several corruptions joined by a plus, numbers are means
over these corruptions.

Outliers must differ in what they show, not in how they are stored. Grey images become colour images
by repeating their channel. Colour images become grey with the usual weights (0.299, 0.587, 0.114).
The size is changed by interpolation, with smoothing if images shrink.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from expertload._check import check_option
from expertload.exceptions import ParameterError
from expertload.lab import Resize
from expertload.lab.data import Dataset, Split, corruption_names, load_dataset
from expertload.lab.data.corruptions import corrupt_split, parse_corruption
from expertload.lab.data.dataset import ImageArray

OWN = "corrupted"
EYE = np.array([0.299, 0.587, 0.114])
CHUNK = 4096  # images per batch, so that memory is never needed for all of them as floats


class Outliers(NamedTuple):
    """Images converted for the network, and a description of the conversion."""

    images: Split
    conversion: str


@dataclass(frozen=True, kw_only=True)
class OutlierSets:
    """Finds the inliers of a network and its outliers by name.

    Attributes
    ----------
    data : Dataset
        The network's training data; its test images are the inliers.
    resize : {"bilinear", "nearest"}
        How outliers of another size are resized.
    max_images : int or None
        Use at most this many inliers and outliers, evenly spread over the split.
    seed : int
        The seed of splits and corruptions.
    image_size : int or None
        The size to which images of a folder are resized, as for the run.
    data_dir : path or None
        Where data files are.
    """

    data: Dataset
    resize: Resize = "bilinear"
    max_images: int | None = None
    seed: int = 0
    image_size: int | None = None
    data_dir: str | Path | None = None

    @property
    def inliers(self) -> Split:
        """The network's own test images."""
        return self._thinned(self.data.test)

    def find(self, name: str) -> Iterator[Outliers]:
        """Yield the sets of a name one by one, because all may not fit in memory."""
        for part in _parts(name):
            base, _, argument = part.partition(":")
            yield self._corrupted(argument) if base == OWN else self._others(part)

    def _corrupted(self, argument: str) -> Outliers:
        corruption, severities = parse_corruption(argument, OWN)
        every = corrupt_split(self.inliers, corruption, severities, seed=self.seed)
        return Outliers(self._thinned(every), "as they are")

    def _others(self, name: str) -> Outliers:
        # Images of a folder are resized like those of the run, so that only their content differs.
        size = self.image_size if name.startswith("folder:") else None
        others = load_dataset(name, data_dir=self.data_dir, seed=self.seed, image_size=size)
        if np.array_equal(others.test.images, self.data.test.images):
            raise ParameterError(
                f"The outliers must differ from the run's own test images. Got {name!r} for both. "
                "Hint: name another data set."
            )
        chosen, shape = self._thinned(others.test), self.data.image_shape
        images = convert_images(chosen.images, shape, resize=self.resize)
        conversion = describe_conversion(others.image_shape, shape, resize=self.resize)
        return Outliers(Split(images, chosen.labels), conversion)

    def _thinned(self, split: Split) -> Split:
        if self.max_images is None or self.max_images >= len(split):
            return split
        return split.take(np.linspace(0, len(split) - 1, self.max_images).astype(np.int64))


def _parts(name: str) -> list[str]:
    """Return the parts of a name: each of several corruptions, or the name itself."""
    base, _, argument = name.partition(":")
    if base not in (OWN, "cifar100-c"):
        return [name]
    kinds, colon, severity = argument.partition(":")
    each = corruption_names() if kinds == "all" else kinds.split("+")
    return [f"{base}:{kind}{colon}{severity}" for kind in each]


# ------------------------------------------------------------------ conversion


def convert_images(
    images: ImageArray, shape: tuple[int, int, int], *, resize: Resize = "bilinear"
) -> ImageArray:
    """Convert images to a height, a width and a number of channels.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, height, width, channels)
    shape : (height, width, channels)
        The shape of the network's training images.
    resize : {"bilinear", "nearest"}, default="bilinear"

    Returns
    -------
    ndarray of uint8, shape (n, *shape)

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.results.outlier_sets import convert_images
    >>> convert_images(np.full((2, 28, 28, 1), 7, np.uint8), (32, 32, 3)).shape
    (2, 32, 32, 3)
    """
    check_option(resize, get_args(Resize), "resize")
    parts = [
        _resized(_with_channels(images[start : start + CHUNK], shape[2]), shape[:2], resize)
        for start in range(0, len(images), CHUNK)
    ]
    return np.concatenate(parts)


def describe_conversion(
    given: tuple[int, int, int], wanted: tuple[int, int, int], *, resize: Resize = "bilinear"
) -> str:
    """Return a description of what `convert_images` does to images of a shape.

    Examples
    --------
    >>> from expertload.lab.results.outlier_sets import describe_conversion
    >>> describe_conversion((28, 28, 1), (32, 32, 3))
    'grey to colour, 28 x 28 resized to 32 x 32 (bilinear)'
    """
    steps = []
    if given[2] != wanted[2]:
        steps.append("grey to colour" if given[2] == 1 else "colour to grey")
    if given[:2] != wanted[:2]:
        steps.append(f"{given[0]} x {given[1]} resized to {wanted[0]} x {wanted[1]} ({resize})")
    return ", ".join(steps) or "as they are"


def _with_channels(images: ImageArray, channels: int) -> ImageArray:
    have = images.shape[-1]
    if have == channels:
        return images
    if have == 1:
        return np.repeat(images, channels, axis=-1)
    if have == 3 and channels == 1:
        grey: ImageArray = np.rint(images @ EYE).astype(np.uint8)
        return grey[..., None]
    raise ParameterError(
        f"Images with {have} channels cannot be converted for a network with {channels}: only "
        "grey and colour images can be converted into each other."
    )


def _resized(images: ImageArray, size: tuple[int, int], resize: Resize) -> ImageArray:
    if images.shape[1:3] == size:
        return images
    import torch  # imported here, because only images of another size need torch

    floats = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    changed = torch.nn.functional.interpolate(
        floats, size=size, mode=resize, antialias=resize == "bilinear"
    )
    rounded = changed.round_().clamp_(0, 255).to(torch.uint8)
    converted: ImageArray = rounded.permute(0, 2, 3, 1).contiguous().numpy()
    return converted

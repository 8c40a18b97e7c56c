"""Data sets: three splits of plain arrays, with normalisation and augmentation.

Images are kept as the bytes they came as, ``uint8`` of shape (n, height, width, channels), so
that all of CIFAR-100 fits in 180 MB and a batch costs one indexing operation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from expertload._typing import AnyArray, IntArray
from expertload._validation import check_same_length, message
from expertload.exceptions import ShapeError

__all__ = ["Augmentation", "Dataset", "ImageArray", "Normalisation", "Split"]

ImageArray: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Split:
    """Images with their labels.

    Attributes
    ----------
    images : ndarray of uint8, shape (n, height, width, channels)
    labels : ndarray of int64, shape (n,)
        Class numbers, from zero.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data import Split
    >>> len(Split(np.zeros((5, 8, 8, 1), np.uint8), np.zeros(5, np.int64)))
    5
    """

    images: ImageArray
    labels: IntArray

    def __post_init__(self) -> None:
        _check_images(self.images, self.labels, "Split")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: IntArray) -> Split:
        """Return these rows as a new split."""
        return Split(self.images[indices], self.labels[indices])

    def nothing(self) -> Split:
        """Return a split of the same kind without rows, for data sets that only test."""
        return self.take(np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class Normalisation:
    """The normalisation of bytes for a network: ``(byte / 255 - mean) / std`` in each channel.

    Examples
    --------
    >>> from expertload.lab.data import Normalisation
    >>> Normalisation.symmetric(1)  # zero to one becomes minus one to one
    Normalisation(mean=(0.5,), std=(0.5,))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def symmetric(cls, channels: int) -> Normalisation:
        """Map the bytes to [-1, 1], independent of the images."""
        return cls((0.5,) * channels, (0.5,) * channels)

    @classmethod
    def measured(cls, images: ImageArray) -> Normalisation:
        """Take mean and standard deviation from the images themselves."""
        # Sums over a histogram are exact and need no float copy of the images.
        values = np.arange(256) / 255
        mean, std = [], []
        for channel in range(images.shape[-1]):
            share = np.bincount(images[..., channel].ravel(), minlength=256) / images[..., 0].size
            centre = float(share @ values)
            mean.append(centre)
            std.append(max(float(np.sqrt(share @ (values - centre) ** 2)), 1 / 255))
        return cls(tuple(mean), tuple(std))


@dataclass(frozen=True)
class Augmentation:
    """Random changes to training images that keep their class.

    Attributes
    ----------
    padding : int
        Shift by up to this many pixels: add a black border, then cut out a piece of the
        image's own size at a random place.
    flip : bool
        Mirror left and right, half of the time.
    flip_vertical : bool
        Turn upside down, half of the time.
    symmetries : bool
        One of the eight symmetries of a square, all equally likely: quarter turns and mirror
        images. For images without a top, such as cells.
    crop : float
        The smallest side of a crop that is scaled up to the whole image, as a share;
        1 for no crop.
    colour : float
        Brightness, contrast and saturation are multiplied by a factor from 1 - colour to
        1 + colour; 0 for no change.
    """

    padding: int = 0
    flip: bool = False
    flip_vertical: bool = False
    symmetries: bool = False
    crop: float = 1.0
    colour: float = 0.0


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, ready for training.

    Attributes
    ----------
    name : str
        The name that was passed to `load_dataset`.
    class_names : tuple of str
        In the order of the class numbers.
    train, validation, test : Split
        No image is in two of them. Sets for testing only (outliers, corruptions) have no images
        to train or to validate on.
    normalisation : Normalisation
        For a network trained on this set. Outliers are shown to a network with the
        normalisation of the set it was trained on, not with their own.
    augmentation : Augmentation
        The usual augmentation for this set.
    source : str
        Where the pixels came from, for the record.
    """

    name: str
    class_names: tuple[str, ...]
    train: Split
    validation: Split
    test: Split
    normalisation: Normalisation
    augmentation: Augmentation
    source: str

    @property
    def num_classes(self) -> int:
        """The number of classes, whether or not each has an image."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        _, height, width, channels = self.test.images.shape
        return height, width, channels

    def description(self) -> dict[str, Any]:
        """Return the facts about the data that a network needs besides images, for JSON."""
        return {
            "classes": list(self.class_names),
            "image_shape": list(self.image_shape),
            "mean": list(self.normalisation.mean),
            "std": list(self.normalisation.std),
        }

    @classmethod
    def described(cls, name: str, description: Mapping[str, Any]) -> Dataset:
        """Return a data set without images, for predictions about other images.

        Examples
        --------
        >>> from expertload.lab.data import Dataset, load_dataset
        >>> Dataset.described("digits", load_dataset("digits").description())
        Dataset('digits': 0/0/0 images of 8 x 8 x 1, 10 classes)
        """
        empty = Split(np.zeros((0, *description["image_shape"]), np.uint8), np.zeros(0, np.int64))
        return cls(
            name,
            tuple(description["classes"]),
            *(empty, empty, empty),
            normalisation=Normalisation(tuple(description["mean"]), tuple(description["std"])),
            augmentation=Augmentation(),
            source="",
        )

    def checksum(self) -> str:
        """Return the SHA-256 of all images and labels, to detect other data with the same name."""
        # Takes a fifth of a second for CIFAR-100.
        digest = hashlib.sha256()
        for split in (self.train, self.validation, self.test):
            digest.update(str(split.images.shape).encode())
            digest.update(np.ascontiguousarray(split.images).data)
            digest.update(np.ascontiguousarray(split.labels).data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        height, width, channels = self.image_shape
        return (
            f"Dataset({self.name!r}: {len(self.train)}/{len(self.validation)}/{len(self.test)} "
            f"images of {height} x {width} x {channels}, {self.num_classes} classes)"
        )


def _check_images(images: AnyArray, labels: AnyArray, caller: str) -> None:
    """Raise unless `images` are whole bytes (n, height, width, channels) with a label each."""
    if images.dtype != np.uint8 or images.ndim != 4:
        raise ShapeError(
            message(
                "images",
                caller,
                "must be uint8 of shape (n, height, width, channels)",
                f"{images.dtype} of shape {images.shape}",
                "grey images need a last axis of one: images[..., None]",
            )
        )
    if labels.dtype != np.int64 or labels.ndim != 1:
        raise ShapeError(
            message(
                "labels",
                caller,
                "must be int64 with 1 dimension",
                f"{labels.dtype} of shape {labels.shape}",
            )
        )
    check_same_length(caller, images=images, labels=labels)

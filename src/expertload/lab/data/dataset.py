"""Data sets: three splits of plain arrays, with normalisation and augmentation.

Images are kept as the bytes they came as, ``uint8`` of shape (n, height, width, channels), so
that all of CIFAR-100 fits in 180 MB and a batch costs one indexing operation. Splits are the same
on every machine, with each class in proportion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from expertload._check import check_same_length, message
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.exceptions import ShapeError

ImageArray: TypeAlias = NDArray[np.uint8]
LUMINANCE = (0.299, 0.587, 0.114)  # how bright red, green and blue are


@dataclass(frozen=True, eq=False)
class Split:
    """Images with their labels.

    Attributes
    ----------
    images : ndarray of uint8, shape (n, height, width, channels)
    labels : ndarray of int64, shape (n,)
        Class numbers, from zero.
    weights : ndarray of float64, shape (n,), optional
        How many cases an image stands for; training draws images in proportion to it.
    patients : ndarray of int64, shape (n,), optional
        Images of one patient stay together when the split is divided.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data import Split
    >>> len(Split(np.zeros((5, 8, 8, 1), np.uint8), np.zeros(5, np.int64)))
    5
    """

    images: ImageArray
    labels: IntArray
    weights: FloatArray | None = None
    patients: IntArray | None = None

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        kinds = str(images.dtype), images.ndim, str(labels.dtype), labels.ndim
        if kinds != ("uint8", 4, "int64", 1):
            raise ShapeError(
                message(
                    "images",
                    "must be uint8 of shape (n, height, width, channels), and 'labels' int64 of "
                    "shape (n,)",
                    f"{images.dtype} of shape {images.shape}, and {labels.dtype} of {labels.shape}",
                    "grey images need a last axis of one: images[..., None]",
                )
            )
        check_same_length(images=self.images, labels=self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: IntArray) -> Split:
        """Return these rows as a new split."""
        weights = None if self.weights is None else self.weights[indices]
        patients = None if self.patients is None else self.patients[indices]
        return Split(self.images[indices], self.labels[indices], weights, patients)

    def nothing(self) -> Split:
        """Return a split of the same kind without rows, for data sets that only test."""
        return self.take(np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class Normalisation:
    """The normalisation of bytes for a network: ``(byte / 255 - mean) / std`` in each channel.

    Examples
    --------
    >>> from expertload.lab.data import Normalisation
    >>> import numpy as np
    >>> Normalisation.measured(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1))
    Normalisation(mean=(0.5,), std=(0.5,))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

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


class Augmentation(BaseModel):
    """Random changes to training images that keep their class; ``data.augment`` in a recipe.

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
    reflect : bool
        Whether the border of `padding` mirrors the image instead of being black.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    padding: Annotated[int, Field(ge=0)] = 0
    flip: bool = False
    flip_vertical: bool = False
    symmetries: bool = False
    reflect: bool = False


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
            if split.weights is not None:
                digest.update(np.ascontiguousarray(split.weights).data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        height, width, channels = self.image_shape
        return (
            f"Dataset({self.name!r}: {len(self.train)}/{len(self.validation)}/{len(self.test)} "
            f"images of {height} x {width} x {channels}, {self.num_classes} classes)"
        )


# ------------------------------------------------------------------ splitting

# The order inside each class comes from the raw stream of a seeded bit generator, which numpy
# keeps fixed between versions, so a split made today is the split made in ten years.


def pick_of_each_class(labels: IntArray, counts: IntArray, seed: int) -> IntArray:
    """Return the indices, ascending, of ``counts[c]`` random members of each class c.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data.dataset import pick_of_each_class
    >>> labels = np.array([0, 0, 0, 1, 1, 1])
    >>> labels[pick_of_each_class(labels, np.array([2, 1]), seed=0)]
    array([0, 0, 1])
    """
    shuffled = np.lexsort((np.random.default_rng(seed).random(len(labels)), labels))
    sizes = np.bincount(labels, minlength=len(counts))
    first = np.cumsum(sizes) - sizes
    grouped = labels[shuffled]
    rank = np.arange(len(labels)) - first[grouped]
    return np.sort(shuffled[rank < counts[grouped]])


def stratified_holdout(labels: IntArray, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Split indices in two, each class in proportion.

    Parameters
    ----------
    labels : ndarray of int64
    share : float
        The part to hold out; the total is rounded to the nearest whole number.
    seed : int

    Returns
    -------
    kept, held_out : ndarrays of int64, ascending

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data.dataset import stratified_holdout
    >>> kept, held_out = stratified_holdout(np.repeat([0, 1], 10), 0.2, seed=0)
    >>> len(kept), len(held_out)
    (16, 4)
    """
    wanted = np.bincount(labels) * share
    quota = np.floor(wanted).astype(np.int64)
    missing = round(len(labels) * share) - int(quota.sum())
    # The remainder from rounding down goes to the classes that lost most.
    quota[np.argsort(quota - wanted, kind="stable")[:missing]] += 1
    held_out = pick_of_each_class(labels, quota, seed)
    return np.setdiff1d(np.arange(len(labels)), held_out), held_out


def carve(split: Split, share: float, seed: int) -> tuple[Split, Split]:
    """Split images in two, each class in proportion; see `stratified_holdout`.

    A patient counts as one case, of the class of the first image.
    """
    if split.patients is None:
        kept, held_out = stratified_holdout(split.labels, share, seed)
        return split.take(kept), split.take(held_out)
    _, first, unit = np.unique(split.patients, return_index=True, return_inverse=True)
    is_out = np.isin(unit, stratified_holdout(split.labels[first], share, seed)[1])
    return split.take(np.flatnonzero(~is_out)), split.take(np.flatnonzero(is_out))


def long_tail_counts(largest: int, num_classes: int, imbalance: float) -> IntArray:
    """Return the number of images each class keeps, so that sizes fall exponentially.

    Class c of C keeps ``largest * imbalance ** (-c / (C - 1))``, rounded down, but at least one
    (Cui et al., CVPR 2019).

    Examples
    --------
    >>> from expertload.lab.data.dataset import long_tail_counts
    >>> long_tail_counts(500, 3, 100)
    array([500,  50,   5])
    """
    steps: AnyArray = np.arange(num_classes) / max(num_classes - 1, 1)
    # The small addition keeps 50 from becoming 49.999...
    return np.maximum(np.floor(largest * imbalance**-steps + 1e-9), 1).astype(np.int64)

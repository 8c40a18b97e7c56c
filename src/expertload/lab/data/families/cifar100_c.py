"""CIFAR-100-C: CIFAR-100's test images under fifteen corruptions at five severities.

``cifar100-c:fog`` is all five severities of one corruption, 50,000 images, mildest first;
``cifar100-c:fog:3`` is one of them. The published files are used if they are there;
otherwise the images are made from CIFAR-100's test images by `corrupt`, and the data set's
`source` says so.

References
----------
Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions and
perturbations", ICLR 2019.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from expertload._typing import AnyArray
from expertload.exceptions import DataNotFoundError
from expertload.lab.data.catalogue import DataRequest, Entry, RemoteFile, damaged
from expertload.lab.data.corruptions.registry import (
    SEVERITIES,
    corrupt,
    corruption_names,
    parse_corruption,
)
from expertload.lab.data.dataset import Dataset, Split
from expertload.lab.data.families.cifar import CROP_AND_FLIP, NORMALISATION, read_cifar100_test

__all__ = ["ENTRIES", "load"]

FOLDER = "CIFAR-100-C"
FILES = (
    RemoteFile(
        f"{FOLDER}.tar",
        f"https://zenodo.org/records/3555552/files/{FOLDER}.tar?download=1",
        "md5:11f0ed0f1191edbf9fa23466ae6021d3",
        at_most=3_200_000_000,
        unpacks_to=FOLDER,
        holds=("labels.npy", *(f"{name}.npy" for name in corruption_names())),
    ),
)


def _read_array(path: Path, dimensions: int) -> AnyArray:
    try:
        array: AnyArray = np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise damaged(path, f"cannot be read as .npy ({error})") from error
    whole = isinstance(array, np.ndarray) and array.ndim == dimensions
    if not whole or array.dtype.kind not in "iu" or not len(array) or len(array) % len(SEVERITIES):
        raise damaged(path, "is not one of CIFAR-100-C's arrays")
    return array


def _from_files(folder: Path, corruption: str, severities: tuple[int, ...]) -> Split:
    path = folder / f"{corruption}.npy"
    images, labels = _read_array(path, 4), _read_array(folder / "labels.npy", 1)
    if images.dtype != np.uint8 or len(images) != len(labels):
        raise damaged(path, f"has {len(images)} {images.dtype} images for {len(labels)} labels")
    each = len(images) // len(SEVERITIES)
    rows = np.concatenate([np.arange((s - 1) * each, s * each) for s in severities])
    return Split(np.ascontiguousarray(images[rows]), np.asarray(labels[rows], np.int64))


def _made(clean: Split, corruption: str, severities: tuple[int, ...], seed: int) -> Split:
    images = [corrupt(clean.images, corruption, s, seed=seed) for s in severities]
    return Split(np.concatenate(images), np.tile(clean.labels, len(severities)))


def load(request: DataRequest) -> Dataset:
    """Read or make the images of one corruption."""
    corruption, severities = parse_corruption(request.argument or "", "cifar100-c")
    try:
        folder = request.find(f"{FOLDER}/{corruption}.npy", f"{corruption}.npy").parent
    except DataNotFoundError as missing:
        test, names, source = _make(request, corruption, severities, missing)
    else:
        test = _from_files(folder, corruption, severities)
        names = tuple(str(number) for number in range(100))
        source = str(folder)
    return Dataset(
        request.name,
        names,
        test.nothing(),
        test.nothing(),
        test,
        normalisation=NORMALISATION,
        augmentation=CROP_AND_FLIP,
        source=source,
    )


def _make(
    request: DataRequest, corruption: str, severities: tuple[int, ...], missing: DataNotFoundError
) -> tuple[Split, tuple[str, ...], str]:
    try:
        clean, names = read_cifar100_test(request)
    except DataNotFoundError:
        raise DataNotFoundError(
            f"{missing} It can also be made from CIFAR-100, which is smaller to download: "
            "'expertload lab data fetch cifar100'."
        ) from missing
    test = _made(clean, corruption, severities, request.seed)
    return test, names, f"made from CIFAR-100's test images, seed {request.seed}"


ENTRIES = (
    Entry(
        "cifar100-c",
        "CIFAR-100's test images, corrupted in fifteen ways",
        load,
        FILES,
        argument="CORRUPTION[:SEVERITY]",
    ),
)

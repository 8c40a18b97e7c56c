"""Data in ``.npz`` files: MedMNIST's, and a user's own with arrays of the same names.

==================================  =============================================================
``train_images``, ``test_images``   uint8, (n, height, width) or (n, height, width, channels)
``train_labels``, ``test_labels``   whole numbers from zero, (n,) or (n, 1)
``val_images``, ``val_labels``      optional; otherwise a tenth of the training images, by class
``class_names``                     optional, one string per class
==================================  =============================================================

A file is read with pickling off, so opening a file from someone else runs no code.

MedMNIST v2 has small medical images, 28 x 28, with official splits. The two-dimensional sets with
one label per image are here. ChestMNIST has fourteen labels per image and so no single correctness;
the three-dimensional sets are volumes.

References
----------
Yang et al., "MedMNIST v2", Scientific Data 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from expertload._typing import AnyArray
from expertload.exceptions import DataNotFoundError
from expertload.lab.data.dataset import Dataset, ImageArray, Split
from expertload.lab.data.files import DataRequest, checked_split, damaged, reading

MOST_CLASSES = 100_000  # a larger label is not a class number; it may be an identifier
HINT = (
    "labels must be class numbers from zero; see 'npz' in the list of data sets for the arrays it "
    "needs"
)


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Return all arrays of a file; pickled arrays are refused."""
    hint = "write it again with numpy.savez, or fetch the data set again"
    # Opened here, because numpy leaves a damaged file open.
    with reading(path, ".npz", hint), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array without a name")
        with archive:
            return {name: archive[name] for name in archive.files}


def load_npz(request: DataRequest) -> Dataset:
    """Read a set of MedMNIST, or the file that follows ``npz:``."""
    path = request.find_file() if request.known.files else own_file(request.argument)
    arrays = read_npz(path)
    splits = _splits(arrays, path, request, len(request.known.classes) or MOST_CLASSES)
    if len({split.images.shape[1:] for split in splits}) > 1:
        raise damaged(path, "has images of different sizes in its splits", HINT)
    names = request.known.classes or _class_names(arrays, splits, path)
    return request.dataset(splits, path, names)


def own_file(argument: str) -> Path:
    """Return the path after ``npz:``; refuse one without a file."""
    path = Path(argument).expanduser()
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}. Hint: write npz:PATH with its path.")
    return path


def _splits(
    arrays: Mapping[str, AnyArray], path: Path, request: DataRequest, num_classes: int
) -> tuple[Split, Split, Split]:
    """Return training, validation and test splits."""
    train, test = (_split(arrays, part, path, num_classes) for part in ("train", "test"))
    if "val_images" in arrays:
        return train, _split(arrays, "val", path, num_classes), test
    return *request.hold_out(train), test


def _split(arrays: Mapping[str, AnyArray], part: str, path: Path, num_classes: int) -> Split:
    for key in (f"{part}_images", f"{part}_labels"):
        if key not in arrays:
            raise damaged(path, f"has no array '{key}' (it has {', '.join(arrays)})", HINT)
    images = as_images(arrays[f"{part}_images"], f"{part}_images", path)
    labels = arrays[f"{part}_labels"]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return checked_split(path, images, labels, num_classes, HINT)


def as_images(array: AnyArray, key: str, path: Path) -> ImageArray:
    """Return an array of a file as images, grey ones with their channel; refuse anything else."""
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        got = f"{array.dtype} of shape {array.shape}"
        raise damaged(path, f"must hold '{key}' as uint8 images, but holds {got}", HINT)
    return array[..., None] if array.ndim == 3 else array


def _class_names(arrays: Mapping[str, AnyArray], splits: Iterable[Split], path: Path) -> list[str]:
    needed = 1 + max(int(split.labels.max()) for split in splits if len(split))
    if "class_names" not in arrays:
        return [str(number) for number in range(needed)]
    names = [str(name) for name in arrays["class_names"].ravel()]
    if len(names) < needed:
        raise damaged(path, f"names {len(names)} classes for labels up to {needed - 1}", HINT)
    return names

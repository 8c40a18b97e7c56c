"""A user's own ``.npz``: arrays named as MedMNIST names them.

==================================  =============================================================
``train_images``, ``test_images``   uint8, (n, height, width) or (n, height, width, channels)
``train_labels``, ``test_labels``   whole numbers from zero, (n,) or (n, 1)
``val_images``, ``val_labels``      optional; otherwise a tenth of the training images, by class
``class_names``                     optional, one string per class
==================================  =============================================================

The file is read with pickling off, so opening a file from someone else runs no code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from expertload._typing import AnyArray, IntArray
from expertload.exceptions import DataNotFoundError
from expertload.lab.data.catalogue import DataRequest, Entry, damaged
from expertload.lab.data.dataset import Augmentation, Dataset, ImageArray, Normalisation, Split
from expertload.lab.data.splitting import carve

__all__ = ["ENTRIES", "as_images", "load", "read_npz", "splits_from_arrays"]

VALIDATION_SHARE = 0.1
MOST_CLASSES = 100_000  # a larger label is not a class number; it may be an identifier
HINT = "see 'npz' in the list of data sets for the arrays it needs"


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Return all arrays of a file; pickled arrays are refused."""
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array without a name")
            with archive:
                return {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive can raise nearly anything
        hint = "write it again with numpy.savez, or fetch the data set again"
        raise damaged(path, f"cannot be read as .npz ({error})", hint) from error


def splits_from_arrays(
    arrays: Mapping[str, AnyArray], path: Path, seed: int
) -> tuple[Split, Split, Split]:
    """Return training, validation and test splits."""
    train = _split(arrays, "train", path)
    test = _split(arrays, "test", path)
    if "val_images" in arrays:
        return train, _split(arrays, "val", path), test
    return *carve(train, VALIDATION_SHARE, seed), test


def _split(arrays: Mapping[str, AnyArray], part: str, path: Path) -> Split:
    for key in (f"{part}_images", f"{part}_labels"):
        if key not in arrays:
            raise damaged(path, f"has no array '{key}' (it has {', '.join(arrays)})", HINT)
    images = as_images(arrays[f"{part}_images"], f"{part}_images", path)
    labels = _labels(arrays[f"{part}_labels"], f"{part}_labels", path)
    if len(images) != len(labels) or not len(images):
        raise damaged(path, f"has {len(images)} {part} images and {len(labels)} labels", HINT)
    return Split(images, labels)


def as_images(array: AnyArray, key: str, path: Path) -> ImageArray:
    """Return an array of a file as images, grey ones with their channel; refuse anything else."""
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        got = f"{array.dtype} of shape {array.shape}"
        raise damaged(path, f"must hold '{key}' as uint8 images, but holds {got}", HINT)
    return array[..., None] if array.ndim == 3 else array


def _labels(array: AnyArray, key: str, path: Path) -> IntArray:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "biu":
        got = f"{array.dtype} of shape {array.shape}"
        raise damaged(path, f"must hold '{key}' as one class number per image, not {got}", HINT)
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise damaged(path, f"has negative numbers in '{key}'", HINT)
    if array.size and int(array.max()) >= MOST_CLASSES:
        raise damaged(
            path,
            f"has label {int(array.max()):,} in '{key}', but labels must be class numbers from "
            "zero",
            "number the classes 0, 1, 2, ...",
        )
    return array.astype(np.int64)


def _class_names(arrays: Mapping[str, AnyArray], splits: Iterable[Split], path: Path) -> list[str]:
    needed = 1 + max(int(split.labels.max()) for split in splits if len(split))
    if "class_names" not in arrays:
        return [str(number) for number in range(needed)]
    names = [str(name) for name in arrays["class_names"].ravel()]
    if len(names) < needed:
        raise damaged(path, f"names {len(names)} classes for labels up to {needed - 1}", HINT)
    return names


def load(request: DataRequest) -> Dataset:
    """Read the file that follows ``npz:``."""
    path = Path(request.argument or "").expanduser()
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}. Hint: write npz:PATH with its path.")
    arrays = read_npz(path)
    splits = splits_from_arrays(arrays, path, request.seed)
    if len({split.images.shape[1:] for split in splits}) > 1:
        raise damaged(path, "has images of different sizes in its splits", HINT)
    return Dataset(
        request.name,
        tuple(_class_names(arrays, splits, path)),
        *splits,
        normalisation=Normalisation.measured(splits[0].images),
        augmentation=Augmentation(),
        source=str(path),
    )


ENTRIES = (
    Entry("npz", "your own .npz with train/val/test images and labels", load, argument="PATH"),
)

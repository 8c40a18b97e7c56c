"""CIFAR-100 and its long-tailed versions, from the official pickles.

The 50,000 training images are split 45,000/5,000, every class in proportion (450/50). In the
long-tailed versions the training classes shrink exponentially in class order, the largest
`imbalance` times the smallest up to rounding; validation and test stay balanced.

A pickle is a program; an ordinary `pickle.load` runs whatever it says. The official files need only
lists, strings, numbers and one numpy array, so `read_pickle` knows how to rebuild arrays, and
refuses every other name.

References
----------
Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from expertload.lab.data.catalogue import DataRequest, Entry, RemoteFile, damaged
from expertload.lab.data.dataset import Augmentation, Dataset, Normalisation, Split
from expertload.lab.data.splitting import carve, long_tail_counts, pick_of_each_class

__all__ = ["CIFAR100_FILES", "ENTRIES", "load_cifar100", "read_cifar100_test", "read_pickle"]

FOLDER = "cifar-100-python"
CIFAR100_FILES = (
    RemoteFile(
        f"{FOLDER}.tar.gz",
        f"https://www.cs.toronto.edu/~kriz/{FOLDER}.tar.gz",
        "md5:eb9058c3a382ffc7106e4002c42a8d85",
        at_most=170_000_000,
        unpacks_to=FOLDER,
        holds=("train", "test", "meta"),
    ),
)
NORMALISATION = Normalisation((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
CROP_AND_FLIP = Augmentation(padding=4, flip=True)
VALIDATION_SHARE = 0.1


def _read_split(path: Path, num_classes: int) -> Split:
    content = read_pickle(path)
    try:
        images = np.asarray(content["data"]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = np.asarray(content["fine_labels"])
    except (KeyError, ValueError) as error:
        raise damaged(path, f"lacks CIFAR-100's data or fine labels ({error})") from error
    if images.dtype != np.uint8 or labels.dtype.kind != "i" or len(images) != len(labels):
        raise damaged(path, f"has {len(labels)} labels for {len(images)} {images.dtype} images")
    if not len(labels) or labels.min() < 0 or labels.max() >= num_classes:
        raise damaged(path, f"has labels outside its {num_classes} classes, or none")
    return Split(np.ascontiguousarray(images), labels.astype(np.int64))


def _class_names(path: Path) -> tuple[str, ...]:
    names: Any = read_pickle(path).get("fine_label_names")
    if not isinstance(names, list) or not names:
        raise damaged(path, "does not name the classes")
    return tuple(_text(name) for name in names)


def _find(request: DataRequest, part: str) -> Path:
    return request.find(f"{FOLDER}/{part}", part)


def read_cifar100_test(request: DataRequest) -> tuple[Split, tuple[str, ...]]:
    """Return the test images, in the file's order, and the class names."""
    names = _class_names(_find(request, "meta"))
    return _read_split(_find(request, "test"), len(names)), names


def load_cifar100(request: DataRequest) -> Dataset:
    """Read CIFAR-100 and hold out its validation images."""
    test, names = read_cifar100_test(request)
    path = _find(request, "train")
    train, validation = carve(_read_split(path, len(names)), VALIDATION_SHARE, request.seed)
    return Dataset(
        request.name,
        names,
        train,
        validation,
        test,
        normalisation=NORMALISATION,
        augmentation=CROP_AND_FLIP,
        source=str(path.parent),
    )


def _load_long_tail(request: DataRequest) -> Dataset:
    imbalance = float(request.name.rpartition("-")[2])
    whole = load_cifar100(request)
    largest = int(np.bincount(whole.train.labels).max())
    counts = long_tail_counts(largest, whole.num_classes, imbalance)
    chosen = pick_of_each_class(whole.train.labels, counts, request.seed)
    return replace(whole, train=whole.train.take(chosen))


ENTRIES = (
    Entry("cifar100", "CIFAR-100, 45,000/5,000/10,000 images", load_cifar100, CIFAR100_FILES),
    *(
        Entry(
            f"cifar100-lt-{imbalance}",
            f"CIFAR-100 with a long tail, imbalance {imbalance}",
            _load_long_tail,
            CIFAR100_FILES,
        )
        for imbalance in (100, 50, 10)
    ),
)


# ------------------------------------------------------------------ pickles


def _latin1_bytes(text: str, encoding: str = "latin1") -> bytes:
    """Rebuild bytes as Python 3 writes them for Python 2: text through one plain codec."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}")
    return text.encode("latin1")


# Both spellings of the module: numpy 2 renamed it. The function is numpy's own, taken from
# what an array says of itself so that nothing private is imported.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1_bytes,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_pickle(path: Path) -> dict[str, Any]:
    """Return the dictionary in a CIFAR pickle, its keys as text.

    Raises
    ------
    DataDamagedError
        If the file is cut short, is not a pickle, or asks for anything but arrays.
    """
    try:
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise damaged(path, f"is not a plain CIFAR pickle: {error}") from error
    if not isinstance(content, dict):
        raise damaged(path, f"holds a {type(content).__name__}, not CIFAR's dictionary")
    return {_text(key): value for key, value in content.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

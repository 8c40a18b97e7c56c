"""CIFAR-100, its long-tailed versions and its corrupted test images, from the official files.

The 50,000 training images are split 45,000/5,000, every class in proportion (450/50). In the
long-tailed versions the training classes shrink exponentially in class order, the largest
`imbalance` times the smallest up to rounding; validation and test stay balanced.

``cifar100-c:fog`` is all five severities of one corruption, 50,000 images, mildest first;
``cifar100-c:fog:3`` is one of them. The published files are used if they are there; otherwise the
images are made from CIFAR-100's test images by `corrupt`, and the data set's `source` says so.

A pickle is a program; an ordinary `pickle.load` runs whatever it says. The official files need only
lists, strings, numbers and one numpy array, so `read_pickle` knows how to rebuild arrays, and
refuses every other name.

References
----------
Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019.
Hendrycks and Dietterich, "Benchmarking neural network robustness to common corruptions and
perturbations", ICLR 2019.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from expertload._typing import AnyArray
from expertload.exceptions import DataNotFoundError
from expertload.lab.data.corruptions import SEVERITIES, corrupt_split, parse_corruption
from expertload.lab.data.dataset import Dataset, Split, long_tail_counts, pick_of_each_class
from expertload.lab.data.files import DataRequest, checked_split, damaged, reading

FOLDER = "cifar-100-python"
CORRUPTED = "CIFAR-100-C"


def _read_split(path: Path, num_classes: int) -> Split:
    content = read_pickle(path)
    with reading(path, "CIFAR-100's data and fine labels"):
        images = np.asarray(content["data"]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        labels = np.asarray(content["fine_labels"])
    return checked_split(path, images, labels, num_classes)


def _read_test(request: DataRequest) -> tuple[Split, tuple[str, ...]]:
    """Return the test images, in the file's order, and the class names."""
    path = _find(request, "meta")
    names: Any = read_pickle(path).get("fine_label_names")
    if not isinstance(names, list) or not names:
        raise damaged(path, "does not name the classes")
    return _read_split(_find(request, "test"), len(names)), tuple(map(_text, names))


def _find(request: DataRequest, part: str) -> Path:
    return request.find(f"{FOLDER}/{part}", part)


def load_cifar100(request: DataRequest) -> Dataset:
    """Read CIFAR-100 and hold out its validation images."""
    test, names = _read_test(request)
    path = _find(request, "train")
    splits = *request.hold_out(_read_split(path, len(names))), test
    return request.dataset(splits, path.parent, names)


def load_long_tail(request: DataRequest) -> Dataset:
    """Read CIFAR-100 and keep fewer and fewer training images, class by class."""
    imbalance = float(request.name.rpartition("-")[2])
    whole = load_cifar100(request)
    largest = int(np.bincount(whole.train.labels).max())
    counts = long_tail_counts(largest, whole.num_classes, imbalance)
    chosen = pick_of_each_class(whole.train.labels, counts, request.seed)
    return replace(whole, train=whole.train.take(chosen))


# ------------------------------------------------------------------ corrupted


def load_corrupted(request: DataRequest) -> Dataset:
    """Read or make the images of one corruption."""
    corruption, severities = parse_corruption(request.argument, "cifar100-c")
    try:
        folder = request.find(f"{CORRUPTED}/{corruption}.npy", f"{corruption}.npy").parent
    except DataNotFoundError as missing:
        clean, names = _read_clean(request, missing)
        test = corrupt_split(clean, corruption, severities, seed=request.seed)
        source = f"made from CIFAR-100's test images, seed {request.seed}"
    else:
        test = _read_corrupted(folder, corruption, severities)
        names = tuple(str(number) for number in range(100))
        source = str(folder)
    return request.dataset((test.nothing(), test.nothing(), test), source, names)


def _read_clean(request: DataRequest, missing: DataNotFoundError) -> tuple[Split, tuple[str, ...]]:
    try:
        return _read_test(request)
    except DataNotFoundError:
        raise DataNotFoundError(
            f"{missing} It can also be made from CIFAR-100, which is smaller to download: "
            "'expertload lab data fetch cifar100'."
        ) from missing


def _read_corrupted(folder: Path, corruption: str, severities: tuple[int, ...]) -> Split:
    path = folder / f"{corruption}.npy"
    images, labels = _read_array(path), _read_array(folder / "labels.npy")
    size, rest = divmod(len(images), len(SEVERITIES))
    if rest or len(images) != len(labels):
        raise damaged(path, f"has {len(images)} images for {len(labels)} labels")
    rows = np.concatenate([np.arange((s - 1) * size, s * size) for s in severities])
    return checked_split(path, images[rows], labels[rows], 100)


def _read_array(path: Path) -> AnyArray:
    with reading(path, ".npy"):
        array: AnyArray = np.atleast_1d(np.lib.format.open_memmap(path, mode="r"))
    return array


# ------------------------------------------------------------------ pickles


def _latin1_bytes(text: str, encoding: str = "latin1") -> bytes:
    """Rebuild bytes as Python 3 writes them for Python 2: text through one plain codec."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}")
    return text.encode("latin1")


# Both spellings of the module: numpy 2 renamed it. An array's `__reduce__` returns numpy's own
# function, so that nothing private is imported.
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
    with reading(path, "a plain CIFAR pickle"), path.open("rb") as file:
        content = _ArraysOnly(file, encoding="bytes").load()
        return {_text(key): value for key, value in content.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

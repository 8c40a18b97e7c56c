"""SVHN: house numbers in street views, 32 x 32, from its two MATLAB files.

Mostly used as outliers to CIFAR-100. A tenth of the 73,257 training images is held out for
validation, by class. In the files the digit 0 has label 10; here it has label 0.

References
----------
Netzer et al., "Reading digits in natural images with unsupervised feature learning", 2011.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.io import loadmat

from expertload.lab.data.catalogue import DataRequest, Entry, RemoteFile, damaged
from expertload.lab.data.dataset import Augmentation, Dataset, Normalisation, Split
from expertload.lab.data.splitting import carve

__all__ = ["ENTRIES", "load"]

ADDRESS = "https://ufldl.stanford.edu/housenumbers/"
PUBLISHED = {  # SHA-256 and bytes
    "train_32x32.mat": (
        "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
        182_040_794,
    ),
    "test_32x32.mat": (
        "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
        64_275_384,
    ),
}
VALIDATION_SHARE = 0.1


def _read_split(path: Path) -> Split:
    try:
        content = loadmat(path, variable_names=["X", "y"])
        images, labels = np.asarray(content["X"]), np.asarray(content["y"]).ravel()
    except Exception as error:  # scipy's reader raises nearly anything on damaged files
        raise damaged(path, f"cannot be read as SVHN's MATLAB file ({error!r})") from error
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[3] != len(labels):
        raise damaged(path, f"has {len(labels)} labels for {images.dtype} {images.shape}")
    if not labels.size or labels.min() < 1 or labels.max() > 10:
        raise damaged(path, "has labels outside 1 to 10, or none")
    # The file counts images last; (n, height, width, channels) is what everything else expects.
    in_order = np.ascontiguousarray(images.transpose(3, 0, 1, 2))
    return Split(in_order, labels.astype(np.int64) % 10)


def load(request: DataRequest) -> Dataset:
    """Read both files and hold out validation images."""
    paths = [request.find(f"svhn/{name}", name) for name in PUBLISHED]
    train, validation = carve(_read_split(paths[0]), VALIDATION_SHARE, request.seed)
    return Dataset(
        request.name,
        tuple(str(digit) for digit in range(10)),
        train,
        validation,
        _read_split(paths[1]),
        normalisation=Normalisation((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
        augmentation=Augmentation(padding=4),
        source=str(paths[0].parent),
    )


FILES = tuple(
    RemoteFile(f"svhn/{name}", ADDRESS + name, f"sha256:{digest}", at_most=size)
    for name, (digest, size) in PUBLISHED.items()
)
ENTRIES = (Entry("svhn", "Street View House Numbers", load, FILES),)

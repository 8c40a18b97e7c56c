"""Fashion-MNIST: ten kinds of clothing, 28 x 28, from its four IDX files.

IDX is the format of the MNIST family: a magic number, the sizes, then the bytes. The 60,000
training images are split 55,000/5,000 by class.

References
----------
Xiao, Rasul and Vollgraf, "Fashion-MNIST", arXiv:1708.07747, 2017.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from expertload.lab.data.catalogue import DataRequest, Entry, RemoteFile, damaged
from expertload.lab.data.dataset import Augmentation, Dataset, ImageArray, Normalisation, Split
from expertload.lab.data.splitting import carve

__all__ = ["ENTRIES", "load"]

ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
PUBLISHED = {  # SHA-256 and bytes
    "train-images-idx3-ubyte.gz": (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        26_421_880,
    ),
    "train-labels-idx1-ubyte.gz": (
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        29_515,
    ),
    "t10k-images-idx3-ubyte.gz": (
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        4_422_102,
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        5_148,
    ),
}
CLASS_NAMES = (
    "T-shirt or top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
VALIDATION_SHARE = 1 / 12
UNSIGNED_BYTE = 0x08
MOST_DIMENSIONS = 4


def _find(request: DataRequest, stem: str) -> Path:
    inside = (f"fashion-mnist/{stem}.gz", f"fashion-mnist/{stem}")
    return request.find(*inside, f"{stem}.gz", stem)


def _read_split(request: DataRequest, part: str) -> Split:
    path = _find(request, f"{part}-images-idx3-ubyte")
    images = read_idx(path)
    labels = read_idx(_find(request, f"{part}-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.shape != images.shape[:1] or not labels.size:
        raise damaged(path, f"of shape {images.shape} does not fit labels of {labels.shape}")
    if labels.max() >= len(CLASS_NAMES):
        raise damaged(path, f"comes with label {labels.max()} in a set of ten classes")
    return Split(images[..., None], labels.astype(np.int64))


def read_idx(path: Path) -> ImageArray:
    """Return the array in an IDX file of unsigned bytes, gzipped or not."""
    try:
        raw = path.read_bytes()
        content = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, f"cannot be decompressed ({error})") from error
    if len(content) < 4 or content[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise damaged(path, "does not start like an IDX file of unsigned bytes")
    if not 1 <= content[3] <= MOST_DIMENSIONS:
        raise damaged(path, f"says that it has {content[3]} dimensions, not 1 to {MOST_DIMENSIONS}")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise damaged(path, "is cut short before its first byte of data")
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    if len(content) - start != math.prod(shape):
        raise damaged(path, f"is cut short or too long for its shape {shape}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()


def load(request: DataRequest) -> Dataset:
    """Read the four files and hold out validation images."""
    train, validation = carve(_read_split(request, "train"), VALIDATION_SHARE, request.seed)
    return Dataset(
        request.name,
        CLASS_NAMES,
        train,
        validation,
        _read_split(request, "t10k"),
        normalisation=Normalisation((0.2860,), (0.3530,)),
        augmentation=Augmentation(padding=2, flip=True),
        source=str(_find(request, "train-images-idx3-ubyte").parent),
    )


FILES = tuple(
    RemoteFile(f"fashion-mnist/{name}", ADDRESS + name, f"sha256:{digest}", at_most=size)
    for name, (digest, size) in PUBLISHED.items()
)
ENTRIES = (Entry("fashion-mnist", "Fashion-MNIST, ten kinds of clothing", load, FILES),)

"""Small data sets of digits and clothing: scikit-learn's digits, SVHN and Fashion-MNIST.

The default data set is scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, which need no
download. Undamaged they are too easy for a study of expert load, so each image is degraded to its
own degree, drawn from a uniform distribution: contrast fades, noise rises, and a dark patch covers
a part. Some images stay clear and some become illegible to anyone, which is the situation in which
a classifier should know what to delegate: the small CNN, right in 99 % of the clean images, is
right in about 88 % of these. ``digits-clean`` leaves them as they are. The split is 997/300/500 by
class; split and degradation depend on the data seed alone.

SVHN is house numbers in street views, 32 x 32, from its two MATLAB files; mostly used as outliers
to CIFAR-100. In the files the digit 0 has label 10; here it has label 0.

Fashion-MNIST is ten kinds of clothing, 28 x 28, from its four IDX files, 55,000/5,000/10,000. IDX
is the format of the MNIST family: a magic number, the sizes, then the bytes.

References
----------
Netzer et al., "Reading digits in natural images with unsupervised feature learning", 2011.
Xiao, Rasul and Vollgraf, "Fashion-MNIST", arXiv:1708.07747, 2017.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from expertload._check import require_extra
from expertload._typing import AnyArray, IntArray
from expertload.lab.data.dataset import Dataset, ImageArray, Split, carve
from expertload.lab.data.files import DataRequest, checked_split, reading

# ------------------------------------------------------------------ scikit-learn's digits

TEST_SIZE, VALIDATION_SIZE = 500, 300
FADE = 0.4  # contrast lost by the worst image
NOISE = 0.15  # standard deviation of the worst image's noise, as a share of white
PATCH = 3  # side of the dark patch on the worst image, in pixels


def degrade(images: ImageArray, *, seed: int = 0) -> ImageArray:
    """Fade, blur with noise and cover each image, to a degree of its own.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, height, width, channels)
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data.classics import degrade
    >>> white = np.full((1000, 8, 8, 1), 255, np.uint8)
    >>> bool(degrade(white).mean() < 200)
    True
    """
    rng = np.random.default_rng([seed, len(images)])
    height, width = images.shape[1:3]
    degrees: AnyArray = rng.random(len(images))
    degree = degrees[:, None, None, None]
    faded = images / 255 * (1 - FADE * degree)
    noisy = faded + NOISE * degree * rng.standard_normal(images.shape)
    side = np.rint(PATCH * degrees).astype(np.int64)
    covered = _patches(side, height, width, rng)
    final: AnyArray = np.clip(np.where(covered[..., None], 0, noisy), 0, 1)
    result: ImageArray = np.rint(final * 255).astype(np.uint8)
    return result


def _patches(side: IntArray, height: int, width: int, rng: np.random.Generator) -> AnyArray:
    """Squares of the given sides at random places, as masks (n, height, width)."""
    top = rng.integers(0, height - side + 1)[:, None]
    left = rng.integers(0, width - side + 1)[:, None]
    rows, columns = np.arange(height), np.arange(width)
    in_rows = (rows >= top) & (rows < top + side[:, None])
    in_columns = (columns >= left) & (columns < left + side[:, None])
    return in_rows[:, :, None] & in_columns[:, None, :]


def load_digits(request: DataRequest) -> Dataset:
    """Take the digits from scikit-learn, degrade and split them."""
    datasets = require_extra("sklearn.datasets", "lab", "The digits data set")
    values, labels = datasets.load_digits(return_X_y=True)
    images = np.rint(values.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    if request.name == "digits":
        images = degrade(images, seed=request.seed)
    whole = Split(images, labels.astype(np.int64))
    rest, test = carve(whole, TEST_SIZE / len(whole), request.seed)
    train, validation = carve(rest, VALIDATION_SIZE / len(rest), request.seed + 1)
    return request.dataset((train, validation, test), "scikit-learn")


# ------------------------------------------------------------------ SVHN


def load_svhn(request: DataRequest) -> Dataset:
    """Read both files and hold out validation images."""
    paths = [request.find_file(0), request.find_file(1)]
    train, test = map(_read_mat, paths)
    return request.dataset((*request.hold_out(train), test), paths[0].parent)


def _read_mat(path: Path) -> Split:
    with reading(path, "SVHN's MATLAB file"):
        content = loadmat(path, variable_names=["X", "y"])
        # The file counts images last; (n, height, width, channels) is what everything else expects.
        images = np.asarray(content["X"]).transpose(3, 0, 1, 2)
        labels = np.asarray(content["y"]).ravel()
    split = checked_split(path, images, labels - 1, 10)
    return Split(split.images, (split.labels + 1) % 10)


# ------------------------------------------------------------------ Fashion-MNIST


def load_fashion_mnist(request: DataRequest) -> Dataset:
    """Read the four files and hold out validation images."""
    splits = {}
    for part in ("train", "t10k"):
        path = _find_idx(request, f"{part}-images-idx3-ubyte")
        images = read_idx(path)[..., None]
        labels = read_idx(_find_idx(request, f"{part}-labels-idx1-ubyte"))
        splits[part] = checked_split(path, images, labels, len(request.known.classes))
    train, validation = request.hold_out(splits["train"], 1 / 12)
    return request.dataset((train, validation, splits["t10k"]), path.parent)


def _find_idx(request: DataRequest, stem: str) -> Path:
    inside = (f"fashion-mnist/{stem}.gz", f"fashion-mnist/{stem}")
    return request.find(*inside, f"{stem}.gz", stem)


def read_idx(path: Path) -> ImageArray:
    """Return the array in an IDX file of unsigned bytes, gzipped or not."""
    with reading(path, "IDX"):
        raw = path.read_bytes()
        content = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        if content[:3] != b"\0\0\x08":  # the last is the code of unsigned bytes
            raise ValueError("it does not start like an IDX file of unsigned bytes")
        shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4)
        return np.frombuffer(content, dtype=np.uint8, offset=4 + shape.nbytes).reshape(shape).copy()

"""Scikit-learn's handwritten digits, degraded until they need experts: the default data set.

The 1,797 digits of 8 x 8 pixels come with scikit-learn, so nothing is downloaded. Undamaged they
are too easy for a study of expert load, so each image is degraded to its own degree, drawn from a
uniform distribution: contrast fades, noise rises, and a dark patch covers a part. Some images stay
clear and some become illegible to anyone, which is the situation in which a classifier should know
what to delegate: the small CNN, right in 99 % of the clean images, is right in about 88 % of these.
``digits-clean`` leaves them as they are.

The split is 997/300/500 by class. Split and degradation depend on the data seed alone.
"""

from __future__ import annotations

import numpy as np

from expertload._typing import AnyArray, IntArray
from expertload._validation import require_extra
from expertload.lab.data.catalogue import DataRequest, Entry
from expertload.lab.data.dataset import Augmentation, Dataset, ImageArray, Normalisation, Split
from expertload.lab.data.splitting import carve

__all__ = ["ENTRIES", "degrade", "load"]

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
    >>> from expertload.lab.data.families.digits import degrade
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


def load(request: DataRequest) -> Dataset:
    """Take the digits from scikit-learn, degrade and split them."""
    datasets = require_extra("sklearn.datasets", "lab", "The digits data set")
    values, labels = datasets.load_digits(return_X_y=True)
    images = np.rint(values.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    if request.name == "digits":
        images = degrade(images, seed=request.seed)
    whole = Split(images, labels.astype(np.int64))
    rest, test = carve(whole, TEST_SIZE / len(whole), request.seed)
    train, validation = carve(rest, VALIDATION_SIZE / len(rest), request.seed + 1)
    return Dataset(
        request.name,
        tuple(str(digit) for digit in range(10)),
        train,
        validation,
        test,
        normalisation=Normalisation.symmetric(1),
        augmentation=Augmentation(padding=1),
        source="scikit-learn",
    )


ENTRIES = (
    Entry("digits", "handwritten digits, degraded to need experts (embedded, the default)", load),
    Entry("digits-clean", "the same digits as scikit-learn has them", load),
)

"""Finds the images for a name of outliers.

A name is that of a data set, for its test images, or ``corrupted:fog:3``, for the run's own test
images under a corruption. With ``all``, or several corruptions joined by a plus, numbers are means
over these corruptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from expertload._names import Resize
from expertload.exceptions import ParameterError
from expertload.lab.data import Dataset, Split, corrupt, corruption_names, load_dataset
from expertload.lab.data.corruptions.registry import parse_corruption
from expertload.lab.results.outlier_images import convert_images, describe_conversion

__all__ = ["OutlierSets", "Outliers"]

OWN = "corrupted"


class Outliers(NamedTuple):
    """Images converted for the network, and a description of the conversion."""

    images: Split
    conversion: str


@dataclass(frozen=True, kw_only=True)
class OutlierSets:
    """Finds the inliers of a network and its outliers by name.

    Attributes
    ----------
    data : Dataset
        The network's training data; its test images are the inliers.
    resize : {"bilinear", "nearest"}
        How outliers of another size are resized.
    max_images : int or None
        Use at most this many inliers and outliers, evenly spread over the split.
    seed : int
        The seed of splits and corruptions.
    image_size : int or None
        The size to which images of a folder are resized, as for the run.
    data_dir : path or None
        Where data files are.
    """

    data: Dataset
    resize: Resize = "bilinear"
    max_images: int | None = None
    seed: int = 0
    image_size: int | None = None
    data_dir: str | Path | None = None

    @property
    def inliers(self) -> Split:
        """The network's own test images."""
        return self._thinned(self.data.test)

    def find(self, name: str) -> Iterator[Outliers]:
        """Yield the sets of a name one by one, because all may not fit in memory."""
        for part in _parts(name):
            base, _, argument = part.partition(":")
            yield self._corrupted(argument) if base == OWN else self._others(part)

    def _corrupted(self, argument: str) -> Outliers:
        corruption, severities = parse_corruption(argument, OWN)
        clean = self.inliers
        images = [corrupt(clean.images, corruption, s, seed=self.seed) for s in severities]
        every = Split(np.concatenate(images), np.tile(clean.labels, len(severities)))
        return Outliers(self._thinned(every), "as they are")

    def _others(self, name: str) -> Outliers:
        # Images of a folder are resized like those of the run, so that only their content differs.
        size = self.image_size if name.startswith("folder:") else None
        others = load_dataset(name, data_dir=self.data_dir, seed=self.seed, image_size=size)
        if np.array_equal(others.test.images, self.data.test.images):
            raise ParameterError(
                f"The outliers must differ from the run's own test images. Got {name!r} for both. "
                "Hint: name another data set."
            )
        chosen, shape = self._thinned(others.test), self.data.image_shape
        images = convert_images(chosen.images, shape, resize=self.resize)
        conversion = describe_conversion(others.image_shape, shape, resize=self.resize)
        return Outliers(Split(images, chosen.labels), conversion)

    def _thinned(self, split: Split) -> Split:
        if self.max_images is None or self.max_images >= len(split):
            return split
        return split.take(np.linspace(0, len(split) - 1, self.max_images).astype(np.int64))


def _parts(name: str) -> list[str]:
    """Return the parts of a name: each of several corruptions, or the name itself."""
    base, _, argument = name.partition(":")
    if base not in (OWN, "cifar100-c"):
        return [name]
    kinds, colon, severity = argument.partition(":")
    each = corruption_names() if kinds == "all" else kinds.split("+")
    return [f"{base}:{kind}{colon}{severity}" for kind in each]

"""Decoding many small image files into one array, on a few threads.

Pillow releases Python's global lock while it decodes, so threads are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from expertload._typing import AnyArray
from expertload._validation import require_extra
from expertload.lab.data.catalogue import damaged
from expertload.lab.data.dataset import ImageArray

__all__ = ["SIZE_HINT", "SUFFIXES", "decode_images"]

THREADS = 4
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
SIZE_HINT = (
    "resize all images, with data.image_size=64 in a recipe or with --set, or image_size=64 in "
    "load_dataset"
)


def decode_images(paths: Sequence[Path], *, size: int | None = None) -> ImageArray:
    """Return the images as uint8 of shape (n, height, width, 3).

    Parameters
    ----------
    paths : sequence of Path
        At least one.
    size : int, optional
        Resize every image to size x size: the shorter side is scaled, and the middle is kept.
        Without it, all images must have the same size.
    """
    first = _decode(paths[0], size)
    images = np.empty((len(paths), *first.shape), dtype=np.uint8)

    def fill(position: int) -> None:
        image = first if position == 0 else _decode(paths[position], size)
        if image.shape != first.shape:
            raise damaged(
                paths[position],
                f"is {image.shape[1]} x {image.shape[0]}, unlike {paths[0].name} "
                f"({first.shape[1]} x {first.shape[0]})",
                SIZE_HINT,
            )
        images[position] = image

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(fill, range(len(paths))):
            pass
    return images


def _decode(path: Path, size: int | None) -> AnyArray:
    image_module = require_extra("PIL.Image", "lab", "Reading image files")
    try:
        # Only these formats: for some others, Pillow may start an external program.
        with image_module.open(path, formats=FORMATS) as file:
            image = file.convert("RGB")
    except Exception as error:  # a damaged image can raise nearly anything
        hint = "replace it, or fetch the data set again"
        raise damaged(path, f"cannot be read as an image ({error})", hint) from error
    if size is not None:
        ops = require_extra("PIL.ImageOps", "lab", "Reading image files")
        image = ops.fit(image, (size, size), method=image_module.Resampling.BILINEAR)
    return np.asarray(image)

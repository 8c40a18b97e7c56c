"""Images and their labels."""

from __future__ import annotations

import numpy as np

from expertload._typing import AnyArray
from expertload._validation.arrays import check_same_length
from expertload._validation.wording import message
from expertload.exceptions import (
    ShapeError,
)


def check_images(images: AnyArray, labels: AnyArray, caller: str) -> None:
    """Raise unless `images` are whole bytes (n, height, width, channels) with a label each."""
    if images.dtype != np.uint8 or images.ndim != 4:
        raise ShapeError(
            message(
                "images",
                caller,
                "must be uint8 of shape (n, height, width, channels)",
                f"{images.dtype} of shape {images.shape}",
                "grey images need a last axis of one: images[..., None]",
            )
        )
    if labels.dtype != np.int64 or labels.ndim != 1:
        raise ShapeError(
            message(
                "labels",
                caller,
                "must be int64 with 1 dimension",
                f"{labels.dtype} of shape {labels.shape}",
            )
        )
    check_same_length(caller, images=images, labels=labels)

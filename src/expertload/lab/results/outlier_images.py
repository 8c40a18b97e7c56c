"""Converts images of other data sets to the channels and size of a network's images.

Outliers must differ in what they show, not in how they are stored. Grey images become colour images
by repeating their channel. Colour images become grey with the usual weights (0.299, 0.587, 0.114).
The size is changed by interpolation, with smoothing if images shrink.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from expertload._names import Resize
from expertload._validation import check_option
from expertload.exceptions import ParameterError
from expertload.lab.data.dataset import ImageArray

__all__ = ["convert_images", "describe_conversion"]

EYE = np.array([0.299, 0.587, 0.114])
CHUNK = 4096  # images per batch, so that memory is never needed for all of them as floats


def convert_images(
    images: ImageArray, shape: tuple[int, int, int], *, resize: Resize = "bilinear"
) -> ImageArray:
    """Convert images to a height, a width and a number of channels.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, height, width, channels)
    shape : (height, width, channels)
        The shape of the network's training images.
    resize : {"bilinear", "nearest"}, default="bilinear"

    Returns
    -------
    ndarray of uint8, shape (n, *shape)

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.results.outlier_images import convert_images
    >>> convert_images(np.full((2, 28, 28, 1), 7, np.uint8), (32, 32, 3)).shape
    (2, 32, 32, 3)
    """
    check_option(resize, get_args(Resize), "resize", "convert_images")
    parts = [
        _resized(_with_channels(images[start : start + CHUNK], shape[2]), shape[:2], resize)
        for start in range(0, len(images), CHUNK)
    ]
    return np.concatenate(parts)


def describe_conversion(
    given: tuple[int, int, int], wanted: tuple[int, int, int], *, resize: Resize = "bilinear"
) -> str:
    """Return a description of what `convert_images` does to images of a shape.

    Examples
    --------
    >>> from expertload.lab.results.outlier_images import describe_conversion
    >>> describe_conversion((28, 28, 1), (32, 32, 3))
    'grey to colour, 28 x 28 resized to 32 x 32 (bilinear)'
    """
    steps = []
    if given[2] != wanted[2]:
        steps.append("grey to colour" if given[2] == 1 else "colour to grey")
    if given[:2] != wanted[:2]:
        steps.append(f"{given[0]} x {given[1]} resized to {wanted[0]} x {wanted[1]} ({resize})")
    return ", ".join(steps) or "as they are"


def _with_channels(images: ImageArray, channels: int) -> ImageArray:
    have = images.shape[-1]
    if have == channels:
        return images
    if have == 1:
        return np.repeat(images, channels, axis=-1)
    if have == 3 and channels == 1:
        grey: ImageArray = np.rint(images @ EYE).astype(np.uint8)
        return grey[..., None]
    raise ParameterError(
        f"Images with {have} channels cannot be converted for a network with {channels}: only "
        "grey and colour images can be converted into each other."
    )


def _resized(images: ImageArray, size: tuple[int, int], resize: Resize) -> ImageArray:
    if images.shape[1:3] == size:
        return images
    import torch  # imported here, because only images of another size need torch

    floats = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    changed = torch.nn.functional.interpolate(
        floats, size=size, mode=resize, antialias=resize == "bilinear"
    )
    rounded = changed.round_().clamp_(0, 255).to(torch.uint8)
    converted: ImageArray = rounded.permute(0, 2, 3, 1).contiguous().numpy()
    return converted

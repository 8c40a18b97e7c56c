"""All corruptions, by name, severity and seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from expertload._typing import FloatArray
from expertload._validation import check_count, check_option
from expertload.exceptions import ParameterError
from expertload.lab.data.corruptions import blur, digital, noise, weather
from expertload.lab.data.dataset import ImageArray

__all__ = ["SEVERITIES", "corrupt", "corruption_names", "parse_corruption"]

Corruption: TypeAlias = Callable[[FloatArray, int, np.random.Generator], FloatArray]

SEVERITIES = (1, 2, 3, 4, 5)
CHUNK = 1000  # images at a time: a few dozen megabytes of floats

_CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
}


def corruption_names() -> tuple[str, ...]:
    """Return the fifteen names, in the order of the paper.

    Examples
    --------
    >>> from expertload.lab.data import corruption_names
    >>> len(corruption_names())
    15
    """
    return tuple(_CORRUPTIONS)


def corrupt(images: ImageArray, name: str, severity: int, *, seed: int = 0) -> ImageArray:
    """Corrupt images.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, height, width, channels)
    name : str
        One of `corruption_names`.
    severity : int
        From 1 (mild) to 5.
    seed : int, default=0
        The same seed, name, severity and images give the same result.

    Returns
    -------
    ndarray of uint8, of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data import corrupt
    >>> grey = np.full((1, 32, 32, 3), 100, np.uint8)
    >>> int(corrupt(grey, "brightness", 5).mean())  # 0.3 of 255 brighter
    177
    """
    check_option(name, corruption_names(), "name", "corrupt")
    if check_count(severity, "severity", "corrupt") not in SEVERITIES:
        raise ParameterError(
            f"The 'severity' parameter of corrupt must be from 1 to 5. Got {severity} instead."
        )
    function = _CORRUPTIONS[name]
    result = np.empty_like(images)
    for start in range(0, len(images), CHUNK):
        key = [seed, corruption_names().index(name), severity, start]
        piece = images[start : start + CHUNK].astype(np.float32) / 255
        changed = function(piece, severity, np.random.default_rng(key))
        result[start : start + CHUNK] = np.rint(np.clip(changed, 0, 1) * 255)
    return result


def parse_corruption(argument: str, after: str) -> tuple[str, tuple[int, ...]]:
    """Split ``fog`` or ``fog:3`` into a corruption and its severities.

    Parameters
    ----------
    argument : str
    after : str
        What stands before it and a colon, for messages.

    Examples
    --------
    >>> from expertload.lab.data.corruptions.registry import parse_corruption
    >>> parse_corruption("fog:3", "cifar100-c"), parse_corruption("fog", "cifar100-c")
    (('fog', (3,)), ('fog', (1, 2, 3, 4, 5)))
    """
    name, _, severity = argument.partition(":")
    check_option(name, corruption_names(), f"corruption after {after}:", "load_dataset")
    if not severity:
        return name, SEVERITIES
    if severity not in {str(number) for number in SEVERITIES}:
        raise ParameterError(
            f"The severity after {after}:{name}: must be from 1 to 5. Got {severity!r} instead."
        )
    return name, (int(severity),)

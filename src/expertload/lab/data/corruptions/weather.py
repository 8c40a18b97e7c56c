"""Weather: snow, frost, fog and bright light."""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray
from expertload.lab.data.corruptions.resampling import resample, streak, zoom_matrix
from expertload.lab.data.corruptions.texture import cloud, ice

__all__ = ["brightness", "fog", "frost", "snow"]

LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)

# mean and spread of the flakes, their magnification, the least that shows, the reach and the
# width of their fall, and how much of the picture stays unwhitened
SNOW = (
    (0.10, 0.2, 1.00, 0.60, 8, 3, 0.95),
    (0.10, 0.2, 1.00, 0.50, 10, 4, 0.90),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.90),
    (0.25, 0.3, 2.25, 0.60, 12, 6, 0.85),
    (0.30, 0.3, 1.25, 0.65, 14, 12, 0.80),
)


def _grey(images: FloatArray) -> FloatArray:
    weights = LUMINANCE if images.shape[-1] == 3 else np.full(images.shape[-1], 1, np.float32)
    grey: FloatArray = images @ (weights / weights.sum())
    return grey[..., None]


def snow(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Whiten the picture and let streaks of snow fall through it, twice."""
    mean, spread, magnification, least, reach, width, kept = SNOW[severity - 1]
    n, rows, columns = images.shape[:3]
    flakes = rng.normal(mean, spread, size=(n, rows, columns, 1)).astype(np.float32)
    larger = (zoom_matrix(size, magnification) for size in (rows, columns))
    flakes = resample(flakes, *larger)
    flakes = np.where(flakes < least, 0, np.clip(flakes, 0, 1)).astype(np.float32)
    direction = rng.uniform(-135, -45, size=len(images))
    flakes = streak(flakes, int(reach), width, direction)
    whitened = np.maximum(images, 1.5 * _grey(images) + 0.5)
    snowy: FloatArray = kept * images + (1 - kept) * whitened + flakes + flakes[:, ::-1, ::-1]
    return snowy


def frost(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Lay ice over the picture.

    The benchmark takes pieces of six photographs of frosted windows; here the ice is drawn
    procedurally, so that no picture has to be shipped. The strengths are the benchmark's.
    """
    picture, frosting = ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    n, rows, columns, channels = images.shape
    layer = ice(n, rows, columns, rng)
    return picture * images + frosting * (layer if channels == 3 else _grey(layer))


def fog(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Add a cloud and darken again to the brightness that was there."""
    strength, decay = ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))[severity - 1]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    n, rows, columns = images.shape[:3]
    layer = cloud(n, rows, columns, decay, rng)[..., None]
    foggy: FloatArray = (images + strength * layer) * brightest / (brightest + strength)
    return foggy


def brightness(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Raise the V of HSV: the largest channel grows, and the others keep their ratio to it."""
    gain = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    value = images.max(axis=-1, keepdims=True)
    raised = np.minimum(value + np.float32(gain), 1)
    # Black has no hue to keep, and becomes grey.
    bright: FloatArray = np.where(value > 0, images * (raised / np.maximum(value, 1e-6)), raised)
    return bright

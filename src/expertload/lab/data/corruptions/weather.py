"""Weather: snow, frost, fog and bright light; every image gets clouds and ice of its own."""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray
from expertload.lab.data.corruptions.resampling import resample, streak, zoom_matrix

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


# ------------------------------------------------------------------ clouds and ice


def cloud(n: int, height: int, width: int, decay: float, rng: np.random.Generator) -> FloatArray:
    """Return diamond-square fractals (n, height, width), each scaled to [0, 1].

    From corners inwards, every new point is the mean of its four neighbours plus noise; the
    noise shrinks by ``decay`` squared when the grid halves. The grid wraps around.
    """
    size = 1 << (max(height, width, 2) - 1).bit_length()
    field = np.zeros((n, size, size))
    step, amplitude = size, 1.0
    while step >= 2:
        _fill(field, step, amplitude, rng)
        step, amplitude = step // 2, amplitude / decay**2
    field -= field.min(axis=(1, 2), keepdims=True)
    field /= field.max(axis=(1, 2), keepdims=True)
    return field[:, :height, :width].astype(np.float32)


def _fill(field: FloatArray, step: int, amplitude: float, rng: np.random.Generator) -> None:
    half = step // 2
    corners = field[:, ::step, ::step]

    def noisy_mean(total: FloatArray) -> FloatArray:
        return total / 4 + amplitude * rng.uniform(-1, 1, size=total.shape)

    rightward = corners + np.roll(corners, -1, axis=2)
    centres = noisy_mean(rightward + np.roll(rightward, -1, axis=1))
    field[:, half::step, half::step] = centres
    field[:, ::step, half::step] = noisy_mean(rightward + centres + np.roll(centres, 1, axis=1))
    downward = corners + np.roll(corners, -1, axis=1)
    field[:, half::step, ::step] = noisy_mean(downward + centres + np.roll(centres, 1, axis=2))


def ice(n: int, height: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Return crystals (n, height, width, 3) in [0, 1], white with a touch of blue.

    The plane is divided among random seeds; a point shines the more, the nearer it is to the
    border between the two nearest ones, as grown crystals do where they meet, over a cloud.
    """
    seeds = rng.uniform(-0.2, 1.2, size=(n, 14, 2))
    rows, columns = np.arange(height) / height, np.arange(width) / width
    away_down = np.abs(rows[None, :, None] - seeds[:, None, :, 0])
    away_right = np.abs(columns[None, :, None] - seeds[:, None, :, 1])
    distance = np.hypot(away_down[:, :, None, :], away_right[:, None, :, :])
    nearest = np.partition(distance, 1, axis=-1)
    ridges = np.exp(-(nearest[..., 1] - nearest[..., 0]) / 0.05)
    shine = 0.15 + 0.45 * ridges + 0.4 * cloud(n, height, width, 1.4, rng)
    tinted: FloatArray = shine[..., None] * np.array([0.88, 0.95, 1.0])
    return tinted.astype(np.float32)

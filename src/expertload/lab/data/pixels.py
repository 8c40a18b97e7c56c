"""Pixels of a whole batch at once: resampling, warps, streaks; brightness, clouds and ice.

Scaling an image is linear and separable, so it is two small matrix products. Warps that differ
from image to image gather from four neighbours.
"""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray, IntArray

LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def resample(images: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Apply one matrix along the height and another along the width."""
    n, height, width, channels = images.shape
    tall: FloatArray = rows @ images.reshape(n, height, width * channels)
    wide: FloatArray = columns @ tall.reshape(n * len(rows), width, channels)
    return wide.reshape(n, len(rows), len(columns), channels)


def zoom_matrix(size: int, factor: float) -> FloatArray:
    """Return the matrix that magnifies about the middle, with linear interpolation."""
    middle = (size - 1) / 2
    source = (np.arange(size) - middle) / factor + middle
    distance = np.abs(source[:, None] - np.arange(size)[None, :])
    weights: FloatArray = np.maximum(1 - distance, 0)
    return weights.astype(np.float32)


def box_matrix(old: int, new: int) -> FloatArray:
    """Return the matrix that resizes by averaging: a new pixel covers the centres of old ones.

    This is the rule of Pillow's box filter.
    """
    scale = old / new
    width = max(scale, 1.0)
    offset = np.arange(old)[None, :] + 0.5 - (np.arange(new)[:, None] + 0.5) * scale
    covered = (offset / width > -0.5) & (offset / width <= 0.5)
    weights: FloatArray = covered / covered.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)


def warp(images: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Sample each image at its own fractional positions (n, height, width), mirrored outside."""
    n, height, width, _ = images.shape
    top, down = _neighbours(rows, height)
    left, right = _neighbours(columns, width)
    flat = images.reshape(n * height * width, -1)
    first = (np.arange(n) * height * width)[:, None, None]
    upper, lower = first + top * width, first + np.minimum(top + 1, height - 1) * width
    beside = np.minimum(left + 1, width - 1)
    across, below = right[..., None], down[..., None]
    above = flat[upper + left] * (1 - across) + flat[upper + beside] * across
    under = flat[lower + left] * (1 - across) + flat[lower + beside] * across
    result: FloatArray = above * (1 - below) + under * below
    return result


def _neighbours(position: FloatArray, size: int) -> tuple[IntArray, FloatArray]:
    """Whole and fractional part of positions, folded back at the borders."""
    period = 2 * (size - 1)
    folded = np.abs(position) % period
    folded = np.minimum(folded, period - folded)
    whole = np.floor(folded).astype(np.int64)
    return whole, (folded - whole).astype(np.float32)


def shift_each(images: FloatArray, down: IntArray, right: IntArray) -> FloatArray:
    """Read each image from this many pixels further on, repeating the border."""
    n, height, width, _ = images.shape
    rows = np.clip(np.arange(height)[None, :] + down[:, None], 0, height - 1)
    columns = np.clip(np.arange(width)[None, :] + right[:, None], 0, width - 1)
    moved: FloatArray = images[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved


def streak(images: FloatArray, radius: int, sigma: float, degrees: FloatArray) -> FloatArray:
    """Smear each image in its own direction, with weights that fall as half a normal curve."""
    angle = np.deg2rad(degrees)
    weights = np.exp(-0.5 * (np.arange(2 * radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    result = np.zeros_like(images)
    for step, weight in enumerate(weights):
        if weight > 1e-4:  # less is under a tenth of one grey level
            down = np.rint(step * np.sin(angle)).astype(np.int64)
            right = np.rint(step * np.cos(angle)).astype(np.int64)
            result += np.float32(weight) * shift_each(images, down, right)
    return result


def luminance(images: FloatArray) -> FloatArray:
    """Return the brightness of each pixel, (..., 1)."""
    weights = LUMINANCE if images.shape[-1] == 3 else np.full(images.shape[-1], 1, np.float32)
    grey: FloatArray = images @ (weights / weights.sum())
    return grey[..., None]


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

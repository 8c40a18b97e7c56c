"""Moving pixels of a whole batch at once: separable resampling, warps, streaks.

Scaling an image is linear and separable, so it is two small matrix products. Warps that differ
from image to image gather from four neighbours.
"""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray, IntArray

__all__ = ["box_matrix", "resample", "shift_each", "streak", "warp", "zoom_matrix"]


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

"""Blur: out of focus, through glass, by motion of the camera, by zooming in."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

from expertload._typing import FloatArray
from expertload.lab.data.corruptions.resampling import resample, streak, zoom_matrix

__all__ = ["defocus_blur", "glass_blur", "motion_blur", "zoom_blur"]


def _disk(radius: float, softening: float) -> FloatArray:
    """Return the image of a point out of focus: a disk, its edge softened over three pixels."""
    reach = np.arange(-3, 4)
    inside = (reach[:, None] ** 2 + reach[None, :] ** 2 <= radius**2).astype(np.float64)
    rim = np.exp(-0.5 * (np.arange(-1, 2) / softening) ** 2)
    rim /= rim.sum()
    for axis in (0, 1):
        inside = np.apply_along_axis(np.convolve, axis, inside, rim, mode="same")
    disk: FloatArray = inside / inside.sum()
    return disk


def defocus_blur(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Convolve with a disk."""
    radius, softening = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))[severity - 1]
    kernel = _disk(radius, softening)
    height, width = images.shape[1:3]
    framed = np.pad(images, ((0, 0), (3, 3), (3, 3), (0, 0)), mode="reflect")
    result = np.zeros_like(images)
    for row, column in zip(*np.nonzero(kernel > 1e-6), strict=True):
        moved = framed[:, row : row + height, column : column + width]
        result += np.float32(kernel[row, column]) * moved
    return result


def glass_blur(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Let every pixel take the place of a neighbour, between two slight blurs.

    Each pixel becomes itself or one of its three neighbours above and to the left. (The paper
    speaks of shuffling; this is what was done for the published files.)
    """
    sigma, rounds = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[severity - 1]
    spread = (0, sigma, sigma, 0)
    result = gaussian_filter(images, spread)
    n, height, width, _ = images.shape
    for _round in range(rounds):
        up, left = rng.integers(0, 2, size=(2, n, height, width))
        rows = np.maximum(np.arange(height)[:, None] - up, 0)
        columns = np.maximum(np.arange(width) - left, 0)
        result = result[np.arange(n)[:, None, None], rows, columns]
    return gaussian_filter(result, spread)


def motion_blur(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Smear along a line, at most 45 degrees from level."""
    radius, sigma = ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))[severity - 1]
    return streak(images, radius, sigma, rng.uniform(-45, 45, size=len(images)))


def zoom_blur(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Average over a lens that zooms in, in steps of one per cent, about the exact middle."""
    steps = (6, 11, 16, 21, 26)[severity - 1]
    height, width = images.shape[1:3]
    total = images.copy()
    for step in range(steps):
        factor = 1 + step / 100
        total += resample(images, zoom_matrix(height, factor), zoom_matrix(width, factor))
    return total / np.float32(steps + 1)

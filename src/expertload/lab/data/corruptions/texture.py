"""Random textures for the weather: clouds and ice, a different one for each image."""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray

__all__ = ["cloud", "ice"]


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

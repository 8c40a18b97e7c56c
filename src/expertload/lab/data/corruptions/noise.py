"""Noise: random changes to each pixel by itself."""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise"]


def gaussian_noise(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Add normal noise, as in low light."""
    scale = (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1]
    return images + scale * rng.standard_normal(images.shape, dtype=np.float32)


def shot_noise(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Count photons: a Poisson number, with a mean in proportion to the brightness."""
    photons = (500, 250, 100, 75, 50)[severity - 1]
    return (rng.poisson(images * photons) / photons).astype(np.float32)


def impulse_noise(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Set a share of the values to black or white: salt and pepper, each channel by itself."""
    share = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    chance = rng.random(images.shape, dtype=np.float32)
    return np.where(chance < share, np.where(chance < share / 2, 0, 1), images).astype(np.float32)

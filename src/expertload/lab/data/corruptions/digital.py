"""Digital: weak contrast, elastic deformation, large pixels, JPEG."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from scipy.ndimage import gaussian_filter

from expertload._typing import AnyArray, FloatArray
from expertload._validation import require_extra
from expertload.lab.data.corruptions.resampling import box_matrix, resample, warp

__all__ = ["contrast", "elastic_transform", "jpeg_compression", "pixelate"]

# length of the wobble, its smoothness and the play of the corners, in parts of the image's side
ELASTIC = (
    (0, 0, 0.08),
    (0.05, 0.2, 0.07),
    (0.08, 0.06, 0.06),
    (0.1, 0.04, 0.05),
    (0.1, 0.03, 0.03),
)


def contrast(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Draw every channel towards its mean over the image."""
    kept = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    mean = images.mean(axis=(1, 2), keepdims=True)
    flat: FloatArray = (images - mean) * np.float32(kept) + mean
    return flat


def elastic_transform(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Tilt by a random affine map, then wobble by a smooth random field."""
    n, height, width, _ = images.shape
    length, smoothness, play = (part * height for part in ELASTIC[severity - 1])
    grid = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    tilted = warp(images, *_affine_positions(n, np.stack(grid, axis=-1), play, rng))
    wobble = rng.uniform(-1, 1, size=(2, n, height, width))
    if smoothness:
        wobble = gaussian_filter(wobble, (0, 0, smoothness, smoothness), truncate=3)
    return warp(tilted, grid[0] + length * wobble[0], grid[1] + length * wobble[1])


def _affine_positions(
    n: int, grid: AnyArray, play: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Positions to read from when three corners of an inner square move at random."""
    height, width = grid.shape[:2]
    middle, reach = np.array([height // 2, width // 2]), min(height, width) // 3
    corners = middle + reach * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = corners + rng.uniform(-play, play, size=(n, 3, 2))
    # Solve [moved, 1] @ map = corners: the map leads from the new place back to the old one.
    known = np.concatenate([moved, np.ones((n, 3, 1))], axis=-1)
    back = np.linalg.solve(known, np.broadcast_to(corners, moved.shape).astype(float))
    there = grid @ back[:, None, :2] + back[:, None, None, 2]
    return there[..., 0], there[..., 1]


def pixelate(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Shrink and enlarge again, both by averaging boxes."""
    share = (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1]
    matrices = []
    for size in images.shape[1:3]:
        small = max(int(size * share), 1)
        matrices.append(box_matrix(small, size) @ box_matrix(size, small))
    return resample(images, *matrices)


def jpeg_compression(images: FloatArray, severity: int, rng: np.random.Generator) -> FloatArray:
    """Store as JPEG of low quality and read back."""
    quality = (80, 65, 58, 50, 40)[severity - 1]
    image_module = require_extra("PIL.Image", "lab", "JPEG compression")
    result = np.empty_like(images)
    for position, image in enumerate(np.rint(images * 255).astype(np.uint8)):
        buffer = BytesIO()
        picture = image_module.fromarray(image if image.shape[-1] == 3 else image[..., 0])
        picture.save(buffer, "JPEG", quality=quality)
        with image_module.open(buffer) as stored:
            result[position] = np.asarray(stored, np.float32).reshape(image.shape) / 255
    return result

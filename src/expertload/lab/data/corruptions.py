"""The fifteen common corruptions at five severities, on whole batches of images.

Our own implementations of the definitions in Hendrycks and Dietterich, "Benchmarking neural
network robustness to common corruptions and perturbations" (ICLR 2019), with the strengths that
belong to 32 x 32 images. They reproduce the kind and degree of each corruption, not the bytes of
the published files. Two differ in substance, and say so where they are defined: `frost` (a
procedural texture, where the original cuts pieces from photographs) and `zoom_blur` (exactly
centred).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, TypeAlias

import numpy as np
from scipy.ndimage import correlate, gaussian_filter, map_coordinates

from expertload._check import check_count, check_option, require_extra
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.exceptions import ParameterError
from expertload.lab.data.dataset import LUMINANCE, ImageArray, Split

Corruption: TypeAlias = Callable[[FloatArray, np.random.Generator, Any], FloatArray]

SEVERITIES = (1, 2, 3, 4, 5)
CHUNK = 1000  # images at a time: a few dozen megabytes of floats


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
    check_option(name, corruption_names(), "name")
    check_count(severity, "severity", maximum=SEVERITIES[-1])
    function, levels = _CORRUPTIONS[name]
    result = np.empty_like(images)
    for start in range(0, len(images), CHUNK):
        key = [seed, corruption_names().index(name), severity, start]
        piece = images[start : start + CHUNK].astype(np.float32) / 255
        changed = function(piece, np.random.default_rng(key), levels[severity - 1])
        result[start : start + CHUNK] = np.rint(np.clip(changed, 0, 1) * 255)
    return result


def corrupt_split(split: Split, name: str, severities: Sequence[int], *, seed: int) -> Split:
    """Return the images of a split at each severity, one severity after the other."""
    images = [corrupt(split.images, name, severity, seed=seed) for severity in severities]
    return Split(np.concatenate(images), np.tile(split.labels, len(severities)))


def parse_corruption(argument: str, after: str) -> tuple[str, tuple[int, ...]]:
    """Split ``fog`` or ``fog:3`` into a corruption and its severities.

    Parameters
    ----------
    argument : str
    after : str
        What stands before it and a colon, for messages.

    Examples
    --------
    >>> from expertload.lab.data.corruptions import parse_corruption
    >>> parse_corruption("fog:3", "cifar100-c"), parse_corruption("fog", "cifar100-c")
    (('fog', (3,)), ('fog', (1, 2, 3, 4, 5)))
    """
    name, _, severity = argument.partition(":")
    check_option(name, corruption_names(), f"corruption after {after}:")
    if not severity:
        return name, SEVERITIES
    if severity not in {str(number) for number in SEVERITIES}:
        raise ParameterError(
            f"The severity after {after}:{name}: must be from 1 to 5. Got {severity!r} instead."
        )
    return name, (int(severity),)


# ------------------------------------------------------------------ noise


def gaussian_noise(images: FloatArray, rng: np.random.Generator, scale: float) -> FloatArray:
    """Add normal noise, as in low light."""
    return images + scale * rng.standard_normal(images.shape, dtype=np.float32)


def shot_noise(images: FloatArray, rng: np.random.Generator, photons: int) -> FloatArray:
    """Count photons: a Poisson number, with a mean in proportion to the brightness."""
    return (rng.poisson(images * photons) / photons).astype(np.float32)


def impulse_noise(images: FloatArray, rng: np.random.Generator, share: float) -> FloatArray:
    """Set a share of the values to black or white: salt and pepper, each channel by itself."""
    chance = rng.random(images.shape, dtype=np.float32)
    return np.where(chance < share, np.where(chance < share / 2, 0, 1), images).astype(np.float32)


# ------------------------------------------------------------------ blur


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


def defocus_blur(images: FloatArray, rng: np.random.Generator, level: Any) -> FloatArray:
    """Convolve with a disk."""
    radius, softening = level
    kernel = _disk(radius, softening).astype(np.float32)
    return correlate(images, kernel[None, :, :, None], mode="mirror")


def glass_blur(images: FloatArray, rng: np.random.Generator, level: Any) -> FloatArray:
    """Let every pixel take the place of a neighbour, between two slight blurs.

    Each pixel becomes itself or one of its three neighbours above and to the left. (The paper
    speaks of shuffling; this is what was done for the published files.)
    """
    sigma, rounds = level
    spread = (0, sigma, sigma, 0)
    result = gaussian_filter(images, spread)
    n, height, width, _ = images.shape
    for _round in range(rounds):
        up, left = rng.integers(0, 2, size=(2, n, height, width))
        rows = np.maximum(np.arange(height)[:, None] - up, 0)
        columns = np.maximum(np.arange(width) - left, 0)
        result = result[np.arange(n)[:, None, None], rows, columns]
    return gaussian_filter(result, spread)


def motion_blur(images: FloatArray, rng: np.random.Generator, level: Any) -> FloatArray:
    """Smear along a line, at most 45 degrees from level."""
    radius, sigma = level
    return streak(images, radius, sigma, rng.uniform(-45, 45, size=len(images)))


def zoom_blur(images: FloatArray, rng: np.random.Generator, steps: int) -> FloatArray:
    """Average over a lens that zooms in, in steps of one per cent, about the exact middle."""
    height, width = images.shape[1:3]
    total = images.copy()
    for step in range(steps):
        factor = 1 + step / 100
        total += resample(images, zoom_matrix(height, factor), zoom_matrix(width, factor))
    return total / np.float32(steps + 1)


# ------------------------------------------------------------------ weather

# mean and spread of the flakes, their magnification, the least that shows, the reach and the
# width of their fall, and how much of the picture stays unwhitened
SNOW = (
    (0.10, 0.2, 1.00, 0.60, 8, 3, 0.95),
    (0.10, 0.2, 1.00, 0.50, 10, 4, 0.90),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.90),
    (0.25, 0.3, 2.25, 0.60, 12, 6, 0.85),
    (0.30, 0.3, 1.25, 0.65, 14, 12, 0.80),
)


def snow(images: FloatArray, rng: np.random.Generator, level: tuple[float, ...]) -> FloatArray:
    """Whiten the picture and let streaks of snow fall through it, twice."""
    mean, spread, magnification, least, reach, width, kept = level
    n, rows, columns = images.shape[:3]
    flakes = rng.normal(mean, spread, size=(n, rows, columns, 1)).astype(np.float32)
    larger = (zoom_matrix(size, magnification) for size in (rows, columns))
    flakes = resample(flakes, *larger)
    flakes = np.where(flakes < least, 0, np.clip(flakes, 0, 1)).astype(np.float32)
    flakes = streak(flakes, int(reach), width, rng.uniform(-135, -45, size=len(images)))
    whitened = np.maximum(images, 1.5 * luminance(images) + 0.5)
    snowy: FloatArray = kept * images + (1 - kept) * whitened + flakes + flakes[:, ::-1, ::-1]
    return snowy


def frost(images: FloatArray, rng: np.random.Generator, level: tuple[float, ...]) -> FloatArray:
    """Lay ice over the picture.

    The benchmark takes pieces of six photographs of frosted windows; here the ice is drawn
    procedurally, so that no picture has to be shipped. The strengths are the benchmark's.
    """
    picture, frosting = level
    n, rows, columns, channels = images.shape
    layer = ice(n, rows, columns, rng)
    return picture * images + frosting * (layer if channels == 3 else luminance(layer))


def fog(images: FloatArray, rng: np.random.Generator, level: tuple[float, ...]) -> FloatArray:
    """Add a cloud and darken again to the brightness that was there."""
    strength, decay = level
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    n, rows, columns = images.shape[:3]
    layer = cloud(n, rows, columns, decay, rng)[..., None]
    foggy: FloatArray = (images + strength * layer) * brightest / (brightest + strength)
    return foggy


def brightness(images: FloatArray, rng: np.random.Generator, gain: float) -> FloatArray:
    """Raise the V of HSV: the largest channel grows, and the others keep their ratio to it."""
    value = images.max(axis=-1, keepdims=True)
    raised = np.minimum(value + np.float32(gain), 1)
    # Black has no hue to keep, and becomes grey.
    bright: FloatArray = np.where(value > 0, images * (raised / np.maximum(value, 1e-6)), raised)
    return bright


# ------------------------------------------------------------------ digital

# length of the wobble, its smoothness and the play of the corners, in parts of the image's side
ELASTIC = (
    (0, 0, 0.08),
    (0.05, 0.2, 0.07),
    (0.08, 0.06, 0.06),
    (0.1, 0.04, 0.05),
    (0.1, 0.03, 0.03),
)


def contrast(images: FloatArray, rng: np.random.Generator, kept: float) -> FloatArray:
    """Draw every channel towards its mean over the image."""
    mean = images.mean(axis=(1, 2), keepdims=True)
    flat: FloatArray = (images - mean) * np.float32(kept) + mean
    return flat


def elastic_transform(images: FloatArray, rng: np.random.Generator, level: Any) -> FloatArray:
    """Tilt by a random affine map, then wobble by a smooth random field."""
    n, height, width, _ = images.shape
    length, smoothness, play = (part * height for part in level)
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


def pixelate(images: FloatArray, rng: np.random.Generator, share: float) -> FloatArray:
    """Shrink and enlarge again, both by averaging boxes."""
    matrices = []
    for size in images.shape[1:3]:
        small = max(int(size * share), 1)
        matrices.append(box_matrix(small, size) @ box_matrix(size, small))
    return resample(images, *matrices)


def jpeg_compression(images: FloatArray, rng: np.random.Generator, quality: int) -> FloatArray:
    """Store as JPEG of low quality and read back."""
    image_module = require_extra("PIL.Image", "lab", "JPEG compression")
    result = np.empty_like(images)
    for position, image in enumerate(np.rint(images * 255).astype(np.uint8)):
        buffer = BytesIO()
        picture = image_module.fromarray(image if image.shape[-1] == 3 else image[..., 0])
        picture.save(buffer, "JPEG", quality=quality)
        with image_module.open(buffer) as stored:
            result[position] = np.asarray(stored, np.float32).reshape(image.shape) / 255
    return result


# For each name, what to call, and the last argument at each severity.
_CORRUPTIONS: dict[str, tuple[Corruption, Sequence[Any]]] = {
    "gaussian_noise": (gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot_noise": (shot_noise, (500, 250, 100, 75, 50)),
    "impulse_noise": (impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "defocus_blur": (defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "glass_blur": (glass_blur, ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))),
    "motion_blur": (motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": (zoom_blur, (6, 11, 16, 21, 26)),
    "snow": (snow, SNOW),
    "frost": (frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": (fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "brightness": (brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": (contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "elastic_transform": (elastic_transform, ELASTIC),
    "pixelate": (pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "jpeg_compression": (jpeg_compression, (80, 65, 58, 50, 40)),
}


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
    number = np.broadcast_to(np.arange(len(images))[:, None, None], rows.shape)
    channels = np.moveaxis(images, -1, 0)
    warped = [
        map_coordinates(one, (number, rows, columns), order=1, mode="mirror") for one in channels
    ]
    return np.stack(warped, axis=-1)


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
    channels = images.shape[-1]
    weights = np.array(LUMINANCE if channels == 3 else (1,) * channels, dtype=np.float32)
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

"""Handwritten digits from scikit-learn, some of them spoiled to need an expert, and a network.

The images come with scikit-learn, so nothing is downloaded. Each image is used for only one
purpose: to train, to certify, or to be sent to the desk.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload._validation import require_extra
from expertload.operating_point import CertifiedPoint, certify

__all__ = ["CLASSES", "Digits", "train"]

CLASSES = tuple("0123456789")
N_TRAIN, N_CERTIFY, VERSIONS = 600, 600, 4
TARGET_ACCURACY = 0.95
BRIGHTEST = 16.0
ENLARGED = 16  # by how much the sent image is larger than the original


@dataclass(frozen=True)
class Digits:
    """A trained network, its certified policy, and images it has never seen."""

    network: Any
    point: CertifiedPoint
    images: FloatArray
    labels: IntArray

    def cases(self, *, run: str, drift_after: int | None = None, seed: int = 1) -> Iterator[Any]:
        """Yield (case, label) without end; after `drift_after` cases, the images are mirrored."""
        rng = np.random.default_rng(seed)
        for number in range(10**9):
            which = number % len(self.images)
            image = self.images[which : which + 1]
            if drift_after is not None and number >= drift_after:
                image = image.reshape(1, 8, 8)[:, :, ::-1].reshape(1, 64)
            spoiled = _spoil(image, rng)
            proba = self.network.predict_proba(spoiled / BRIGHTEST)[0]
            yield (
                _case(f"{run}-{number:06d}", spoiled[0], proba, which),
                CLASSES[self.labels[which]],
            )


def train(*, seed: int = 0) -> Digits:
    """Train a network on spoiled digits and certify a policy on others; takes a few seconds."""
    datasets = require_extra("sklearn.datasets", "sklearn", "expertload desk demo")
    neural = require_extra("sklearn.neural_network", "sklearn", "expertload desk demo")
    images, labels = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    parts = np.split(rng.permutation(len(images)), [N_TRAIN, N_TRAIN + N_CERTIFY])
    training, certifying, unseen = parts
    many = np.concatenate([_spoil(images[training], rng) for _ in range(VERSIONS)])
    network = neural.MLPClassifier((64,), alpha=0.01, max_iter=40, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # training stops before it converges, on purpose
        network.fit(many / BRIGHTEST, np.tile(labels[training], VERSIONS))
    point = certify(
        np.array(CLASSES)[labels[certifying]],
        network.predict_proba(_spoil(images[certifying], rng) / BRIGHTEST),
        target_accuracy=TARGET_ACCURACY,
        labels=list(CLASSES),
    )
    return Digits(network, point, images[unseen], labels[unseen])


def _spoil(images: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Blur some images, and add a little or much noise to most of them."""
    strength = rng.choice([0.0, 1.0, 2.0, 3.0], size=len(images), p=[0.3, 0.3, 0.25, 0.15])
    square = images.reshape(-1, 8, 8)
    shifted = [np.roll(square, (dy, dx), (1, 2)) for dy in (0, 1) for dx in (0, 1)]
    blurred = np.where((strength >= 2)[:, None, None], sum(shifted) / 4, square)
    noise = rng.normal(0, 1.9 * strength[:, None], images.shape)
    return np.clip(blurred.reshape(images.shape) + noise, 0, BRIGHTEST)


def _case(key: str, image: FloatArray, proba: FloatArray, which: int) -> dict[str, Any]:
    return {
        "key": key,
        "probabilities": dict(zip(CLASSES, _rounded(proba), strict=True)),
        "cluster": f"image-{which}",
        "body": {"kind": "image", "content": _png(image)},
    }


def _rounded(proba: FloatArray) -> list[float]:
    """Return plain floats that sum to one."""
    return [float(p) for p in proba / proba.sum()]


def _png(image: FloatArray) -> str:
    pictures = require_extra("PIL.Image", "desk", "expertload desk demo")
    pixels = np.rint(255 * (1 - image.reshape(8, 8) / BRIGHTEST)).astype(np.uint8)
    out = io.BytesIO()
    large = pictures.fromarray(pixels).resize((8 * ENLARGED,) * 2, pictures.Resampling.BICUBIC)
    large.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()

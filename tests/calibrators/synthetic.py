"""Data for calibrators: logits that are over-confident by a known amount."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax


def overconfident(n, n_classes, seed, *, factor=2.5):
    """Logits `factor` times too large, with labels drawn from the honest probabilities."""
    rng = np.random.default_rng(seed)
    honest = 2 * rng.normal(size=(n, n_classes))
    proba = softmax(honest, axis=1)
    target = (proba.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    return factor * honest, target


def clusters(n, n_classes, seed, *, n_features=3):
    """Features in overlapping Gaussian clusters, one a class."""
    centres = np.random.default_rng(0).normal(size=(n_classes, n_features))
    rng = np.random.default_rng(seed)
    target = rng.integers(n_classes, size=n)
    return centres[target] + 0.7 * rng.normal(size=(n, n_features)), target


def log_loss(target, proba):
    return float(-np.log(proba[np.arange(len(target)), target]).mean())

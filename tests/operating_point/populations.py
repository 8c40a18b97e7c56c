"""Populations whose accuracy above any threshold is known, for simulations of the promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

FINE = 200_001


@dataclass
class Population:
    """Confidence is uniform on [0, 1], then rounded up to ties; accuracy is a function of it."""

    accuracy_at: Callable[[np.ndarray], np.ndarray]
    levels: int | None = None
    top: float = 0.0  # the share of cases that all have confidence 1

    def draw(self, rng, n):
        hidden = rng.random(n)
        correct = rng.random(n) < self.accuracy_at(hidden)
        return correct, self._shown(hidden)

    def _shown(self, hidden):
        shown = np.where(hidden > 1 - self.top, 1.0, hidden)
        return np.ceil(shown * self.levels) / self.levels if self.levels else shown

    @cached_property
    def _table(self):
        """Thresholds ascending, with the share of cases at or above each, and of right ones."""
        hidden = (np.arange(FINE) + 0.5) / FINE
        right = np.cumsum(self.accuracy_at(hidden)[::-1])[::-1] / FINE
        return self._shown(hidden), 1 - np.arange(FINE) / FINE, right

    def accuracy_above(self, threshold):
        shown, accepted, right = self._table
        row = np.searchsorted(shown, threshold)
        return right[row] / accepted[row] if row < FINE else 1.0

    def wrong_share(self, threshold):
        shown, accepted, right = self._table
        row = np.searchsorted(shown, threshold)
        return accepted[row] - right[row] if row < FINE else 0.0


def rising(low, high):
    return lambda r: low + (high - low) * r


def wave(centre, depth, waves):
    """Accuracy that swings, so that the accuracy above a threshold crosses its mean many times."""
    return lambda r: np.clip(centre + depth * np.sin(2 * np.pi * waves * (1 - r)), 0, 1)


def ripple(centre, depth, waves):
    """The accuracy *above* a threshold swings with the logarithm of how many lie above it.

    It crosses its mean at every scale, so that wherever a sequence begins a miss is near.
    """

    def accuracy_at(r):
        scale = waves * np.log(np.maximum(1 - r, 1e-9))
        return np.clip(centre + depth * (np.sin(scale) + waves * np.cos(scale)), 0, 1)

    return accuracy_at

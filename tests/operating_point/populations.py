"""Populations whose accuracy above any threshold is known, and simulations of promises on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tests.reference.rivals import RIVALS

from expertload.operating_point.certify import run_tests
from expertload.operating_point.ladder import Promise, Steps

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
        """Thresholds ascending, with the accuracy and the share of wrong cases at or above each."""
        hidden = (np.arange(FINE) + 0.5) / FINE
        right = np.cumsum(self.accuracy_at(hidden)[::-1])[::-1] / FINE
        accepted = 1 - np.arange(FINE) / FINE
        accuracy = np.append(right / accepted, 1.0)  # where there are no cases
        return self._shown(hidden), accuracy, np.append(accepted - right, 0.0)

    def accuracy_above(self, threshold):
        """The accuracy among cases of at least this confidence, 1 where there are none."""
        shown, accuracy, _ = self._table
        return accuracy[np.searchsorted(shown, threshold)]

    def least_load(self, target):
        """The smallest load at which the accuracy is at least the target."""
        return np.argmax(self._table[1] >= target) / FINE

    def wrong_share(self, threshold):
        shown, _, wrong = self._table
        return wrong[np.searchsorted(shown, threshold)]


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


POPULATIONS = {
    "rising": lambda target: Population(rising(target - 0.3, 1.0)),
    "steep": lambda target: Population(lambda r: (r > 0.4) * 0.99),
    "never quite": lambda target: Population(lambda r: np.full_like(r, target - 1e-6)),
    "ties": lambda target: Population(rising(target - 0.3, 1.0), levels=12),
    "tied top": lambda target: Population(rising(target - 0.2, 1.0), top=0.3),
    "tied wave": lambda target: Population(wave(target - 1e-3, 0.1, 6), levels=30),
    "wave": lambda target: Population(wave(target - 1e-3, 0.1, 8)),
    "ripple": lambda target: Population(ripple(target - 1e-3, 0.02, 4)),
    "good, then just not": lambda target: Population(
        lambda r: np.where(r > 0.8, target + 0.02, target - 0.0051)
    ),
    "over-confident top": lambda target: Population(
        lambda r: np.where(r > 0.9, target - 0.02, target + 0.001)
    ),
}


# ------------------------------------------------------------------ simulation


def drawn_steps(population, n, rounds, seed=0):
    """Calibration sets, each as (thresholds, accepted, errors) of its distinct confidences.

    Sorting and summing is done for all of them at once; nothing is validated or described, which
    is what takes most of the time of a call of `certify`.
    """
    rng = np.random.default_rng(seed)
    hidden = np.sort(rng.random((rounds, n)), axis=1)[:, ::-1]
    errors = np.cumsum(rng.random((rounds, n)) >= population.accuracy_at(hidden), axis=1)
    shown = population._shown(hidden)
    last = np.diff(shown, axis=1, append=-1.0) != 0
    count = np.arange(1.0, n + 1)
    for ends, thresholds, wrong in zip(last, shown, errors, strict=True):
        yield Steps(thresholds[ends], count[ends], wrong[ends].astype(float))


def simulate(population, n, target, delta, *, rounds, seed=0, method="spending", **options):
    """Certify many calibration sets; how often any certified threshold misses, and mean load.

    The promise is about all thresholds that passed at once, not only about the loosest.
    """
    broken, loads = 0, []
    for steps in drawn_steps(population, n, rounds, seed):
        if method in RIVALS:
            ladder = RIVALS[method](steps, n, target, delta)
        else:
            ladder = run_tests(steps, n, Promise(target, delta, method, **options))
        passed = ladder.threshold[ladder.passed]
        broken += bool((population.accuracy_above(passed) < target).any())
        loads.append(1 - ladder.steps.n_accepted[ladder.loosest] / n if len(passed) else 1.0)
    return broken / rounds, np.array(loads)


def limit(delta, rounds):
    """Delta and three standard errors of a simulation."""
    return delta + 3 * math.sqrt(delta * (1 - delta) / rounds)

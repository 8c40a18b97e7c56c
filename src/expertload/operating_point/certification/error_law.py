"""The distribution of the errors of a walk in which every case has the same error probability.

`ErrorLaw` holds the probabilities of 0, 1, 2, ... errors after a number of cases. It can drop the
paths that have crossed a boundary, and can be extended by more cases. Tails beyond nine standard
deviations (mass below 1e-17) are left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray

__all__ = ["ErrorLaw"]

DEVIATIONS, MORE = 9, 12
# Below this length a plain convolution is faster than a transform, and it keeps tiny tails exact.
SHORT = 300


class ErrorLaw(NamedTuple):
    """Probabilities of ``fewest``, ``fewest + 1``, ... errors among ``n_cases`` cases."""

    mass: FloatArray
    fewest: int
    n_cases: int
    rate: float

    def after(self, n_cases: int) -> ErrorLaw:
        """Return the law for this many cases."""
        if n_cases == self.n_cases:
            return self
        more, fewest = binomial_mass(n_cases - self.n_cases, self.rate)
        mass = convolve(self.mass, more)
        return ErrorLaw(mass, self.fewest + fewest, n_cases, self.rate)

    def without(self, most_errors: int) -> ErrorLaw:
        """Return the law of the paths that have more errors than this."""
        gone = max(most_errors + 1 - self.fewest, 0)
        return self._replace(mass=self.mass[gone:], fewest=self.fewest + gone)

    def at_most(self, n_errors: int, n_cases: int) -> float:
        """Return the probability of at most `n_errors` when there are `n_cases`."""
        if n_cases == self.n_cases:
            return float(self.mass[: max(n_errors + 1 - self.fewest, 0)].sum())
        more, fewest = binomial_mass(n_cases - self.n_cases, self.rate)
        # Of a path with `fewest + i` errors so far, at most this many more may be errors:
        room = n_errors - self.fewest - np.arange(len(self.mass)) - fewest
        cumulative = np.append(np.cumsum(more), 0.0)  # the last entry: no more allowed
        return float(self.mass @ cumulative[np.clip(room, -1, len(more) - 1)])

    @property
    def total(self) -> float:
        """The total probability of all paths."""
        return float(self.mass.sum())


def nothing_yet(rate: float) -> ErrorLaw:
    """Return the law before the first case."""
    return ErrorLaw(np.ones(1), 0, 0, rate)


def binomial_mass(n_cases: int, rate: float) -> tuple[FloatArray, int]:
    """Return binomial probabilities of an interval of counts, and the first count.

    Ratios of neighbours are multiplied up from the mode and the sum is made 1, which keeps thirteen
    digits where differences of log-gamma functions lose eight.
    """
    reach = DEVIATIONS * math.sqrt(n_cases * rate * (1 - rate)) + MORE
    low = max(0, int(n_cases * rate - reach))
    high = min(n_cases, int(n_cases * rate + reach))
    count = np.arange(low, high)
    steps = np.log((n_cases - count) / (count + 1.0)) + math.log(rate) - math.log1p(-rate)
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    mass = np.exp(logs - logs.max())
    return mass / mass.sum(), low


def convolve(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the probabilities of a sum of two counts."""
    if min(len(one), len(other)) < SHORT:
        return np.convolve(one, other)
    length = len(one) + len(other) - 1
    size = 1 << (length - 1).bit_length()
    product = np.fft.rfft(one, size) * np.fft.rfft(other, size)
    return np.maximum(np.fft.irfft(product, size)[:length], 0.0)  # clips tiny negatives

"""The exact probability that order statistics of uniform numbers stay above their bounds.

All of U_(g) >= a_g, for some ranks g, is the same as: fewer than g numbers lie below each a_g. The
counts below a_1 < a_2 < ... are those of a Poisson process, given that it has n points in all
(Moscovich and Nadler 2016): its law is carried from bound to bound, and loses what is too many.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from expertload._typing import FloatArray, IntArray
from expertload.operating_point.certification.error_law import convolve

__all__ = ["probability_of_staying_above"]

DEVIATIONS, MORE = 9, 12


def probability_of_staying_above(bounds: FloatArray, ranks: IntArray, n_cases: int) -> float:
    """Return the probability that each of the order statistics is at least its bound.

    Parameters
    ----------
    bounds : ndarray of shape (n_ranks,)
        Ascending numbers from 0 to 1.
    ranks : ndarray of int, shape (n_ranks,)
        Which order statistics, ascending: 1 is the smallest of the numbers.
    n_cases : int
        How many uniform numbers there are.

    Examples
    --------
    The smaller of two numbers is above a half with probability a quarter:

    >>> import numpy as np
    >>> from expertload.operating_point.certification.crossing import (
    ...     probability_of_staying_above,
    ... )
    >>> print(f"{probability_of_staying_above(np.array([0.5]), np.array([1]), 2):.6f}")
    0.250000
    """
    law: FloatArray = np.ones(1)
    fewest, at = 0, 0.0
    for bound, rank in zip(bounds.tolist(), ranks.tolist(), strict=True):
        more, least = _poisson_mass(n_cases * (bound - at))
        law, fewest, at = convolve(law, more), fewest + least, bound
        law = law[: max(rank - fewest, 0)]  # fewer than `rank` numbers may lie below
        first = int(np.searchsorted(np.cumsum(law), 1e-18))  # a tail that no longer matters
        law, fewest = law[first:], fewest + first
    count = fewest + np.arange(len(law))
    rest = _log_poisson(n_cases - count, n_cases * (1 - at))
    return float((law * np.exp(rest - _log_poisson(np.array([n_cases]), float(n_cases)))).sum())


def _poisson_mass(mean: float) -> tuple[FloatArray, int]:
    """Return Poisson probabilities of an interval of counts, and the first count."""
    reach = DEVIATIONS * math.sqrt(mean) + MORE
    low = max(0, int(mean - reach))
    logs = _log_poisson(np.arange(low, int(mean + reach) + 1), mean)
    mass = np.exp(logs)
    return mass / mass.sum() if low == 0 or mean > MORE else mass, low


def _log_poisson(count: IntArray, mean: float) -> FloatArray:
    """Log of Poisson probabilities; minus infinity for counts below 0."""
    if mean <= 0:
        return np.where(count == 0, 0.0, -np.inf)
    known = np.maximum(count, 0)
    logs: FloatArray = known * math.log(mean) - mean - gammaln(known + 1.0)
    return np.where(count >= 0, logs, -np.inf)

"""Tests of one threshold: could a worse model have looked this good by luck?

The hypothesis to refute is that the accuracy is below the target. Its p-value is the chance of so
few errors if the accuracy were exactly the target: a binomial tail for cases that are right or
wrong, the Hoeffding-Bentkus bound (Bates et al. 2021) for graded ones. Both are exact statements
for any number of cases; nothing is asymptotic.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr, xlogy

from expertload._typing import FloatArray

__all__ = ["allowed_errors", "cases_at_rate", "cases_for_errors", "least_cases", "p_values"]


def p_values(
    n_errors: FloatArray, n_cases: FloatArray, *, target: float, graded: bool
) -> FloatArray:
    """P-values of the hypotheses that accuracy is below `target`, one a row; 1 without cases."""
    tail = _hoeffding_bentkus if graded else _binomial
    values: FloatArray = tail(n_errors, np.maximum(n_cases, 1), 1 - target)
    return np.where(n_cases > 0, values, 1.0)


def _binomial(n_errors: FloatArray, n_cases: FloatArray, rate: float) -> FloatArray:
    tail: FloatArray = bdtr(np.rint(n_errors), n_cases.astype(np.int64), rate)
    return tail


def _hoeffding_bentkus(n_errors: FloatArray, n_cases: FloatArray, rate: float) -> FloatArray:
    """Bound the chance of so small a loss, for losses anywhere in [0, 1]."""
    mean: FloatArray = np.minimum(n_errors / n_cases, rate)
    # Sums of grades carry rounding, which must not lift a whole number to the next one.
    whole = np.ceil(n_errors - 1e-9 * np.maximum(n_errors, 1))
    bentkus = math.e * _binomial(np.minimum(whole, n_cases), n_cases, rate)
    bound: FloatArray = np.minimum(np.exp(-n_cases * _divergence(mean, rate)), bentkus)
    return np.minimum(bound, 1.0)


def _divergence(mean: FloatArray, rate: float) -> FloatArray:
    """Of a coin that shows `mean` from one that shows `rate` (Kullback-Leibler)."""
    nats: FloatArray = xlogy(mean, mean / rate) + xlogy(1 - mean, (1 - mean) / (1 - rate))
    return nats


def least_cases(target: float, error_level: float) -> int:
    """The fewest cases that can pass a test: all right, and enough of them.

    Without an error the bound for grades is the binomial tail, so that this is true of both.
    """
    return cases_for_errors(0, target, error_level)


def cases_for_errors(n_errors: int, target: float, error_level: float) -> int:
    """The fewest cases among which `n_errors` errors still pass the binomial test."""
    enough = n_errors + 1
    while bdtr(n_errors, enough, 1 - target) > error_level:
        enough *= 2
    short = enough // 2 if enough > n_errors + 1 else n_errors
    while enough - short > 1:
        middle = (short + enough) // 2
        passes = middle > n_errors and bdtr(n_errors, middle, 1 - target) <= error_level
        short, enough = (short, middle) if passes else (middle, enough)
    return enough


def allowed_errors(n_cases: int, target: float, error_level: float) -> int:
    """The most errors among `n_cases` that pass the binomial test, -1 if not even none does."""
    fewest, most = -1, n_cases  # `fewest` passes or is -1; `most`, all wrong, never passes
    while most - fewest > 1:
        middle = (fewest + most) // 2
        passes = bdtr(middle, n_cases, 1 - target) <= error_level
        fewest, most = (middle, most) if passes else (fewest, middle)
    return fewest


def cases_at_rate(error_rate: float, target: float, error_level: float) -> int:
    """As many graded cases as pass at this rate of missing grades, below the one allowed."""
    return math.ceil(
        -math.log(error_level) / float(_divergence(np.asarray(error_rate), 1 - target))
    )

"""Bets against a promise: the stakes, and how one audited case changes the capital.

A player who doubts "errors are at most a share r" puts money on every audited case at odds that
are fair, or worse than fair for the player, as long as the promise holds. So the capital cannot be
expected to grow, and by Ville's inequality it ever reaches 1 / alpha with a probability of at most
alpha. How badly a promise will be broken is not known in advance, so the money is spread over
several bets, each of which grows fastest at another error rate.

For a case with error x (0 for right, 1 for wrong, or a grade between), a bet on the rate q is
multiplied by ``1 + stake * w * (x - r)``, with ``stake = (q - r) / (r (1 - r))``.

The weight w is for cases that are audited with different probabilities: w = least / pi, where
pi is the probability with which this case was audited and least the smallest that any case had.
Over all decided cases the mean of w (x - r), counting 0 for those not audited, is then least times
the mean of x - r, whatever pi depends on. The argument needs w <= 1, and a `least` that was fixed
before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray

__all__ = ["Bets", "accuracy_bets", "growth_rates", "share_bets"]

# The error rate of each bet, as a multiple of the promised one, and its part of the capital.
MULTIPLES = (1.3, 1.6, 2.0, 2.8, 4.0, 7.0)
PARTS = (0.15, 0.20, 0.25, 0.20, 0.12, 0.08)
# No bet loses more than this on one right case. This matters for promised error rates above 0.1,
# whose largest multiples would exceed 1.
MOST_LOST = 2 / 3


class Bets(NamedTuple):
    """Bets against one promise.

    Attributes
    ----------
    error_rate : float or ndarray
        The promised rate r; an array of shape (..., 1) for several promises at once.
    stakes : ndarray of shape (..., n_bets)
        How strongly each bet reacts to a case.
    parts : ndarray of shape (n_bets,)
        The part of new capital each bet gets; they sum to one.
    """

    error_rate: float | FloatArray
    stakes: FloatArray
    parts: FloatArray


def accuracy_bets(target_accuracy: float) -> Bets:
    """Return the bets against "the accuracy is at least the target".

    Parameters
    ----------
    target_accuracy : float
        The promised accuracy, in (0, 1).

    Returns
    -------
    Bets
        For error rates 1.3 to 7 times the promised one.

    Examples
    --------
    >>> from expertload.monitoring.capital import accuracy_bets
    >>> accuracy_bets(0.95).stakes.round(2).tolist()
    [0.32, 0.63, 1.05, 1.89, 3.16, 6.32]
    """
    rate = 1 - target_accuracy
    return _bets(rate, np.multiply(rate, MULTIPLES))


def share_bets(share: FloatArray) -> Bets:
    """Return bets against "a share is at most this", for shares of any size.

    Parameters
    ----------
    share : ndarray of shape (n_shares,)
        The promised shares, in (0, 1).

    Returns
    -------
    Bets
        For odds 1.3 to 7 times the promised ones, because a multiple of a large share may exceed 1.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.monitoring.capital import share_bets
    >>> share_bets(np.array([0.5])).stakes.round(2).tolist()
    [[0.26, 0.46, 0.67, 0.95, 1.2, 1.33]]
    """
    rate = share[:, None]
    odds = rate / (1 - rate) * np.array(MULTIPLES)
    return _bets(rate, odds / (1 + odds))


def _bets(rate: float | FloatArray, alternatives: FloatArray) -> Bets:
    bounded = np.minimum(alternatives, rate + MOST_LOST * (1 - rate))
    return Bets(rate, (bounded - rate) / (rate * (1 - rate)), np.array(PARTS))


def factors(bets: Bets, errors: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the factor of each bet for each case, of shape (..., n_cases, n_bets)."""
    gain = weights[..., None] * (errors[..., None] - _per_case(bets.error_rate))
    changed: FloatArray = 1 + gain * _per_case(bets.stakes)
    return changed


def _per_case(value: float | FloatArray) -> float | FloatArray:
    """Insert an axis for cases before the axis of bets, if there is an axis for promises."""
    return value[..., None, :] if isinstance(value, np.ndarray) and value.ndim > 1 else value


def growth_rates(bets: Bets, error_rate: float) -> FloatArray:
    """Return the mean growth of the logarithm of each bet per case, at a true error rate.

    Parameters
    ----------
    bets : Bets
        Bets against one promise.
    error_rate : float
        The true error rate.

    Returns
    -------
    ndarray of shape (n_bets,)
        If none is positive, the fall is too small for these bets to detect.

    Examples
    --------
    >>> from expertload.monitoring.capital import accuracy_bets, growth_rates
    >>> growth_rates(accuracy_bets(0.95), 0.10).max().round(4)
    np.float64(0.0207)
    """
    wrong = np.log(factors(bets, np.ones(1), np.ones(1))[0])
    right = np.log(factors(bets, np.zeros(1), np.ones(1))[0])
    rates: FloatArray = error_rate * wrong + (1 - error_rate) * right
    return rates

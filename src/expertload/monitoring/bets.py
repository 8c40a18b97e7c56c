"""Bets against a promise, with fresh capital for every block of audits, and a bound from bets.

Bets against a promise
----------------------
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
before the labels. It is made case by case, given all earlier cases: every factor has a mean of at
most 1 if the `least` of its case depends only on the past and on the cases, not on the labels. So
the cases of a new month may have a higher or lower one; what was bet before stays as it was.

Fresh capital for every block
-----------------------------
A player who has lost for a thousand good cases must first win all of it back when the accuracy
falls. So the money is not staked at once: block b of 50 audits gets the share rho_b of it, and
the shares sum to at most one. What is staked and what is still unspent together are a fair game,
so the promise about false alarms is the same.

``rho_b = 1 / ((b + 1) (b + 2))`` works without a limit. For a period that is known beforehand, half
is staked at its start and the rest in equal parts, which finds a late fall sooner.

A lower bound of the accuracy that is valid at all times together
------------------------------------------------------------------
Let S be the (weighted) errors among audits of (weighted) number T, and m an error rate. For a
negative ``tilt`` l, the product of ``exp(l x) / (1 - m + m exp(l))`` over the cases is a fair game
if each is wrong with probability m; a mixture over several tilts is one too,

    K(m) = sum_j part_j * exp(l_j S - T log(1 - m + m exp(l_j))),

and by Ville's inequality it ever reaches 1 / alpha with a probability of at most alpha. K grows
with m, so all rates with K(m) >= 1 / alpha are refuted, and the smallest of them bounds the error.

Two steps make it hold more widely. The logarithm is concave in m, so under drift the bound is one
for the average rate over the audits so far. And for a weight w <= 1 a factor to the power of w is
at most its linear interpolation between 1 and itself (Bernoulli), so weighted sums do for S and T
where cases are audited with different probabilities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._check import check_fraction, check_level
from expertload._typing import ArrayLike, FloatArray
from expertload.monitoring.audits import as_audit_errors, as_audit_sums, check_blocks

# The error rate of each bet, as a multiple of the promised one, and its part of the capital.
MULTIPLES = (1.3, 1.6, 2.0, 2.8, 4.0, 7.0)
PARTS = (0.15, 0.20, 0.25, 0.20, 0.12, 0.08)
# No bet loses more than this on one right case. This matters for promised error rates above 0.1,
# whose largest multiples would exceed 1.
MOST_LOST = 2 / 3
# What each bet that confirms a promise loses on a wrong case.
LOST = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
# Audits in a block, and the most that a bet may be worth: more would change no verdict, and it must
# stay finite for arithmetic and for JSON.
BLOCK = 50
MOST = 1e200
# The tilts of the bound and their parts; logarithms beyond the largest no longer change a verdict.
TILTS = -np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
TILT_PARTS = np.array([0.05, 0.15, 0.20, 0.25, 0.25, 0.10])
MOST_LOG = 460.0
HALVINGS = 50


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
    >>> from expertload.monitoring.bets import accuracy_bets
    >>> accuracy_bets(0.95).stakes.round(2).tolist()
    [0.32, 0.63, 1.05, 1.89, 3.16, 6.32]
    """
    rate = 1 - target_accuracy
    return _bets(rate, np.multiply(rate, MULTIPLES))


def confirming_bets(target_accuracy: float) -> Bets:
    """Return bets that the accuracy is above the target: they gain on right cases.

    Parameters
    ----------
    target_accuracy : float
        The accuracy to confirm, in (0, 1).

    Returns
    -------
    Bets
        Their stakes are negative, and no bet loses more than nine tenths on one wrong case.

    Examples
    --------
    >>> from expertload.monitoring.bets import confirming_bets
    >>> confirming_bets(0.9).stakes.round(2).tolist()
    [-0.02, -0.06, -0.11, -0.22, -0.39, -0.56, -0.78, -1.0]
    """
    stakes = -np.array(LOST) / target_accuracy
    return Bets(1 - target_accuracy, stakes, np.full(len(LOST), 1 / len(LOST)))


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
    >>> from expertload.monitoring.bets import share_bets
    >>> share_bets(np.array([0.5])).stakes.round(2).tolist()
    [[0.26, 0.46, 0.67, 0.95, 1.2, 1.33]]
    """
    rate = share[:, None]
    odds = rate / (1 - rate) * np.array(MULTIPLES)
    return _bets(rate, odds / (1 + odds))


def _bets(rate: float | FloatArray, alternatives: FloatArray) -> Bets:
    bounded = np.minimum(alternatives, rate + MOST_LOST * (1 - rate))
    return Bets(rate, (bounded - rate) / (rate * (1 - rate)), np.array(PARTS))


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
    >>> from expertload.monitoring.bets import accuracy_bets, growth_rates
    >>> growth_rates(accuracy_bets(0.95), 0.10).max().round(4)
    np.float64(0.0207)
    """
    gain = np.log1p(bets.stakes * (1 - bets.error_rate))
    loss = np.log1p(-bets.stakes * bets.error_rate)
    return np.asarray(error_rate * gain + (1 - error_rate) * loss)


# ------------------------------------------------------------------ capital over time


class Capital(NamedTuple):
    """The stakes after some audits: everything that is needed to continue from there.

    Attributes
    ----------
    n_audits : int
        The number of audits so far.
    stakes : ndarray of shape (..., n_bets)
        The value of each bet. Their sum is the evidence.
    """

    n_audits: int
    stakes: FloatArray

    @property
    def evidence(self) -> FloatArray:
        """The sum of all bets."""
        total: FloatArray = self.stakes.sum(axis=-1)
        return total


def restart_share(block: int, blocks: int | None) -> float:
    """Return the part of the capital that a block of audits gets.

    Parameters
    ----------
    block : int
        The number of the block, starting at 0.
    blocks : int or None
        How many blocks the monitor is made for; None for no limit.

    Returns
    -------
    float
        The part; over all blocks they sum to one.

    Examples
    --------
    >>> from expertload.monitoring.bets import restart_share
    >>> restart_share(0, None), restart_share(1, 24) == 1 / 46
    (0.5, True)
    """
    if blocks is None:
        return 1 / ((block + 1) * (block + 2))
    if block == 0:
        return 0.5 if blocks > 1 else 1.0
    return 0.5 / (blocks - 1) if block < blocks else 0.0


def start(bets: Bets, *, shape: tuple[int, ...] = ()) -> Capital:
    """Return the capital before the first audit, of one stream or of several.

    Examples
    --------
    >>> from expertload.monitoring.bets import accuracy_bets, start
    >>> start(accuracy_bets(0.95)).evidence
    np.float64(0.0)
    """
    return Capital(0, np.zeros((*shape, bets.stakes.shape[-1])))


def advance(
    capital: Capital, errors: FloatArray, weights: FloatArray, *, bets: Bets, blocks: int | None
) -> tuple[Capital, FloatArray]:
    """Return the capital after more audits, and the evidence after each of them.

    Parameters
    ----------
    capital : Capital
        The capital so far.
    errors, weights : ndarray of shape (..., n_audits)
        The error of each audit in [0, 1], and its weight in (0, 1].
    bets : Bets
        The bets.
    blocks : int or None
        How many blocks the monitor is made for; None for no limit.

    Returns
    -------
    Capital
        The capital after the last audit; continuing from it is the same as one long run.
    ndarray of shape (..., n_audits)
        The evidence after each audit.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.monitoring.bets import accuracy_bets, advance, start
    >>> bets = accuracy_bets(0.95)
    >>> capital, path = advance(
    ...     start(bets), np.array([0.0, 1.0]), np.ones(2), bets=bets, blocks=None
    ... )
    >>> capital.n_audits, path.round(3).tolist()
    (2, [0.457, 1.135])
    """
    done, count, total = 0, capital.n_audits, errors.shape[-1]
    path = np.empty(errors.shape)
    gain = weights * (errors - bets.error_rate)
    bet, parts, stakes = (
        _bets_first(values, errors.ndim) for values in (bets.stakes, bets.parts, capital.stakes)
    )
    while done < total:
        if count % BLOCK == 0:
            stakes = stakes + restart_share(count // BLOCK, blocks) * parts
        end = min(total, done + BLOCK - count % BLOCK)
        grown = 1 + gain[..., done:end] * bet
        np.cumprod(grown, axis=-1, out=grown)
        grown *= stakes
        grown.sum(axis=0, out=path[..., done:end])
        stakes = np.minimum(grown[..., -1:], MOST)
        count, done = count + end - done, end
    return Capital(count, np.moveaxis(stakes[..., 0], 0, -1)), path


def _bets_first(values: FloatArray, n_axes: int) -> FloatArray:
    """Put the axis of the bets before all others, and one for the cases last.

    An axis as short as that of the bets is slow to go through if it is the last.
    """
    first = np.moveaxis(values, -1, 0)
    return first.reshape(len(first), *(1,) * (n_axes - first.ndim), *first.shape[1:], 1)


def evidence_path(
    correct: ArrayLike,
    *,
    target_accuracy: float,
    weight: ArrayLike | None = None,
    blocks: int | None = None,
) -> FloatArray:
    """Return the evidence against a promise after each of some audits.

    Parameters
    ----------
    correct : array-like of shape (..., n_audits)
        Whether each audited case was right: 1, 0, or a grade between. The last axis is the order
        of the decisions; further axes are separate streams.
    target_accuracy : float
        The promise, in (0, 1).
    weight : array-like, optional
        For cases audited with different probabilities: the smallest divided by that of the case.
    blocks : int, optional
        The number of blocks of 50 audits that the monitor is made for. No limit by default.

    Returns
    -------
    ndarray of shape (..., n_audits)
        While the promise holds, it ever reaches 1 / alpha with a probability of at most alpha.

    Examples
    --------
    >>> from expertload.monitoring import evidence_path
    >>> path = evidence_path([1, 0, 0, 1, 0, 0], target_accuracy=0.95)
    >>> path.round(1).tolist()
    [0.5, 1.1, 3.7, 3.1, 12.4, 63.5]
    """
    target = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
    errors, weights = as_audit_errors(correct, weight)
    bets = accuracy_bets(target)
    capital = start(bets, shape=errors.shape[:-1])
    return advance(capital, errors, weights, bets=bets, blocks=check_blocks(blocks))[1]


# ------------------------------------------------------------------ a bound at any time


def confirming_evidence(
    errors: ArrayLike, audits: ArrayLike, *, target_accuracy: float
) -> FloatArray:
    """Return the evidence that the average accuracy is above the target.

    Parameters
    ----------
    errors, audits : array-like of the same shape
        The number of errors and the number of audits so far; weighted sums of both if cases are
        audited with different probabilities. Open reviews count as errors.
    target_accuracy : float
        The accuracy to confirm, in (0, 1).

    Returns
    -------
    ndarray
        While the average accuracy is at most the target, it ever reaches 1 / alpha with a
        probability of at most alpha.

    Examples
    --------
    >>> from expertload.monitoring import confirming_evidence
    >>> confirming_evidence([0, 0], [81, 82], target_accuracy=0.95).round(2).tolist()
    [19.68, 20.53]
    """
    target = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
    wrong, total = as_audit_sums(errors, audits)
    evidence: FloatArray = np.exp(_log_evidence(wrong, total, np.asarray(1 - target)))
    return evidence


def accuracy_lower_bound(
    errors: ArrayLike, audits: ArrayLike, *, confidence_level: float = 0.95
) -> FloatArray:
    """Return a lower bound of the average accuracy, valid at any time.

    Parameters
    ----------
    errors, audits : array-like of the same shape
        As in `confirming_evidence`.
    confidence_level : float, default=0.95
        The probability that the bound holds after every audit, without limit.

    Returns
    -------
    ndarray
        The bounds; 0 if there are no audits yet.

    Examples
    --------
    >>> from expertload.monitoring import accuracy_lower_bound
    >>> accuracy_lower_bound([0, 0, 4], [0, 100, 200]).round(3).tolist()
    [0.0, 0.959, 0.939]
    """
    level = check_level(confidence_level)
    wrong, total = as_audit_sums(errors, audits)
    needed = -np.log1p(-level)
    low, high = np.zeros(wrong.shape), np.ones(wrong.shape)
    for _ in range(HALVINGS):  # the smallest refuted error rate, kept at or below `high`
        middle = (low + high) / 2
        refuted = _log_evidence(wrong, total, middle) >= needed
        low, high = np.where(refuted, low, middle), np.where(refuted, middle, high)
    bound: FloatArray = 1 - high
    return bound


def _log_evidence(errors: FloatArray, audits: FloatArray, error_rate: FloatArray) -> FloatArray:
    # The axis of the bets is the first; as the last it would be slower.
    bets_first = (-1, *(1,) * max(errors.ndim, error_rate.ndim))
    tilts = TILTS.reshape(bets_first)
    exponents = tilts * errors - audits * np.log1p(error_rate * np.expm1(tilts))
    largest = exponents.max(axis=0)
    exponents -= largest
    np.exp(exponents, out=exponents)
    exponents *= TILT_PARTS.reshape(bets_first)
    return np.asarray(np.minimum(largest + np.log(exponents.sum(axis=0)), MOST_LOG))

"""Fresh capital for every block of audits, so that a good past does not hide a later fall.

A player who has lost for a thousand good cases must first win all of it back when the accuracy
falls. So the money is not staked at once: block b of 50 audits gets the share rho_b of it, and
the shares sum to at most one. What is staked and what is still unspent together are a fair game,
so the promise about false alarms is the same.

``rho_b = 1 / ((b + 1) (b + 2))`` works without a limit. For a period that is known beforehand, half
is staked at its start and the rest in equal parts, which finds a late fall sooner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_fraction
from expertload.monitoring.capital import Bets, accuracy_bets
from expertload.monitoring.inputs import as_audit_errors, check_blocks

__all__ = ["Capital", "advance", "evidence_path", "restart_share", "start"]

BLOCK = 50
# A larger capital would change no verdict. Kept finite, for arithmetic and for JSON.
MOST = 1e200


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
    >>> from expertload.monitoring.restarts import restart_share
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
    >>> from expertload.monitoring.capital import accuracy_bets
    >>> from expertload.monitoring.restarts import start
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
    >>> from expertload.monitoring.capital import accuracy_bets
    >>> from expertload.monitoring.restarts import advance, start
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
        _bets_first(each, errors.ndim) for each in (bets.stakes, bets.parts, capital.stakes)
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

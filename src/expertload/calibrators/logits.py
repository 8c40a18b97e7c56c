"""Arithmetic on rows of logits that cannot overflow.

Only differences within a row matter to a softmax, so every function here first subtracts the
row's maximum. A difference too large for a float is held at ``-WIDEST_GAP``, whose exponential
is zero like that of anything below -746.
"""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray, IntArray

WIDEST_GAP = 1e100
SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)


def centre(logits: FloatArray) -> FloatArray:
    """Return the logits less their row's maximum: zero at the top, negative elsewhere."""
    with np.errstate(over="ignore"):
        gaps: FloatArray = logits - logits.max(axis=1, keepdims=True)
    return np.maximum(gaps, -WIDEST_GAP, out=gaps)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax of the logits."""
    gaps = centre(logits)
    np.exp(gaps, out=gaps)
    gaps /= gaps.sum(axis=1, keepdims=True)
    return gaps


def log_probabilities(proba: FloatArray) -> FloatArray:
    """Return log-probabilities, where zeros count as the smallest normal float (2.2e-308)."""
    floored: FloatArray = np.maximum(proba.astype(np.float64), SMALLEST_PROBABILITY)
    return np.log(floored)


def log_odds(logits: FloatArray) -> FloatArray:
    """Return each class's log-odds against all the others together.

    In a row's top column the others are summed on their own, because one minus a probability
    that rounds to one would be zero.
    """
    gaps = centre(logits)
    rows = np.arange(len(gaps))
    top = gaps.argmax(axis=1)
    others = np.exp(gaps)
    total_of_others = others.sum(axis=1, keepdims=True) - others
    total_of_others[rows, top] = 1.0  # a placeholder, replaced below
    odds: FloatArray = gaps - np.log(np.maximum(total_of_others, 1.0))
    gaps[rows, top] = -np.inf
    runner_up = gaps.max(axis=1)
    rest = np.exp(gaps - runner_up[:, None]).sum(axis=1)
    odds[rows, top] = -(runner_up + np.log(rest))
    return odds


def one_hot(target: IntArray, n_classes: int) -> FloatArray:
    """Return a row for each case that is one in its class's column and zero elsewhere."""
    indicator = np.zeros((len(target), n_classes))
    indicator[np.arange(len(target)), target] = 1.0
    return indicator


def normalise_rows(scores: FloatArray, fallback: FloatArray) -> FloatArray:
    """Return rows of non-negative scores divided by their sums, `fallback` where all are zero."""
    total = scores.sum(axis=1, keepdims=True)
    empty = total[:, 0] <= SMALLEST_PROBABILITY
    proba = scores / np.where(empty[:, None], 1.0, total)
    proba[empty] = fallback[empty]
    return proba

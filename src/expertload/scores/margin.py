"""Margin: how far the top class is ahead of the second."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits

__all__ = ["margin_confidence"]


def margin_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the difference between the two largest probabilities.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 0, a tie, and 1.

    Examples
    --------
    >>> from expertload.scores import margin_confidence
    >>> margin_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.   , 0.762])
    """
    proba = softmax(check_logits(logits, "margin_confidence"), axis=1)
    second_and_top = np.partition(proba, -2, axis=1)[:, -2:]
    margin: FloatArray = second_and_top[:, 1] - second_and_top[:, 0]
    return margin

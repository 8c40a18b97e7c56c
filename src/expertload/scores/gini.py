"""Gini confidence: the chance that two answers drawn from the softmax agree."""

from __future__ import annotations

from scipy.special import softmax

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits

__all__ = ["gini_confidence"]


def gini_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the sum of the squared probabilities, one minus Gini's impurity.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between one over the number of classes, no idea, and 1.

    References
    ----------
    Granese et al., "DOCTOR: a simple method for detecting misclassification errors", NeurIPS 2021.

    Examples
    --------
    >>> from expertload.scores import gini_confidence
    >>> gini_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.5 , 0.79])
    """
    squares: FloatArray = softmax(check_logits(logits, "gini_confidence"), axis=1) ** 2
    confidence: FloatArray = squares.sum(axis=1)
    return confidence

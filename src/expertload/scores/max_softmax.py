"""Maximum softmax probability (MSP): the default confidence of the paper."""

from __future__ import annotations

import numpy as np

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits

__all__ = ["max_softmax_confidence"]


def max_softmax_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the probability of the top class.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 1 / n_classes and 1.

    References
    ----------
    Hendrycks and Gimpel, "A baseline for detecting misclassified and out-of-distribution
    examples in neural networks", ICLR 2017.

    Examples
    --------
    >>> from expertload.scores import max_softmax_confidence
    >>> max_softmax_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.5  , 0.881])
    """
    return top_probability(check_logits(logits, "max_softmax_confidence"))


def top_probability(logits: FloatArray) -> FloatArray:
    """One over the sum of exponentials relative to the top: no softmax matrix is kept."""
    top = logits.max(axis=1, keepdims=True)
    confidence: FloatArray = 1 / np.exp(logits - top).sum(axis=1)
    return confidence

"""Normalised negative entropy: how far a prediction is from knowing nothing."""

from __future__ import annotations

import numpy as np
from scipy.special import entr, softmax

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits

__all__ = ["entropy_confidence"]


def entropy_confidence(logits: ArrayLike) -> FloatArray:
    """Compute one minus the entropy of the prediction, relative to its largest possible value.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 0, all classes equally likely, and 1, one class certain.

    Examples
    --------
    >>> from expertload.scores import entropy_confidence
    >>> entropy_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.   , 0.473])
    """
    values = check_logits(logits, "entropy_confidence")
    entropy = entr(softmax(values, axis=1)).sum(axis=1)
    # Rounding can leave the entropy a hair above its maximum.
    confidence: FloatArray = np.clip(1 - entropy / np.log(values.shape[1]), 0, 1)
    return confidence

"""Confidences from the logits themselves, whose scale the softmax discards."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits, check_minimum, check_positive

__all__ = ["energy_confidence", "max_logit_confidence", "max_logit_norm_confidence"]


def max_logit_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the largest logit.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Any real numbers.

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings", ICML 2022.

    Examples
    --------
    >>> from expertload.scores import max_logit_confidence
    >>> max_logit_confidence([[0.0, 0.0], [3.0, 1.0]])
    array([0., 3.])
    """
    top: FloatArray = check_logits(logits).max(axis=1)
    return top


def energy_confidence(logits: ArrayLike, *, temperature: float = 1.0) -> FloatArray:
    """Compute the negative free energy, ``T * log(sum(exp(logits / T)))``.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.
    temperature : float, default=1
        T; as it falls to zero, the result becomes the maximum logit.

    Returns
    -------
    ndarray of shape (n_cases,)
        Any real numbers.

    References
    ----------
    Liu et al., "Energy-based out-of-distribution detection", NeurIPS 2020.

    Examples
    --------
    >>> from expertload.scores import energy_confidence
    >>> energy_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.693, 3.127])
    """
    temperature = check_positive(temperature, "temperature")
    scaled = check_logits(logits) / temperature
    return temperature * np.asarray(logsumexp(scaled, axis=1))


def max_logit_norm_confidence(logits: ArrayLike, *, norm: float = 5.0) -> FloatArray:
    """Compute the largest centred logit, divided by the p-norm of the centred logits.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax. Each row is first shifted to a mean of zero, which
        does not change its softmax.
    norm : float, default=5.0
        The power p of the norm, at least 1. Choose it on validation data.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 0 (all logits equal) and 1.

    References
    ----------
    Cattelan and Silva, "How to fix a broken confidence estimator", UAI 2024.

    Examples
    --------
    >>> from expertload.scores import max_logit_norm_confidence
    >>> max_logit_norm_confidence([[0.0, 0.0, 0.0], [3.0, 1.0, 0.0]], norm=2).round(3)
    array([0.   , 0.772])
    """
    power = check_minimum(norm, 1.0, "norm", "2 to 10 are usual")
    values = check_logits(logits).astype(np.float64)
    # Divided by the largest first, so that neither the mean nor a power can overflow.
    values /= np.maximum(np.abs(values).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    values -= values.mean(axis=1, keepdims=True)
    size = np.abs(values).max(axis=1, keepdims=True)
    flat = size[:, 0] <= 4 * np.finfo(np.float64).eps  # equal logits, up to rounding
    values /= np.where(flat[:, None], 1.0, size)
    length = (np.abs(values) ** power).sum(axis=1) ** (1 / power)
    confidence: FloatArray = np.where(flat, 0.0, values.max(axis=1) / np.where(flat, 1.0, length))
    return confidence

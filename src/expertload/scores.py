"""Confidences computed from logits, to rank cases.

Every function takes logits of shape (n_cases, n_classes) and returns one confidence per case.
Higher means keep automatic. Pass the result as ``confidence=`` to the curve, or its negative as
``outlier_score`` to the outlier metrics. All are exact for logits of any size: nothing overflows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr, logsumexp, softmax

from expertload._check import check_logits, check_minimum, check_positive
from expertload._typing import ArrayLike, FloatArray

__all__ = [
    "energy_confidence",
    "entropy_confidence",
    "gini_confidence",
    "margin_confidence",
    "max_logit_confidence",
    "max_logit_norm_confidence",
    "max_softmax_confidence",
    "tempered_softmax_confidence",
]


# ------------------------------------------------------------------ from the softmax


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
    return top_probability(check_logits(logits))


def tempered_softmax_confidence(logits: ArrayLike, *, temperature: float = 1000.0) -> FloatArray:
    """Compute the probability of the top class after dividing the logits by a temperature.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.
    temperature : float, default=1000
        Larger values weigh the gaps to all other classes equally. 1000 is ODIN's; the paper used
        the temperature of temperature scaling.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 1 / n_classes and 1.

    References
    ----------
    Liang et al., "Enhancing the reliability of out-of-distribution image detection in neural
    networks", ICLR 2018.

    Examples
    --------
    >>> from expertload.scores import tempered_softmax_confidence
    >>> tempered_softmax_confidence([[0.0, 0.0], [3.0, 1.0]], temperature=2.0).round(3)
    array([0.5  , 0.731])
    """
    temperature = check_positive(temperature, "temperature")
    return top_probability(check_logits(logits) / temperature)


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
    proba = softmax(check_logits(logits), axis=1)
    second_and_top = np.partition(proba, -2, axis=1)[:, -2:]
    margin: FloatArray = second_and_top[:, 1] - second_and_top[:, 0]
    return margin


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
    values = check_logits(logits)
    entropy = entr(softmax(values, axis=1)).sum(axis=1)
    # Rounding can leave the entropy a hair above its maximum.
    confidence: FloatArray = np.clip(1 - entropy / np.log(values.shape[1]), 0, 1)
    return confidence


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
    squares: FloatArray = softmax(check_logits(logits), axis=1) ** 2
    confidence: FloatArray = squares.sum(axis=1)
    return confidence


def top_probability(logits: FloatArray) -> FloatArray:
    """One over the sum of exponentials relative to the top: no softmax matrix is kept."""
    top = logits.max(axis=1, keepdims=True)
    confidence: FloatArray = 1 / np.exp(logits - top).sum(axis=1)
    return confidence


# ------------------------------------------------------------------ from the logits themselves


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

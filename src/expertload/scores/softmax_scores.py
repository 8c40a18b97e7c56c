"""Confidences from the softmax: the top probability (the paper's), margin, entropy, Gini."""

from __future__ import annotations

import numpy as np
from scipy.special import entr, softmax

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits, check_positive

__all__ = [
    "entropy_confidence",
    "gini_confidence",
    "margin_confidence",
    "max_softmax_confidence",
    "tempered_softmax_confidence",
]


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
        Larger values weigh the gaps to all other classes alike. 1000 is ODIN's; the paper ran it
        at the temperature found by temperature scaling.

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

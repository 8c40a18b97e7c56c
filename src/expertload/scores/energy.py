"""Negative free energy: a smooth maximum of the logits."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits, check_positive

__all__ = ["energy_confidence"]


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
    caller = "energy_confidence"
    temperature = check_positive(temperature, "temperature", caller)
    scaled = check_logits(logits, caller) / temperature
    return temperature * np.asarray(logsumexp(scaled, axis=1))

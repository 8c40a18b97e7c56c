"""Maximum logit: keeps the scale that the softmax throws away."""

from __future__ import annotations

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_logits

__all__ = ["max_logit_confidence"]


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
    top: FloatArray = check_logits(logits, "max_logit_confidence").max(axis=1)
    return top

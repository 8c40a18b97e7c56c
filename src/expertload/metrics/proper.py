"""Proper scoring rules: losses that the true probabilities, and only they, minimise."""

from __future__ import annotations

import numpy as np

from expertload._cases import check_predictions
from expertload._typing import ArrayLike, FloatArray, IntArray

__all__ = ["brier_loss", "log_loss"]


def brier_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the Brier score: squared error of the probabilities; lower is better.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels
        As in `expertload.coc_curve`.

    Returns
    -------
    float
        Squared distance to the one-hot label, summed over *all* columns and averaged over cases:
        between 0 and 2. This is Brier's own definition and the paper's; for two classes it is
        twice what ``sklearn.metrics.brier_score_loss`` gives by default.

    Examples
    --------
    >>> from expertload.metrics import brier_loss
    >>> print(f"{brier_loss([0, 1], [[0.9, 0.1], [0.4, 0.6]]):.2f}")
    0.17
    """
    target, proba, weight = check_predictions(y_true, y_proba, sample_weight, labels, "brier_loss")
    # |p - e_y|^2 = |p|^2 - 2 p_y + 1, without ever building the one-hot matrix.
    squares = np.einsum("nc,nc->n", proba, proba, dtype=np.float64)
    return _mean(squares - 2.0 * _true_class(proba, target) + 1.0, weight)


def log_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the negative log-likelihood (NLL, cross-entropy); lower is better.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels
        As in `expertload.coc_curve`.

    Returns
    -------
    float
        Mean of ``-log`` of the true class's probability. Probabilities below the machine epsilon
        of their type count as that epsilon, as in scikit-learn, so a wrong answer given with
        certainty costs about 36 (double precision) and not infinity.

    Examples
    --------
    >>> from expertload.metrics import log_loss
    >>> print(f"{log_loss([0, 1], [[0.9, 0.1], [0.4, 0.6]]):.4f}")
    0.3081
    """
    target, proba, weight = check_predictions(y_true, y_proba, sample_weight, labels, "log_loss")
    likelihood = np.maximum(_true_class(proba, target), np.finfo(proba.dtype).eps)
    return _mean(-np.log(likelihood), weight)


def _true_class(proba: FloatArray, target: IntArray) -> FloatArray:
    picked: FloatArray = np.take_along_axis(proba, target[:, None], axis=1)[:, 0]
    return picked.astype(np.float64)


def _mean(values: FloatArray, weight: FloatArray | None) -> float:
    return float(np.average(values, weights=weight))

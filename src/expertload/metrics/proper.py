"""Proper scoring rules: losses that the true probabilities, and only they, minimise."""

from __future__ import annotations

import numpy as np

from expertload._cases import Predictions, check_predictions
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
    return brier_of(check_predictions(y_true, y_proba, sample_weight, labels, "brier_loss"))


def brier_of(predictions: Predictions) -> float:
    """Return the Brier score of validated predictions."""
    target, proba, weight = predictions
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
        Mean of ``-log`` of the true class's probability, exact for every probability above zero.
        A zero, which would cost infinity, counts as the smallest normal number of its type: it
        costs 708 in double precision and 87 in single. (scikit-learn counts everything below
        2e-16, or 1e-7, as that.)

    Examples
    --------
    >>> from expertload.metrics import log_loss
    >>> print(f"{log_loss([0, 1], [[0.9, 0.1], [0.4, 0.6]]):.4f}")
    0.3081
    """
    return log_loss_of(check_predictions(y_true, y_proba, sample_weight, labels, "log_loss"))


def log_loss_of(predictions: Predictions) -> float:
    """Return the log loss of validated predictions."""
    target, proba, weight = predictions
    likelihood = np.maximum(_true_class(proba, target), np.finfo(proba.dtype).tiny)
    return _mean(-np.log(likelihood), weight)


def count_impossible(predictions: Predictions) -> int:
    """Return how many cases have a true class that was given no probability at all."""
    target, proba, weight = predictions
    is_zero = _true_class(proba, target) == 0
    return int(np.count_nonzero(is_zero if weight is None else is_zero & (weight > 0)))


def _true_class(proba: FloatArray, target: IntArray) -> FloatArray:
    picked: FloatArray = np.take_along_axis(proba, target[:, None], axis=1)[:, 0]
    return picked.astype(np.float64)


def _mean(values: FloatArray, weight: FloatArray | None) -> float:
    return float(np.average(values, weights=weight))

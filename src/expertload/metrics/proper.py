"""Proper scoring rules: losses that the true probabilities, and only they, minimise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload.cases import Cases, Predictions, as_cases, pick

__all__ = ["brier_loss", "log_loss"]


def brier_loss(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
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
    cases = as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    target, proba, weight = cases.predictions
    return _brier(proba, _true_class(proba, target), weight)


def log_loss(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
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
    cases = as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    target, proba, weight = cases.predictions
    return _log_loss(proba, _true_class(proba, target), weight)


class ProperScores(NamedTuple):
    """Scores from the probabilities of the true classes; None if these are not known.

    `n_impossible` counts the cases whose true class was given no probability at all.
    """

    brier_loss: float | None = None
    log_loss: float | None = None
    n_impossible: int = 0

    @classmethod
    def of(cls, predictions: Predictions) -> ProperScores:
        """Return all scores of validated predictions."""
        target, proba, weight = predictions
        likelihood = _true_class(proba, target)
        is_zero = likelihood == 0
        if weight is not None:
            is_zero &= weight > 0
        return cls(
            _brier(proba, likelihood, weight),
            _log_loss(proba, likelihood, weight),
            int(np.count_nonzero(is_zero)),
        )


def _brier(proba: FloatArray, likelihood: FloatArray, weight: FloatArray | None) -> float:
    # |p - e_y|^2 = |p|^2 - 2 p_y + 1, without ever building the one-hot matrix.
    distance = np.einsum("nc,nc->n", proba, proba, dtype=np.float64)
    distance -= 2.0 * likelihood
    distance += 1.0
    return _mean(distance, weight)


def _log_loss(proba: FloatArray, likelihood: FloatArray, weight: FloatArray | None) -> float:
    logarithm = np.maximum(likelihood, np.finfo(proba.dtype).tiny)
    np.log(logarithm, out=logarithm)
    return -_mean(logarithm, weight)


def _true_class(proba: FloatArray, target: IntArray) -> FloatArray:
    return pick(proba, target).astype(np.float64)


def _mean(values: FloatArray, weight: FloatArray | None) -> float:
    return float(np.average(values, weights=weight))

"""Proper scoring rules: losses that the true probabilities, and only they, minimise."""

from __future__ import annotations

import numpy as np

from expertload._typing import ArrayLike
from expertload.cases import Cases, as_cases, pick


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
    return proper_scores(as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels))[0]


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
    return proper_scores(as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels))[1]


def proper_scores(cases: Cases) -> tuple[float, float, int]:
    """Return Brier score, log loss, and the number of true classes with a probability of zero."""
    target, proba, weight = cases.predictions
    likelihood = pick(proba, target).astype(np.float64)
    n_impossible = np.count_nonzero((likelihood == 0) & (True if weight is None else weight > 0))
    # In place, because temporary arrays of millions of rows are slow.
    logarithm = np.maximum(likelihood, np.finfo(proba.dtype).tiny)
    np.log(logarithm, out=logarithm)
    # |p - e_y|^2 = |p|^2 - 2 p_y + 1, without building the one-hot matrix.
    distance = np.einsum("nc,nc->n", proba, proba, dtype=np.float64)
    likelihood *= 2.0
    distance -= likelihood
    distance += 1.0
    brier, log = (float(np.average(values, weights=weight)) for values in (distance, logarithm))
    return brier, -log, int(n_impossible)

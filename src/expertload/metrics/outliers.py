"""Outlier metrics: how well does a score separate outliers from inliers?

For outlier scores, higher means more out of distribution. A confidence from
`expertload.scores` becomes an outlier score by its sign: pass ``-confidence``.

Outliers are the positive class by default. Part of the literature takes the inliers as positive;
``positive="inlier"`` gives its numbers. AUROC is the same either way.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from expertload._check import (
    as_floats,
    check_fraction,
    check_option,
    check_same_length,
    check_same_order,
    message,
)
from expertload._names import Positive
from expertload._typing import ArrayLike, FloatArray
from expertload.cases import Cases
from expertload.exceptions import InsufficientDataError, LabelError
from expertload.tally import COMPARISON_SLACK, check_weight


def outlier_auroc_score(
    is_outlier: ArrayLike, outlier_score: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Compute the area under the ROC curve; higher is better.

    Parameters
    ----------
    is_outlier : array-like of shape (n_cases,)
        True (or 1) for outliers, False (or 0) for inliers; both must occur.
    outlier_score : array-like of shape (n_cases,)
        Any finite numbers, higher meaning more out of distribution.
    sample_weight : array-like of shape (n_cases,), optional
        How much each case counts.

    Returns
    -------
    float
        The probability that an outlier scores above an inlier, equals counting one half.

    Examples
    --------
    >>> from expertload.metrics import outlier_auroc_score
    >>> outlier_auroc_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    true, false = _flagged(is_outlier, outlier_score, sample_weight, "outlier")
    tpr = np.append(true / true[0], 0.0)
    fpr = np.append(false / false[0], 0.0)
    return float(-np.trapezoid(tpr, fpr))


def outlier_aupr_score(
    is_outlier: ArrayLike,
    outlier_score: ArrayLike,
    *,
    positive: Positive = "outlier",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the area under the precision-recall curve (average precision); higher is better.

    Parameters
    ----------
    is_outlier, outlier_score, sample_weight
        As in `outlier_auroc_score`.
    positive : {"outlier", "inlier"}, default="outlier"
        The positive class: AUPR-Out or AUPR-In in the literature.

    Returns
    -------
    float
        Mean precision over the steps in recall, without interpolation.

    Examples
    --------
    >>> from expertload.metrics import outlier_aupr_score
    >>> print(f"{outlier_aupr_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]):.3f}")
    0.833
    """
    true, false = _flagged(is_outlier, outlier_score, sample_weight, positive)
    recall = np.append(true / true[0], 0.0)
    precision = true / (true + false)
    return float(-np.diff(recall) @ precision)


def fpr_at_tpr_error(
    is_outlier: ArrayLike,
    outlier_score: ArrayLike,
    *,
    tpr: float = 0.95,
    positive: Positive = "outlier",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Compute the false positive rate where the true positive rate reaches a level (FPR95).

    Parameters
    ----------
    is_outlier, outlier_score, sample_weight
        As in `outlier_auroc_score`.
    tpr : float, default=0.95
        The share of positives that must be found, in [0, 1].
    positive : {"outlier", "inlier"}, default="outlier"
        The positive class.

    Returns
    -------
    float
        The share of negatives flagged at the strictest threshold that finds `tpr` of the
        positives; lower is better.

    Examples
    --------
    >>> from expertload.metrics import fpr_at_tpr_error
    >>> fpr_at_tpr_error([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.5
    """
    level = check_fraction(tpr, "tpr")
    true, false = _flagged(is_outlier, outlier_score, sample_weight, positive)
    if level == 0:
        return 0.0  # a rate of zero flags nothing
    # Tolerance for sums of weights; the lowest threshold finds everything, so one always qualifies.
    reached = true / true[0] >= level - COMPARISON_SLACK
    return float(false[np.flatnonzero(reached)[-1]] / false[0])


def _flagged(
    is_outlier: ArrayLike, outlier_score: ArrayLike, sample_weight: ArrayLike | None, positive: str
) -> tuple[FloatArray, FloatArray]:
    """Return the weight of positives and negatives flagged at each score, lowest score first."""
    check_option(positive, get_args(Positive), "positive")
    cases = check_outlier_cases(is_outlier, outlier_score, sample_weight)
    if positive == "inlier":
        cases = opposite(cases)
    return cases.tally.accepted_correct, cases.tally.accepted_errors


def opposite(cases: Cases) -> Cases:
    """Return the cases with inliers as the positive class."""
    return Cases(~cases.correct, -cases.confidence, cases.weight)


def check_outlier_cases(
    is_outlier: ArrayLike, outlier_score: ArrayLike, sample_weight: ArrayLike | None
) -> Cases:
    """Validate the outlier metrics' arguments: two sides, both present."""
    check_same_order(
        is_outlier=is_outlier, outlier_score=outlier_score, sample_weight=sample_weight
    )
    flags = as_floats(is_outlier, "is_outlier")
    if not np.isin(flags, (0, 1)).all():
        raise LabelError(
            message("is_outlier", "must hold only 0 and 1 (or False and True)", "others")
        )
    scores = as_floats(outlier_score, "outlier_score")
    check_same_length(is_outlier=flags, outlier_score=scores)
    weight = check_weight(sample_weight, len(flags))
    outlier = flags == 1
    if len(np.unique(outlier if weight is None else outlier[weight > 0])) < 2:
        raise InsufficientDataError(
            f"This metric compares outliers with inliers and needs at least one of each. "
            f"Got {int(outlier.sum())} outlier(s) among {len(outlier)} case(s)."
        )
    return Cases(outlier, scores, weight)

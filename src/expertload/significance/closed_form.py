"""Standard error, interval and paired test of AUCOC in closed form: no resampling, O(n log n)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scipy.special import expit, logit, xlogy

from expertload._cases import Cases, check_cases, check_correctness_cases, check_several
from expertload._typing import ArrayLike
from expertload._validation import check_fraction, check_same_length, check_same_order
from expertload.significance.effective import effective_size
from expertload.significance.influence import Linearised, linearise_cases
from expertload.significance.models import clustered, compare_cases
from expertload.significance.results import Comparison, Interval
from expertload.tally import Tally

__all__ = [
    "aucoc_interval",
    "aucoc_interval_from_correctness",
    "aucoc_paired_test",
    "aucoc_paired_test_from_correctness",
]


def aucoc_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Interval:
    """Compute AUCOC with its standard error and confidence interval.

    Parameters
    ----------
    y_true, y_proba, confidence, labels
        As in `expertload.coc_curve`.
    confidence_level : float, default=0.95
        The share of samples of cases whose interval holds the true value.
    sample_weight : array-like of shape (n_cases,), optional
        Sampling weights: how much each case counts, not how often it was seen. Doubling all of
        them changes nothing.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, for example its patient. Cases of one cluster need not be
        independent: clusters are. By default all cases are.

    Returns
    -------
    Interval
        ``estimate``, ``standard_error``, ``low``, ``high``, ``confidence_level``.

    Notes
    -----
    The interval is symmetric in the log-odds of the area, so it stays inside [0, 1]. Where all
    answers are right (or all wrong) there is no spread to estimate it from; the bound is then that
    of the error rate (Clopper-Pearson), with its errors placed where they hurt most.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.significance import aucoc_interval
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < y_proba
    >>> print(aucoc_interval(y_true, y_proba))
    0.8058 (95 % interval 0.7624 to 0.8430)
    """
    check_same_order(y_true=y_true, y_proba=y_proba, clusters=clusters)
    cases = check_cases(y_true, y_proba, confidence, sample_weight, labels)
    return _interval(cases.in_clusters(clusters), confidence_level)


def aucoc_interval_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Interval:
    """Compute AUCOC and its interval from the correctness and the confidence of each case.

    Parameters
    ----------
    correct, confidence
        As in `expertload.coc_curve_from_correctness`.
    confidence_level, sample_weight, clusters
        As in `aucoc_interval`.

    Returns
    -------
    Interval
        ``estimate``, ``standard_error``, ``low``, ``high``, ``confidence_level``.

    Examples
    --------
    >>> from expertload.significance import aucoc_interval_from_correctness
    >>> interval = aucoc_interval_from_correctness([1] * 99 + [0], range(100, 0, -1))
    >>> print(f"{interval.standard_error:.6f}")
    0.000101
    """
    check_same_order(correct=correct, confidence=confidence, clusters=clusters)
    cases = check_correctness_cases(correct, confidence, sample_weight)
    return _interval(cases.in_clusters(clusters), confidence_level)


def aucoc_paired_test(
    y_true: ArrayLike,
    y_proba_a: ArrayLike,
    y_proba_b: ArrayLike,
    *,
    confidence_level: float = 0.95,
    confidence_a: ArrayLike | None = None,
    confidence_b: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Comparison:
    """Test whether two models differ in AUCOC on the same cases.

    Parameters
    ----------
    y_true, sample_weight, labels, clusters
        As in `aucoc_interval`.
    y_proba_a, y_proba_b : array-like
        The two models' probabilities for the same cases, in the same order.
    confidence_level : float, default=0.95
        That of the interval around the difference.
    confidence_a, confidence_b : array-like of shape (n_cases,), optional
        What to rank by, the largest probability by default.

    Returns
    -------
    Comparison
        ``difference`` (a minus b), ``p_value`` (two-sided), ``standard_error``, ``low``, ``high``.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.significance import aucoc_paired_test
    >>> rng = np.random.default_rng(0)
    >>> good = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < good
    >>> noisy = np.clip(good + rng.normal(0, 0.3, size=500), 0, 1)
    >>> print(aucoc_paired_test(y_true, good, noisy))
    difference 0.1694 (95 % interval 0.1199 to 0.2190), p = 7.9e-11
    """
    models = {"y_proba_a": y_proba_a, "y_proba_b": y_proba_b}
    check_same_order(
        **models, confidence_a=confidence_a, confidence_b=confidence_b, clusters=clusters
    )
    a = check_cases(y_true, y_proba_a, confidence_a, sample_weight, labels)
    b = check_cases(y_true, y_proba_b, confidence_b, sample_weight, labels)
    return _paired_test(clustered({"a": a, "b": b}, clusters), confidence_level)


def aucoc_paired_test_from_correctness(
    correct_a: ArrayLike,
    confidence_a: ArrayLike,
    correct_b: ArrayLike,
    confidence_b: ArrayLike,
    *,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> Comparison:
    """Test whether two models differ in AUCOC, from correctness and confidence.

    Parameters
    ----------
    correct_a, confidence_a, correct_b, confidence_b
        Each model's correctness and confidence on the same cases, in the same order.
    confidence_level, sample_weight, clusters
        As in `aucoc_paired_test`.

    Returns
    -------
    Comparison
        ``difference`` (a minus b), ``p_value`` (two-sided), ``standard_error``, ``low``, ``high``.

    Examples
    --------
    >>> from expertload.significance import aucoc_paired_test_from_correctness
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> result = aucoc_paired_test_from_correctness(
    ...     [0, 1, 0, 1, 1], confidence, [1, 0, 1, 1, 0], confidence
    ... )
    >>> print(f"{result.difference:.3f}, p = {result.p_value:.2f}")
    0.432, p = 0.36
    """
    models = {"correct_a": correct_a, "correct_b": correct_b}
    check_same_order(
        **models, confidence_a=confidence_a, confidence_b=confidence_b, clusters=clusters
    )
    a = check_correctness_cases(correct_a, confidence_a, sample_weight)
    b = check_correctness_cases(correct_b, confidence_b, sample_weight)
    check_same_length(correct_a=a.correct, correct_b=b.correct)
    return _paired_test(clustered({"a": a, "b": b}, clusters), confidence_level)


# ------------------------------------------------------------------ computation


def interval_of_tally(table: Tally, cases: Cases, level: float) -> Interval:
    """Return AUCOC with its interval, of cases that are tallied already."""
    estimate = linearise_cases(cases, table)
    low, high = _bounds(cases, estimate, level)
    return Interval(
        estimate=estimate.value,
        low=low,
        high=high,
        confidence_level=level,
        standard_error=estimate.standard_error,
    )


def _interval(cases: Cases, confidence_level: float) -> Interval:
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    check_several(cases)
    return interval_of_tally(Tally.from_cases(cases), cases, level)


def _bounds(cases: Cases, estimate: Linearised, level: float) -> tuple[float, float]:
    # An area of 0 or 1 has all cases wrong or right, or all but such as weigh next to nothing.
    if estimate.value >= 1:
        worst = _one_sided_rate(cases, level)
        return 1 - worst + float(xlogy(worst, worst)), 1.0
    if estimate.value <= 0:
        best = _one_sided_rate(cases, level)
        return 0.0, best - float(xlogy(best, best))
    reach = estimate.quantile(level) * estimate.standard_error
    # Differentiate the log-odds at the estimate, which lies strictly inside (0, 1) here.
    centre, reach = logit(estimate.value), reach / (estimate.value * (1 - estimate.value))
    return float(expit(centre - reach)), float(expit(centre + reach))


def _one_sided_rate(cases: Cases, level: float) -> float:
    """The largest rate of the other kind that showing none of it in n cases leaves credible."""
    effective_n = effective_size(len(cases.correct), cases.weight, cases.cluster)
    return -math.expm1(math.log((1 - level) / 2) / effective_n)


def _paired_test(models: Mapping[str, Cases], confidence_level: float) -> Comparison:
    (found,) = compare_cases(models, "all", confidence_level).values()
    return found

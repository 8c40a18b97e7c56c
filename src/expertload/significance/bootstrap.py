"""Bootstrap intervals for any metric, and a fast path for AUCOC.

Resampling cases with replacement only changes how often each one counts. For AUCOC the cases are
therefore sorted once; a resample is a vector of counts in that order, and the weight of every rank
is looked up in a table of n + 1 values. Cases in clusters are not independent, but clusters are: a
resample draws whole clusters, and has as many cases as these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from expertload._area import delegated_mass
from expertload._cases import (
    Cases,
    check_cases,
    check_correctness_cases,
    check_named_predictions,
)
from expertload._label_arrays import number_clusters, sort_probabilities
from expertload._typing import AnyArray, ArrayLike, FloatArray, IntArray, Seed
from expertload._validation import (
    as_array,
    check_count,
    check_fraction,
    check_metric_value,
    check_same_length,
    check_same_order,
    random_generator,
)
from expertload.curve import area_of_cases, aucoc_score
from expertload.significance.results import Interval
from expertload.tally import cumulative_from_top

__all__ = ["bootstrap_interval", "bootstrap_interval_from_correctness"]

Metric = Callable[[AnyArray, AnyArray], float]


def bootstrap_interval(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    metric: Metric = aucoc_score,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    random_state: Seed = None,
    clusters: ArrayLike | None = None,
) -> Interval:
    """Compute a percentile bootstrap interval of any metric.

    Parameters
    ----------
    y_true, y_proba : array-like
        Labels and predictions, one row per case.
    metric : callable, default=aucoc_score
        Takes ``(y_true, y_proba)`` and returns a number: any metric of this library, a
        ``functools.partial`` of one with options, or your own.
    n_resamples : int, default=2000
        Number of resamples.
    confidence_level : float, default=0.95
        The level of the interval.
    random_state : int, Generator or None, default=None
        Seed, for a result that can be repeated.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, for example its patient; whole clusters are resampled.

    Returns
    -------
    Interval
        ``estimate``, ``standard_error``, ``low``, ``high``, ``confidence_level``.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.metrics import brier_loss
    >>> from expertload.significance import bootstrap_interval
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < y_proba
    >>> interval = bootstrap_interval(y_true, y_proba, metric=brier_loss, random_state=0)
    >>> print(f"{interval.low:.2f} to {interval.high:.2f}")
    0.37 to 0.43
    """
    check_count(n_resamples, "n_resamples", minimum=2)
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    rng = random_generator(random_state)
    check_same_order(y_true=y_true, y_proba=y_proba, clusters=clusters)
    if metric is aucoc_score:
        cases = check_cases(y_true, y_proba, None, None, None)
        return _aucoc_interval(cases.in_clusters(clusters), n_resamples, level, rng)
    y = as_array(y_true, "y_true")
    proba, classes = sort_probabilities(y_true, y_proba)
    check_same_length(y_true=y, y_proba=proba)
    if classes is None and asks_for_classes(metric):  # a resample may lack some of them
        _, classes = check_named_predictions(y, proba, None, None)
    metric = with_classes(metric, classes)
    estimate = check_metric_value(metric(y, proba))
    cluster = number_clusters(clusters, len(y))
    picks = (_resampled_rows(len(y), cluster, rng) for _ in range(n_resamples))
    values = np.array([check_metric_value(metric(y[i], proba[i])) for i in picks])
    return percentile_interval(estimate, values, level)


def bootstrap_interval_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    random_state: Seed = None,
    clusters: ArrayLike | None = None,
) -> Interval:
    """Compute a percentile bootstrap interval of AUCOC from correctness and confidence.

    Parameters
    ----------
    correct, confidence
        As in `expertload.coc_curve_from_correctness`.
    n_resamples, confidence_level, random_state, clusters
        As in `bootstrap_interval`.

    Returns
    -------
    Interval
        ``estimate``, ``standard_error``, ``low``, ``high``, ``confidence_level``.

    Examples
    --------
    >>> from expertload.significance import bootstrap_interval_from_correctness
    >>> interval = bootstrap_interval_from_correctness(
    ...     [1] * 90 + [0] * 10, range(100, 0, -1), random_state=0
    ... )
    >>> print(f"{interval.low:.2f} to {interval.high:.2f}")
    0.99 to 1.00
    """
    check_count(n_resamples, "n_resamples", minimum=2)
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    check_same_order(correct=correct, confidence=confidence, clusters=clusters)
    cases = check_correctness_cases(correct, confidence, None)
    cases = cases.in_clusters(clusters)
    return _aucoc_interval(cases, n_resamples, level, random_generator(random_state))


def with_classes(metric: Callable[..., float], classes: Any) -> Callable[..., float]:
    """Return a metric that is told the class of each column, if they are known and it asks."""
    known = classes is not None and asks_for_classes(metric)
    return partial(metric, labels=classes) if known else metric


def asks_for_classes(metric: Callable[..., float]) -> bool:
    """Whether a metric finds out the class of each column, unless it is told."""
    try:
        asked = inspect.signature(metric).parameters.get("labels")
    except ValueError:  # some functions that are not written in Python have none
        return False
    return asked is not None and asked.default is None


def _aucoc_interval(
    cases: Cases, n_resamples: int, level: float, rng: np.random.Generator
) -> Interval:
    values = np.fromiter(resampled_areas(cases, n_resamples, rng), dtype=np.float64)
    return percentile_interval(area_of_cases(cases, "exact"), values, level)


def resampled_areas(cases: Cases, n_resamples: int, rng: np.random.Generator) -> Iterator[float]:
    """Yield the exact AUCOC of resamples of the cases."""
    n = len(cases.correct)
    order = np.argsort(cases.confidence, kind="stable")
    correct = cases.correct[order].astype(np.float64)
    ascending = cases.confidence[order]
    start = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    table = delegated_mass(np.arange(n + 1) / n, n, "exact")
    if cases.cluster is None:
        for _ in range(n_resamples):
            yield _area_of_counts(_drawn(n, rng), correct, start, table.__getitem__)
        return
    cluster = cases.cluster[order]
    for _ in range(n_resamples):
        counts = _drawn(int(cluster.max()) + 1, rng)[cluster]
        yield _area_of_counts(counts, correct, start, _mass_of_any_number)


def _drawn(n: int, rng: np.random.Generator) -> IntArray:
    """Return how often each of n is drawn, in n draws with replacement."""
    return np.bincount(rng.integers(0, n, n, dtype=np.int32), minlength=n)


def _resampled_rows(n: int, cluster: IntArray | None, rng: np.random.Generator) -> IntArray:
    """Return the rows of a resample of cases, or of whole clusters."""
    if cluster is None:
        return rng.integers(0, n, n)
    return np.repeat(np.arange(n), _drawn(int(cluster.max()) + 1, rng)[cluster])


def _mass_of_any_number(remaining: AnyArray) -> FloatArray:
    """Return what the table holds, for a resample that has another number of cases."""
    return delegated_mass(remaining / remaining[0], int(remaining[0]), "exact")


def _area_of_counts(
    counts: AnyArray,
    correct: FloatArray,
    start: AnyArray,
    mass_of: Callable[[AnyArray], FloatArray],
) -> float:
    right = correct * counts
    if len(start) < len(counts):
        counts, right = np.add.reduceat(counts, start), np.add.reduceat(right, start)
    mass = np.diff(mass_of(cumulative_from_top(counts)), append=1.0)
    # A row that was not drawn has no mass; dividing by one instead of zero leaves its zero alone.
    return float((right / np.maximum(counts, 1)) @ mass)


def percentile_interval(estimate: float, values: FloatArray, level: float) -> Interval:
    """Return a number with the interval that its values on resamples give."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(
        estimate=estimate,
        low=float(low),
        high=float(high),
        confidence_level=level,
        standard_error=float(values.std(ddof=1)),
    )

"""Resampling: bootstrap intervals and the paper's paired permutation test, for any metric.

Resampling cases with replacement only changes how often each one counts. For AUCOC the cases are
therefore sorted once; a resample is a vector of counts in that order, and the weight of every rank
is looked up in a table of n + 1 values. Cases in clusters are not independent, but clusters are: a
resample draws whole clusters, and has as many cases as these.

The load at an accuracy is where a curve crosses a line, so it has no useful closed form: its error
depends on how steep the curve is there. `load_difference` ranks all models once, and each resample
counts the same cases for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from expertload._check import (
    check_count,
    check_fraction,
    check_level,
    check_option,
    incompatible_options_error,
    message,
    random_generator,
)
from expertload._typing import AnyArray, BoolArray, FloatArray, IntArray, Seed
from expertload.cases import Cases, check_are_cases
from expertload.curve import aucoc_score
from expertload.exceptions import NonFiniteError, ShapeError, WeightError
from expertload.significance.compare import check_same_cases
from expertload.significance.interval import Interval
from expertload.tally import COMPARISON_SLACK, cumulative_from_top, delegated_mass, run_ends

Metric = Callable[[Cases], float]

# Resamples times cases handled together, so that temporaries stay in a few megabytes.
CELLS = 1 << 17


def bootstrap_interval(
    cases: Cases,
    *,
    metric: Metric = aucoc_score,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    random_state: Seed = None,
) -> Interval:
    """Compute a percentile bootstrap interval of any metric.

    Parameters
    ----------
    cases : Cases
        The cases, without weights; of cases in clusters, whole clusters are resampled.
    metric : callable, default=aucoc_score
        Takes `Cases` and returns a number: any metric of this library, a ``functools.partial`` of
        one with options, or your own, such as
        ``lambda cases: balanced_accuracy_score(cases.target, cases.proba.argmax(axis=1))``.
    n_resamples : int, default=2000
        Number of resamples.
    confidence_level : float, default=0.95
        The level of the interval.
    random_state : int, Generator or None, default=None
        Seed, for a result that can be repeated.

    Returns
    -------
    Interval
        ``estimate``, ``standard_error``, ``low``, ``high``, ``confidence_level``.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.metrics import brier_loss
    >>> from expertload.significance import bootstrap_interval
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < y_proba
    >>> cases = Cases.from_predictions(y_true, y_proba)
    >>> interval = bootstrap_interval(cases, metric=brier_loss, random_state=0)
    >>> print(f"{interval.low:.2f} to {interval.high:.2f}")
    0.37 to 0.43
    """
    check_count(n_resamples, "n_resamples", minimum=2)
    level = check_level(confidence_level)
    rng = random_generator(random_state)
    check_counted(cases)
    if metric is aucoc_score:
        values = np.fromiter(resampled_areas(cases, n_resamples, rng), dtype=np.float64)
        return percentile_interval(cases.aucoc(), values, level)
    estimate = check_metric_value(metric(cases))
    picks = (_resampled_rows(len(cases), cases.clusters, rng) for _ in range(n_resamples))
    values = np.array([check_metric_value(metric(cases.take(rows))) for rows in picks])
    return percentile_interval(estimate, values, level)


def check_counted(*models: Cases) -> None:
    """Raise unless all are cases without weights."""
    for cases in models:
        check_are_cases(cases)
    if any(cases.weight is not None for cases in models):
        wanted = "must be None: cases are drawn or exchanged one by one"
        hint = "use aucoc_interval, aucoc_paired_test or compare_models"
        raise WeightError(message("sample_weight", wanted, "weights", hint))


def resampled_areas(cases: Cases, n_resamples: int, rng: np.random.Generator) -> Iterator[float]:
    """Yield the exact AUCOC of resamples of the cases."""
    n = len(cases.correct)
    order = np.argsort(cases.confidence, kind="stable")
    correct = cases.correct[order].astype(np.float64)
    ascending = cases.confidence[order]
    start = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    table = delegated_mass(np.arange(n + 1) / n, n, "exact")
    if cases.clusters is None:
        for _ in range(n_resamples):
            yield _area_of_counts(draw(n, rng), correct, start, table.__getitem__)
        return
    cluster = cases.clusters[order]
    for _ in range(n_resamples):
        counts = draw(int(cluster.max()) + 1, rng)[cluster]
        yield _area_of_counts(counts, correct, start, _mass_of_any_number)


def draw(n: int, rng: np.random.Generator) -> IntArray:
    """Return how often each of n is drawn, in n draws with replacement."""
    return np.bincount(rng.integers(0, n, n, dtype=np.int32), minlength=n)


def _resampled_rows(n: int, cluster: IntArray | None, rng: np.random.Generator) -> IntArray:
    """Return the rows of a resample of cases, or of whole clusters."""
    if cluster is None:
        return rng.integers(0, n, n)
    return np.repeat(np.arange(n), draw(int(cluster.max()) + 1, rng)[cluster])


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


# ------------------------------------------------------------------ the load at one accuracy


def load_difference(
    cases_a: Cases | Sequence[Cases],
    cases_b: Cases | Sequence[Cases],
    *,
    target_accuracy: float,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: Seed = 0,
) -> Interval:
    """Compute how much more one model delegates than another at the same accuracy.

    Parameters
    ----------
    cases_a, cases_b : Cases or sequence of Cases
        The cases of each model, without weights: the same cases in the same order. Of several
        models on a side, the mean load counts.
    target_accuracy : float
        The accuracy that automatic decisions reach on these cases.
    n_resamples : int, default=1000
        The number of resamples; of cases in clusters, whole clusters are resampled.
    confidence_level : float, default=0.95
        The level of the interval.
    random_state : int, Generator or None, default=0
        The seed.

    Returns
    -------
    Interval
        The load of a minus that of b; the ends are percentiles over resamples.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.significance import load_difference
    >>> rng = np.random.default_rng(0)
    >>> good = rng.beta(0.3, 0.3, size=1000)
    >>> y_true = rng.random(1000) < good
    >>> noisy = np.clip(good + rng.normal(0, 0.3, size=1000), 0, 1)
    >>> a, b = (Cases.from_predictions(y_true, y_proba) for y_proba in (noisy, good))
    >>> print(load_difference(a, b, target_accuracy=0.9))
    0.3070 (95 % interval 0.1410 to 0.5040)
    """
    target = check_fraction(target_accuracy, "target_accuracy")
    level = check_level(confidence_level)
    rounds = check_count(n_resamples, "n_resamples", minimum=2)
    rng = random_generator(random_state)
    sides = [[side] if isinstance(side, Cases) else [*side] for side in (cases_a, cases_b)]
    first, *others = [cases for side in sides for cases in side]
    check_counted(first, *others)
    for other in others:
        check_same_cases(first, other)
    unit, n_units = first.unit, int(first.unit.max()) + 1
    ranked = [[_Ranked(cases) for cases in side] for side in sides]

    def difference(times: AnyArray) -> FloatArray:
        """Return the difference for each row of how often every unit counts."""
        counts = times[:, unit]
        a, b = (np.mean([model.loads(counts, target) for model in side], axis=0) for side in ranked)
        return np.asarray(a - b)

    at_once = max(1, CELLS // len(first))
    drawn = (
        np.stack([draw(n_units, rng) for _ in range(min(at_once, rounds - done))])
        for done in range(0, rounds, at_once)
    )
    values = np.concatenate([difference(times) for times in drawn])
    estimate = float(difference(np.ones((1, n_units), dtype=np.int64))[0])
    return percentile_interval(estimate, values, level)


class _Ranked:
    """One model's cases, the most confident first; those of equal confidence go together."""

    def __init__(self, cases: Cases) -> None:
        self.order = np.argsort(-cases.confidence, kind="stable")
        self.correct = cases.correct[self.order]
        self.ends = run_ends(cases.confidence[self.order])[1] - 1

    def loads(self, counts: AnyArray, target: float) -> FloatArray:
        """Return the load of each resample; 1 if no threshold reaches the target."""
        drawn = counts[:, self.order]
        accepted = drawn.cumsum(axis=1)[:, self.ends]
        right = (drawn * self.correct).cumsum(axis=1)[:, self.ends]
        is_reached = right / np.maximum(accepted, 1) >= target - COMPARISON_SLACK
        most = np.where(is_reached, accepted, 0).max(axis=1)
        return np.asarray(1 - most / counts.sum(axis=1))


# ------------------------------------------------------------------ permutation


@dataclass(frozen=True, kw_only=True)
class PermutationResult:
    """The outcome of a permutation test.

    Attributes
    ----------
    difference : float
        The first model's number minus the second's.
    p_value : float
        Two-sided; the observed arrangement counts as one of the rounds, so it is never zero.
    n_rounds : int
        How many random exchanges were tried.
    """

    difference: float
    p_value: float
    n_rounds: int

    def __str__(self) -> str:
        return f"difference {self.difference:.4f}, p = {self.p_value:.2g} ({self.n_rounds} rounds)"


def permutation_test(
    cases_a: Cases,
    cases_b: Cases,
    *,
    metric: Metric = aucoc_score,
    n_rounds: int = 1000,
    random_state: Seed = None,
    exchange: str = "predictions",
) -> PermutationResult:
    """Test whether two models differ in a metric on the same cases.

    In each round a coin decides, case by case, which of the two predictions is whose. If the
    models are exchangeable on every case, the observed difference is one draw among those of the
    rounds.

    Parameters
    ----------
    cases_a, cases_b : Cases
        The two models' cases, without weights: the same cases in the same order. One coin decides
        for a whole cluster.
    metric : callable, default=aucoc_score
        Takes `Cases` and returns a number, as in `bootstrap_interval`.
    n_rounds : int, default=1000
        Number of rounds; the paper ran 1000.
    random_state : int, Generator or None, default=None
        Seed, for a result that can be repeated.
    exchange : {"predictions", "ranks"}, default="predictions"
        What the models exchange. Predictions, as in the paper, are exchangeable only between models
        that are alike in every way: if one is merely more confident throughout, mixing the two
        scales blurs the curves, and differences in AUCOC are missed. With ranks, which work only
        for AUCOC, each confidence is first replaced by its rank within its own model, as
        Venkatraman and Begg (1996) do for ROC curves.

    Returns
    -------
    PermutationResult
        ``difference`` (a minus b), ``p_value`` (two-sided), ``n_rounds``.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.significance import permutation_test
    >>> rng = np.random.default_rng(0)
    >>> good = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < good
    >>> noisy = np.clip(good + rng.normal(0, 0.3, size=500), 0, 1)
    >>> a, b = (Cases.from_predictions(y_true, y_proba) for y_proba in (good, noisy))
    >>> print(permutation_test(a, b, random_state=0))
    difference 0.1694, p = 0.001 (1000 rounds)
    """
    check_count(n_rounds, "n_rounds")
    rng = random_generator(random_state)
    check_option(exchange, ("predictions", "ranks"), "exchange")
    check_counted(cases_a, cases_b)
    check_same_cases(cases_a, cases_b)
    if metric is aucoc_score:  # which needs no probabilities
        score = ranks if exchange == "ranks" else np.asarray
        first, second = (Cases(c.correct, score(c.confidence)) for c in (cases_a, cases_b))
    elif exchange == "ranks":
        raise incompatible_options_error(
            "exchange='ranks' and metric", "only AUCOC can be computed from ranks"
        )
    else:
        first, second = cases_a, _in_columns_of(cases_a, cases_b)

    def difference(swap: BoolArray) -> float:
        a, b = _exchanged(first, second, swap), _exchanged(second, first, swap)
        return check_metric_value(metric(a)) - check_metric_value(metric(b))

    units = cases_a.unit
    n_units = int(units.max()) + 1
    observed = difference(np.zeros(len(units), dtype=np.bool_))
    coins = (rng.integers(0, 2, n_units, dtype=np.bool_)[units] for _ in range(n_rounds))
    hits = sum(abs(difference(coin)) >= abs(observed) - COMPARISON_SLACK for coin in coins)
    return PermutationResult(
        difference=observed, p_value=(1 + hits) / (1 + n_rounds), n_rounds=n_rounds
    )


def _in_columns_of(first: Cases, other: Cases) -> Cases:
    """Return a model's cases with its classes in the order of another model's columns."""
    if first.labels == other.labels:
        return other
    if not first.labels or not other.labels or set(first.labels) != set(other.labels):
        raise ShapeError(
            "The models to compare must have the same classes. "
            f"Got {first.labels} and {other.labels}."
        )
    order = np.array([other.labels.index(label) for label in first.labels])
    target, proba, _ = other.predictions
    return replace(
        other, target=np.argsort(order)[target], proba=proba[:, order], labels=first.labels
    )


def _exchanged(own: Cases, other: Cases, swap: BoolArray) -> Cases:
    """Return a model's cases, some of them with the other model's predictions."""
    correct = np.where(swap, other.correct, own.correct)
    confidence = np.where(swap, other.confidence, own.confidence)
    if own.proba is None or other.proba is None:
        return replace(own, correct=correct, confidence=confidence)
    proba = np.where(swap[:, None], other.proba, own.proba)
    return replace(own, correct=correct, confidence=confidence, proba=proba)


def ranks(confidence: FloatArray) -> FloatArray:
    """Ranks, the mean of its places for each of a group of equals."""
    ranked = np.sort(confidence)
    ends = [np.searchsorted(ranked, confidence, side) for side in ("left", "right")]
    return np.asarray((ends[0] + ends[1]) / 2)


def check_metric_value(value: Any) -> float:
    """Return the value of a user's metric; raise unless it is one finite number."""
    number = float(value)
    if not math.isfinite(number):
        hint = "some resamples may lack a class that the metric needs"
        raise NonFiniteError(message("metric", "must return finite numbers", f"{number}", hint))
    return number

"""The paper's paired permutation test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from expertload._area import delegated_mass
from expertload._cases import Cases, check_cases, check_correctness_cases
from expertload._label_arrays import independent_units, sort_probabilities
from expertload._typing import ArrayLike, BoolArray, FloatArray, IntArray, Seed
from expertload._validation import (
    as_array,
    check_count,
    check_metric_value,
    check_option,
    check_same_length,
    check_same_order,
    check_same_shape,
    incompatible_options_error,
    random_generator,
)
from expertload.curve import aucoc_score
from expertload.significance.bootstrap import with_classes
from expertload.tally import COMPARISON_SLACK

__all__ = ["PermutationResult", "permutation_test", "permutation_test_from_correctness"]

EXCHANGES = ("predictions", "ranks")
# Rounds times cases handled together, so that temporaries stay in a few megabytes.
CELLS = 1 << 17


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
    y_true: ArrayLike,
    y_proba_a: ArrayLike,
    y_proba_b: ArrayLike,
    *,
    metric: Callable[..., float] = aucoc_score,
    n_rounds: int = 1000,
    random_state: Seed = None,
    exchange: str = "predictions",
    labels: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> PermutationResult:
    """Test whether two models differ in a metric on the same cases.

    In each round a coin decides, case by case, which of the two predictions is whose. If the
    models are equally good, the observed difference is one draw among those of the rounds.

    Parameters
    ----------
    y_true : array-like of shape (n_cases,)
        True labels.
    y_proba_a, y_proba_b : array-like
        The two models' predictions for the same cases, in the same order and of the same shape.
    metric : callable, default=aucoc_score
        Takes ``(y_true, y_proba)`` and returns a number: any metric of this library, a
        ``functools.partial`` of one with options, or your own.
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
    labels : array-like of shape (n_classes,), optional
        Names of the columns in order, passed to the metric; by default the metric finds them.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, for example its patient; one coin decides for a whole cluster.

    Returns
    -------
    PermutationResult
        ``difference`` (a minus b), ``p_value`` (two-sided), ``n_rounds``.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.significance import permutation_test
    >>> rng = np.random.default_rng(0)
    >>> good = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < good
    >>> noisy = np.clip(good + rng.normal(0, 0.3, size=500), 0, 1)
    >>> print(permutation_test(y_true, good, noisy, random_state=0))
    difference 0.1694, p = 0.001 (1000 rounds)
    """
    check_count(n_rounds, "n_rounds")
    rng = random_generator(random_state)
    check_option(exchange, EXCHANGES, "exchange")
    rows = {"y_true": y_true, "y_proba_a": y_proba_a, "y_proba_b": y_proba_b}
    check_same_order(**rows, clusters=clusters)
    if metric is aucoc_score:
        a = check_cases(y_true, y_proba_a, None, None, labels)
        b = check_cases(y_true, y_proba_b, None, None, labels)
        units = independent_units(len(a.correct), clusters)
        return _test(_aucoc_differences(a, b, exchange), units, n_rounds, rng)
    if exchange == "ranks":
        raise incompatible_options_error(
            "exchange='ranks' and metric", "only AUCOC can be computed from ranks"
        )
    y = as_array(y_true, "y_true")
    if labels is None:
        proba_a, of_a = sort_probabilities(y_true, y_proba_a)
        proba_b, of_b = sort_probabilities(y_true, y_proba_b)
        told = with_classes(metric, of_b if of_a is None else of_a)
    else:
        proba_a, proba_b = (as_array(each, "y_proba") for each in (y_proba_a, y_proba_b))
        told = partial(metric, labels=labels)
    check_same_length(y_true=y, y_proba_a=proba_a, y_proba_b=proba_b)
    check_same_shape(y_proba_a=proba_a, y_proba_b=proba_b)

    def difference(swap: BoolArray) -> float:
        rows = swap.reshape(-1, *[1] * (proba_a.ndim - 1))
        number_a = told(y, np.where(rows, proba_b, proba_a))
        number_b = told(y, np.where(rows, proba_a, proba_b))
        return check_metric_value(number_a) - check_metric_value(number_b)

    def differences(swaps: BoolArray) -> FloatArray:
        return np.array([difference(swap) for swap in swaps])

    return _test(differences, independent_units(len(y), clusters), n_rounds, rng)


def permutation_test_from_correctness(
    correct_a: ArrayLike,
    confidence_a: ArrayLike,
    correct_b: ArrayLike,
    confidence_b: ArrayLike,
    *,
    n_rounds: int = 1000,
    random_state: Seed = None,
    exchange: str = "predictions",
    clusters: ArrayLike | None = None,
) -> PermutationResult:
    """Test whether two models differ in AUCOC, from correctness and confidence.

    Parameters
    ----------
    correct_a, confidence_a, correct_b, confidence_b
        Each model's correctness and confidence on the same cases, in the same order.
    n_rounds, random_state, exchange, clusters
        As in `permutation_test`.

    Returns
    -------
    PermutationResult
        ``difference`` (a minus b), ``p_value`` (two-sided), ``n_rounds``.

    Examples
    --------
    >>> from expertload.significance import permutation_test_from_correctness
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> result = permutation_test_from_correctness(
    ...     [0, 1, 0, 1, 1], confidence, [1, 0, 1, 1, 0], confidence, random_state=0
    ... )
    >>> print(f"{result.difference:.3f}")
    0.432
    """
    check_count(n_rounds, "n_rounds")
    models = {"correct_a": correct_a, "correct_b": correct_b}
    check_same_order(
        **models, confidence_a=confidence_a, confidence_b=confidence_b, clusters=clusters
    )
    a = check_correctness_cases(correct_a, confidence_a, None)
    b = check_correctness_cases(correct_b, confidence_b, None)
    check_same_length(correct_a=a.correct, correct_b=b.correct)
    rng = random_generator(random_state)
    check_option(exchange, EXCHANGES, "exchange")
    units = independent_units(len(a.correct), clusters)
    return _test(_aucoc_differences(a, b, exchange), units, n_rounds, rng)


def _aucoc_differences(a: Cases, b: Cases, exchange: str) -> Callable[[BoolArray], FloatArray]:
    """Differences in AUCOC, one for each row of cases to exchange.

    The predictions of both models are sorted together once. A round only says which of them belong
    to the first model; the others belong to the second.
    """
    n, sides = len(a.correct), (a.confidence, b.confidence)
    confidence = np.concatenate([_ranks(side) for side in sides] if exchange == "ranks" else sides)
    order = np.argsort(confidence)
    ranked = confidence[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    correct = np.concatenate([a.correct, b.correct])[order].astype(np.float64)
    delegated = delegated_mass(np.arange(n, -1, -1) / n, n, "exact")

    def areas(below: IntArray, right: FloatArray) -> FloatArray:
        """AUCOC of each round: cases up to each confidence, and the correct ones at it."""
        mass = np.diff(delegated[below], axis=1, prepend=0)
        if len(ends) < 2 * n:
            mass /= np.diff(below, axis=1, prepend=0).clip(min=1)
        found: FloatArray = np.einsum("ij,ij->i", right, mass)
        return found

    def differences(swaps: BoolArray) -> FloatArray:
        of_first = np.concatenate([~swaps, swaps], axis=1)[:, order]
        below = np.cumsum(of_first, axis=1)[:, ends]
        right, every = of_first * correct, correct
        if len(ends) < 2 * n:
            starts = np.append(0, ends[:-1] + 1)
            right, every = (np.add.reduceat(each, starts, axis=-1) for each in (right, correct))
        return areas(below, right) - areas(ends + 1 - below, every - right)

    return differences


def _ranks(confidence: FloatArray) -> FloatArray:
    """Ranks, the mean of its places for each of a group of equals."""
    ranked = np.sort(confidence)
    ends = [np.searchsorted(ranked, confidence, side) for side in ("left", "right")]
    ranks: FloatArray = (ends[0] + ends[1]) / 2
    return ranks


def _test(
    differences: Callable[[BoolArray], FloatArray],
    units: IntArray,
    n_rounds: int,
    rng: np.random.Generator,
) -> PermutationResult:
    n, n_units = len(units), int(units.max()) + 1
    observed = float(differences(np.zeros((1, n), dtype=np.bool_))[0])
    as_extreme = abs(observed) - COMPARISON_SLACK
    hits = 0
    at_once = max(1, CELLS // n)
    for done in range(0, n_rounds, at_once):
        rounds = min(at_once, n_rounds - done)
        coins = np.array([rng.integers(0, 2, n_units, dtype=np.bool_) for _ in range(rounds)])
        hits += int(np.count_nonzero(np.abs(differences(coins[:, units])) >= as_extreme))
    return PermutationResult(
        difference=observed, p_value=(1 + hits) / (1 + n_rounds), n_rounds=n_rounds
    )

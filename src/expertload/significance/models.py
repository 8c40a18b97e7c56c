"""Compares several models on the same cases: one test per pair, adjusted for their number.

Of twenty comparisons between equal models, one has p < 0.05 by chance. Holm's procedure (1979)
adjusts p-values so that the chance of *any* false finding among all of them stays below the level:
the smallest of m is multiplied by m, the next by m - 1, and so on, none being smaller than the one
before. Both numbers are reported: the raw one is about one pair, the adjusted one about all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, TypeVar, get_args

from expertload._cases import (
    Cases,
    check_cases,
    check_correctness_cases,
    check_same_cases,
    check_several,
)
from expertload._typing import ArrayLike, FloatArray
from expertload._validation import (
    check_fraction,
    check_model_pairs,
    check_models,
    check_option,
    check_same_order,
)
from expertload.significance.influence import influence_of_cases, linearise
from expertload.significance.results import Comparison
from expertload.tally import Tally

__all__ = ["compare_models", "compare_models_from_correctness"]

Pairs = Literal["all", "first"]
Pair = tuple[str, str]
Model = TypeVar("Model")


def compare_models(
    y_true: ArrayLike,
    models: Mapping[str, ArrayLike],
    *,
    pairs: Pairs = "all",
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> dict[Pair, Comparison]:
    """Test which of several models differ in AUCOC on the same cases.

    Parameters
    ----------
    y_true, sample_weight, labels
        As in `expertload.coc_curve`.
    models : mapping from str to array-like
        The probabilities of each model by its name, for the same cases in the same order.
    pairs : {"all", "first"}, default="all"
        Compare every pair of models, or each other model with the first.
    confidence_level : float, default=0.95
        That of the interval around each difference; it is not adjusted.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, as in `aucoc_interval`.

    Returns
    -------
    dict from (str, str) to Comparison
        For the pair ``(a, b)``, AUCOC of a minus that of b, with ``p_value`` of this pair alone and
        ``adjusted_p_value`` by Holm's procedure over all pairs returned.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.significance import compare_models
    >>> rng = np.random.default_rng(0)
    >>> good = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < good
    >>> noise = rng.normal(0, 1, size=500)
    >>> models = {f"noise {s}": np.clip(good + s * noise, 0, 1) for s in (0, 0.03, 0.3)}
    >>> for (a, b), found in compare_models(y_true, models).items():
    ...     print(f"{a} minus {b}: {found.p_value:.2g}, adjusted {found.adjusted_p_value:.2g}")
    noise 0 minus noise 0.03: 0.097, adjusted 0.097
    noise 0 minus noise 0.3: 7.9e-11, adjusted 1.6e-10
    noise 0.03 minus noise 0.3: 2.2e-12, adjusted 6.5e-12
    """
    given = check_models(models)
    check_same_order(**given, clusters=clusters)
    cases = {
        name: check_cases(y_true, proba, None, sample_weight, labels)
        for name, proba in given.items()
    }
    return compare_cases(clustered(cases, clusters), pairs, confidence_level)


def compare_models_from_correctness(
    models: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    pairs: Pairs = "all",
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> dict[Pair, Comparison]:
    """Test which of several models differ in AUCOC, from correctness and confidence.

    Parameters
    ----------
    models : mapping from str to (correct, confidence)
        Each model's correctness and confidence by its name, for the same cases in the same order.
    pairs, confidence_level, sample_weight, clusters
        As in `compare_models`.

    Returns
    -------
    dict from (str, str) to Comparison
        As from `compare_models`.

    Examples
    --------
    >>> from expertload.significance import compare_models_from_correctness
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> models = {"a": ([0, 1, 0, 1, 1], confidence), "b": ([1, 0, 1, 1, 0], confidence)}
    >>> found = compare_models_from_correctness(models)["a", "b"]
    >>> print(f"{found.difference:.3f}, p = {found.p_value:.2f}")
    0.432, p = 0.36
    """
    given = check_model_pairs(models)
    check_same_order(
        **{f"correct of {name}": correct for name, (correct, _) in given.items()},
        **{f"confidence of {name}": confidence for name, (_, confidence) in given.items()},
        clusters=clusters,
    )
    cases = {
        name: check_correctness_cases(correct, confidence, sample_weight)
        for name, (correct, confidence) in given.items()
    }
    return compare_cases(clustered(cases, clusters), pairs, confidence_level)


# ------------------------------------------------------------------ computation


def clustered(models: Mapping[str, Cases], clusters: ArrayLike | None) -> dict[str, Cases]:
    """Return the cases of each model with the cluster of each case."""
    return {name: cases.in_clusters(clusters) for name, cases in models.items()}


def compare_cases(
    models: Mapping[str, Cases],
    pairs: str,
    confidence_level: float,
    *,
    tallies: Mapping[str, Tally] | None = None,
) -> dict[Pair, Comparison]:
    """Compare models by their validated cases; tallies that are known are not made again."""
    check_option(pairs, get_args(Pairs), "pairs")
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    first, *others = models.values()
    if not others:
        return {}
    for other in others:
        check_same_cases(first, other, None, None)
    check_several(first)
    known = tallies or {name: Tally.from_cases(cases) for name, cases in models.items()}
    influence = {name: influence_of_cases(cases, known[name]) for name, cases in models.items()}
    found = {
        (a, b): _difference(influence[a], influence[b], first, level)
        for a, b in _pairs(list(models), pairs)
    }
    adjusted = holm([each.p_value for each in found.values()])
    return {
        pair: replace(each, adjusted_p_value=p, n_comparisons=len(found))
        for (pair, each), p in zip(found.items(), adjusted, strict=True)
    }


def _pairs(names: Sequence[str], pairs: str) -> list[Pair]:
    """Return which model is compared with which: the others minus the first, or every two."""
    if pairs == "first":
        return [(other, names[0]) for other in names[1:]]
    return list(combinations(names, 2))


def _difference(
    a: tuple[float, FloatArray],
    b: tuple[float, FloatArray],
    cases: Cases,
    level: float,
) -> Comparison:
    estimate = linearise(a[0] - b[0], a[1] - b[1], cases.weight, cases.cluster)
    reach = estimate.quantile(level) * estimate.standard_error
    return Comparison(
        difference=estimate.value,
        p_value=estimate.p_value(),
        adjusted_p_value=estimate.p_value(),
        n_comparisons=1,
        low=estimate.value - reach,
        high=estimate.value + reach,
        confidence_level=level,
        standard_error=estimate.standard_error,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted

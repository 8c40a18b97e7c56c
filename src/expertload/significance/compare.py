"""Compares several models on the same cases: one test per pair, adjusted for their number.

Of twenty comparisons between equal models, one has p < 0.05 by chance. Holm's procedure (1979)
adjusts p-values so that the chance of *any* false finding among all of them stays below the level:
the smallest of m is multiplied by m, the next by m - 1, and so on, none being smaller than the one
before. Both numbers are reported: the raw one is about one pair, the adjusted one about all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Literal, get_args

import numpy as np

from expertload._check import check_level, check_models, check_option, check_same_order
from expertload._typing import AnyArray
from expertload.cases import Cases, check_are_cases
from expertload.exceptions import ShapeError
from expertload.significance.interval import (
    Linearised,
    check_several,
    influence_of_cases,
    linearise,
)

Pairs = Literal["all", "first"]
Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The difference between two models on the same cases, and whether chance explains it.

    Attributes
    ----------
    difference : float
        The first model's number minus the second's.
    p_value : float
        Two-sided: how often a difference this large arises by chance.
    adjusted_p_value : float
        The same where `n_comparisons` are made at once, by Holm's procedure: the chance that any
        of them finds a difference by chance stays below the level.
    n_comparisons : int
        How many comparisons this one was made with, itself included.
    low, high : float
        Ends of the confidence interval around the difference.
    confidence_level : float
        The level of that interval.
    standard_error : float
        Standard deviation of the difference over samples of cases.
    """

    difference: float
    p_value: float
    adjusted_p_value: float
    n_comparisons: int
    low: float
    high: float
    confidence_level: float
    standard_error: float

    def __str__(self) -> str:
        adjusted = f" ({self.adjusted_p_value:.2g} adjusted for {self.n_comparisons} comparisons)"
        return (
            f"difference {self.difference:.4f} ({100 * self.confidence_level:g} % interval "
            f"{self.low:.4f} to {self.high:.4f}), p = {self.p_value:.2g}"
            f"{adjusted if self.n_comparisons > 1 else ''}"
        )


def aucoc_paired_test(
    cases_a: Cases, cases_b: Cases, *, confidence_level: float = 0.95
) -> Comparison:
    """Test whether two models differ in AUCOC on the same cases.

    Parameters
    ----------
    cases_a, cases_b : Cases
        The two models' cases: the same cases in the same order.
    confidence_level : float, default=0.95
        That of the interval around the difference.

    Returns
    -------
    Comparison
        ``difference`` (a minus b), ``p_value`` (two-sided), ``standard_error``, ``low``, ``high``.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.significance import aucoc_paired_test
    >>> rng = np.random.default_rng(0)
    >>> good = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < good
    >>> noisy = np.clip(good + rng.normal(0, 0.3, size=500), 0, 1)
    >>> a, b = (Cases.from_predictions(y_true, y_proba) for y_proba in (good, noisy))
    >>> print(aucoc_paired_test(a, b))
    difference 0.1694 (95 % interval 0.1199 to 0.2190), p = 7.9e-11
    """
    models = {"a": cases_a, "b": cases_b}
    return compare_models(models, confidence_level=confidence_level)["a", "b"]


def compare_models(
    models: Mapping[str, Cases], *, pairs: Pairs = "all", confidence_level: float = 0.95
) -> dict[Pair, Comparison]:
    """Test which of several models differ in AUCOC on the same cases.

    Parameters
    ----------
    models : mapping from str to Cases
        Each model's cases by its name: the same cases in the same order.
    pairs : {"all", "first"}, default="all"
        Compare every pair of models, or each other model with the first.
    confidence_level : float, default=0.95
        That of the interval around each difference; it is not adjusted.

    Returns
    -------
    dict from (str, str) to Comparison
        For the pair ``(a, b)``, AUCOC of a minus that of b, with ``p_value`` of this pair alone and
        ``adjusted_p_value`` by Holm's procedure over all pairs returned.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.significance import compare_models
    >>> rng = np.random.default_rng(0)
    >>> good = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < good
    >>> noise = rng.normal(0, 1, size=500)
    >>> noisy = {f"noise {s}": np.clip(good + s * noise, 0, 1) for s in (0, 0.03, 0.3)}
    >>> models = {name: Cases.from_predictions(y_true, p) for name, p in noisy.items()}
    >>> for (a, b), found in compare_models(models).items():
    ...     print(f"{a} minus {b}: {found.p_value:.2g}, adjusted {found.adjusted_p_value:.2g}")
    noise 0 minus noise 0.03: 0.097, adjusted 0.097
    noise 0 minus noise 0.3: 7.9e-11, adjusted 1.6e-10
    noise 0.03 minus noise 0.3: 2.2e-12, adjusted 6.5e-12
    """
    check_option(pairs, get_args(Pairs), "pairs")
    level = check_level(confidence_level)
    given = check_models(models)
    for name, cases in given.items():
        check_are_cases(cases, name)
    first, *others = given.values()
    if not others:
        return {}
    for other in others:
        check_same_cases(first, other)
    check_several(first)
    chosen: list[Pair] = [*combinations(given, 2)]
    if pairs == "first":  # the others minus it
        chosen = [(other, next(iter(given))) for other in [*given][1:]]
    influence = {name: influence_of_cases(cases) for name, cases in given.items()}
    compared = {}
    for a, b in chosen:
        (area_a, cases_a), (area_b, cases_b) = influence[a], influence[b]
        difference = linearise(area_a - area_b, cases_a - cases_b, first.weight, first.clusters)
        compared[a, b] = comparison_of(difference, level)
    adjusted = holm([comparison.p_value for comparison in compared.values()])
    return {
        pair: replace(comparison, adjusted_p_value=p, n_comparisons=len(compared))
        for (pair, comparison), p in zip(compared.items(), adjusted, strict=True)
    }


def _known_labels(a: Cases, b: Cases) -> tuple[AnyArray | None, AnyArray | None]:
    """Return the true labels of two models' cases, if both have the same classes."""
    if a.target is None or b.target is None:
        return None, None
    if a.labels == b.labels:
        return a.target, b.target
    names = [np.array([str(label) for label in cases.labels or ()]) for cases in (a, b)]
    if set(names[0]) != set(names[1]):
        return None, None
    return names[0][a.target], names[1][b.target]


def comparison_of(difference: Linearised, level: float) -> Comparison:
    """Return one comparison, whose p-value needs no adjustment."""
    values, p = asdict(difference.interval(level)), difference.p_value()
    values |= {"difference": values.pop("estimate"), "p_value": p, "adjusted_p_value": p}
    return Comparison(**values, n_comparisons=1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    multiple = np.arange(len(order), 0, -1) * np.asarray(p_values)[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(multiple), 1.0)
    return adjusted.tolist()


def check_same_cases(
    a: Cases, b: Cases, target_a: AnyArray | None = None, target_b: AnyArray | None = None
) -> None:
    """Raise unless two models were evaluated on the same cases, as far as is known.

    Labels that both targets have are compared; without them, those of the cases.
    """
    if len(a) != len(b):
        raise ShapeError(
            f"The models must be evaluated on the same cases in the same order. Got {len(a)} cases "
            f"of one and {len(b)} of the other. Hint: match them by an identifier (--id COLUMN)."
        )
    check_same_order(first_model=a, second_model=b)
    known = target_a is not None and target_b is not None
    pairs = {
        "labels": (target_a, target_b) if known else _known_labels(a, b),
        "weights": (a.weight, b.weight),
        "clusters": (a.clusters, b.clusters),
    }
    for what, (of_a, of_b) in pairs.items():
        if not _are_same(of_a, of_b):
            raise ShapeError(
                f"The models must be evaluated on the same cases in the same "
                f"order. Got {what} that differ. Hint: sort both by the same identifier."
            )


def _are_same(a: AnyArray | None, b: AnyArray | None) -> bool:
    return a is b if a is None or b is None else bool((a == b).all())

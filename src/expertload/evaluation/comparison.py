"""Compares models evaluated on the same cases: their areas, and their loads at the target.

The area sums up a whole curve. Whoever chooses a model for one target accuracy needs the load at
that target; of two models, either may have the larger area and the larger load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from expertload.evaluation.evaluation import Evaluation
from expertload.exceptions import ShapeError
from expertload.significance import Comparison, Interval, compare_models, load_difference
from expertload.significance.compare import Pair, Pairs

# Resamples times cases: with many cases, fewer resamples give the same interval.
MOST_WORK, FEWEST_RESAMPLES, RESAMPLES = 5 * 10**7, 200, 1000


class Compared(NamedTuple):
    """A model compared with the first one.

    Attributes
    ----------
    aucoc : Comparison
        The difference in AUCOC, with raw and adjusted p-values.
    load : Interval or None
        The difference in load at the first model's target; None for weighted cases.
    """

    aucoc: Comparison
    load: Interval | None


def compare_evaluations(
    models: Mapping[str, Evaluation], *, pairs: Pairs = "first"
) -> dict[Pair, Comparison]:
    """Test which models differ in AUCOC, evaluated on the same cases in the same order.

    Parameters
    ----------
    models : mapping from str to Evaluation
        The evaluations by the names of the models.
    pairs : {"first", "all"}, default="first"
        Compare each other model with the first, or every pair.

    Returns
    -------
    dict from (str, str) to Comparison
        For the pair ``(a, b)``, the AUCOC of a minus that of b, with a raw p-value and one adjusted
        for the number of pairs; see `expertload.significance.compare_models`.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.evaluation import compare_evaluations, evaluate
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> models = {
    ...     "old": evaluate(Cases.from_correctness([1, 0, 1, 1, 0], confidence)),
    ...     "new": evaluate(Cases.from_correctness([0, 1, 0, 1, 1], confidence)),
    ... }
    >>> print(f"{compare_evaluations(models)['new', 'old'].difference:.3f}")
    0.432
    """
    first, *others = models.values()
    for other in others:
        first.check_same_cases(other)
    return compare_models(
        {name: evaluation.cases for name, evaluation in models.items()},
        pairs=pairs,
        confidence_level=first.confidence_level,
    )


def compare_with_first(
    models: Mapping[str, Evaluation],
) -> tuple[dict[str, Compared], dict[str, str]]:
    """Compare each model with the first one, if both have the same cases.

    Parameters
    ----------
    models : mapping from str to Evaluation
        The evaluations by the names of the models.

    Returns
    -------
    dict from str to Compared
        The difference of each other model to the first, in AUCOC and in load at the target.
    dict from str to str
        Why each of the remaining models was not compared.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.evaluation import compare_with_first, evaluate
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> models = {
    ...     "old": evaluate(Cases.from_correctness([1, 0, 1, 1, 0], confidence)),
    ...     "new": evaluate(Cases.from_correctness([0, 1, 0, 1, 1], confidence)),
    ...     "other": evaluate(Cases.from_correctness([0, 1], [0.6, 0.7])),
    ... }
    >>> compared, apart = compare_with_first(models)
    >>> print(f"{compared['new'].load.estimate:.2f}", list(apart))
    -0.40 ['other']
    """
    name, first = next(iter(models.items()))
    same, apart = {name: first}, {}
    for name, other in [*models.items()][1:]:
        try:
            first.check_same_cases(other)
            same[name] = other
        except ShapeError as error:
            apart[name] = str(error)
    areas = compare_evaluations(same).items()
    return {name: Compared(area, _load(same[name], first)) for (name, _), area in areas}, apart


def _load(other: Evaluation, first: Evaluation) -> Interval | None:
    if first.is_weighted:
        return None
    return load_difference(
        other.cases,
        first.cases,
        target_accuracy=first.target_accuracy,
        n_resamples=min(RESAMPLES, max(FEWEST_RESAMPLES, MOST_WORK // len(first.cases))),
        confidence_level=first.confidence_level,
    )

"""Each model against the first, in pairs on the same cases, with Holm's care for many tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from expertload.evaluation import Evaluation
from expertload.exceptions import ShapeError
from expertload.significance import Comparison

__all__ = ["compare_with_first"]


def compare_with_first(evaluations: Sequence[Evaluation]) -> list[Comparison | None]:
    """Return each model's AUCOC minus the first's; None for the first and for other cases."""
    first, *others = evaluations
    found = [None, *(_compare(other, first) for other in others)]
    adjusted = iter(_holm([c.p_value for c in found if c]))
    return [replace(c, p_value=next(adjusted)) if c else None for c in found]


def _compare(a: Evaluation, b: Evaluation) -> Comparison | None:
    try:
        return a.compare(b)
    except ShapeError:
        return None


def _holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the chance of any false finding stays below the level.

    Examples
    --------
    >>> _holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted

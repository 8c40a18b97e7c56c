"""Changes of the numbers from one step to the next, with intervals.

The intervals cover the chance in the test cases: other cases would give other numbers for the same
networks. They do not cover that other seeds would train other networks; that needs experiments over
many seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.cases import Cases
from expertload.significance import Interval
from expertload.significance.interval import influence_of_cases, linearise
from expertload.significance.resample import percentile_interval
from expertload.tally import COMPARISON_SLACK

__all__ = ["aucoc_change", "load_change"]

Models = Sequence[FloatArray]  # the probabilities of each
BATCH = 100  # resamples per batch: a few megabytes for ten thousand cases


def aucoc_change(
    labels: IntArray, after: Models, before: Models, *, confidence_level: float = 0.95
) -> Interval:
    """Compute the change of mean AUCOC between two groups of models, with its interval.

    Parameters
    ----------
    labels : ndarray of int64
        Column numbers.
    after, before : sequence of ndarray, shape (n, classes)
        Probabilities of the same cases.
    confidence_level : float, default=0.95

    Returns
    -------
    Interval
        In closed form: the influence of each case is the mean over the models.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.ladder.changes import aucoc_change
    >>> rng = np.random.default_rng(0)
    >>> good = rng.dirichlet(np.full(3, 0.2), size=1000)
    >>> labels = (good.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> worse = 0.6 * good + 0.4 * rng.dirichlet(np.ones(3), size=1000)
    >>> print(aucoc_change(labels, [good], [worse]))
    0.0471 (95 % interval 0.0323 to 0.0618)
    """
    (area, influence), (old_area, old_influence) = (
        _mean_influence(labels, models) for models in (after, before)
    )
    found = linearise(area - old_area, influence - old_influence)
    reach = found.quantile(confidence_level) * found.standard_error
    return Interval(
        estimate=found.value,
        low=found.value - reach,
        high=found.value + reach,
        confidence_level=confidence_level,
        standard_error=found.standard_error,
    )


def _mean_influence(labels: IntArray, models: Models) -> tuple[float, FloatArray]:
    """Return the mean area of models, and the influence of each case on it."""
    areas, influences = [], []
    for proba in models:
        cases = Cases.from_predictions(labels, proba, labels=np.arange(proba.shape[1]))
        area, influence = influence_of_cases(cases)
        areas.append(area)
        influences.append(influence)
    return float(np.mean(areas)), np.mean(influences, axis=0)


def load_change(
    labels: IntArray,
    after: Models,
    before: Models,
    *,
    target_accuracy: float,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> Interval:
    """Compute the change of the mean expert load at an accuracy, with a bootstrap interval.

    Parameters
    ----------
    labels, after, before, confidence_level
        As in `aucoc_change`.
    target_accuracy : float
    n_resamples : int, default=1000
        Cases are drawn with replacement, the same for all models.
    random_state : int, default=0

    Returns
    -------
    Interval
        Its ends are percentiles.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.ladder.changes import load_change
    >>> rng = np.random.default_rng(0)
    >>> good = rng.dirichlet(np.full(3, 0.2), size=1000)
    >>> labels = (good.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> worse = 0.6 * good + 0.4 * rng.dirichlet(np.ones(3), size=1000)
    >>> print(load_change(labels, [good], [worse], target_accuracy=0.9))
    -0.1680 (95 % interval -0.4820 to -0.0620)
    """
    n = len(labels)
    rng = np.random.default_rng(random_state)
    sides = [[_Sorted(labels, proba) for proba in models] for models in (after, before)]

    def change(counts: AnyArray) -> FloatArray:
        new, old = (
            np.mean([model.loads(counts, target_accuracy) for model in models], axis=0)
            for models in sides
        )
        difference: FloatArray = new - old
        return difference

    values = np.concatenate(
        [change(_draw(min(BATCH, n_resamples - k), n, rng)) for k in range(0, n_resamples, BATCH)]
    )
    estimate = float(change(np.ones((1, n), dtype=np.int64))[0])
    return percentile_interval(estimate, values, confidence_level)


def _draw(rows: int, n: int, rng: np.random.Generator) -> AnyArray:
    """Return how often each case is drawn, one row per resample."""
    return np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(rows)])


class _Sorted:
    """Cases of one model, the most confident first; cases of equal confidence go together."""

    def __init__(self, labels: IntArray, proba: FloatArray) -> None:
        confidence = proba.max(axis=1)
        self.order = np.argsort(-confidence, kind="stable")
        self.right = (proba.argmax(axis=1) == labels)[self.order]
        descending = confidence[self.order]
        self.ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))

    def loads(self, counts: AnyArray, target_accuracy: float) -> FloatArray:
        """Return the load of each resample; 1 if no threshold reaches the target."""
        drawn = counts[:, self.order]
        accepted = drawn.cumsum(axis=1)[:, self.ends]
        right = (drawn * self.right).cumsum(axis=1)[:, self.ends]
        reached = right / np.maximum(accepted, 1) >= target_accuracy - COMPARISON_SLACK
        most = np.where(reached, accepted, 0).max(axis=1)
        loads: FloatArray = 1 - most / counts.shape[1]
        return loads

"""The difference in expert load between models at one accuracy, on the same cases.

The load at an accuracy is where a curve crosses a line, so it has no useful closed form: its error
depends on how steep the curve is there. Cases are resampled instead, or whole clusters of cases.
All models are ranked once, and each resample counts the same cases for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from expertload._check import check_count, check_fraction, random_generator
from expertload._typing import AnyArray, FloatArray, Seed
from expertload.cases import Cases
from expertload.significance.compare import check_same_cases, known_labels
from expertload.significance.interval import Interval
from expertload.significance.resample import CELLS, check_counted, draw, percentile_interval
from expertload.tally import COMPARISON_SLACK


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
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    rounds = check_count(n_resamples, "n_resamples", minimum=2)
    rng = random_generator(random_state)
    sides = [[side] if isinstance(side, Cases) else [*side] for side in (cases_a, cases_b)]
    first, *others = [cases for side in sides for cases in side]
    check_counted(first, *others)
    for other in others:
        check_same_cases(first, other, *known_labels(first, other))
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
        descending = cases.confidence[self.order]
        self.ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))

    def loads(self, counts: AnyArray, target: float) -> FloatArray:
        """Return the load of each resample; 1 if no threshold reaches the target."""
        drawn = counts[:, self.order]
        accepted = drawn.cumsum(axis=1)[:, self.ends]
        right = (drawn * self.correct).cumsum(axis=1)[:, self.ends]
        is_reached = right / np.maximum(accepted, 1) >= target - COMPARISON_SLACK
        most = np.where(is_reached, accepted, 0).max(axis=1)
        return np.asarray(1 - most / counts.sum(axis=1))

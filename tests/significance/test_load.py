"""Loads at an accuracy, compared: a slow loop agrees, clusters stay whole, intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from expertload import Cases
from expertload.exceptions import ShapeError, WeightError
from expertload.significance import load_difference

TARGET = 0.8


def two_models(n, seed, *, per_cluster=1, decimals=3):
    """Clusters of cases that are alike but for a little noise, ranked well and less well."""
    rng = np.random.default_rng(seed)
    m = n // per_cluster
    clusters = np.repeat(np.arange(m), per_cluster)
    ease = rng.beta(1.2, 0.6, size=m)
    correct = (rng.random(m) < ease)[clusters]
    noisy = ease + rng.normal(0, 0.3, size=m)
    good, noisy = (each[clusters] + rng.normal(0, 0.02, size=n) for each in (ease, noisy))
    return [
        Cases.from_correctness(
            correct, confidence.round(decimals), clusters=None if per_cluster == 1 else clusters
        )
        for confidence in (noisy, good)
    ]


def loop(a, b, n_resamples, seed):
    """Draw clusters one by one, build each resample as cases, and read both curves."""
    rng = np.random.default_rng(seed)
    n_units = int(a.unit.max()) + 1

    def difference(rows):
        return a.take(rows).load_at_accuracy(TARGET) - b.take(rows).load_at_accuracy(TARGET)

    values = []
    for _ in range(n_resamples):
        picks = rng.integers(0, n_units, n_units, dtype=np.int32)
        values.append(difference(np.concatenate([np.flatnonzero(a.unit == i) for i in picks])))
    return difference(np.arange(len(a))), *np.quantile(values, [0.025, 0.975])


@pytest.mark.parametrize("decimals", [1, 3])
@pytest.mark.parametrize("per_cluster", [1, 3])
def test_against_a_loop(per_cluster, decimals):
    a, b = two_models(90, 3, per_cluster=per_cluster, decimals=decimals)
    found = load_difference(a, b, target_accuracy=TARGET, n_resamples=60, random_state=5)
    assert (found.estimate, found.low, found.high) == pytest.approx(loop(a, b, 60, 5))


def test_grades_count_as_parts():
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 5, 60) / 4
    a, b = (Cases.from_correctness(grades, rng.random(60) + grades * k) for k in (0.3, 2))
    found = load_difference(a, b, target_accuracy=TARGET, n_resamples=40, random_state=1)
    assert (found.estimate, found.low, found.high) == pytest.approx(loop(a, b, 40, 1))


def test_other_cases_and_weights_are_refused():
    a, b = two_models(60, 0)
    with pytest.raises(ShapeError):
        load_difference(a, b.take(np.arange(50)), target_accuracy=TARGET)
    weighted = Cases.from_correctness(a.correct, a.confidence, sample_weight=np.ones(60))
    with pytest.raises(WeightError):
        load_difference(weighted, weighted, target_accuracy=TARGET)


@pytest.mark.simulation
def test_intervals_hold_the_truth_and_without_clusters_do_not():
    """Patients of ten alike cases: resampled one by one, intervals are too narrow."""
    a, b = two_models(2_000_000, 99, per_cluster=10)
    truth = a.load_at_accuracy(TARGET) - b.load_at_accuracy(TARGET)
    held = {"whole": 0, "single": 0}
    for seed in range(120):
        models = two_models(1500, seed, per_cluster=10)
        single = [Cases.from_correctness(m.correct, m.confidence) for m in models]
        for name, each in (("whole", models), ("single", single)):
            found = load_difference(*each, target_accuracy=TARGET, n_resamples=200)
            held[name] += found.low <= truth <= found.high
    assert held["whole"] >= 105  # of 120; 114 are expected
    assert held["single"] < 95

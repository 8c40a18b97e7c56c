"""The numbers of a step against slow ones, and intervals against slow and simulated ones."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from tests.lab.ladder.made_up import make_arms

from expertload import Cases, aucoc_score, load_at_accuracy
from expertload.lab.ladder.outcome import (
    aucoc_change,
    certified_load,
    halves,
    measure_step,
)
from expertload.lab.ladder.steps import Climb
from expertload.lab.results.measures import cases_of
from expertload.metrics import brier_loss, expected_calibration_error, log_loss
from expertload.operating_point import certify
from expertload.significance import aucoc_paired_test, load_difference


def draw(n, seed, *, noise=0.0, decimals=None):
    """Calibrated answers of n cases, and worse ones."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(3, 0.3), size=n)
    labels = (proba.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    worse = (1 - noise) * proba + noise * rng.dirichlet(np.ones(3), size=n)
    if decimals is not None:  # ties
        proba = (proba + 1e-9).round(decimals) + 10.0 ** -(decimals + 1)
        proba /= proba.sum(axis=1, keepdims=True)
    return labels, proba, worse


def test_the_numbers_of_a_step_are_means_over_its_models(tmp_path):
    ladder = Climb(make_arms(tmp_path))
    labels = ladder.test_labels
    for step in ladder.steps:
        found = measure_step(step, labels, [0.9, 0.95])
        each = [model.test for model in step.models]
        for name, metric in {
            "aucoc": aucoc_score,
            "ece": expected_calibration_error,
            "nll": log_loss,
            "brier": brier_loss,
        }.items():
            mean = fmean(metric(labels, proba) for proba in each)
            assert getattr(found, name) == pytest.approx(mean, abs=1e-12), name
        right = fmean((proba.argmax(axis=1) == labels).mean() for proba in each)
        assert found.accuracy == pytest.approx(right)
        for target, load in found.loads.items():
            mean = fmean(load_at_accuracy(labels, p, target_accuracy=target) for p in each)
            assert load == pytest.approx(mean)


# ------------------------------------------------------------------ the certified load


@pytest.mark.parametrize("n", [2, 7, 400])
def test_the_halves_are_disjoint_and_whole(n):
    first, second = halves(n)
    assert sorted([*first, *second]) == list(range(n))
    assert len(second) - len(first) in (0, 1)


def test_one_half_certifies_and_the_other_measures():
    labels, proba, _ = draw(1500, 0)
    found = certified_load(labels, proba, target_accuracy=0.9)
    first, second = halves(1500)
    point = certify(labels[first], proba[first], target_accuracy=0.9)
    assert found.point.threshold == point.threshold
    accepted = [i for i in second if proba[i].max() >= point.threshold]
    assert found.load == pytest.approx(1 - len(accepted) / len(second))
    assert found.accuracy == pytest.approx(fmean(proba[i].argmax() == labels[i] for i in accepted))


def test_where_nothing_is_certified_all_is_delegated():
    labels, proba, _ = draw(20, 0)
    found = certified_load(labels, proba, target_accuracy=0.99)
    assert not found.point.is_certified
    assert found.load == 1.0
    assert np.isnan(found.accuracy)


# ------------------------------------------------------------------ changes


def sides(labels, after, before):
    return [[cases_of(labels, proba) for proba in models] for models in (after, before)]


def test_the_change_of_one_model_is_the_paired_test():
    labels, proba, worse = draw(600, 1, noise=0.4)
    found = aucoc_change(*sides(labels, [proba], [worse]))
    test = aucoc_paired_test(
        Cases.from_predictions(labels, proba), Cases.from_predictions(labels, worse)
    )
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (test.difference, test.low, test.high)
    )


def test_the_change_of_several_models_is_that_of_their_means():
    labels, proba, worse = draw(600, 2, noise=0.4)
    again = 0.8 * proba + 0.2 * worse
    found = aucoc_change(*sides(labels, [proba, again], [worse]))
    areas = [aucoc_score(labels, p) for p in (proba, again, worse)]
    assert found.estimate == pytest.approx(fmean(areas[:2]) - areas[2])


@pytest.mark.simulation
def test_the_interval_of_means_holds_the_truth():
    """Of 200 samples of cases, about 95 % of intervals hold the change over very many cases."""

    def models(proba, worse):
        return [proba, 0.8 * proba + 0.2 * worse], [worse, 0.5 * proba + 0.5 * worse]

    labels, proba, worse = draw(200_000, 9, noise=0.5)
    truth = aucoc_change(*sides(labels, *models(proba, worse))).estimate
    held = 0
    for seed in range(200):
        labels, proba, worse = draw(400, 1000 + seed, noise=0.5)
        found = aucoc_change(*sides(labels, *models(proba, worse)))
        held += found.low <= truth <= found.high
    assert 180 <= held <= 199


@pytest.mark.parametrize("decimals", [None, 1])
def test_the_change_of_load_against_a_loop(decimals):
    labels, proba, worse = draw(80, 3, noise=0.5, decimals=decimals)
    both = sides(labels, [proba, worse], [worse])
    found = load_difference(*both, target_accuracy=0.8, n_resamples=150, random_state=5)
    rng = np.random.default_rng(5)

    def load(p, picks):
        return load_at_accuracy(labels[picks], p[picks], target_accuracy=0.8, labels=[0, 1, 2])

    def change(picks):
        return (load(proba, picks) + load(worse, picks)) / 2 - load(worse, picks)

    values = [change(rng.integers(0, 80, 80)) for _ in range(150)]
    assert found.estimate == pytest.approx(change(np.arange(80)))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))

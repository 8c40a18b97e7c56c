from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.special import softmax
from tests.calibrators.synthetic import log_loss, overconfident
from tests.reference.calibrators import softmax_loss, temperature_by_search

from expertload.calibrators import CalibrationWarning, TemperatureScaling
from expertload.metrics import expected_calibration_error


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_agrees_with_a_search(n_classes, factor):
    logits, target = overconfident(80, n_classes, seed=n_classes, factor=factor)
    fitted = TemperatureScaling().fit(logits, target)
    assert fitted.converged_
    assert fitted.temperature_ == pytest.approx(temperature_by_search(logits, target), rel=1e-5)


@pytest.mark.slow
def test_agrees_with_a_search_under_weights():
    logits, target = overconfident(80, 3, seed=5)
    weight = np.random.default_rng(0).random(80)
    fitted = TemperatureScaling().fit(logits, target, sample_weight=weight)
    expected = temperature_by_search(logits, target, weight)
    assert fitted.temperature_ == pytest.approx(expected, rel=1e-5)


def test_two_equal_gaps_have_a_closed_form():
    # Three of four cases right at the same gap: log-odds must become ln 3.
    logits = [[4.0, 0.0]] * 3 + [[0.0, 4.0]]
    fitted = TemperatureScaling().fit(logits, [0, 0, 1, 1])
    assert fitted.temperature_ == pytest.approx(4 / math.log(3), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e4, 1e12])
def test_scaling_the_logits_scales_the_temperature(scale):
    logits, target = overconfident(200, 4, seed=3)
    plain = TemperatureScaling().fit(logits, target)
    scaled = TemperatureScaling().fit(scale * logits, target)
    assert scaled.temperature_ / scale == pytest.approx(plain.temperature_, rel=1e-9)


def test_recovers_the_factor_and_lowers_loss_and_error():
    logits, target = overconfident(5000, 5, seed=1, factor=2.5)
    new, truth = overconfident(5000, 5, seed=2, factor=2.5)
    fitted = TemperatureScaling().fit(logits, target)
    assert fitted.temperature_ == pytest.approx(2.5, rel=0.05)
    before, after = softmax(new, axis=1), fitted.transform(new)
    assert log_loss(truth, after) < log_loss(truth, before) - 0.2
    assert expected_calibration_error(truth, after) < expected_calibration_error(truth, before) / 5


def test_every_case_right_leaves_the_logits_alone():
    logits = np.array([[3.0, 0.0], [0.0, 2.0]])
    with pytest.warns(CalibrationWarning, match="every case of the calibration set is right"):
        fitted = TemperatureScaling().fit(logits, [0, 1])
    assert fitted.temperature_ == 1.0
    assert not fitted.converged_
    np.testing.assert_allclose(fitted.transform(logits), softmax(logits, axis=1), rtol=1e-15)


def test_errors_lost_in_rounding_count_as_none():
    logits = np.array([[1e6, 0.0], [1e-320, 0.0]])
    with pytest.warns(CalibrationWarning, match="is right"):
        assert TemperatureScaling().fit(logits, [0, 1]).temperature_ == 1.0


def test_one_error_among_many_is_enough():
    logits = np.vstack([np.tile([5.0, 0.0], (999, 1)), [[0.0, 0.01]]])
    fitted = TemperatureScaling().fit(logits, np.zeros(1000, int))
    assert fitted.converged_
    better = fitted.temperature_
    here = softmax_loss(logits / better, np.zeros(1000, int))
    for factor in (0.99, 1.01):
        assert here < softmax_loss(logits / (better * factor), np.zeros(1000, int))


def test_no_better_than_chance_is_nearly_uniform():
    logits = np.array([[3.0, 0.0], [0.0, 2.0]])
    with pytest.warns(CalibrationWarning, match="no better than chance"):
        fitted = TemperatureScaling().fit(logits, [1, 0])
    assert not fitted.converged_
    assert fitted.temperature_ == 3000.0
    np.testing.assert_allclose(fitted.transform(logits), 0.5, atol=3e-4)
    np.testing.assert_array_equal(fitted.transform(logits).argmax(axis=1), [0, 1])


def test_constant_logits_have_every_temperature():
    fitted = TemperatureScaling().fit(np.ones((3, 2)), [0, 1, 1])
    assert (fitted.temperature_, fitted.converged_) == (1.0, True)


@pytest.mark.parametrize("target", [[0], [1]])
def test_gaps_of_nearly_nothing_count_as_none(target):
    fitted = TemperatureScaling().fit([[1e-311, 0.0]], target, labels=[0, 1])
    assert (fitted.temperature_, fitted.converged_) == (1.0, True)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_grid_by_calibration_error(weighted):
    logits, target = overconfident(600, 4, seed=6, factor=1.8)
    weight = np.random.default_rng(1).random(600) if weighted else None
    fitted = TemperatureScaling(objective="ece").fit(logits, target, sample_weight=weight)
    errors = {
        round(0.1 * i, 1): expected_calibration_error(
            target, softmax(logits / (0.1 * i), axis=1), sample_weight=weight
        )
        for i in range(1, 101)
    }
    assert errors[fitted.temperature_] == pytest.approx(min(errors.values()), abs=1e-12)
    assert fitted.n_iter_ == 100


def test_equal_errors_on_the_grid_choose_the_nearest_to_one():
    # Constant logits: all temperatures say one half.
    fitted = TemperatureScaling(objective="ece").fit(np.zeros((6, 2)), [0, 1, 0, 1, 1, 1])
    assert fitted.temperature_ == 1.0


def best_time(function):
    def once():
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return min(once() for _ in range(3))


@pytest.mark.slow
def test_many_cases_cost_a_few_softmaxes():
    logits, target = overconfident(50_000, 100, seed=0)
    calibrator = TemperatureScaling()
    fitting = best_time(lambda: calibrator.fit(logits, target))
    assert fitting < 15 * best_time(lambda: softmax(logits, axis=1))
    assert calibrator.temperature_ == pytest.approx(2.5, rel=0.02)

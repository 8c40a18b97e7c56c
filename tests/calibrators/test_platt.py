from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.calibration import _SigmoidCalibration
from tests.calibrators.synthetic import log_loss, overconfident
from tests.reference import calibrators as reference

from expertload.calibrators import CalibrationWarning, PlattScaling, scaling
from expertload.calibrators.base import log_odds
from expertload.metrics import expected_calibration_error


def test_two_classes_are_platt_s_method():
    logits, target = overconfident(400, 2, seed=1)
    odds = logits[:, 1] - logits[:, 0]
    fitted = PlattScaling().fit(logits, target)
    expected = _SigmoidCalibration().fit(odds, target).predict(odds)
    np.testing.assert_allclose(fitted.transform(logits)[:, 1], expected, atol=1e-5)
    assert fitted.slope_[0] == fitted.slope_[1]
    assert fitted.intercept_[0] == -fitted.intercept_[1]


def test_each_sigmoid_minimises_the_smoothed_cross_entropy():
    logits, target = overconfident(150, 3, seed=2)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=150)
    fitted = PlattScaling().fit(logits, target, sample_weight=weight)
    for k in range(3):
        score = np.array([reference.log_odds(row, k) for row in logits])
        positive, negative = weight[target == k].sum(), weight[target != k].sum()
        soft = np.where(target == k, (positive + 1) / (positive + 2), 1 / (negative + 2))

        def loss(x, score=score, soft=soft):
            proba = expit(x[0] * score + x[1])
            return -(weight * (soft * np.log(proba) + (1 - soft) * np.log(1 - proba))).sum()

        expected = minimize(loss, [0.5, 0.0], method="Nelder-Mead", tol=1e-12).x
        found = [fitted.slope_[k], fitted.intercept_[k]]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_rows_are_divided_by_their_sums():
    logits, target = overconfident(150, 3, seed=2)
    fitted = PlattScaling().fit(logits, target)
    sigmoids = [
        [
            expit(fitted.slope_[k] * reference.log_odds(row, k) + fitted.intercept_[k])
            for k in range(3)
        ]
        for row in logits
    ]
    expected = np.array(sigmoids) / np.sum(sigmoids, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.transform(logits), expected, rtol=1e-10)


def test_a_class_without_cases_gets_platt_s_low_target():
    logits, target = overconfident(100, 3, seed=3)
    kept = target != 2
    fitted = PlattScaling().fit(logits[kept], target[kept])
    assert fitted.slope_[2] == pytest.approx(0, abs=1e-9)
    assert expit(fitted.intercept_[2]) == pytest.approx(1 / (kept.sum() + 2), rel=1e-9)


def test_one_case_is_smoothed():
    # Targets 2/3 for the class seen and 1/3 for the others, divided by their sum.
    proba = PlattScaling().fit([[9.0, 0.0, 0.0]], [0]).transform([[0.0, 5.0, 1.0]])
    np.testing.assert_allclose(proba, [[0.5, 0.25, 0.25]], rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1e3, -1e5])
def test_log_odds(shift):
    rows = np.random.default_rng(0).normal(size=(20, 4)) * 5
    expected = [[reference.log_odds(row, k) for k in range(4)] for row in rows]
    np.testing.assert_allclose(log_odds(rows + shift), expected, atol=1e-9 * max(1, abs(shift)))


def test_log_odds_of_a_sure_class_do_not_saturate():
    np.testing.assert_allclose(log_odds(np.array([[500.0, 0.0]])), [[500.0, -500.0]])


def test_lowers_loss_and_error():
    logits, target = overconfident(4000, 5, seed=1)
    new, truth = overconfident(4000, 5, seed=2)
    before, after = softmax(new, axis=1), PlattScaling().fit(logits, target).transform(new)
    assert log_loss(truth, after) < log_loss(truth, before) - 0.2
    assert expected_calibration_error(truth, after) < expected_calibration_error(truth, before) / 3


def test_a_fit_cut_short_says_so(monkeypatch):
    monkeypatch.setattr(scaling, "MAX_ITERATIONS", 1)
    with pytest.warns(CalibrationWarning, match="did not converge"):
        assert not PlattScaling().fit(*overconfident(50, 3, seed=1)).converged_

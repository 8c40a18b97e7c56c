from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from tests.calibrators.synthetic import overconfident

from expertload.calibrators import IsotonicCalibration
from expertload.metrics import expected_calibration_error


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [1, 12])  # with and without ties
def test_each_curve_is_an_isotonic_regression(weighted, decimals):
    logits, target = overconfident(250, 3, seed=1)
    logits = np.round(logits, decimals)
    logits[:, 2] = 0.0
    weight = np.random.default_rng(0).random(250) if weighted else None
    proba = softmax(logits, axis=1)
    new = softmax(overconfident(100, 3, seed=2)[0], axis=1)
    raw = np.empty_like(new)
    for k in range(3):
        curve = IsotonicRegression(out_of_bounds="clip")
        raw[:, k] = curve.fit(proba[:, k], target == k, weight).predict(new[:, k])
    fitted = IsotonicCalibration().fit(logits, target, sample_weight=weight)
    expected = raw / raw.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.transform(np.log(new)), expected, atol=1e-9)


def test_only_corners_are_kept():
    proba = np.linspace(0.05, 0.95, 10)
    fitted = IsotonicCalibration(input="probabilities").fit(proba, [0] * 5 + [1] * 5)
    assert fitted.values_[1].tolist() == [0, 0, 1, 1]


def test_a_class_without_cases_keeps_its_probabilities():
    fitted = IsotonicCalibration(input="probabilities")
    fitted.fit([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], [0, 1])
    expected = np.array([0.5, 0.5, 0.2]) / 1.2
    np.testing.assert_allclose(fitted.transform([[0.5, 0.3, 0.2]]), [expected], rtol=1e-12)


def test_a_row_of_zeros_keeps_its_probabilities():
    # Each class is right at 0.8 and wrong at 0.1, so all curves say zero at one twelfth.
    eye = np.eye(12)
    proba = 0.8 * eye + 0.1 * np.roll(eye, 1, axis=1) + 0.1 * np.roll(eye, 2, axis=1)
    fitted = IsotonicCalibration(input="probabilities").fit(proba, np.arange(12))
    row = np.array([[0.08, 0.09, 0.07, 0.1, 0.085, 0.075, 0.08, 0.08, 0.08, 0.08, 0.09, 0.09]])
    np.testing.assert_allclose(fitted.transform(row), row, rtol=1e-12)
    np.testing.assert_allclose(fitted.transform(proba), eye, atol=1e-12)


def test_lowers_error():
    logits, target = overconfident(5000, 4, seed=1)
    new, truth = overconfident(5000, 4, seed=2)
    error = expected_calibration_error(truth, softmax(new, axis=1))
    after = IsotonicCalibration().fit(logits, target).transform(new)
    assert expected_calibration_error(truth, after) < error / 5

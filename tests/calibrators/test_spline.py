from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import softmax
from tests.calibrators.synthetic import log_loss, overconfident
from tests.reference.calibrators import sampled_spline_correction, spline_heights

from expertload.calibrators import SplineCalibration
from expertload.metrics import expected_calibration_error, kolmogorov_smirnov_error


def top_and_correct(logits, target):
    proba = softmax(logits, axis=1)
    return proba.max(axis=1), proba.argmax(axis=1) == target


@pytest.mark.slow
@pytest.mark.parametrize("n_knots", [3, 6])
@pytest.mark.parametrize("n", [4, 23])
def test_heights_are_the_least_squares_ones(n, n_knots):
    logits, target = overconfident(n, 3, seed=n)
    fitted = SplineCalibration(n_knots=n_knots).fit(logits, target, labels=[0, 1, 2])
    expected = spline_heights(*top_and_correct(logits, target), n_knots)
    np.testing.assert_allclose(fitted.heights_, expected, atol=1e-9)


def test_many_cases_agree_with_a_spline_through_the_cases():
    logits, target = overconfident(20_000, 5, seed=3)
    fitted = SplineCalibration().fit(logits, target)
    scores, correction = sampled_spline_correction(*top_and_correct(logits, target), 6)
    spline = CubicSpline(np.linspace(0, 1, 6), fitted.heights_, bc_type="natural")
    np.testing.assert_array_equal(fitted.scores_, np.unique(scores))
    np.testing.assert_allclose(spline(np.linspace(0, 1, 20_000), 1), correction, atol=2e-3)


def test_one_top_probability_becomes_the_accuracy():
    proba = np.tile([0.7, 0.2, 0.1], (10, 1))
    fitted = SplineCalibration(input="probabilities").fit(proba, [0] * 6 + [1] * 4)
    np.testing.assert_allclose(fitted.transform(proba[:1]), [[0.6, 0.4 * 2 / 3, 0.4 / 3]])


def test_others_keep_their_proportions_until_one_would_win():
    proba = np.tile([0.6, 0.39, 0.01], (100, 1))
    fitted = SplineCalibration(input="probabilities").fit(proba, [0] * 45 + [1] * 55)
    row = fitted.transform(proba[:1])[0]
    assert row[0] == pytest.approx(0.45, abs=1e-9)
    # In proportion the second would get 0.536; it stops just short of the first.
    assert row[1] == pytest.approx(0.45, abs=1e-9)
    assert row[0] > row[1] > row[2]


def test_the_top_cannot_fall_below_one_over_classes():
    proba = np.tile([0.6, 0.3, 0.1], (10, 1))
    fitted = SplineCalibration(input="probabilities").fit(proba, [1] * 10, labels=[0, 1, 2])
    np.testing.assert_allclose(fitted.transform(proba[:1]), 1 / 3, atol=1e-6)
    assert fitted.transform(proba[:1]).argmax() == 0


def test_sure_rows_share_what_is_left_equally():
    proba = np.tile([1.0, 0.0, 0.0], (10, 1))
    fitted = SplineCalibration(input="probabilities").fit(proba, [0] * 8 + [1] * 2)
    np.testing.assert_allclose(fitted.transform(proba[:1]), [[0.8, 0.1, 0.1]], atol=1e-12)


def test_lowers_loss_and_errors():
    logits, target = overconfident(8000, 4, seed=1)
    new, truth = overconfident(8000, 4, seed=2)
    before = softmax(new, axis=1)
    after = SplineCalibration().fit(logits, target).transform(new)
    for metric in (expected_calibration_error, kolmogorov_smirnov_error):
        assert metric(truth, after) < metric(truth, before) / 4
    assert log_loss(truth, after) < log_loss(truth, before) - 0.2

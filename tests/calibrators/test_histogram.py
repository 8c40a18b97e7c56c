from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from tests.calibrators.synthetic import log_loss, overconfident
from tests.reference.calibrators import histogram_curve

from expertload.calibrators import HistogramBinning
from expertload.metrics import expected_calibration_error


@pytest.mark.parametrize("smoothing", [0.0, 1.5])
@pytest.mark.parametrize("strategy", ["mass", "width"])
@pytest.mark.parametrize("decimals", [1, 6])  # with and without ties
def test_agrees_with_plain_loops(strategy, smoothing, decimals):
    logits, target = overconfident(120, 3, seed=1)
    proba = softmax(logits, axis=1)
    first = np.round(proba[:, 0], decimals)
    proba = np.column_stack([first, (1 - first) / 2, (1 - first) / 2])
    weight = np.random.default_rng(1).integers(1, 4, size=120).astype(float)
    calibrator = HistogramBinning(
        input="probabilities", n_bins=7, strategy=strategy, smoothing=smoothing
    )
    # Going through logarithms rounds, and rounding may move a case over the edge of a bin.
    seen = softmax(np.log(np.maximum(proba, np.finfo(float).tiny)), axis=1)
    curves = [
        histogram_curve(seen[:, k], target == k, weight, 7, strategy, smoothing) for k in range(3)
    ]
    raw = np.array([[curve(p) for curve, p in zip(curves, row, strict=True)] for row in seen])
    total = raw.sum(axis=1, keepdims=True)
    expected = np.where(total > 0, raw / np.where(total > 0, total, 1), seen)
    found = calibrator.fit(proba, target, sample_weight=weight).transform(proba)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_bins_of_equal_mass_hold_equal_mass():
    logits, target = overconfident(300, 2, seed=4)
    fitted = HistogramBinning(n_bins=10).fit(logits, target)
    proba = softmax(logits, axis=1)[:, 1]
    held = np.bincount(np.searchsorted(fitted.upper_edges_[1], proba))
    np.testing.assert_array_equal(held, 30)


def test_an_empty_bin_says_its_middle():
    proba = np.array([0.05, 0.05, 0.95, 0.95])
    calibrator = HistogramBinning(input="probabilities", n_bins=5, strategy="width")
    fitted = calibrator.fit(proba, [0, 1, 1, 1])
    np.testing.assert_allclose(fitted.values_[1], [0.5, 0.3, 0.5, 0.7, 1.0])


def test_exact_zero_and_one_have_bins():
    fitted = HistogramBinning(input="probabilities", strategy="width", n_bins=4)
    fitted.fit([0.0, 1.0, 0.5], [0, 1, 1])
    proba = fitted.transform([0.0, 1.0])
    np.testing.assert_allclose(proba[:, 1], [0.0, 1.0])


def test_a_class_without_cases_keeps_its_probabilities():
    fitted = HistogramBinning(input="probabilities", n_bins=1)
    fitted.fit([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], [0, 1])
    # Both seen classes become one half; the third stays at 0.2, and rows are shared out.
    expected = np.array([0.5, 0.5, 0.2]) / 1.2
    np.testing.assert_allclose(fitted.transform([[0.5, 0.3, 0.2]]), [expected], rtol=1e-12)


def test_a_row_of_zeros_keeps_its_probabilities():
    fitted = HistogramBinning(input="probabilities", n_bins=2, strategy="width")
    fitted.fit([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]], [0, 1, 2])
    row = [[0.4, 0.35, 0.25]]
    np.testing.assert_allclose(fitted.transform(row), row, rtol=1e-12)


def test_lowers_error_and_with_smoothing_the_loss():
    logits, target = overconfident(5000, 4, seed=1)
    new, truth = overconfident(5000, 4, seed=2)
    before = softmax(new, axis=1)
    plain = HistogramBinning().fit(logits, target).transform(new)
    smooth = HistogramBinning(smoothing=1.0).fit(logits, target).transform(new)
    error = expected_calibration_error(truth, before)
    assert expected_calibration_error(truth, plain) < error / 4
    assert log_loss(truth, smooth) < log_loss(truth, before) - 0.2

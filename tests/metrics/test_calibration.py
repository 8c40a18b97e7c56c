from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from tests.reference import metrics as reference
from tests.strategies import correctness_cases, predictions

from expertload import Cases, metrics
from expertload.exceptions import ParameterError, ProbabilityError

strategies = pytest.mark.parametrize("strategy", ["mass", "width"])


@strategies
@given(cases=correctness_cases(), n_bins=st.integers(1, 20))
def test_ece_equals_the_oracle(strategy, cases, n_bins):
    ours = metrics.expected_calibration_error(
        Cases.from_correctness(*cases), n_bins=n_bins, strategy=strategy
    )
    theirs = reference.expected_calibration_error(*cases, n_bins, strategy)
    assert ours == pytest.approx(theirs, abs=1e-12)


@strategies
@given(case=predictions(), n_bins=st.integers(1, 20))
def test_top_label_errors_equal_the_oracle(strategy, case, n_bins):
    y_true, y_proba = case
    correct, confidence = (y_proba.argmax(axis=1) == y_true).astype(float), y_proba.max(axis=1)
    options = {"n_bins": n_bins, "strategy": strategy}
    assert metrics.expected_calibration_error(y_true, y_proba, **options) == pytest.approx(
        reference.expected_calibration_error(correct, confidence, n_bins, strategy), abs=1e-12
    )
    assert metrics.maximum_calibration_error(y_true, y_proba, **options) == pytest.approx(
        reference.maximum_calibration_error(correct, confidence, n_bins, strategy), abs=1e-10
    )
    assert metrics.kolmogorov_smirnov_error(y_true, y_proba) == pytest.approx(
        reference.kolmogorov_smirnov_error(correct, confidence), abs=1e-12
    )


@strategies
@given(case=predictions())
def test_classwise_is_the_mean_over_columns(strategy, case):
    y_true, y_proba = case
    expected = np.mean(
        [
            reference.expected_calibration_error(
                (y_true == k).astype(float), y_proba[:, k], 15, strategy
            )
            for k in range(y_proba.shape[1])
        ]
    )
    ours = metrics.classwise_calibration_error(y_true, y_proba, strategy=strategy)
    assert ours == pytest.approx(expected, abs=1e-12)


def test_equal_mass_bins_are_plain_chunks_where_n_divides():
    """The usual definition: sort, cut into chunks of one size, compare means."""
    rng = np.random.default_rng(0)
    confidence = rng.random(15 * 20)
    correct = rng.random(300) < confidence**2
    order = np.argsort(confidence)
    gaps = [abs(correct[chunk].mean() - confidence[chunk].mean()) for chunk in np.split(order, 15)]
    ours = metrics.expected_calibration_error(Cases.from_correctness(correct, confidence))
    assert ours == pytest.approx(np.mean(gaps), abs=1e-12)


def test_equal_width_error_equals_torchmetrics():
    torch = pytest.importorskip("torch")
    error = pytest.importorskip("torchmetrics.functional.classification")
    rng = np.random.default_rng(1)
    y_proba = rng.dirichlet(np.ones(5), size=2000)
    y_true = rng.integers(0, 5, 2000)
    theirs = error.multiclass_calibration_error(
        torch.tensor(y_proba), torch.tensor(y_true), num_classes=5, n_bins=10, norm="l1"
    )
    ours = metrics.expected_calibration_error(y_true, y_proba, n_bins=10, strategy="width")
    assert ours == pytest.approx(float(theirs), abs=1e-6)
    theirs = error.multiclass_calibration_error(
        torch.tensor(y_proba), torch.tensor(y_true), num_classes=5, n_bins=10, norm="max"
    )
    ours = metrics.maximum_calibration_error(y_true, y_proba, n_bins=10, strategy="width")
    assert ours == pytest.approx(float(theirs), abs=1e-6)


def test_reliability_curve_equals_scikit_learn():
    rng = np.random.default_rng(2)
    confidence = rng.random(500)
    correct = rng.random(500) < confidence
    curve = metrics.reliability_curve(
        Cases.from_correctness(correct, confidence), n_bins=10, strategy="width"
    )
    accuracy, mean_confidence = calibration_curve(correct, confidence, n_bins=10)
    np.testing.assert_allclose(curve.accuracy, accuracy, atol=1e-12)
    np.testing.assert_allclose(curve.confidence, mean_confidence, atol=1e-12)
    assert curve.share.sum() == pytest.approx(1.0)


@strategies
def test_exact_zero_and_one_are_counted_once(strategy):
    """Confidences of exactly 0 and 1 fell into bins of their own, or crashed, elsewhere."""
    curve = metrics.reliability_curve(
        Cases.from_correctness([0, 1, 1, 0], [0.0, 1.0, 1.0, 0.5]), n_bins=2, strategy=strategy
    )
    assert curve.share.sum() == pytest.approx(1.0)
    assert len(curve.share) == 2


def test_a_case_on_a_bin_edge_counts_once():
    curve = metrics.reliability_curve(
        Cases.from_correctness([1, 1], [0.5, 0.5]), n_bins=2, strategy="width"
    )
    assert curve.share.tolist() == [1.0]
    assert curve.confidence.tolist() == [0.5]


def test_last_bin_is_visited():
    ece = metrics.expected_calibration_error(Cases.from_correctness([0], [0.99]), strategy="width")
    assert ece == pytest.approx(0.99)


def test_classwise_counts_columns_not_labels_seen():
    y_proba = np.full((4, 4), 0.25)
    seen_two = metrics.classwise_calibration_error([0, 1, 0, 1], y_proba, n_bins=1)
    assert seen_two == pytest.approx((0.25 + 0.25 + 0.25 + 0.25) / 4)


def test_ks_sorts_by_confidence():
    confidence = np.array([0.9, 0.1, 0.5])
    correct = np.array([1, 0, 0])
    expected = max(abs(0 - 0.1), abs(-0.1 - 0.5), abs(-0.6 + 0.1)) / 3
    ours = metrics.kolmogorov_smirnov_error(Cases.from_correctness(correct, confidence))
    assert ours == pytest.approx(expected)


@given(correctness_cases(), st.integers(1, 20))
def test_ks_bounds_the_error_of_one_bin(cases, n_bins):
    """One bin's gap is the end of the drift whose maximum is KS; each bin moves it at most 2 KS."""
    ks = metrics.kolmogorov_smirnov_error(Cases.from_correctness(*cases))
    ece = metrics.expected_calibration_error(Cases.from_correctness(*cases), n_bins=n_bins)
    assert ece <= 2 * n_bins * ks + 1e-12


def test_bad_options():
    cases = [1, 0], [0.5, 0.6]
    with pytest.raises(ParameterError, match="'n_bins'"):
        metrics.expected_calibration_error(Cases.from_correctness(*cases), n_bins=2.5)
    with pytest.raises(ParameterError, match="'strategy'"):
        metrics.expected_calibration_error(Cases.from_correctness(*cases), strategy="uniform")
    with pytest.raises(ProbabilityError, match="'confidence'"):
        metrics.kolmogorov_smirnov_error(Cases.from_correctness([1, 0], [90, 50]))

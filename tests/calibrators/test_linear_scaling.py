"""Vector and matrix scaling: regressions with one minimum, checked at that minimum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from tests.calibrators.synthetic import log_loss, overconfident
from tests.reference.calibrators import softmax_loss

from expertload.calibrators import CalibrationWarning, MatrixScaling, VectorScaling, scaling
from expertload.calibrators.scaling import Prior, SoftmaxRegression
from expertload.metrics import expected_calibration_error


@pytest.fixture(scope="module")
def cases():
    logits, target = overconfident(200, 3, seed=1)
    return logits * [1.0, 0.6, 1.4] + [0.5, 0.0, -1.0], target


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(4).uniform(0.2, 3, size=200)


def slope(objective, x, *arguments, step=1e-5):
    """Central differences."""
    return np.array(
        [
            (objective(x + step * e, *arguments) - objective(x - step * e, *arguments)) / (2 * step)
            for e in np.eye(len(x))
        ]
    )


def vector_objective(x, logits, target, weight, penalty):
    scale, shift = np.split(x, 2)
    prior = penalty / 2 * (((scale - 1) ** 2).sum() + (shift**2).sum()) / weight.sum()
    return softmax_loss(logits * scale + shift, target, weight) + prior


def matrix_objective(x, logits, target, weight, off_diagonal, intercept, penalty):
    k = logits.shape[1]
    matrix, shift = x[:-k].reshape(k, k), x[-k:]
    off = matrix[~np.eye(k, dtype=bool)]
    prior = off_diagonal / (k * (k - 1)) * (off**2).sum() + intercept / k * (shift**2).sum()
    prior += penalty / 2 * (((matrix - np.eye(k)) ** 2).sum() + (shift**2).sum()) / weight.sum()
    return softmax_loss(logits @ matrix.T + shift, target, weight) + prior


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.3, 1.0, 20.0])
def test_vector_scaling_minimises_its_objective(cases, weight, penalty):
    fitted = VectorScaling(penalty=penalty).fit(*cases, sample_weight=weight)
    found = np.concatenate([fitted.scale_, fitted.shift_])
    best = minimize(
        vector_objective, np.repeat([1.0, 0.0], 3), (*cases, weight, penalty), tol=1e-12
    )
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert np.abs(slope(vector_objective, found, *cases, weight, penalty)).max() < 1e-8
    assert fitted.converged_


@pytest.mark.slow
@pytest.mark.parametrize("penalties", [(0.1, 0.02, 0.5), (50.0, 3.0, 1.0)])
def test_matrix_scaling_minimises_its_objective(cases, weight, penalties):
    names = ("off_diagonal_penalty", "intercept_penalty", "penalty")
    fitted = MatrixScaling(**dict(zip(names, penalties, strict=True)))
    fitted.fit(*cases, sample_weight=weight)
    found = np.concatenate([fitted.matrix_.ravel(), fitted.intercept_])
    assert np.abs(slope(matrix_objective, found, *cases, weight, *penalties)).max() < 1e-8
    here = matrix_objective(found, *cases, weight, *penalties)
    for direction in np.random.default_rng(0).normal(size=(10, 12)):
        assert here < matrix_objective(found + 1e-3 * direction, *cases, weight, *penalties)


def test_the_default_off_diagonal_penalty_cancels_the_normaliser(cases):
    assert_same = np.testing.assert_array_equal
    explicit = MatrixScaling(off_diagonal_penalty=6.0).fit(*cases)
    assert_same(explicit.matrix_, MatrixScaling().fit(*cases).matrix_)


def test_an_unpenalised_matrix_is_logistic_regression(cases):
    fitted = MatrixScaling(**FREE).fit(*cases)
    expected = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(*cases)
    np.testing.assert_allclose(
        fitted.transform(cases[0]), expected.predict_proba(cases[0]), atol=1e-5
    )


def test_unpenalised_vector_scaling_of_two_classes_is_logistic_regression():
    # With a single logit against zero, scale and shift are a regression on it.
    odds = overconfident(300, 2, seed=2)[0][:, 0]
    target = (np.random.default_rng(0).random(300) < 1 / (1 + np.exp(-0.4 * odds))).astype(int)
    fitted = VectorScaling(penalty=0).fit(odds, target)
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(odds[:, None], target)
    np.testing.assert_allclose(
        fitted.transform(odds), expected.predict_proba(odds[:, None]), atol=1e-5
    )


@pytest.mark.parametrize("method", [VectorScaling, MatrixScaling])
class TestBoth:
    def test_lowers_loss_and_error(self, method):
        bend, shift = np.array([1.0, 0.5, 2.0, 1.0, 1.5]), np.array([1.0, 0, 0, -1.0, 0])
        logits, target = overconfident(3000, 5, seed=1)
        new, truth = overconfident(3000, 5, seed=2)
        before = softmax(new * bend + shift, axis=1)
        after = method().fit(logits * bend + shift, target).transform(new * bend + shift)
        assert log_loss(truth, after) < log_loss(truth, before) - 0.3
        assert (
            expected_calibration_error(truth, after) < expected_calibration_error(truth, before) / 5
        )

    def test_one_case_stays_near_the_identity(self, method):
        fitted = method().fit([[2.0, 0.0, 1.0]], [0])
        new = np.array([[0.5, 1.0, 0.0]])
        np.testing.assert_allclose(fitted.transform(new), softmax(new, axis=1), atol=0.15)

    def test_a_missing_class_keeps_some_probability(self, method, cases):
        kept = cases[1] != 2
        proba = method().fit(cases[0][kept], cases[1][kept]).transform(cases[0][~kept])
        assert proba[:, 2].min() > 0

    def test_saturated_logits_reach_the_minimum(self, method, cases):
        # Scaled logits ask for the same map scaled down; only the prior sees the difference.
        fitted = method().fit(1e4 * cases[0], cases[1])
        assert fitted.converged_
        plain = method().fit(*cases).transform(cases[0])
        np.testing.assert_allclose(fitted.transform(1e4 * cases[0]), plain, atol=0.02)


FREE = {"off_diagonal_penalty": 0.0, "intercept_penalty": 0.0, "penalty": 0.0}


@pytest.mark.parametrize("calibrator", [VectorScaling(penalty=0), MatrixScaling(**FREE)])
def test_without_a_penalty_or_a_minimum_the_fit_is_finite(calibrator):
    logits = np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        proba = calibrator.fit(logits, [0, 0, 1]).transform(logits)
    np.testing.assert_allclose(proba[[0, 1, 2], [0, 0, 1]], 1, atol=1e-6)


@pytest.mark.parametrize("method", [VectorScaling, MatrixScaling])
def test_a_fit_cut_short_says_so(method, cases, monkeypatch):
    monkeypatch.setattr(scaling, "MAX_ITERATIONS", 1)
    with pytest.warns(CalibrationWarning, match="did not converge"):
        assert not method().fit(*cases).converged_


@pytest.mark.parametrize(
    ("forward", "adjoint", "size"),
    [
        (scaling._scale, scaling._scale_adjoint, 6),
        (scaling._multiply, scaling._multiply_adjoint, 12),
    ],
)
def test_derivatives_agree_with_differences(forward, adjoint, size, cases, weight):
    rng = np.random.default_rng(0)
    prior = Prior(rng.normal(size=size), rng.random(size))
    target = np.eye(3)[cases[1]]
    problem = SoftmaxRegression(forward, adjoint, cases[0], target, weight, prior)
    x = 0.3 * rng.normal(size=size)
    gradient = problem.gradient(x)
    np.testing.assert_allclose(gradient, slope(problem.value, x), atol=1e-8)
    hessian = np.array(
        [
            (problem.gradient(x + 1e-6 * e) - problem.gradient(x - 1e-6 * e)) / 2e-6
            for e in np.eye(size)
        ]
    )
    direction = problem.direction(x, 1e-8 * gradient)  # small, so that it is solved closely
    np.testing.assert_allclose(hessian @ direction, -1e-8 * gradient, atol=1e-11)


def test_a_search_that_cannot_go_down_says_so(cases, weight, monkeypatch):
    monkeypatch.setattr(SoftmaxRegression, "direction", lambda self, x, gradient: -1e30 * gradient)
    prior = Prior(np.zeros(6), np.ones(6))
    maps = scaling._scale, scaling._scale_adjoint
    problem = SoftmaxRegression(*maps, cases[0], np.eye(3)[cases[1]], weight, prior)
    found = problem.minimise(np.ones(6))
    assert not found.converged
    np.testing.assert_array_equal(found.x, np.ones(6))

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.reference import certify as reference

from expertload.operating_point import _risk_tests as risk_tests

TARGETS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])
LEVELS = st.sampled_from([0.2, 0.1, 0.05, 0.01])


@given(st.integers(1, 60), st.data(), TARGETS)
def test_binomial_p_values_are_exact(n, data, target):
    errors = data.draw(st.integers(0, n))
    p = risk_tests.p_values(np.array([errors]), np.array([n]), target=target, graded=False)
    expected = reference.binomial_tail(errors, n, 1 - Fraction(target))
    assert p[0] == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_no_cases_prove_nothing():
    p = risk_tests.p_values(np.array([0.0]), np.array([0.0]), target=0.9, graded=False)
    assert p[0] == 1.0


@pytest.mark.parametrize(("target", "least"), [(0.95, 59), (0.99, 299), (0.9, 29)])
def test_the_fewest_cases_that_can_pass(target, least):
    assert risk_tests.least_cases(target, 0.05) == least
    assert least == math.ceil(math.log(0.05) / math.log(target))


@given(st.integers(0, 30), TARGETS, LEVELS)
def test_cases_for_errors_is_the_first_number_that_passes(errors, target, level):
    n = risk_tests.cases_for_errors(errors, target, level)
    assert binom.cdf(errors, n, 1 - target) <= level
    assert n - 1 <= errors or binom.cdf(errors, n - 1, 1 - target) > level


@given(st.integers(1, 300), TARGETS, LEVELS)
def test_allowed_errors_is_the_last_number_that_passes(n, target, level):
    errors = risk_tests.allowed_errors(n, target, level)
    assert errors == -1 or binom.cdf(errors, n, 1 - target) <= level
    assert binom.cdf(errors + 1, n, 1 - target) > level


@given(st.integers(1, 80), st.data(), TARGETS)
def test_the_bound_for_grades_is_never_below_the_exact_tail(n, data, target):
    """Right-or-wrong cases are grades too, so the bound must cover their exact p-value."""
    errors = data.draw(st.integers(0, n))
    counts = {"n_errors": np.array([float(errors)]), "n_cases": np.array([float(n)])}
    exact = risk_tests.p_values(**counts, target=target, graded=False)
    bound = risk_tests.p_values(**counts, target=target, graded=True)
    assert exact[0] <= bound[0] * (1 + 1e-9) or errors / n >= 1 - target
    assert 0 <= bound[0] <= 1


def test_the_bound_for_grades_agrees_with_mapie():
    methods = pytest.importorskip("mapie.risk_control.methods")
    n, errors = np.array([50.0, 100.0, 400.0]), np.array([1.25, 3.5, 10.75])
    ours = risk_tests.p_values(errors, n, target=0.9, graded=True)
    theirs = methods.compute_hoeffding_bentkus_p_value(errors / n, n, 0.1)[:, 0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_rounding_in_a_sum_of_grades_costs_no_error():
    exact = risk_tests.p_values(np.array([3.0]), np.array([100.0]), target=0.9, graded=True)
    above = risk_tests.p_values(np.array([3 + 4e-16]), np.array([100.0]), target=0.9, graded=True)
    assert above[0] == pytest.approx(exact[0], rel=1e-9)

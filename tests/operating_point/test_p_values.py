from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.reference import certify as reference

from expertload.cases import Cases
from expertload.operating_point import graded as betting
from expertload.operating_point import ladder as p_values
from expertload.operating_point.graded import Grades

TARGETS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])
LEVELS = st.sampled_from([0.2, 0.1, 0.05, 0.01])


@given(st.integers(1, 60), st.data(), TARGETS)
def test_binomial_p_values_are_exact(n, data, target):
    errors = data.draw(st.integers(0, n))
    p = p_values.binomial_p_values(np.array([errors]), np.array([n]), 1 - target)
    expected = reference.binomial_tail(errors, n, 1 - Fraction(target))
    assert p[0] == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_no_cases_prove_nothing():
    p = p_values.binomial_p_values(np.array([0.0]), np.array([0.0]), 0.1)
    assert p[0] == 1.0


@pytest.mark.parametrize(("target", "least"), [(0.95, 59), (0.99, 299), (0.9, 29)])
def test_the_fewest_cases_that_can_pass(target, least):
    assert p_values.least_cases(target, 0.05) == least
    assert least == math.ceil(math.log(0.05) / math.log(target))


@given(st.integers(0, 30), TARGETS, LEVELS)
def test_cases_for_errors_is_the_first_number_that_passes(errors, target, level):
    n = p_values.cases_for_errors(errors, target, level)
    assert binom.cdf(errors, n, 1 - target) <= level
    assert n - 1 <= errors or binom.cdf(errors, n - 1, 1 - target) > level


@given(st.integers(1, 300), TARGETS, LEVELS)
def test_allowed_errors_is_the_last_number_that_passes(n, target, level):
    errors = p_values.allowed_errors(n, target, level)
    assert errors == -1 or binom.cdf(errors, n, 1 - target) <= level
    assert binom.cdf(errors + 1, n, 1 - target) > level


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3)), min_size=1, max_size=150),
    TARGETS,
    LEVELS,
)
def test_first_failure_and_any_pass_are_those_of_all_rows(rows, target, level):
    accepted = np.cumsum([max(k, e) for k, e in rows]).astype(float)
    errors = np.cumsum([e for _, e in rows]).astype(float)
    p = p_values.binomial_p_values(errors, accepted, 1 - target)
    failed = np.flatnonzero(p > level)
    expected = int(failed[0]) if len(failed) else len(p)
    assert p_values.first_failure(accepted, errors, 1 - target, level) == expected
    assert p_values.any_passes(accepted, errors, 1 - target, level) == bool((p <= level).any())


def test_no_rows_fail_and_none_passes():
    nothing = np.zeros(0)
    assert p_values.first_failure(nothing, nothing, 0.1, 0.05) == 0
    assert not p_values.any_passes(nothing, nothing, 0.1, 0.05)


# ------------------------------------------------------------------ grades


@st.composite
def graded_cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(1, 40))
    return Cases(rng.choice([0.0, 0.3, 0.9, 1.0], n), rng.integers(0, 6, n) / 6, None)


@given(graded_cases(), TARGETS, st.booleans())
def test_capital_is_the_mean_of_products(cases, target, joint):
    """Written out: each stake's capital is a product over the accepted (or over all) cases."""
    found = Grades.from_cases(cases).log_capital(target, all_cases=joint)
    expected = []
    for threshold in sorted(set(cases.confidence.tolist()), reverse=True):
        accepted = cases.confidence >= threshold
        loss = np.where(accepted, 1 - cases.correct, 0.0)[accepted | joint]
        stakes = [share / target for share in betting.SHARES]
        products = [math.prod(1 - stake * (x - (1 - target)) for x in loss) for stake in stakes]
        expected.append(math.log(sum(products) / len(stakes)))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@given(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1), TARGETS)
def test_no_stake_gains_where_the_target_is_missed(low, share, target):
    """The mean of the capital's factor is at most 1 for any two losses of too large a mean."""
    loss = np.array([low, 1.0])
    chance = np.array([share, 1 - share])
    if chance @ loss >= 1 - target:
        for stake in betting.stakes(target):
            factors = 1 - stake * (loss - (1 - target))
            assert (factors > 0).all()
            assert chance @ factors <= 1 + 1e-12


@given(TARGETS, LEVELS, st.sampled_from([0.0, 0.5, 0.9]))
def test_the_fewest_graded_cases(target, level, part):
    loss = part * (1 - target)
    n = betting.graded_cases_at_loss(loss, target, level)

    def p(count):
        cases = Cases(np.full(count, 1 - loss), np.ones(count), None)
        return math.exp(-max(Grades.from_cases(cases).log_capital(target)[0], 0.0))

    assert p(n) <= level * (1 + 1e-9)
    assert n == 1 or p(n - 1) > level * (1 - 1e-9)

"""The plan of looks, and that no arrangement of good and bad thresholds beats its level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.operating_point.populations import limit
from tests.reference import certify as reference
from tests.strategies import examples

from expertload.operating_point.spending import (
    ErrorLaw,
    Plan,
    binomial_mass,
    descend,
    plan,
)

SETTINGS = [(150, 0.8, 0.1), (400, 0.9, 0.05), (600, 0.7, 0.2), (900, 0.95, 0.05)]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "target", "level"), SETTINGS)
def test_the_plan_equals_the_written_out_one(n, target, level):
    planned, (looks, laws) = Plan(n, target, level), reference.spending_plan(n, target, level)
    assert [look[:2] for look in planned.looks] == [look[:2] for look in looks]
    np.testing.assert_allclose([look.spent for look in planned.looks], [s for *_, s in looks])
    for begun in range(len(looks)):
        for k in range(looks[begun][0], n + 1, 37):
            last = max(j for j in range(len(looks)) if looks[j][0] <= k)
            expected = reference.spending_level(looks, laws, begun, last, k, n, target, level)
            assert planned.level(begun, k) == pytest.approx(expected, rel=1e-8)


@examples(40)
@given(
    st.integers(1, 20_000),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.sampled_from([0.001, 0.05, 0.2]),
    st.booleans(),
)
def test_a_plan_spends_its_level_and_no_more(n, target, level, tied):
    planned = plan(n, target, level, tied=tied)
    whole = planned.level_to_spend
    assert whole in ((level, level / (1 + level)) if tied else (level,))
    spent = [look.spent for look in planned.looks]
    assert spent == sorted(spent)
    assert 0.5 * whole < spent[-1] <= whole * (1 + 1e-9) or len(spent) == 1
    counts = [look.n_cases for look in planned.looks]
    assert counts == sorted(set(counts))
    assert whole == level or (tied and len(counts) > 1)


@given(st.integers(1, 5000), st.sampled_from([0.001, 0.05, 0.5, 0.9]))
def test_binomial_mass(n, rate):
    mass, low = binomial_mass(n, rate)
    np.testing.assert_allclose(
        mass, binom.pmf(np.arange(low, low + len(mass)), n, rate), rtol=1e-8, atol=1e-18
    )
    law = ErrorLaw(np.ones(1), 0, 0, rate).after(n)
    half = n // 2
    assert law.at_most(half, n) == pytest.approx(binom.cdf(half, n, rate), rel=1e-9)
    later = ErrorLaw(np.ones(1), 0, 0, rate).after(max(n // 3, 1)).at_most(half, n)
    assert later == pytest.approx(binom.cdf(half, n, rate), rel=1e-9)


# ------------------------------------------------------------------ every arrangement


def chance_of_a_wrong_certificate(planned, stretches):
    """Exact, for the counts (first, last) at which good stretches begin and end.

    A walk of cases that are wrong at the rate allowed loses, at each look in a bad stretch, the
    paths that begin a run there, and at the end of each good one those that a run passes.
    """
    law, broken = np.ones(1), 0.0
    counts, most = planned.counts, [look.most_errors for look in planned.looks]
    for k in range(1, planned.n_cases + 1):
        law = np.append(law, 0.0) * (1 - planned.rate) + np.append(0.0, law) * planned.rate
        lost = -1
        inside = [s for s in stretches if s[0] < k <= s[1]]
        for look in np.flatnonzero(counts == k):
            if not inside:
                lost = max(lost, most[look])
        for first, last in inside:
            begun = np.flatnonzero((counts > first) & (counts <= last))
            if k == last and len(begun):
                level = planned.level(int(begun[0]), k)
                passes = binom.cdf(np.arange(len(law)), k, planned.rate) <= level
                lost = max(lost, int(passes.sum()) - 1)
        broken += law[: lost + 1].sum()
        law[: lost + 1] = 0.0
    return broken


@pytest.mark.slow
@pytest.mark.parametrize(("n", "target", "level"), SETTINGS)
def test_no_arrangement_beats_the_level(n, target, level):
    """Stretches of good thresholds anywhere; and the same from looks of a whole level each fail."""
    rng, planned, worst = np.random.default_rng(0), Plan(n, target, level), 0.0
    for _ in range(40):
        edges = np.sort(rng.integers(0, n + 1, 2 * rng.integers(1, 5)))
        near = rng.random() < 0.5  # edges close to looks, where most can go wrong
        if near:
            edges = np.sort(
                rng.choice(planned.counts, len(edges)) + rng.integers(-3, 4, len(edges))
            )
            edges = np.clip(edges, 0, n)
        stretches = [(a, b) for a, b in edges.reshape(-1, 2).tolist() if b > a]
        worst = max(worst, chance_of_a_wrong_certificate(planned, stretches))
    assert 0.5 * level < worst <= level * (1 + 1e-9)


def test_looks_at_the_whole_level_each_would_break_it():
    """The control of the exact computation."""
    planned = Plan(900, 0.95, 0.05)
    greedy = Plan(900, 0.95, 0.05)
    greedy.looks = [
        look._replace(most_errors=int(binom.ppf(0.05, look.n_cases, 0.05)) - 1)
        for look in planned.looks
    ]
    assert chance_of_a_wrong_certificate(planned, []) <= 0.05
    assert chance_of_a_wrong_certificate(greedy, []) > 0.05


# ------------------------------------------------------------------ shared confidences


def tied_violations(shares, rates, n, target, level, rounds, rng):
    """How often a threshold that misses is certified, where cases share few confidences."""
    planned, broken = plan(n, target, level, tied=True), 0
    counts = rng.multinomial(n, shares, size=rounds)
    wrong = rng.binomial(counts, rates)
    accepted, errors = np.cumsum(counts, axis=1), np.cumsum(wrong, axis=1)
    above = np.cumsum(np.asarray(shares) * rates) / np.cumsum(shares)
    bad = above > 1 - target
    for k, e in zip(accepted.astype(float), errors.astype(float), strict=True):
        real = np.append(True, np.diff(k) > 0)  # a confidence that nobody has is no threshold
        rows = np.flatnonzero(real & (k > 0))
        runs = descend(k[rows], e[rows], planned)
        passed = [rows[r.begin : r.begin + r.n_passed] for r in runs if r.n_passed]
        broken += any(bad[some].any() for some in passed)
    return broken / rounds


@pytest.mark.simulation
@pytest.mark.parametrize("seed", range(12))
def test_shared_confidences_keep_the_level(seed):
    """Two to eight confidences, some heavily shared; all thresholds just miss, or cross it."""
    rng, rounds, target, level = np.random.default_rng(seed), 1500, 0.8, 0.1
    n_levels = int(rng.integers(2, 9))
    shares = rng.dirichlet(np.full(n_levels, 0.7))
    rates = np.clip(0.2 + rng.normal(0, 0.05, n_levels), 0.01, 0.6)
    above = np.cumsum(shares * rates) / np.cumsum(shares)
    rates *= (0.2 + 1e-6) / above[rng.integers(n_levels)]  # one of them just misses
    n = int(rng.choice([100, 300, 1000]))
    found = tied_violations(shares, np.minimum(rates, 1), n, target, level, rounds, rng)
    assert found <= limit(level, rounds)


@pytest.mark.simulation
@pytest.mark.parametrize("top", [0.02, 0.08, 0.2])
def test_a_shared_confidence_under_an_over_confident_top(top):
    """Few cases of too high confidence, and many that share one and make up for almost all."""
    rng, rounds = np.random.default_rng(0), 3000
    rate_top, rest = 0.35, 0.95 - top
    rate_rest = (0.2 * (top + rest) + 1e-6 - top * rate_top) / rest
    shares = [top, rest, 1 - top - rest]
    found = tied_violations(shares, [rate_top, rate_rest, 0.9], 400, 0.8, 0.1, rounds, rng)
    assert found <= limit(0.1, rounds)

"""The promise itself: how often a certified threshold misses its target on the population.

Every simulation holds *all* thresholds that passed to the promise, not only the loosest.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.operating_point.populations import (
    POPULATIONS,
    Population,
    drawn_steps,
    limit,
    simulate,
)

from expertload import Cases
from expertload import operating_point as op

pytestmark = pytest.mark.simulation
ROUNDS = 400

SETTINGS = [
    (100, 0.8, 0.2),
    (300, 0.9, 0.1),
    (400, 0.8, 0.2),
    (1000, 0.95, 0.05),
    (1200, 0.8, 0.2),
    (1500, 0.9, 0.1),
    (4000, 0.9, 0.1),
]


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize(("n", "target", "delta"), SETTINGS)
@pytest.mark.parametrize("method", ["spending", "fixed_sequence"])
def test_the_promise_is_kept(name, n, target, delta, method):
    population = POPULATIONS[name](target)
    broken, _ = simulate(population, n, target, delta, rounds=ROUNDS, method=method)
    assert broken <= limit(delta, ROUNDS)


@pytest.mark.parametrize("name", ["rising", "never quite", "tied wave", "over-confident top"])
@pytest.mark.parametrize("method", ["spending", "fixed_sequence"])
def test_given_thresholds_keep_their_promise(name, method):
    population, given = POPULATIONS[name](0.9), np.linspace(0, 1, 51)
    broken, _ = simulate(population, 400, 0.9, 0.1, rounds=ROUNDS, method=method, thresholds=given)
    assert broken <= limit(0.1, ROUNDS)


@pytest.mark.parametrize("name", ["rising", "never quite", "tied wave", "over-confident top"])
def test_bonferroni_keeps_its_promise(name):
    broken, _ = simulate(POPULATIONS[name](0.9), 400, 0.9, 0.1, rounds=ROUNDS, method="bonferroni")
    assert broken <= limit(0.1, ROUNDS)


@pytest.mark.parametrize("name", ["rising", "steep", "never quite", "ties"])
def test_sgr_keeps_its_promise_where_accuracy_rises(name):
    broken, _ = simulate(POPULATIONS[name](0.9), 400, 0.9, 0.1, rounds=ROUNDS, method="sgr")
    assert broken <= limit(0.1, ROUNDS)


@pytest.mark.parametrize("name", ["rising", "wave", "ties"])
def test_joint_risk_keeps_its_promise(name):
    population, rng, broken = POPULATIONS[name](0.8), np.random.default_rng(0), 0
    for _ in range(ROUNDS):
        point = op.certify(
            Cases.from_correctness(*population.draw(rng, 300)),
            target_accuracy=0.9,
            confidence_level=0.9,
            risk="joint",
        )
        broken += population.wrong_share(point.threshold) > 0.1
    assert broken / ROUNDS <= limit(0.1, ROUNDS)
    assert broken > 0  # a test that is never wrong would be of no use


def test_graded_correctness_keeps_its_promise():
    rng, broken, certified = np.random.default_rng(0), 0, 0
    for _ in range(ROUNDS):
        confidence = rng.random(800)
        grades = rng.binomial(2, 0.6 + 0.4 * confidence) / 2
        point = op.certify(Cases.from_correctness(grades, confidence), target_accuracy=0.85)
        broken += 0.6 + 0.4 * (1 + min(point.threshold, 1)) / 2 < 0.85
        certified += point.is_certified
    assert broken / ROUNDS <= limit(0.05, ROUNDS)
    assert certified > ROUNDS / 2


def test_all_groups_keep_their_promise_at_once():
    target, broken, rng = 0.9, 0, np.random.default_rng(0)
    populations = [POPULATIONS[name](target) for name in ("rising", "never quite", "ties")]
    for _ in range(ROUNDS):
        parts = [population.draw(rng, 300) for population in populations]
        points = op.certify_groups(
            Cases.from_correctness(
                np.concatenate([p[0] for p in parts]),
                np.concatenate([p[1] for p in parts]),
                groups=np.repeat([0, 1, 2], 300),
            ),
            target_accuracy=target,
            confidence_level=0.9,
        )
        broken += any(
            populations[group].accuracy_above(points[group].threshold) < target
            for group in points.certified
        )
    assert broken / ROUNDS <= limit(0.1, ROUNDS)


def test_the_naive_rule_breaks_it():
    """The negative control: the loosest threshold that reaches the target on the data misses it
    about every other time on the population."""
    population, broken = POPULATIONS["rising"](0.9), 0
    for steps in drawn_steps(population, 1000, ROUNDS):
        reached = np.flatnonzero(steps.n_errors <= 0.1 * steps.n_accepted)
        broken += population.accuracy_above(steps.threshold[reached[-1]]) < 0.9
    assert broken / ROUNDS > 0.3


@pytest.mark.parametrize("n", [1000, 4000])
def test_the_same_looks_without_a_plan_break_it(n):
    """Another control: every look at the whole level, as if each were the only one."""
    population, broken = POPULATIONS["never quite"](0.9), 0
    looks = np.geomspace(60, n // 2, 8).astype(int) - 1
    for steps in drawn_steps(population, n, ROUNDS):
        broken += bool((steps.take(looks).p_values(0.9) <= 0.1).any())
    assert broken / ROUNDS > limit(0.1, ROUNDS)


def test_power_is_not_thrown_away():
    """Certifying costs load, but not most of it, and the full ladder costs nothing."""
    population, setting = POPULATIONS["rising"](0.9), (2000, 0.9, 0.1)
    broken, loads = simulate(population, *setting, rounds=200)
    _, on_a_grid = simulate(population, *setting, rounds=200, thresholds=np.linspace(0, 1, 101))
    _, by_sgr = simulate(population, *setting, rounds=200, method="sgr")
    assert broken > 0.01  # the level is spent, not wasted
    assert 1 - loads.mean() > 0.75 * (1 - population.least_load(0.9))
    assert loads.mean() <= on_a_grid.mean() + 0.01
    assert loads.mean() < by_sgr.mean()


def test_spending_certifies_more_than_the_former_method():
    """On the capped curve, whose top is hardly better than the target."""
    capped = Population(lambda r: np.minimum(0.5 + 0.6 * r, 0.975))
    share = {
        method: (simulate(capped, 2000, 0.95, 0.05, rounds=200, method=method)[1] < 1).mean()
        for method in ("spending", "fixed_sequence")
    }
    assert share["spending"] > share["fixed_sequence"] + 0.1
    assert share["spending"] > 0.6


def test_more_cases_certify_more_often():
    """One unlucky slice at the top must not end it for any number of cases."""
    capped = Population(lambda r: np.minimum(0.5 + 0.6 * r, 0.975))
    certified = [
        (simulate(capped, n, 0.95, 0.05, rounds=60)[1] < 1).mean() for n in (1000, 4000, 16_000)
    ]
    assert certified[0] < certified[1] < certified[2]
    assert certified[2] >= 0.95


def test_a_small_top_is_found_among_many_cases():
    """One case in a hundred can be decided; an over-confident hundredth is stepped over."""
    top = Population(lambda r: np.where(r > 0.99, 0.999, 0.7))
    over = Population(lambda r: np.where(r > 0.99, 0.9, 0.98))
    for population in (top, over):
        _, loads = simulate(population, 30_000, 0.95, 0.05, rounds=30)
        assert (loads < 1).mean() >= 0.9


@pytest.mark.parametrize("n", [500, 2000, 20_000])
def test_grades_well_above_the_target_are_certified(n):
    """Grades of mean 0.952 that know nothing of confidence, for a target of 0.9."""
    rng, points = np.random.default_rng(0), []
    for _ in range(40):
        grades, confidence = rng.beta(20, 1, n), rng.random(n)
        points.append(op.certify(Cases.from_correctness(grades, confidence), target_accuracy=0.9))
    assert np.mean([point.is_certified for point in points]) >= 0.95
    assert np.mean([point.expert_load for point in points]) < 0.05


@pytest.mark.parametrize("n", [300, 1500])
def test_grades_that_just_miss_are_rarely_certified(n):
    """Two grades, so that the bound has little slack, and a mean just below the target."""
    rng, certified = np.random.default_rng(0), 0
    for _ in range(ROUNDS):
        grades = np.where(rng.random(n) < 0.898, 1.0, 0.01)
        point = op.certify(Cases.from_correctness(grades, rng.random(n)), target_accuracy=0.9)
        certified += point.is_certified
    assert certified / ROUNDS <= limit(0.05, ROUNDS)

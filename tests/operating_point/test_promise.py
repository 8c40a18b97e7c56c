"""The promise itself: how often a certified threshold misses its target on the population."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.operating_point.populations import Population, ripple, rising, wave

from expertload import operating_point as op

pytestmark = pytest.mark.simulation
ROUNDS = 400


def violations(population, n, target, level, *, rounds=ROUNDS, seed=0, certify=None, **options):
    """How often the promise was broken, and the mean share of cases accepted."""
    certify = certify or op.certify_from_correctness
    rng = np.random.default_rng(seed)
    broken, accepted = 0, 0.0
    for _ in range(rounds):
        correct, confidence = population.draw(rng, n)
        point = certify(correct, confidence, target_accuracy=target, **level, **options)
        broken += population.accuracy_above(point.threshold) < target
        accepted += 1 - point.expert_load
    return broken / rounds, accepted / rounds


def limit(delta, rounds=ROUNDS):
    """Delta and three standard errors of a simulation."""
    return delta + 3 * math.sqrt(delta * (1 - delta) / rounds)


POPULATIONS = {
    "rising": lambda target: Population(rising(target - 0.3, 1.0)),
    "steep": lambda target: Population(lambda r: (r > 0.4) * 0.99),
    "never quite": lambda target: Population(lambda r: np.full_like(r, target - 1e-6)),
    "ties": lambda target: Population(rising(target - 0.3, 1.0), levels=12),
    "tied top": lambda target: Population(rising(target - 0.2, 1.0), top=0.3),
    "tied wave": lambda target: Population(wave(target - 1e-3, 0.1, 6), levels=30),
    "wave": lambda target: Population(wave(target - 1e-3, 0.1, 8)),
    "ripple": lambda target: Population(ripple(target - 1e-3, 0.02, 4)),
    "good, then just not": lambda target: Population(
        lambda r: np.where(r > 0.8, target + 0.02, target - 0.0051)
    ),
    "over-confident top": lambda target: Population(
        lambda r: np.where(r > 0.9, target - 0.02, target + 0.001)
    ),
}


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize(
    ("n", "target", "delta"),
    [
        (100, 0.8, 0.2),
        (300, 0.9, 0.1),
        (400, 0.8, 0.2),
        (1000, 0.95, 0.05),
        (1200, 0.8, 0.2),
        (1500, 0.9, 0.1),
    ],
)
def test_fixed_sequence_keeps_its_promise(name, n, target, delta):
    population = POPULATIONS[name](target)
    level = {"confidence_level": 1 - delta}
    broken, _ = violations(population, n, target, level)
    assert broken <= limit(delta)


@pytest.mark.parametrize("name", ["rising", "never quite", "tied wave", "over-confident top"])
@pytest.mark.parametrize("ladder", ["thresholds", "ladder_scores", "bonferroni"])
def test_other_ladders_keep_their_promise(name, ladder):
    population = POPULATIONS[name](0.9)
    options = {
        "thresholds": {"thresholds": np.linspace(0, 1, 51)},
        "ladder_scores": {"ladder_scores": population.draw(np.random.default_rng(9), 200)[1]},
        "bonferroni": {"method": "bonferroni"},
    }[ladder]
    broken, _ = violations(population, 400, 0.9, {"confidence_level": 0.9}, **options)
    assert broken <= limit(0.1)


@pytest.mark.parametrize("name", ["rising", "steep", "never quite", "ties"])
def test_sgr_keeps_its_promise_where_accuracy_rises(name):
    level = {"confidence_level": 0.9}
    broken, _ = violations(POPULATIONS[name](0.9), 400, 0.9, level, method="sgr")
    assert broken <= limit(0.1)


@pytest.mark.parametrize("name", ["rising", "wave", "ties"])
def test_joint_risk_keeps_its_promise(name):
    population, rng, broken = POPULATIONS[name](0.8), np.random.default_rng(0), 0
    for _ in range(ROUNDS):
        point = op.certify_from_correctness(
            *population.draw(rng, 300), target_accuracy=0.9, confidence_level=0.9, risk="joint"
        )
        broken += population.wrong_share(point.threshold) > 0.1
    assert broken / ROUNDS <= limit(0.1)
    assert broken > 0  # a test that is never wrong would be of no use


def test_graded_correctness_keeps_its_promise():
    rng, broken, certified = np.random.default_rng(0), 0, 0
    for _ in range(ROUNDS):
        confidence = rng.random(800)
        grades = rng.binomial(2, 0.6 + 0.4 * confidence) / 2
        point = op.certify_from_correctness(grades, confidence, target_accuracy=0.85)
        broken += 0.6 + 0.4 * (1 + min(point.threshold, 1)) / 2 < 0.85
        certified += point.is_certified
    assert broken / ROUNDS <= limit(0.05)
    assert certified > ROUNDS / 2


def test_all_groups_keep_their_promise_at_once():
    target, broken, rng = 0.9, 0, np.random.default_rng(0)
    populations = [POPULATIONS[name](target) for name in ("rising", "never quite", "ties")]
    for _ in range(ROUNDS):
        parts = [population.draw(rng, 300) for population in populations]
        points = op.certify_groups_from_correctness(
            np.concatenate([p[0] for p in parts]),
            np.concatenate([p[1] for p in parts]),
            groups=np.repeat([0, 1, 2], 300),
            target_accuracy=target,
            confidence_level=0.9,
        )
        broken += any(
            populations[group].accuracy_above(points[group].threshold) < target
            for group in points.certified
        )
    assert broken / ROUNDS <= limit(0.1)


def test_the_naive_rule_breaks_it():
    """The negative control: what `choose` finds misses its target about every other time."""
    broken, _ = violations(
        POPULATIONS["rising"](0.9), 1000, 0.9, {}, certify=op.choose_from_correctness
    )
    assert broken > 0.3


def test_power_is_not_thrown_away():
    """Certifying costs load, but not most of it, and the full ladder costs nothing."""
    population, level = POPULATIONS["rising"](0.9), {"confidence_level": 0.9}
    broken, accepted = violations(population, 2000, 0.9, level, rounds=200)
    _, on_a_grid = violations(
        population, 2000, 0.9, level, rounds=200, thresholds=np.linspace(0, 1, 101)
    )
    _, by_sgr = violations(population, 2000, 0.9, level, rounds=200, method="sgr")
    _, naive = violations(population, 2000, 0.9, {}, rounds=200, certify=op.choose_from_correctness)
    assert broken > 0.01  # the level is spent, not wasted
    assert accepted > 0.75 * naive
    assert accepted >= on_a_grid - 0.01
    assert accepted > by_sgr


def test_more_cases_certify_more_often():
    """One unlucky slice at the top must not end it for any number of cases."""
    level = {"confidence_level": 0.95}
    capped = Population(lambda r: np.minimum(0.5 + 0.6 * r, 0.975))
    certified = []
    for n in (1000, 4000, 16_000):
        rng = np.random.default_rng(0)
        points = [
            op.certify_from_correctness(*capped.draw(rng, n), target_accuracy=0.95, **level)
            for _ in range(60)
        ]
        certified.append(np.mean([point.is_certified for point in points]))
    assert certified[0] < certified[1] < certified[2]
    assert certified[2] >= 0.95


def test_a_small_top_is_found_among_many_cases():
    """One case in a hundred can be decided; an over-confident hundredth is stepped over."""
    level, rng = {"confidence_level": 0.95}, np.random.default_rng(0)
    top = Population(lambda r: np.where(r > 0.99, 0.999, 0.7))
    over = Population(lambda r: np.where(r > 0.99, 0.9, 0.98))
    for population in (top, over):
        points = [
            op.certify_from_correctness(
                *population.draw(rng, 30_000), target_accuracy=0.95, **level
            )
            for _ in range(30)
        ]
        assert np.mean([point.is_certified for point in points]) >= 0.9


@pytest.mark.parametrize("n", [500, 2000, 20_000])
def test_grades_well_above_the_target_are_certified(n):
    """Grades of mean 0.952 that know nothing of confidence, for a target of 0.9."""
    rng, points = np.random.default_rng(0), []
    for _ in range(40):
        grades, confidence = rng.beta(20, 1, n), rng.random(n)
        points.append(op.certify_from_correctness(grades, confidence, target_accuracy=0.9))
    assert np.mean([point.is_certified for point in points]) >= 0.95
    assert np.mean([point.expert_load for point in points]) < 0.05


@pytest.mark.parametrize("n", [300, 1500])
def test_grades_that_just_miss_are_rarely_certified(n):
    """Two grades, so that the bound has little slack, and a mean just below the target."""
    rng, certified = np.random.default_rng(0), 0
    for _ in range(ROUNDS):
        grades = np.where(rng.random(n) < 0.898, 1.0, 0.01)
        point = op.certify_from_correctness(grades, rng.random(n), target_accuracy=0.9)
        certified += point.is_certified
    assert certified / ROUNDS <= limit(0.05)

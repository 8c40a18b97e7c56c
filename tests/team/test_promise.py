"""Promises about the team: p-values against their definition, and simulations of each promise."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr
from scipy.stats import beta
from tests.operating_point.populations import limit
from tests.reference import team as reference
from tests.strategies import examples

from expertload import Cases, certify
from expertload.exceptions import InsufficientDataError, ParameterError, WeightError
from expertload.operating_point import from_json
from expertload.operating_point.graded import granted_at
from expertload.team import Combiner, certify_not_worse, certify_team, promise, team_curve
from expertload.team.promise import GRANTS, margin_p_value

ROUNDS = 400


@pytest.fixture(scope="module", autouse=True)
def equal_counts_are_computed_once():
    """Draws of a simulation meet the same few counts of harms and benefits many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promise, "margin_p_value", functools.cache(margin_p_value))
        yield


def make_cases(model_wrong, expert_wrong, confidence, **options):
    """Cases of two classes, all truly of class 0."""
    model = np.asarray(model_wrong).astype(int)
    return Cases(
        model == 0,
        np.asarray(confidence, dtype=float),
        target=np.zeros(len(model), int),
        proba=np.eye(2)[model],
        labels=(0, 1),
        expert_answers=np.asarray(expert_wrong).astype(int),
        **options,
    )


class World(NamedTuple):
    """Error rates of model and expert by confidence, which is uniform on [0, 1]."""

    model: object
    expert: object
    levels: int | None = None  # distinct confidences; None if there are no ties

    def draw(self, n, rng):
        c = rng.random(n)
        if self.levels:
            c = np.floor(c * self.levels) / self.levels
        return make_cases(rng.random(n) < self.model(c), rng.random(n) < self.expert(c), c)

    def harm(self, threshold):
        """Mean of (model wrong - expert wrong) over the cases a threshold accepts."""
        grid = self._grid()
        accepted = grid >= threshold
        return float(np.mean((self.model(grid) - self.expert(grid)) * accepted))

    def error(self, threshold):
        grid = self._grid()
        return float(np.mean(np.where(grid >= threshold, self.model(grid), self.expert(grid))))

    def _grid(self):
        if self.levels:
            return np.arange(self.levels) / self.levels
        return (np.arange(100_000) + 0.5) / 100_000


def constant(rate):
    return lambda c: np.full(np.shape(c), rate)


TYPICAL = World(lambda c: 0.5 * (1 - c) ** 2, constant(0.1))
WORLDS = {
    "just worse everywhere": World(constant(0.102), constant(0.1)),
    "just worse, ties": World(constant(0.102), constant(0.1), levels=12),
    "ripples": World(lambda c: 0.1 + 0.1 * np.sin(25 * c), constant(0.1)),
    "bad top": World(lambda c: np.where(c > 0.9, 0.14, 0.3 * (1 - c)), constant(0.1)),
    "crosses": World(lambda c: 0.35 * (1 - c), constant(0.1)),
    "experts fail with the model": World(lambda c: 0.6 * (1 - c), lambda c: 0.3 * (1 - c)),
    "typical": TYPICAL,
}


# ------------------------------------------------------------------ p-values


@given(st.integers(0, 6), st.integers(0, 12), st.integers(0, 30), st.sampled_from([0.0, 0.01, 0.1]))
@examples(15)
def test_the_margin_p_value_is_its_definition(harms, benefits, more, margin):
    n = harms + benefits + more + 5
    found = margin_p_value(harms, benefits, n, margin)
    assert 0 < found <= 1.001 + 1e-9
    both = (harms + benefits) / n
    rates = [rate for rate in (both, 0.9 * both, 1.2 * both) if margin < rate < 1]
    if rates:
        least = reference.margin_p_value(harms, benefits, n, margin, rates)
        assert found >= least - 2e-3


def test_the_margin_p_value_at_a_fine_grid():
    """Few rates are enough: many more change nothing that matters."""
    harms, benefits, n, margin = 4, 12, 150, 0.01
    fine = reference.margin_p_value(
        harms,
        benefits,
        n,
        margin,
        np.linspace(*beta.ppf([0.0005, 0.9995], [16, 17], [135, 134]), 100),
    )
    assert margin_p_value(harms, benefits, n, margin) == pytest.approx(fine + 0.001, abs=2e-4)


def test_grants_are_handed_on_as_written():
    rng = np.random.default_rng(0)
    shares = np.arange(1, 21) / 20
    for _ in range(200):
        p_values = rng.random(20) ** 6
        left, best = 0.0, None
        for j, (p, part) in enumerate(zip(p_values, granted_at(shares, GRANTS), strict=True)):
            left += 0.05 * part
            best, left = (j, left) if left and p <= left else (best, 0.0)
        assert best == reference.fallback(p_values, shares, 0.05, GRANTS)


def test_all_of_the_level_is_granted_whatever_the_ties():
    for shares in (np.array([1.0]), np.array([0.5, 1.0]), np.array([0.05, 0.5])):
        assert granted_at(shares, GRANTS).sum() == 1


# ------------------------------------------------------------------ not worse than the experts


def test_margin_zero_is_the_walk_over_discordant_cases():
    cases = TYPICAL.draw(3000, np.random.default_rng(0))
    wrong_model, wrong_expert = ~cases.correct, cases.expert_answers == 1
    differ = wrong_model != wrong_expert
    point = certify(
        Cases.from_correctness(wrong_expert[differ], cases.confidence[differ]), target_accuracy=0.5
    )
    found = certify_not_worse(cases)
    below = cases.confidence[differ & (cases.confidence < point.threshold)].max()
    assert below < found.threshold <= point.threshold
    assert not (cases.confidence[cases.confidence < found.threshold] > below).any()
    assert found.risk == "not_worse"
    assert found.target_accuracy == 1


@given(st.integers(0, 10_000))
@examples(20)
def test_concordant_cases_change_nothing_but_the_counts(seed):
    rng = np.random.default_rng(seed)
    cases = TYPICAL.draw(600, rng)
    differ = ~cases.correct != (cases.expert_answers == 1)
    whole, part = certify_not_worse(cases), certify_not_worse(cases.take(differ))
    assert whole.is_certified == part.is_certified
    assert whole.threshold <= part.threshold


def test_the_whole_set_when_the_model_is_always_better():
    rng = np.random.default_rng(0)
    cases = make_cases(np.zeros(500), rng.random(500) < 0.3, rng.random(500))
    assert certify_not_worse(cases).expert_load == 0


@pytest.mark.simulation
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_a_team_is_rarely_worse_than_promised(name, margin):
    world = WORLDS[name]
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(ROUNDS):
        point = certify_not_worse(world.draw(500, rng), margin=margin)
        broken += point.is_certified and world.harm(point.threshold) > margin + 1e-9
    assert broken <= limit(0.05, ROUNDS) * ROUNDS


@pytest.mark.simulation
def test_the_threshold_that_looks_good_breaks_the_promise():
    """Negative control: without a test, chance makes harmful thresholds look harmless."""
    world = WORLDS["just worse everywhere"]
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(ROUNDS):
        cases = world.draw(500, rng)
        harm = np.where(cases.correct, 0.0, 1.0) - (cases.expert_answers == 1)
        order = np.argsort(-cases.confidence)
        broken += (np.cumsum(harm[order]) <= 0)[50:].any()
    assert broken > 0.5 * ROUNDS


@pytest.mark.simulation
def test_the_walk_needs_fewer_readings_than_a_margin_of_nothing_by_bonferroni():
    rng = np.random.default_rng(2)
    ours, rival = [], []
    for _ in range(60):
        cases = TYPICAL.draw(2000, rng)
        ours.append(certify_not_worse(cases).expert_load)
        wrong, expert = ~cases.correct, cases.expert_answers == 1
        loads = [1.0]
        for threshold in np.arange(20) / 20:
            kept = cases.confidence >= threshold
            harms, benefits = (wrong & ~expert & kept).sum(), (~wrong & expert & kept).sum()
            if bdtr(float(harms), int(harms + benefits), 0.5) <= 0.05 / 20:
                loads.append(1 - kept.mean())
        rival.append(min(loads))
    assert np.mean(ours) < np.mean(rival) - 0.02


# ------------------------------------------------------------------ a target for the team


@pytest.mark.simulation
@pytest.mark.parametrize("name", WORLDS)
def test_a_team_rarely_misses_its_target(name):
    world = WORLDS[name]
    rng = np.random.default_rng(1)
    target = 1 - world.error(0.5) + 0.002  # missed a little at the middle
    broken = 0
    for _ in range(ROUNDS):
        point = certify_team(world.draw(500, rng), target_accuracy=target)
        broken += point.is_certified and world.error(point.threshold) > 1 - target + 1e-9
    assert broken <= limit(0.05, ROUNDS) * ROUNDS


def test_a_target_is_certified_and_said():
    cases = TYPICAL.draw(4000, np.random.default_rng(0))
    point = certify_team(cases, target_accuracy=0.92, model_name="net")
    assert point.is_certified
    assert TYPICAL.error(point.threshold) < 0.08
    assert point.risk == "team"
    assert "right in at least 0.92 of all cases" in point.guarantee
    assert "settled without the experts" in point.guarantee
    assert from_json(point.to_json()) == point
    assert point.origin.model_name == "net"


def test_thresholds_may_come_from_other_confidences():
    cases = TYPICAL.draw(2000, np.random.default_rng(0))
    other = np.random.default_rng(1).random(500)
    point = certify_team(cases, target_accuracy=0.92, other_confidence=other)
    assert point.threshold in other


def test_cases_nobody_read_fix_the_thresholds():
    cases = TYPICAL.draw(3000, np.random.default_rng(0))
    answers = np.where(np.arange(3000) < 1000, -1, cases.expert_answers)
    point = certify_team(make_cases(~cases.correct, answers, cases.confidence), target_accuracy=0.9)
    assert point.threshold in cases.confidence[:1000]


def test_a_combined_team():
    rng = np.random.default_rng(0)
    proba = rng.beta(0.5, 0.5, 4000)
    truth = rng.random(4000) < proba
    answers = truth ^ (rng.random(4000) < 0.1)
    whole = Cases.from_predictions(truth, proba, expert_answers=answers)
    fit, cases = whole.take(np.arange(1000)), whole.take(np.arange(1000, 4000))
    combiner = Combiner().fit(fit)
    plain = certify_team(cases, target_accuracy=0.91)
    combined = certify_team(cases, target_accuracy=0.91, combine=combiner)
    assert combined.expert_load < plain.expert_load
    assert "combined" in combined.guarantee
    curve = team_curve(cases, combine=combiner)
    assert curve.accuracy[np.searchsorted(curve.thresholds, combined.threshold)] > 0.91
    with pytest.raises(ParameterError, match="fitted"):
        certify_team(cases, target_accuracy=0.91, combine=Combiner())


# ------------------------------------------------------------------ clusters and inclusion


def clustered(rng, n_clusters, model, expert):
    """Clusters of five copies: the worst correlation there is."""
    rows = np.repeat(np.arange(n_clusters), 5)
    wrong_model, wrong_expert = rng.random(n_clusters) < model, rng.random(n_clusters) < expert
    confidence = rng.random(n_clusters)
    return make_cases(wrong_model[rows], wrong_expert[rows], confidence[rows], clusters=rows)


@pytest.mark.simulation
@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_clusters_do_not_break_the_promise(margin):
    rng = np.random.default_rng(3)
    broken = naive = 0
    for _ in range(200):
        cases = clustered(rng, 200, 0.202 + margin, 0.2)
        broken += certify_not_worse(cases, margin=margin).is_certified
        unclustered = make_cases(~cases.correct, cases.expert_answers, cases.confidence)
        naive += certify_not_worse(unclustered, margin=margin).is_certified
    assert broken <= limit(0.05, 200) * 200
    assert naive > 0.15 * 200  # counting copies as cases does


@pytest.mark.simulation
def test_unequal_inclusion_does_not_break_the_promise():
    """Cases on which experts err are read more often, by a rule that knows nothing of errors."""
    rng = np.random.default_rng(4)
    broken = careless = 0
    for _ in range(200):
        c, easy = rng.random(2000), rng.random(2000) < 0.5
        wrong = rng.random(2000) < np.where(easy, 0.0, 0.21)
        expert = rng.random(2000) < np.where(easy, 0.0, 0.21)
        chance = np.where(easy, 0.8, 0.2)
        answers = np.where(rng.random(2000) < chance, expert, -1)
        cases = make_cases(wrong, answers, c, inclusion_probability=chance)
        broken += certify_team(cases, target_accuracy=0.9).is_certified
        cases = make_cases(wrong, answers, c)
        careless += certify_team(cases, target_accuracy=0.9).is_certified
    assert broken <= limit(0.05, 200) * 200
    assert careless > 0.5 * 200


def test_clusters_can_be_certified():
    rng = np.random.default_rng(0)
    for margin in (0.0, 0.05):
        point = certify_not_worse(clustered(rng, 600, 0.02, 0.25), margin=margin)
        assert point.is_certified
        assert point.clusters == "all_cases"
    assert certify_team(clustered(rng, 600, 0.02, 0.25), target_accuracy=0.8).is_certified


# ------------------------------------------------------------------ nothing certified, bad input


def test_reasons():
    rng = np.random.default_rng(0)
    bad = make_cases(rng.random(800) < 0.5, rng.random(800) < 0.05, rng.random(800))
    for point in (certify_not_worse(bad), certify_not_worse(bad, margin=0.01)):
        assert point.threshold == math.inf
        assert point.guarantee.startswith("Nothing is certified against experts alone")
        assert from_json(point.to_json()) == point
    point = certify_team(bad, target_accuracy=0.99)
    assert point.reason == "accuracy_too_low"
    assert "a target of 0.99" in point.guarantee
    same = make_cases(np.zeros(50), np.zeros(50), rng.random(50))
    assert certify_not_worse(same).reason == "not_enough_evidence"


def test_bad_input():
    cases = TYPICAL.draw(100, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="margin"):
        certify_not_worse(cases, margin=1)
    with pytest.raises(ParameterError, match="target_accuracy"):
        certify_team(cases, target_accuracy=1)
    with pytest.raises(WeightError, match="sample_weight"):
        certify_not_worse(make_cases([0, 1], [1, 0], [0.2, 0.3], weight=np.ones(2)))
    with pytest.raises(InsufficientDataError, match="2"):
        certify_team(make_cases([0], [1], [0.2]), target_accuracy=0.9)

"""The team's curve: against its definition, with answers that are missing, and its intervals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import team as reference
from tests.strategies import examples, predictions

from expertload import Cases
from expertload.exceptions import (
    EmptyInputError,
    LabelError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)
from expertload.significance import bootstrap_interval
from expertload.team import Combiner, evaluate_team, team_accuracy, team_curve


def example(n=1000, seed=0, **options):
    """Three classes; experts err more where the model is unsure."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([0.3, 0.3, 0.3], size=n)
    truth = (rng.random(n)[:, None] > np.cumsum(proba, axis=1)).sum(axis=1).clip(max=2)
    errs = rng.random(n) < 0.25 - 0.2 * proba.max(axis=1)
    answers = np.where(errs, (truth + rng.integers(1, 3, n)) % 3, truth)
    return Cases.from_predictions(truth, proba, expert_answers=answers, **options)


@st.composite
def read_cases(draw):
    """Labels, probabilities, answers (-1 where nobody read), weights and chances."""
    y_true, y_proba = draw(predictions(min_size=2))
    n, n_classes = y_proba.shape
    answers = draw(st.lists(st.integers(-1, n_classes - 1), min_size=n, max_size=n))
    answers[0] = max(answers[0], 0)  # somebody has read something
    weights = draw(st.lists(st.sampled_from([1.0, 2.0, 0.5]), min_size=n, max_size=n))
    chances = draw(st.lists(st.sampled_from([1.0, 0.5, 0.25]), min_size=n, max_size=n))
    return y_true, y_proba, np.array(answers), np.array(weights), np.array(chances)


@given(read_cases(), st.booleans())
@examples(80)
def test_the_curve_is_its_definition(drawn, weighted):
    y_true, y_proba, answers, weights, chances = drawn
    given_answers = [None if a < 0 else int(a) for a in answers]
    options = {"sample_weight": weights, "inclusion_probability": chances} if weighted else {}
    cases = Cases.from_predictions(y_true, y_proba, expert_answers=given_answers, **options)
    curve = team_curve(cases)
    model = (y_proba.argmax(axis=1) == y_true).astype(float)
    expert = [None if a < 0 else float(a == t) for a, t in zip(answers, y_true, strict=True)]
    for load, accuracy, threshold in zip(*curve, strict=True):
        expected = reference.team_accuracy(
            model,
            expert,
            y_proba.max(axis=1),
            threshold,
            weights if weighted else None,
            chances if weighted else None,
        )
        assert accuracy == pytest.approx(expected, abs=1e-12)
        below = y_proba.max(axis=1) < threshold
        weight = weights if weighted else np.ones(len(below))
        assert load == pytest.approx(weight[below].sum() / weight.sum())


def test_the_ends_are_the_model_and_the_experts():
    cases = example()
    curve = team_curve(cases)
    assert curve.accuracy[0] == pytest.approx(cases.accuracy)
    assert curve.accuracy[-1] == pytest.approx((cases.expert_answers == cases.target).mean())
    assert (curve.expert_load[0], curve.expert_load[-1], curve.thresholds[-1]) == (0, 1, math.inf)
    assert (np.diff(curve.expert_load) > 0).all()


def test_a_constant_accuracy_overstates_experts_who_err_on_hard_cases():
    cases = example(20_000)
    evaluation = evaluate_team(cases, threshold=0.8)
    assert evaluation.delegated_experts < evaluation.experts.estimate - 0.02
    kept = cases.confidence >= 0.8
    constant = kept.mean() * cases.correct[kept].mean() + (1 - kept.mean()) * (
        evaluation.experts.estimate
    )
    assert constant > evaluation.team.estimate + 0.005


def test_a_part_that_was_read_by_chance_tells_of_all():
    """Doubtful cases are read more often; the inclusion probability makes up for it."""
    whole, values, careless = team_curve(example(4000)), [], []
    at = np.searchsorted(whole.expert_load, 0.3)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cases = example(4000)
        chance = np.where(cases.confidence < 0.7, 0.8, 0.1)
        read = rng.random(len(cases)) < chance
        answers = [int(a) if r else None for a, r in zip(cases.expert_answers, read, strict=True)]
        values.append(
            team_curve(cases.with_experts(answers, chance)).accuracy[[at, -1]]
            - whole.accuracy[[at, -1]]
        )
        careless.append(team_curve(cases.with_experts(answers)).accuracy[-1] - whole.accuracy[-1])
    values = np.array(values)
    error = values.std(axis=0) / math.sqrt(len(values))
    assert (np.abs(values.mean(axis=0)) < 4 * error).all()
    assert abs(np.mean(careless)) > 0.01  # without it, experts look worse than they are


def test_loads_of_a_target():
    curve = team_curve(example())
    best = curve.accuracy[curve.best]
    assert curve.load_at_accuracy(best) == curve.expert_load[curve.best]
    assert curve.load_at_accuracy(0.5) == 0
    assert curve.load_at_accuracy(1.0) is None


# ------------------------------------------------------------------ intervals


@pytest.mark.parametrize("threshold", [-math.inf, 0.7, math.inf])
def test_the_interval_agrees_with_a_bootstrap_of_clusters(threshold):
    clusters = np.repeat(np.arange(200), 5)
    cases = example(1000, clusters=clusters)
    found = team_accuracy(cases, threshold=threshold)

    def metric(some):
        expert = some.expert_answers == some.target
        return float(np.where(some.confidence >= threshold, some.correct, expert).mean())

    drawn = bootstrap_interval(cases, metric=metric, n_resamples=400, random_state=0)
    assert found.estimate == pytest.approx(drawn.estimate)
    assert found.standard_error == pytest.approx(drawn.standard_error, rel=0.15)
    assert (found.low, found.high) == pytest.approx((drawn.low, drawn.high), abs=0.006)


def test_clusters_that_agree_widen_the_interval():
    once = example(200)
    five = once.take(np.repeat(np.arange(200), 5))
    clustered = replace(five, clusters=np.repeat(np.arange(200), 5))
    narrow, wide = (team_accuracy(some, threshold=0.7) for some in (five, clustered))
    alone = team_accuracy(once, threshold=0.7)
    assert wide.standard_error == pytest.approx(alone.standard_error, rel=0.01)
    assert narrow.standard_error < wide.standard_error / 2


@pytest.mark.simulation
def test_intervals_hold_the_truth():
    """A share of the cases is read; 95 % intervals at a fixed threshold."""
    rng = np.random.default_rng(0)
    whole = example(200_000, seed=1)
    kept = whole.confidence >= 0.7
    truth = np.where(kept, whole.correct, whole.expert_answers == whole.target).mean()
    held = 0
    for _ in range(500):
        some = whole.take(rng.integers(0, len(whole), 400))
        chance = np.where(some.confidence < 0.7, 0.9, 0.3)
        read = rng.random(400) < chance
        answers = [int(a) if r else None for a, r in zip(some.expert_answers, read, strict=True)]
        found = team_accuracy(some.with_experts(answers, chance), threshold=0.7)
        held += found.low <= truth <= found.high
    assert 0.92 <= held / 500 <= 0.98


def test_a_faultless_team_has_an_interval():
    cases = Cases.from_predictions([0, 1] * 10, [0.1, 0.9] * 10, expert_answers=[0, 1] * 10)
    found = team_accuracy(cases, threshold=0.95)
    assert (found.estimate, found.high) == (1, 1)
    assert 0.8 < found.low < 0.9


# ------------------------------------------------------------------ input


def test_answers_are_matched_by_name_and_may_be_missing():
    y_true, y_proba = ["cat", "dog", "dog"], [0.2, 0.6, 0.4]
    cases = Cases.from_predictions(
        y_true, y_proba, labels=["cat", "dog"], expert_answers=["dog", None, " dog "]
    )
    assert cases.expert_answers.tolist() == [1, -1, 1]
    assert "read=2" in repr(cases)
    numbers = Cases.from_predictions([0, 1], [0.2, 0.6], expert_answers=[float("nan"), 1.0])
    assert numbers.expert_answers.tolist() == [-1, 1]
    assert numbers.take(np.array([1])).expert_answers.tolist() == [1]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"expert_answers": ["cat", "cow"]}, LabelError, "cow"),
        ({"expert_answers": [None, None]}, EmptyInputError, "expert_answers"),
        ({"expert_answers": ["cat"]}, ShapeError, "expert_answers"),
        (
            {"expert_answers": ["cat", "cat"], "inclusion_probability": [0.5, 0]},
            ProbabilityError,
            "inclusion_probability",
        ),
    ],
)
def test_bad_answers_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        Cases.from_predictions(["cat", "dog"], [0.2, 0.6], labels=["cat", "dog"], **options)


def test_the_truth_is_not_taken_for_an_expert():
    y_true, y_proba = [0, 1] * 60, [0.2, 0.6] * 60
    with pytest.raises(LabelError, match="leave expert_answers out"):
        Cases.from_predictions(y_true, y_proba, expert_answers=y_true)


def test_cases_without_answers_are_refused():
    cases = Cases.from_predictions([0, 1], [0.2, 0.6])
    for measure in (team_curve, lambda cases: team_accuracy(cases, threshold=0.5)):
        with pytest.raises(ParameterError, match="expert_answers"):
            measure(cases)
    with pytest.raises(ParameterError, match="from_predictions"):
        Cases.from_correctness([0, 1], [0.2, 0.6]).with_experts([0, 1])


def test_few_answers_are_measured_but_not_combined():
    cases = Cases.from_predictions([0, 1] * 5, [0.2, 0.6] * 5, expert_answers=[0, 1, 1, 1, 0] * 2)
    evaluation = evaluate_team(cases, threshold=0.7)
    assert evaluation.combined is None
    assert evaluation.to_dict()["combined"] is None
    assert evaluation.team.estimate == pytest.approx(team_curve(cases).accuracy[1])


def test_an_evaluation_is_what_the_functions_say():
    cases = example(600)
    found = evaluate_team(cases, threshold=0.7)
    assert found.team == team_accuracy(cases, threshold=0.7)
    assert found.combined == team_accuracy(cases, threshold=0.7, combine=Combiner())
    assert found.combined_load == team_curve(cases, combine=Combiner()).load_at_accuracy(
        found.best_accuracy
    )
    assert found.to_dict()["best_load"] == found.best_load
    assert evaluate_team(cases, threshold=math.inf).to_dict()["threshold"] is None

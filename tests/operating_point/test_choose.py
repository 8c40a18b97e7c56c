from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import coc
from tests.strategies import correctness_cases, predictions, whole_weights

import expertload as el
from expertload import Cases
from expertload import operating_point as op
from expertload.exceptions import ParameterError


def every_option(correct, confidence):
    """(threshold, accepted, errors) of each threshold, and delegating everything."""
    for threshold in [*np.unique(confidence), math.inf]:
        accepted = confidence >= threshold
        yield threshold, accepted.sum(), (1 - correct[accepted]).sum()


@given(correctness_cases(), st.floats(0, 1))
def test_target_accuracy_takes_the_smallest_load(cases, target):
    point = op.choose(Cases.from_correctness(*cases), target_accuracy=target)
    assert point.expert_load == pytest.approx(coc.load_at_accuracy(*cases, target), abs=1e-12)
    if point.accuracy is not None:
        assert point.accuracy >= target - 1e-9
    else:
        assert point.threshold == math.inf


@given(correctness_cases(), st.floats(0, 1))
def test_budget_takes_the_best_accuracy_it_can_pay(cases, budget):
    point = op.choose(Cases.from_correctness(*cases), load_budget=budget)
    load, accuracy, _ = coc.curve(*cases)
    affordable = accuracy[load <= budget + 1e-12]
    assert point.accuracy == pytest.approx(affordable.max(), abs=1e-12)
    assert point.expert_load <= budget + 1e-9
    first = np.flatnonzero(accuracy >= affordable.max() - 1e-12)[0]
    assert point.expert_load == pytest.approx(load[first], abs=1e-12)


@given(correctness_cases(), st.floats(0, 10), st.floats(0, 10), st.floats(0, 1))
def test_costs_are_smallest(cases, error_cost, review_cost, expert):
    prices = {"error_cost": error_cost, "review_cost": review_cost, "expert_accuracy": expert}
    point = op.choose(Cases.from_correctness(*cases), **prices)
    n = len(cases[0])
    costs = [
        (error_cost * (errors + (1 - expert) * (n - accepted)) + review_cost * (n - accepted)) / n
        for _, accepted, errors in every_option(*cases)
    ]
    assert point.cost(**prices) == pytest.approx(min(costs), abs=1e-9)


@given(correctness_cases(), st.floats(-0.5, 1.5))
def test_counts_at_a_threshold(cases, threshold):
    correct, confidence = cases
    point = op.at_threshold(Cases.from_correctness(correct, confidence), threshold=threshold)
    accepted = confidence >= threshold
    assert point.threshold == threshold
    assert point.n_accepted == accepted.sum()
    assert point.n_delegated == (~accepted).sum()
    assert point.n_errors == pytest.approx((1 - correct[accepted]).sum())
    assert point.n_errors_spared == pytest.approx((1 - correct[~accepted]).sum())
    assert point.n_cases == len(correct)
    if accepted.any():
        assert point.accuracy == pytest.approx(correct[accepted].mean())
    else:
        assert point.accuracy is None


@given(predictions(), st.data())
def test_predictions_and_correctness_agree(case, data):
    y_true, y_proba = case
    weight = data.draw(whole_weights(len(y_true)))
    correct, confidence = y_proba.argmax(axis=1) == y_true, y_proba.max(axis=1)
    for criterion in ({"target_accuracy": 0.8}, {"load_budget": 0.3}):
        assert op.choose(
            Cases.from_predictions(y_true, y_proba, sample_weight=weight), **criterion
        ) == (
            op.choose(
                Cases.from_correctness(correct, confidence, sample_weight=weight), **criterion
            )
        )
    assert op.at_threshold(
        Cases.from_predictions(y_true, y_proba), threshold=0.6
    ) == op.at_threshold(Cases.from_correctness(correct, confidence), threshold=0.6)


def test_the_threshold_found_is_the_threshold_that_accepts():
    rng = np.random.default_rng(0)
    confidence = rng.random(500).astype(np.float32)
    correct = rng.random(500) < confidence
    point = op.choose(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
    accepted = confidence >= point.threshold
    assert accepted.sum() == point.n_accepted
    assert correct[accepted].mean() >= 0.9


def test_team_accuracy():
    point = op.at_threshold(
        Cases.from_correctness([0, 1, 1, 1], [0.1, 0.2, 0.3, 0.4]), threshold=0.2
    )
    assert point.team_accuracy() == 1.0
    assert point.team_accuracy(expert_accuracy=0.6) == pytest.approx((3 + 0.6) / 4)
    everything = op.at_threshold(Cases.from_correctness([0, 1], [0.1, 0.2]), threshold=math.inf)
    assert everything.team_accuracy(expert_accuracy=0.9) == pytest.approx(0.9)


def test_sentences():
    point = op.choose(
        Cases.from_correctness([0, 1, 1, 1], [0.1, 0.2, 0.3, 0.4]), target_accuracy=1.0
    )
    assert str(point) == (
        "Accept at confidence >= 0.2: 75.0% of cases decided automatically, 100.0% of them right; "
        "25.0% delegated (1 of 4)."
    )
    almost = op.at_threshold(Cases.from_correctness([1, 1], [0.5, 1.0]), threshold=1 - 1e-9)
    assert str(almost).startswith("Accept at confidence >= 0.999999999: ")
    nothing = op.choose(Cases.from_correctness([0, 0], [0.1, 0.2]), target_accuracy=0.5)
    assert str(nothing) == "Delegate everything: all 2 cases go to experts."


def test_free_reviews_delegate_and_dear_ones_do_not():
    cases = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]
    cheap = op.choose(Cases.from_correctness(*cases), error_cost=1, review_cost=0)
    dear = op.choose(Cases.from_correctness(*cases), error_cost=1, review_cost=5)
    assert cheap.n_errors == 0
    assert dear.expert_load == 0


@pytest.mark.parametrize(
    ("criterion", "match"),
    [
        ({}, "Got none"),
        ({"target_accuracy": 0.9, "load_budget": 0.1}, "Got 2"),
        ({"error_cost": 1.0}, "error_cost and review_cost belong together. Got only error_cost"),
        ({"review_cost": 1.0}, "Got only review_cost"),
        ({"target_accuracy": 95}, "pass 0.95 for 95 %"),
        ({"load_budget": 20}, "pass 0.2 for 20 %"),
        ({"error_cost": -1, "review_cost": 1}, "zero or more"),
        ({"error_cost": 1, "review_cost": math.inf}, "finite"),
        ({"error_cost": 1, "review_cost": 1, "expert_accuracy": 90}, "pass 0.9 for 90 %"),
    ],
)
def test_bad_criteria(criterion, match):
    with pytest.raises(ParameterError, match=match):
        op.choose(Cases.from_correctness([1, 0], [0.1, 0.2]), **criterion)


def test_bad_threshold():
    with pytest.raises(ParameterError, match="NaN"):
        op.at_threshold(Cases.from_correctness([1, 0], [0.1, 0.2]), threshold=math.nan)


def test_the_point_is_on_the_curve():
    rng = np.random.default_rng(1)
    confidence = rng.random(200)
    correct = rng.random(200) < confidence
    curve = el.coc_curve(Cases.from_correctness(correct, confidence))
    point = op.choose(Cases.from_correctness(correct, confidence), load_budget=0.4)
    at = int(np.flatnonzero(curve.thresholds == point.threshold)[0])
    assert point.expert_load == pytest.approx(curve.expert_load[at])
    assert point.accuracy == pytest.approx(curve.accuracy[at])

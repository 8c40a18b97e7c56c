from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import predictions

from expertload import Cases
from expertload import operating_point as op
from expertload.exceptions import (
    DataTypeError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)


@given(predictions(), st.floats(0, 1))
def test_decisions_repeat_the_counts(case, threshold):
    y_true, y_proba = case
    point = op.at_threshold(Cases.from_predictions(y_true, y_proba), threshold=threshold)
    accepted, labels = point.decide(y_proba)
    assert accepted.sum() == point.n_accepted
    assert (labels[accepted] != y_true[accepted]).sum() == point.n_errors
    assert labels.tolist() == y_proba.argmax(axis=1).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_threshold_accepts_its_own_case_in_any_precision(dtype):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), 500).astype(dtype)
    y = proba.argmax(axis=1)
    point = op.choose(Cases.from_predictions(y, proba), load_budget=0.5)
    assert point.decide(proba).accepted.sum() == point.n_accepted


def test_names_come_back_as_given():
    proba = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]
    named = op.choose(Cases.from_predictions(["no", "yes", "yes"], proba), load_budget=0)
    assert named.decide(proba).labels.tolist() == ["no", "yes", "yes"]
    objects = np.array(["no", "yes", "yes"], dtype=object)
    assert op.choose(Cases.from_predictions(objects, proba), load_budget=0).origin.labels == (
        "no",
        "yes",
    )
    numbered = op.choose(Cases.from_predictions([7, 3, 3], proba, labels=[7, 3]), load_budget=0)
    assert numbered.decide(proba).labels.tolist() == [7, 3, 3]
    plain = op.choose(
        Cases.from_predictions(np.array([0, 1, 1], dtype=object), proba), load_budget=0
    )
    assert plain.origin.labels == (0, 1)
    assert plain.decide(proba).labels.tolist() == [0, 1, 1]


def test_delegating_everything_accepts_nothing():
    point = op.choose(Cases.from_predictions([True, True], [0.1, 0.2]), target_accuracy=0.5)
    assert point.threshold == math.inf
    assert not point.decide([0.5, 1.0]).accepted.any()


def test_a_confidence_of_ones_own_is_asked_for_again():
    own = op.choose(
        Cases.from_predictions([True, True], [0.9, 0.2], confidence=[3.0, -1.0]), load_budget=0.5
    )
    assert own.decide([0.5, 0.5], confidence=[4, 0]).accepted.tolist() == [True, False]
    with pytest.raises(ParameterError, match="needs the 'confidence'"):
        own.decide([0.5, 0.5])
    plain = op.choose(Cases.from_predictions([1, 0], [0.9, 0.2]), load_budget=0.5)
    with pytest.raises(ParameterError, match="leave it out"):
        plain.decide([0.5, 0.5], confidence=[4, 0])
    with pytest.raises(ShapeError, match="one row per case"):
        own.decide([0.5, 0.5], confidence=[4, 0, 1])


def test_bad_rows_are_refused():
    point = op.choose(Cases.from_predictions(["a", "b"], [0.1, 0.9]), load_budget=0)
    with pytest.raises(ProbabilityError, match="softmax"):
        point.decide([[3.0, -2.0]])
    numbered = op.choose(Cases.from_predictions([0, 1], [0.1, 0.9]), load_budget=0)
    for each in (point, numbered):
        with pytest.raises(ShapeError, match="must have 2 columns"):
            each.decide([[0.2, 0.3, 0.5]])


# ------------------------------------------------------------------ groups


def grouped(rng, n=900):
    confidence = rng.random(n)
    groups = np.array(["a", "b", "c"])[np.arange(n) % 3]
    floor = {"a": 0.9, "b": 0.8, "c": 0.3}
    low = np.array([floor[g] for g in groups])
    return rng.random(n) < low + (1 - low) * confidence, confidence, groups


def test_each_group_is_certified_at_its_share_of_the_level():
    correct, confidence, groups = grouped(np.random.default_rng(0))
    points = op.certify_groups(
        Cases.from_correctness(correct, confidence, groups=groups),
        target_accuracy=0.9,
        model_name="m",
    )
    assert list(points) == ["a", "b", "c"]
    assert len(points) == 3
    for name, point in points.items():
        inside = groups == name
        alone = op.certify(
            Cases.from_correctness(correct[inside], confidence[inside]),
            target_accuracy=0.9,
            confidence_level=1 - 0.05 / 3,
        )
        assert point.threshold == alone.threshold
        assert point.origin.model_name == "m"
    assert "a" in points.certified
    assert "c" not in points.certified
    delegated = sum(point.n_delegated for point in points.values())
    assert points.expert_load == pytest.approx(delegated / 900)
    assert "in every one of" in points.guarantee
    assert "everything delegated, in: " in points.guarantee
    assert str(points).count("\n") == 3


def test_groups_of_predictions_decide_by_their_own_thresholds():
    rng = np.random.default_rng(1)
    proba = rng.beta(0.2, 0.2, 2000)
    y = rng.random(2000) < proba
    predicted = (proba > 0.5).astype(int)
    points = op.certify_groups(
        Cases.from_predictions(y, proba, groups=predicted), target_accuracy=0.9
    )
    assert points.certified == (0, 1)
    accepted, labels = points.decide(proba, groups=predicted)
    top = np.maximum(proba, 1 - proba)
    expected = top >= np.where(predicted == 1, points[1].threshold, points[0].threshold)
    assert accepted.tolist() == expected.tolist()
    assert labels.tolist() == predicted.tolist()
    stranger = points.decide(proba[:2], groups=[0, 5])
    assert not stranger.accepted[1]


def test_joint_promises_to_groups():
    points = op.certify_groups(
        Cases.from_correctness(np.ones(300), np.ones(300), groups=[1, 2, 3] * 100),
        target_accuracy=0.9,
        risk="joint",
    )
    assert "model and perfect experts" in points.guarantee
    assert "delegated" not in points.guarantee
    nothing = op.certify_groups(Cases.from_correctness([1], [1], groups=[0]), target_accuracy=0.9)
    assert nothing.guarantee.startswith("Nothing is certified")
    assert points.accepts([1, 1], groups=[1, 9]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("groups", "error", "match"),
    [
        ([1.5, 2.5], DataTypeError, "only integers or only strings"),
        (["a", None], DataTypeError, "'unknown'"),
        ([["a"], ["b"]], ShapeError, "'groups' must name"),
        (["a"], ShapeError, "'groups' must name"),
    ],
)
def test_bad_groups(groups, error, match):
    with pytest.raises(error, match=match):
        op.certify_groups(
            Cases.from_correctness([1, 1], [0.5, 0.6], groups=groups), target_accuracy=0.9
        )


def test_groups_may_be_objects():
    for groups in (np.array(["a", "b"], dtype=object), np.array([1, 2], dtype=object)):
        points = op.certify_groups(
            Cases.from_correctness([1, 1], [0.5, 0.6], groups=groups), target_accuracy=0.9
        )
        assert list(points) == groups.tolist()


@pytest.mark.parametrize("row", [np.array([0.95, 0.05]), [0.3, 0.7]])
def test_one_row_of_both_classes_is_not_two_cases(row):
    cases = Cases.from_predictions(["cat", "dog", "dog"], [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    point = op.choose(cases, target_accuracy=0.9)
    with pytest.raises(ShapeError, match="row for each case"):
        point.decide(row)
    assert len(point.decide([row]).labels) == 1
    assert len(point.decide(np.reshape(row, (2, 1))).labels) == 2

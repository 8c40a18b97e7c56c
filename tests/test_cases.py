"""Cases: validated once, added up once, accepted by every front in place of two arrays."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from expertload import Cases, aucoc_score, coc_curve
from expertload.cases import as_cases
from expertload.exceptions import CorrectnessError, ParameterError, ShapeError

Y_TRUE = ["b", "a", "c", "a"]
Y_PROBA = np.array([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2], [0.4, 0.2, 0.4], [0.9, 0.05, 0.05]])


def test_predictions_keep_what_later_parts_need():
    cases = Cases.from_predictions(
        Y_TRUE, Y_PROBA, sample_weight=[1, 2, 1, 1], clusters=[7, 7, 8, 9], groups=[*"xyxy"]
    )
    assert len(cases) == 4
    assert cases.correct.tolist() == [True, True, False, True]
    assert cases.confidence.tolist() == [0.7, 0.5, 0.4, 0.9]
    assert cases.target.tolist() == [1, 0, 2, 0]
    assert cases.labels == ("a", "b", "c")
    assert cases.clusters.tolist() == [0, 0, 1, 2]
    assert cases.groups.tolist() == [*"xyxy"]
    assert cases.accuracy == 0.8
    assert cases.is_ranked_by_probability


def test_the_tally_is_computed_once():
    cases = Cases.from_correctness([0, 1, 1], [0.5, 0.5, 0.7])
    assert cases.tally is cases.tally
    assert cases.tally.weight.tolist() == [2, 1]


def test_cases_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Cases.from_correctness([1], [0.5]).weight = np.ones(1)


def test_numbers_are_those_of_the_fronts():
    cases = Cases.from_predictions(Y_TRUE, Y_PROBA)
    for convention in ("exact", "thresholds", "authors"):
        assert cases.aucoc(convention) == aucoc_score(Y_TRUE, Y_PROBA, convention=convention)
    for own, of_arrays in zip(cases.curve(), coc_curve(Y_TRUE, Y_PROBA), strict=True):
        np.testing.assert_array_equal(own, of_arrays)
    assert cases.load_at_accuracy(0.9) == 0.25
    assert cases.accuracy_at_load(0.3) == 1.0
    with pytest.raises(ParameterError, match="'target_accuracy'.*pass 0.9 for 90 %"):
        cases.load_at_accuracy(90)


def test_a_given_confidence_ranks_and_the_probability_is_kept():
    cases = Cases.from_predictions(Y_TRUE, Y_PROBA, confidence=[1, 2, 3, 4])
    assert cases.confidence.tolist() == [1, 2, 3, 4]
    assert not cases.is_ranked_by_probability
    assert cases.by_probability.confidence.tolist() == [0.7, 0.5, 0.4, 0.9]
    assert Cases.from_predictions(Y_TRUE, Y_PROBA).by_probability.is_ranked_by_probability


def test_some_of_the_cases_keep_everything():
    cases = Cases.from_predictions(Y_TRUE, Y_PROBA, clusters=[3, 3, 4, 5], groups=[1, 1, 2, 2])
    some = cases.take(np.array([3, 0]))
    assert some.confidence.tolist() == [0.9, 0.7]
    assert some.target.tolist() == [0, 1]
    assert some.clusters.tolist() == [2, 0]
    assert some.groups.tolist() == [2, 1]
    assert some.labels == cases.labels
    assert some.weight is None


def test_wrong_values_are_refused_where_they_enter():
    with pytest.raises(CorrectnessError, match="'correct'"):
        Cases.from_correctness([0, 2], [0.1, 0.2])
    with pytest.raises(ShapeError, match="'groups'"):
        Cases.from_correctness([0, 1], [0.1, 0.2], groups=["a"])
    with pytest.raises(ShapeError, match="'clusters'"):
        Cases.from_predictions(Y_TRUE, Y_PROBA, clusters=["a"])
    shuffled = pd.Series([0.1, 0.2], index=[1, 0])
    with pytest.raises(ShapeError, match="'correct' and 'clusters'"):
        Cases.from_correctness(pd.Series([0, 1]), [0.1, 0.2], clusters=shuffled)


def test_one_cases_stands_for_both_arguments():
    cases = Cases.from_correctness([0, 1], [0.1, 0.2])
    assert as_cases(cases, None) is cases
    with pytest.raises(ParameterError, match="'labels' must be left out"):
        as_cases(cases, None, labels=[0, 1])
    with pytest.raises(ParameterError, match="'y_proba' must be given"):
        as_cases(Y_TRUE, None)


def test_the_text_tells_what_the_cases_are():
    cases = Cases.from_predictions(
        Y_TRUE, Y_PROBA, sample_weight=[1, 2, 1, 1], clusters=[7, 7, 8, 9], groups=[*"xyxy"]
    )
    assert repr(cases) == (
        "Cases(n=4, accuracy=0.8, labels=('a', 'b', 'c'), weighted, clusters=3, grouped)"
    )

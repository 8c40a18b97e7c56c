from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from tests.reference import coc
from tests.reference import metrics as reference
from tests.strategies import correctness_cases, predictions

import expertload as el
from expertload import Cases, metrics
from expertload.exceptions import ParameterError


def distinct_cases(n=40, seed=0):
    rng = np.random.default_rng(seed)
    confidence = rng.permutation(n) / n
    return (rng.random(n) < confidence).astype(float), confidence


@given(correctness_cases())
def test_aurc_is_the_mean_risk(cases):
    assert metrics.aurc_loss(Cases.from_correctness(*cases)) == pytest.approx(
        1 - coc.thresholds_area(*cases), abs=1e-12
    )


def test_aurc_without_ties_is_the_mean_of_samplewise_risks():
    cases = distinct_cases()
    risks = reference.samplewise_risks(*cases)
    assert metrics.aurc_loss(Cases.from_correctness(*cases)) == pytest.approx(
        risks.mean(), abs=1e-12
    )


@given(correctness_cases())
def test_augrc_equals_the_oracle(cases):
    ours = metrics.augrc_loss(Cases.from_correctness(*cases))
    assert ours == pytest.approx(reference.augrc(*cases), abs=1e-12)


@given(correctness_cases(graded=False))
def test_augrc_and_auroc_say_the_same_of_ranking(cases):
    """Traub et al.: AUGRC = (1 - AUROC) * acc * err + err^2 / 2, equals counting one half."""
    correct, confidence = cases
    accuracy = correct.mean()
    expected = (1 - accuracy) ** 2 / 2
    if 0 < accuracy < 1:
        auroc = sklearn.metrics.roc_auc_score(correct, confidence)
        expected += (1 - auroc) * accuracy * (1 - accuracy)
    assert metrics.augrc_loss(Cases.from_correctness(correct, confidence)) == pytest.approx(
        expected, abs=1e-12
    )


@given(correctness_cases())
def test_excess_is_zero_for_the_best_ranking_and_never_below(cases):
    correct, confidence = cases
    for convention in ("thresholds", "exact"):
        cases = Cases.from_correctness(correct, confidence)
        assert metrics.excess_aurc_loss(cases, convention=convention) >= 0
        best = metrics.excess_aurc_loss(
            Cases.from_correctness(correct, correct), convention=convention
        )
        assert best == pytest.approx(0, abs=1e-12)


@given(correctness_cases(graded=False))
def test_excess_converter(cases):
    correct, confidence = cases
    aucoc = el.aucoc_score(Cases.from_correctness(correct, confidence))
    converted = metrics.excess_aurc_from_aucoc(aucoc, accuracy=correct.mean())
    direct = metrics.excess_aurc_loss(
        Cases.from_correctness(correct, confidence), convention="exact"
    )
    assert converted == pytest.approx(direct, abs=1e-9)


@given(predictions())
def test_names_for_the_same_area(case):
    aurc = metrics.aurc_loss(*case)
    assert metrics.auarc_score(*case) == el.aucoc_score(*case, convention="thresholds")
    assert metrics.aucoc_from_aurc(aurc) == pytest.approx(metrics.auarc_score(*case), abs=1e-15)
    assert metrics.aurc_from_aucoc(metrics.aucoc_from_aurc(aurc)) == pytest.approx(aurc, abs=1e-15)


def test_documented_relation_to_torch_uncertainty():
    correct, confidence = distinct_cases()
    n = len(correct)
    authors = el.aucoc_score(Cases.from_correctness(correct, confidence), convention="authors")
    theirs = reference.torch_uncertainty_aurc(correct, confidence)
    assert theirs == pytest.approx(1 - authors * n / (n - 1), abs=1e-12)


@given(correctness_cases(min_size=2))
def test_documented_relation_to_fd_shifts(cases):
    correct, confidence = cases
    authors = el.aucoc_score(Cases.from_correctness(correct, confidence), convention="authors")
    top = confidence == confidence.max()
    expected = 1000 * (1 - authors - top.mean() * correct[top].mean())
    assert reference.fd_shifts_aurc(correct, confidence) == pytest.approx(expected, abs=1e-9)


def test_bad_convention_and_percentages():
    with pytest.raises(ParameterError, match="'convention'"):
        metrics.aurc_loss(Cases.from_correctness([1, 0], [0.2, 0.3]), convention="authors")
    with pytest.raises(ParameterError, match="'aurc'|'aucoc'"):
        metrics.aurc_from_aucoc(93)

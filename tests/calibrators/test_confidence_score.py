"""What to rank cases by, by name: values, what is learned, and what a file may hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from expertload.calibrators import (
    CONFIDENCE_SCORES,
    ConfidenceScore,
    CorrectnessModel,
    TemperatureScaling,
)
from expertload.exceptions import FileFormatError, NotFittedError, ParameterError

every_score = pytest.mark.parametrize("name", CONFIDENCE_SCORES)


def predictions(n=300, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(classes, 0.5), size=n)
    return proba, (proba.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def test_values_equal_plain_loops():
    proba, _ = predictions()
    expected = {
        "max_probability": [max(row) for row in proba],
        "margin": [sorted(row)[-1] - sorted(row)[-2] for row in proba],
        "gini": [sum(p * p for p in row) for row in proba],
        "entropy": [1 + sum(p * math.log(p) for p in row if p > 0) / math.log(4) for row in proba],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(ConfidenceScore(name).confidence(proba), values, atol=1e-10)


def test_log_probabilities_stand_for_logits():
    """A constant in each row of the logits changes no score of their softmax."""
    from expertload.scores import max_logit_norm_confidence

    logits = np.random.default_rng(0).normal(size=(50, 5)) * 3
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = ConfidenceScore("max_logit_norm").confidence(proba)
    np.testing.assert_allclose(found, max_logit_norm_confidence(logits), rtol=1e-9)


def test_learned_scores_are_those_of_their_models():
    proba, y_true = predictions()
    correctness = CorrectnessModel(input="probabilities").fit(proba, y_true)
    temperature = TemperatureScaling(input="probabilities").fit(proba, y_true)
    found = {n: ConfidenceScore(n).fit(proba, y_true) for n in ("correctness", "temperature")}
    assert np.array_equal(found["correctness"].confidence(proba), correctness.confidence(proba))
    top = temperature.transform(proba).max(axis=1)
    assert np.array_equal(found["temperature"].confidence(proba), top)


@every_score
def test_a_row_has_one_confidence_however_it_comes(name):
    """A threshold is compared with equality: whole, in parts, or transposed in memory."""
    proba, y_true = predictions()
    score = ConfidenceScore(name).fit(proba, y_true)
    whole = score.confidence(proba)
    parts = [score.confidence(proba[k : k + 7]) for k in range(0, len(proba), 7)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert np.array_equal(score.confidence(np.asfortranarray(proba)), whole)


@every_score
def test_what_is_written_is_what_is_read(name):
    proba, y_true = predictions()
    score = ConfidenceScore(name).fit(proba, y_true)
    again = ConfidenceScore.from_dict(json.loads(json.dumps(score.to_dict())))
    assert again == score
    assert np.array_equal(again.confidence(proba), score.confidence(proba))
    assert score != ConfidenceScore("margin" if name != "margin" else "gini")
    assert score != name
    assert repr(again) == f"ConfidenceScore({name!r})"


@every_score
def test_certain_and_two_classes(name):
    proba = np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]] * 4)
    score = ConfidenceScore(name).fit(proba, [0, 1, 1] * 3 + [0, 0, 0])
    certain, torn, between = score.confidence(proba)[:3]
    assert np.isfinite([certain, torn, between]).all()
    assert certain >= between >= torn


def test_what_is_not_fitted_or_not_known_is_a_sentence():
    with pytest.raises(NotFittedError):
        ConfidenceScore("correctness").confidence([[0.5, 0.5]])
    with pytest.raises(NotFittedError):
        ConfidenceScore("temperature").to_dict()
    with pytest.raises(ParameterError, match="'name'"):
        ConfidenceScore("energy")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "energy"},
        {"name": None},
        {"model": None},
        {"model": {"kind": "something else"}},
        {"name": "margin"},
        {"more": 1},
    ],
)
def test_other_documents_are_refused(change):
    proba, y_true = predictions()
    document = ConfidenceScore("correctness").fit(proba, y_true).to_dict()
    with pytest.raises(FileFormatError):
        ConfidenceScore.from_dict({**document, **change})

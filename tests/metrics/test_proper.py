from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from tests.strategies import predictions

from expertload import metrics


@given(predictions())
def test_brier_equals_scikit_learn(case):
    y_true, y_proba = case
    theirs = sklearn.metrics.brier_score_loss(
        y_true, y_proba, labels=range(y_proba.shape[1]), scale_by_half=False
    )
    assert metrics.brier_loss(y_true, y_proba) == pytest.approx(theirs, abs=1e-12)


@given(predictions())
def test_log_loss_equals_scikit_learn(case):
    y_true, y_proba = case
    theirs = sklearn.metrics.log_loss(y_true, y_proba, labels=range(y_proba.shape[1]))
    assert metrics.log_loss(y_true, y_proba) == pytest.approx(theirs, abs=1e-12)


def test_binary_brier_is_twice_the_one_column_kind():
    y_true, p = [0, 1, 1], [0.2, 0.7, 0.4]
    theirs = sklearn.metrics.brier_score_loss(y_true, p)
    assert metrics.brier_loss(y_true, p) == pytest.approx(2 * theirs)


def test_certain_and_wrong_is_finite():
    assert metrics.log_loss([0], [[0.0, 1.0]]) == pytest.approx(-np.log(np.finfo(float).eps))


def test_golden_brier(golden):
    for i in golden.ids:
        logits = golden[f"{i}/logits"]
        proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        ours = metrics.brier_loss(golden[f"{i}/labels"], proba)
        assert ours == pytest.approx(float(golden[f"{i}/brier"]), abs=1e-10)

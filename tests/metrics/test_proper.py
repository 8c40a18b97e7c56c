from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import assume, given
from hypothesis import strategies as st
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
def test_log_loss_equals_scikit_learn_where_nothing_is_clipped(case):
    y_true, y_proba = case
    assume((y_proba[np.arange(len(y_true)), y_true] > 0).all())
    theirs = sklearn.metrics.log_loss(y_true, y_proba, labels=range(y_proba.shape[1]))
    assert metrics.log_loss(y_true, y_proba) == pytest.approx(theirs, abs=1e-12)


def test_binary_brier_is_twice_the_one_column_kind():
    y_true, p = [0, 1, 1], [0.2, 0.7, 0.4]
    theirs = sklearn.metrics.brier_score_loss(y_true, p)
    assert metrics.brier_loss(y_true, p) == pytest.approx(2 * theirs)


@given(st.lists(st.floats(1e-307, 0.5), min_size=1, max_size=9))
def test_log_loss_is_exact_for_every_probability_above_zero(of_true_class):
    """Four cases at 0.01 and one at 1e-50 give 26.7; counting 1e-50 as 2e-16 gave 10.9."""
    exact = -math.fsum(math.log(p) for p in of_true_class) / len(of_true_class)
    proba = np.column_stack([of_true_class, 1 - np.array(of_true_class)])
    assert metrics.log_loss(np.zeros(len(proba), int), proba) == pytest.approx(exact, rel=1e-12)


def test_zero_counts_as_the_smallest_number_of_its_type():
    for dtype, cost in ((np.float64, 708.396), (np.float32, 87.337)):
        proba = np.array([[0, 1]], dtype)
        assert metrics.log_loss([0], proba) == pytest.approx(cost, abs=1e-3)
    # A lower probability never costs less, down to zero.
    costs = [metrics.log_loss([0], [[p, 1 - p]]) for p in (1e-20, 1e-300, 5e-324, 0.0)]
    assert costs == sorted(costs)


def test_golden_brier(golden):
    for i in golden.ids:
        logits = golden[f"{i}/logits"]
        proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        ours = metrics.brier_loss(golden[f"{i}/labels"], proba)
        assert ours == pytest.approx(float(golden[f"{i}/brier"]), abs=1e-10)

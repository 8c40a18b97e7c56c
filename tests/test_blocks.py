"""What is computed some rows at a time is what whole arrays give, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from expertload import Cases, _blocks
from expertload._blocks import blocks
from expertload.cases import pick, top_label
from expertload.tally import cumulative_from_bottom


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(_blocks, "BLOCK", 7)


def some_cases(seed, n=200, *, dtype=np.float64, digits=None):
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    if digits is not None:
        confidence = np.round(confidence, digits)
    return Cases(rng.random(n) < confidence, confidence.astype(dtype), None)


@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 21])
def test_blocks_and_sums(n):
    rows = np.arange(n)
    np.testing.assert_array_equal(np.concatenate([rows[:0], *(rows[b] for b in blocks(n))]), rows)
    values = np.random.default_rng(n).random(n + 1)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    np.testing.assert_array_equal(cumulative_from_bottom(values), sums)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 300])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_top_label(order, n_classes, dtype):
    rng = np.random.default_rng(n_classes)
    proba = np.asarray(rng.integers(0, 4, (50, n_classes)), dtype, order=order)  # many ties
    target = rng.integers(0, n_classes, 50)
    correct, top = top_label(target, proba)
    np.testing.assert_array_equal(correct, proba.argmax(axis=1) == target)
    np.testing.assert_array_equal(top, proba.max(axis=1))
    np.testing.assert_array_equal(pick(proba, target), proba[np.arange(50), target])
    np.testing.assert_array_equal(pick(proba[::2], target[::2]), pick(proba, target)[::2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("digits", [None, 1, 2])
@pytest.mark.parametrize("convention", ["exact", "thresholds"])
def test_the_area_from_counts(dtype, digits, convention):
    for seed in range(20):
        cases = some_cases(seed, 1 + 10 * seed, dtype=dtype, digits=digits)
        for correct in (cases.correct, ~cases.correct, np.ones_like(cases.correct)):
            counted = Cases(correct, cases.confidence)
            expected = pytest.approx(counted.tally.area(convention), abs=1e-12)
            assert counted.aucoc(convention) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("digits", [None, 1])
def test_cases_are_counted(dtype, digits):
    cases = some_cases(1, dtype=dtype, digits=digits)
    table = cases.tally
    distinct, n_cases = np.unique(cases.confidence, return_counts=True)
    n_right = [np.count_nonzero(cases.correct[cases.confidence == c]) for c in distinct]
    np.testing.assert_array_equal(table.confidence, distinct)
    np.testing.assert_array_equal(table.weight, n_cases)
    np.testing.assert_array_equal(table.correct, n_right)


def test_minus_zero_is_zero():
    table = Cases(np.array([True, False]), np.array([0.0, -0.0])).tally
    assert table.confidence.tolist() == [0.0]
    assert not np.signbit(table.confidence[0])

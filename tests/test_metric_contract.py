"""What every metric promises, whatever it measures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import expertload as el
from expertload import metrics
from expertload.exceptions import EmptyInputError, NonFiniteError, ShapeError, WeightError
from tests.metric_registry import METRICS
from tests.strategies import correctness_cases, examples, outlier_cases, predictions, whole_weights

INPUTS = {
    "predictions": predictions(),
    "correctness": correctness_cases(),
    "outlier": outlier_cases(),
}
EXAMPLES = {
    "predictions": (
        np.array([0, 1, 2, 1, 0]),
        np.array([[6, 1, 1], [2, 5, 1], [1, 3, 4], [5, 2, 1], [3, 3, 2]]) / 8,
    ),
    "correctness": (np.array([1, 0, 1, 1, 0]), np.array([7, 6, 5, 5, 3]) / 8),
    "outlier": (np.array([0, 0, 1, 1, 0]), np.array([1.0, 2.0, 2.0, 3.0, 0.5])),
}
each_metric = pytest.mark.parametrize("metric", METRICS, ids=str)
# All metrics of a kind look at the same examples: to draw them takes longer than to measure them.
each_kind = pytest.mark.parametrize("kind", INPUTS)
few = examples(40)


def metrics_of(kind):
    return [metric for metric in METRICS if metric.kind == kind]


@each_kind
@few
@given(data=st.data())
def test_bounds_and_type(kind, data):
    args = data.draw(INPUTS[kind])
    for metric in metrics_of(kind):
        value = metric.function(*args)
        assert type(value) is float, metric
        low, high = metric.bounds
        assert low - 1e-12 <= value <= high + 1e-12, metric


@each_kind
@few
@given(data=st.data())
def test_order_of_rows_does_not_matter(kind, data):
    args = data.draw(INPUTS[kind])
    order = np.array(data.draw(st.permutations(range(len(args[0])))))
    shuffled = [a[order] for a in args]
    for metric in metrics_of(kind):
        expected = pytest.approx(metric.function(*args), abs=1e-12)
        assert metric.function(*shuffled) == expected, metric


def weighted_cases(kind, data):
    """Cases and how often each is there; those with outliers have both sides."""
    args = data.draw(INPUTS[kind])
    weight = data.draw(whole_weights(len(args[0])))
    assume(kind != "outlier" or len(np.unique(args[0][weight > 0])) == 2)
    return args, weight


@pytest.mark.slow
@each_kind
@few
@given(data=st.data())
def test_weights_equal_repeats(kind, data):
    args, weight = weighted_cases(kind, data)
    repeats = [np.repeat(a, weight, axis=0) for a in args]
    classes = {"labels": range(args[1].shape[1])} if kind == "predictions" else {}
    for metric in metrics_of(kind):
        weighted = metric.function(*args, sample_weight=weight, **classes)
        assert weighted == pytest.approx(metric.function(*repeats, **classes), abs=1e-12), metric


@each_kind
@few
@given(data=st.data())
def test_only_relative_weights_matter(kind, data):
    args, weight = weighted_cases(kind, data)
    for metric in metrics_of(kind):
        if metric.weights == "any":
            one = metric.function(*args, sample_weight=weight)
            scaled = metric.function(*args, sample_weight=0.37 * weight)
            assert scaled == pytest.approx(one, abs=1e-9), metric


@pytest.mark.parametrize("kind", ["correctness", "outlier"])
@few
@given(data=st.data())
def test_ranks_alone_matter_to_ranking_metrics(kind, data):
    first, score = data.draw(INPUTS[kind])
    for metric in metrics_of(kind):
        if metric.ranks_only:
            value = metric.function(first, score)
            other = metric.function(first, np.exp(score) * 5 - 2)
            assert other == pytest.approx(value, abs=1e-12), metric


@each_metric
def test_lists_tensors_and_precisions_agree(metric):
    first, second = EXAMPLES[metric.kind]
    expected = metric.function(first, second)
    assert metric.function(first.tolist(), second.tolist()) == expected
    tensor = torch.tensor(second, requires_grad=True)
    assert metric.function(torch.tensor(first), tensor) == expected
    for dtype in (np.float32, np.float16):
        assert metric.function(first, second.astype(dtype)) == pytest.approx(expected, abs=1e-6)
    half = torch.tensor(second, dtype=torch.bfloat16)
    assert metric.function(torch.tensor(first), half) == pytest.approx(expected, abs=1e-6)
    assert metric.function(first, np.asfortranarray(second)) == expected
    assert metric.function(first, second.astype(">f8")) == expected


@each_metric
def test_inputs_are_left_alone(metric):
    args = [a.copy() for a in EXAMPLES[metric.kind]]
    weight = np.ones(len(args[0]))
    for array in (*args, weight):
        array.setflags(write=False)
    metric.function(*args, sample_weight=weight)
    for array, original in zip(args, EXAMPLES[metric.kind], strict=True):
        np.testing.assert_array_equal(array, original)


@each_metric
def test_bad_input_is_named(metric):
    first, second = EXAMPLES[metric.kind]
    with pytest.raises(EmptyInputError):
        metric.function(first[:0], second[:0])
    with pytest.raises(ShapeError, match="rows"):
        metric.function(first[:-1], second)
    with pytest.raises(ShapeError):
        metric.function(first, second, sample_weight=np.ones(len(first) + 1))
    with pytest.raises(WeightError, match="negative"):
        metric.function(first, second, sample_weight=-np.ones(len(first)))
    with pytest.raises(WeightError, match="zero"):
        metric.function(first, second, sample_weight=np.zeros(len(first)))
    for bad in (np.nan, np.inf):
        broken = second.copy()
        broken.flat[2] = bad
        with pytest.raises(NonFiniteError):
            metric.function(first, broken)
        with pytest.raises(NonFiniteError):
            metric.function(first, second, sample_weight=np.full(len(first), bad))


def test_every_public_metric_is_registered():
    registered = {getattr(m.function, "func", m.function).__name__ for m in METRICS}
    public = {
        name
        for module in (el, metrics)
        for name in module.__all__
        if name.endswith(("_score", "_loss", "_error", "_from_correctness")) and "curve" not in name
    }
    assert public <= registered

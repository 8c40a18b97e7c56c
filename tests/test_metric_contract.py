"""What every metric promises, whatever it measures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
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
few = examples(40)


def both_sides_weigh(metric, args, weight):
    return metric.kind != "outlier" or len(np.unique(args[0][weight > 0])) == 2


@each_metric
@few
@given(data=st.data())
def test_bounds_and_type(metric, data):
    value = metric.function(*data.draw(INPUTS[metric.kind]))
    assert type(value) is float
    low, high = metric.bounds
    assert low - 1e-12 <= value <= high + 1e-12


@each_metric
@few
@given(data=st.data())
def test_order_of_rows_does_not_matter(metric, data):
    args = data.draw(INPUTS[metric.kind])
    order = np.array(data.draw(st.permutations(range(len(args[0])))))
    shuffled = metric.function(*(a[order] for a in args))
    assert shuffled == pytest.approx(metric.function(*args), abs=1e-12)


@pytest.mark.slow
@each_metric
@few
@given(data=st.data())
def test_weights_equal_repeats(metric, data):
    args = data.draw(INPUTS[metric.kind])
    weight = data.draw(whole_weights(len(args[0])))
    if not both_sides_weigh(metric, args, weight):
        return
    classes = {"labels": range(args[1].shape[1])} if metric.kind == "predictions" else {}
    weighted = metric.function(*args, sample_weight=weight, **classes)
    repeated = metric.function(*(np.repeat(a, weight, axis=0) for a in args), **classes)
    assert weighted == pytest.approx(repeated, abs=1e-12)


@pytest.mark.parametrize("metric", [m for m in METRICS if m.weights == "any"], ids=str)
@few
@given(data=st.data())
def test_only_relative_weights_matter(metric, data):
    args = data.draw(INPUTS[metric.kind])
    weight = data.draw(whole_weights(len(args[0])))
    if not both_sides_weigh(metric, args, weight):
        return
    one = metric.function(*args, sample_weight=weight)
    assert metric.function(*args, sample_weight=0.37 * weight) == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize(
    "metric", [m for m in METRICS if m.ranks_only and m.kind != "predictions"], ids=str
)
@few
@given(data=st.data())
def test_ranks_alone_matter_to_ranking_metrics(metric, data):
    first, score = data.draw(INPUTS[metric.kind])
    value = metric.function(first, score)
    assert metric.function(first, np.exp(score) * 5 - 2) == pytest.approx(value, abs=1e-12)


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

"""What users of torchmetrics expect: logits by option, dense predictions, an ignored index."""

from __future__ import annotations

import pytest
import torch
from tests.torch_metrics.test_metrics import batch, every_metric, feed, same

from expertload.exceptions import (
    DataTypeError,
    LabelError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)
from expertload.losses.base import _warn_once
from expertload.torch_metrics import AUCOC, COC


@every_metric
@pytest.mark.parametrize("bins", [None, 50])
def test_logits_are_taken_when_told(make, bins):
    proba, target = batch(dtype=torch.float64)
    logits = proba.log() + 3.0
    expected = feed(make(bins=bins), logits.softmax(1), target).compute()
    assert same(feed(make(bins=bins, logits=True), logits, target).compute(), expected)


def test_a_single_column_of_logits_is_that_of_class_one():
    logit = torch.randn(100, generator=torch.Generator().manual_seed(0))
    target = torch.randint(2, (100,), generator=torch.Generator().manual_seed(1))
    expected = feed(AUCOC(), logit.sigmoid(), target).compute()
    for shape in ((100,), (100, 1)):
        assert feed(AUCOC(logits=True), logit.view(shape), target).compute() == expected


@every_metric
def test_logits_are_never_guessed(make):
    with pytest.raises(ProbabilityError, match=r"logits=True to the metric, or preds.softmax"):
        make().update(torch.tensor([[3.0, -1.0]]), torch.tensor([0]))


@every_metric
def test_dense_predictions_are_their_positions(make):
    proba, target = batch(n=120)
    maps = proba.view(2, 60, 4).movedim(2, 1).reshape(2, 4, 6, 10)
    metric = make()
    metric.update(maps, target.view(2, 6, 10))
    assert same(metric.compute(), feed(make(), proba, target).compute())


def test_valid_marks_samples_or_positions_of_dense_predictions():
    proba, target = batch(n=120)
    maps, labels = proba.view(2, 60, 4).movedim(2, 1), target.view(2, 60)
    expected = feed(AUCOC(), proba[:60], target[:60]).compute()
    by_position = torch.zeros(2, 60, dtype=torch.bool)
    by_position[0] = True
    for valid in (torch.tensor([True, False]), by_position):
        metric = AUCOC()
        metric.update(maps, labels, valid=valid)
        assert metric.compute() == expected
    with pytest.raises(ShapeError, match="'valid'"):
        AUCOC().update(maps, labels, valid=torch.ones(3, dtype=torch.bool))


@every_metric
@pytest.mark.parametrize("ignore_index", [-100, 255, 2])
def test_ignored_targets_do_not_count(make, ignore_index):
    proba, target = batch()
    target[::3] = ignore_index
    kept = target != ignore_index
    expected = feed(make(), proba[kept], target[kept]).compute()
    assert same(feed(make(ignore_index=ignore_index), proba, target).compute(), expected)


def test_ignored_and_invalid_rows_go_together():
    proba, target = batch()
    target[:50] = -100
    valid = torch.arange(200) < 150
    metric = AUCOC(ignore_index=-100)
    metric.update(proba, target, valid=valid)
    assert metric.compute() == feed(AUCOC(), proba[50:150], target[50:150]).compute()


def test_shapes_that_do_not_fit_name_the_target():
    with pytest.raises(ShapeError, match=r"target, of shape \(2, 5\)"):
        AUCOC().update(torch.rand(2, 3, 4), torch.zeros(2, 5).long())


def test_the_curve_is_of_tensors():
    curve = feed(COC(), *batch()).compute()
    assert all(isinstance(values, torch.Tensor) for values in curve)
    nothing = COC(ignore_index=0)
    nothing.update(torch.tensor([[0.9, 0.1]]), torch.tensor([0]))
    empty = nothing.compute()
    assert all(isinstance(values, torch.Tensor) and not len(values) for values in empty)


@pytest.mark.parametrize("index", [True, 1.5, "a", [0]])
def test_an_ignored_class_is_a_number(index):
    with pytest.raises(ParameterError, match="'ignore_index'"):
        AUCOC(ignore_index=index)


@pytest.mark.parametrize("preds", [None, "0.5", {"a": 1}])
def test_what_is_no_tensor_is_named(preds):
    with pytest.raises(DataTypeError, match="'preds' must be a tensor"):
        AUCOC().update(preds, torch.tensor([0]))


def test_a_label_out_of_range_points_at_both_ways_to_leave_it_out():
    proba, target = batch()
    target[:5] = -100
    with pytest.raises(LabelError, match=r"Hint: .*ignore_index=-100.*valid="):
        AUCOC().update(proba, target)


def test_a_float_target_points_at_whole_numbers():
    with pytest.raises(DataTypeError, match=r"target.*whole numbers.*Hint: .*\.long\(\)"):
        AUCOC().update(torch.tensor([0.2, 0.9]), torch.tensor([0.0, 1.0]))


def test_labels_that_start_at_one_are_not_taken_for_an_ignored_index():
    proba, target = batch()
    with pytest.raises(LabelError, match="pass target - 1"):
        AUCOC().update(proba, target.clamp_min(1).where(target > 0, proba.shape[1]))


def test_probabilities_given_as_logits_warn_once():
    proba, target = batch()
    _warn_once.cache_clear()
    with pytest.warns(UserWarning, match="look like probabilities"):
        AUCOC(logits=True).update(proba, target)
    AUCOC(logits=True).update(proba, target)  # another warning would be an error here

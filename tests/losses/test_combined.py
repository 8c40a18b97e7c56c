import pickle

import pytest
import torch
from tests.losses.test_baselines import batch
from torch import nn

from expertload.exceptions import ParameterError, ShapeError
from expertload.losses import CombinedLoss, FocalLoss, SoftECELoss, focal_loss, mmce_loss
from expertload.losses.base import gather_rows, on_whole_batch


@pytest.mark.parametrize("weight", [0, 0.5, 3])
def test_parts_add_up(weight):
    logits, target = batch()
    loss = CombinedLoss(nn.CrossEntropyLoss(), mmce_loss, weight=weight)
    parts = loss.parts(logits, target)
    assert parts.primary == nn.functional.cross_entropy(logits, target)
    assert parts.secondary == mmce_loss(logits, target)
    assert parts.total == parts.primary + weight * parts.secondary
    assert loss(logits, target) == parts.total


def test_each_part_is_computed_once():
    calls = []

    def counted(logits, target):
        calls.append(1)
        return focal_loss(logits, target)

    logits, target = batch()
    CombinedLoss(counted, counted).parts(logits, target)
    assert len(calls) == 2


def test_parameters_and_modules_of_the_parts_are_its_own():
    weighted = nn.CrossEntropyLoss(weight=torch.ones(5))
    loss = CombinedLoss(weighted, SoftECELoss()).double()
    assert loss.primary.weight.dtype == torch.float64
    assert "SoftECELoss" in repr(loss)
    logits, target = batch()
    assert pickle.loads(pickle.dumps(loss))(logits, target) == loss(logits, target)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), "1", None])
def test_bad_weight(weight):
    with pytest.raises(ParameterError, match="'weight'"):
        CombinedLoss(FocalLoss(), FocalLoss(), weight=weight)


@pytest.mark.parametrize("name", ["primary", "secondary"])
def test_one_value_a_case_is_refused(name):
    losses = {"primary": FocalLoss(), "secondary": FocalLoss()}
    losses[name] = FocalLoss(reduction="none")
    with pytest.raises(ShapeError, match=f"'{name}' must return"):
        CombinedLoss(**losses)(*batch())


def test_one_process_has_the_loss_as_it_is():
    logits, target = batch()
    expected = nn.functional.cross_entropy(logits, target)
    assert torch.equal(on_whole_batch(nn.CrossEntropyLoss(), logits, target), expected)
    assert gather_rows(logits)[0] is logits


def test_a_loss_of_one_value_a_case_is_refused_for_the_whole_batch():
    with pytest.raises(ShapeError, match="'loss' must return"):
        on_whole_batch(FocalLoss(reduction="none"), *batch())

"""Reading logits and targets as cross-entropy does."""

from __future__ import annotations

import pytest
import torch

from expertload.exceptions import (
    DataTypeError,
    LabelError,
    ParameterError,
    ShapeError,
)
from expertload.losses import AUCOCLoss, AUCOCUpperBoundLoss, FocalLoss, MMCELoss, SoftECELoss
from expertload.losses.base import labelled, labelled_rows


def test_positions_are_flattened_and_ignored_ones_dropped():
    logits = torch.arange(24.0).view(2, 3, 4)
    target = torch.tensor([[0, 1, -100, 2], [2, -100, 1, 0]], dtype=torch.int32)
    flat, labels = labelled_rows(logits, target, ignore_index=-100)
    assert labels.tolist() == [0, 1, 2, 2, 1, 0]
    assert labels.dtype == torch.int64
    assert flat[0].tolist() == logits[0, :, 0].tolist()
    assert flat[-1].tolist() == logits[1, :, 3].tolist()


def test_a_class_may_be_ignored():
    keep = labelled(torch.tensor([0, 1, 2]), 3, ignore_index=1)
    assert keep.tolist() == [True, False, True]


def test_labels_elsewhere_are_not_looked_at():
    target = torch.zeros(3, dtype=torch.long, device="meta")
    assert labelled(target, 3, ignore_index=None) is None
    assert labelled(target, 3, ignore_index=-100).device.type == "meta"


def test_errors_name_the_argument():
    with pytest.raises(ShapeError, match="must have shape"):
        labelled_rows(torch.zeros(3, 2), torch.zeros(2).long(), ignore_index=None)
    with pytest.raises(LabelError, match="numbers from 0 to 5"):
        labelled_rows(torch.zeros(2, 2), torch.tensor([0, 5]), ignore_index=-100)


@pytest.mark.parametrize("index", [True, False, 1.5, "a", [0]])
@pytest.mark.parametrize("loss", [AUCOCLoss, AUCOCUpperBoundLoss, MMCELoss, SoftECELoss, FocalLoss])
def test_an_ignored_class_is_a_number(loss, index):
    """True is 1 to Python: it would leave out a class without a word."""
    logits, target = torch.zeros(4, 3), torch.tensor([0, 1, 2, 1])
    with pytest.raises(ParameterError, match="'ignore_index' must be a whole number or None"):
        loss(ignore_index=index)(logits, target)


@pytest.mark.parametrize("loss", [AUCOCLoss, AUCOCUpperBoundLoss, MMCELoss, SoftECELoss, FocalLoss])
def test_what_is_no_tensor_is_named(loss):
    logits, target = torch.zeros(4, 3), torch.tensor([0, 1, 2, 1])
    with pytest.raises(DataTypeError, match="'logits' must be a tensor. Got a ndarray"):
        loss()(logits.numpy(), target)
    with pytest.raises(DataTypeError, match="'target' must be a tensor. Got a list"):
        loss()(logits, target.tolist())


@pytest.mark.parametrize("target", [torch.tensor([0, 1]), torch.tensor([0.0, 1.0])])
@pytest.mark.parametrize("loss", [AUCOCLoss(), FocalLoss(), MMCELoss()])
def test_a_single_logit_is_told_how_to_become_two_columns(loss, target):
    logits = torch.tensor([[0.5], [-1.0]])
    with pytest.raises(
        (LabelError, DataTypeError), match=r"Hint: for the single logit.*zeros_like"
    ):
        loss(logits, target)
    told = torch.cat((torch.zeros_like(logits), logits), 1)
    assert torch.isfinite(loss(told, target.long()))

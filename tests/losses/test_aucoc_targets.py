"""AUCOCLoss with the targets that people bring: soft ones, and the single logit of two classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.losses.test_aucoc_loss import PAPER, REFLECTED, batch, value_and_gradient
from tests.reference import aucoc_loss as reference
from torch import nn
from torch.nn.functional import one_hot

from expertload.exceptions import DataTypeError, LabelError, ProbabilityError
from expertload.losses import AUCOCLoss, CombinedLoss, aucoc_loss, mmce_loss

FORMS = [{}, PAPER, REFLECTED]


def mixed(logits, target, share=0.7):
    """Targets as mixup makes them."""
    hot = one_hot(target, logits.shape[1]).to(logits.dtype)
    return share * hot + (1 - share) * hot.flip(0)


@pytest.mark.parametrize(
    "options", [*FORMS, {"correctness": "hard"}, {"correctness": "hard", **PAPER}]
)
def test_one_hot_targets_are_class_numbers(options):
    logits, target = batch()
    hot = one_hot(target, 5).double()
    numbers = value_and_gradient(logits, target, **options)
    for found, expected in zip(value_and_gradient(logits, hot, **options), numbers, strict=True):
        torch.testing.assert_close(found, expected)


def test_soft_targets_against_autograd_through_the_value():
    """The loss is -log of a weighted sum of s = sum_j t_j p_j; the weights are held fixed."""
    logits, target = batch(30)
    soft = mixed(logits, target)
    options = {"gradient": "correctness", "method": "exact", **PAPER}
    value, grad = value_and_gradient(logits, soft, **options)
    leaf = logits.clone().requires_grad_()
    p = leaf.softmax(1)
    r = p.detach().amax(1).numpy()
    _, weight, _ = reference.area_and_gradient(r, r, reference.Kernel(reference.scott(r)))
    expected = -((soft * p).sum(1) * torch.as_tensor(np.array(weight))).sum().log()
    expected.backward()
    assert value.item() == pytest.approx(expected.item())
    torch.testing.assert_close(grad, leaf.grad)


def test_hard_correctness_of_a_soft_target_is_its_share_of_the_top_class():
    logits, _ = batch(50)
    sure = torch.zeros(50, 5, dtype=torch.float64)
    sure[:, 0] = 0.25
    sure[:, 1] = 0.75
    share = sure.gather(1, logits.argmax(1, keepdim=True)).mean()
    flat = torch.zeros_like(logits).scatter_(1, logits.argmax(1, keepdim=True), 1.0)
    value = aucoc_loss(flat, sure, correctness="hard")  # equal confidences: the mean correctness
    assert float(value) == pytest.approx(-np.log(float(share)))


@pytest.mark.parametrize("shape", [(40,), (40, 1), (20, 1, 2)])
@pytest.mark.parametrize("options", FORMS)
def test_a_single_logit_is_two_classes(shape, options):
    generator = torch.Generator().manual_seed(0)
    logit = torch.randn(shape, generator=generator, dtype=torch.float64)
    target = (torch.rand(shape, generator=generator) < 0.5).double()
    flat, labels = logit.flatten(), target.flatten().long()
    expected, expected_grad = value_and_gradient(
        torch.stack((torch.zeros_like(flat), flat), 1), labels, **options
    )
    for given in (target, target.long()):
        value, grad = value_and_gradient(logit, given, **options)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(grad.flatten(), expected_grad[:, 1])


def test_it_stands_beside_binary_cross_entropy():
    logit = torch.randn(30, 1, requires_grad=True)
    target = torch.randint(0, 2, (30, 1)).float()
    loss = CombinedLoss(nn.BCEWithLogitsLoss(), AUCOCLoss(), weight=0.1)(logit, target)
    loss.backward()
    assert torch.isfinite(logit.grad).all()


def test_segmentation_maps_have_soft_targets_too():
    logits, target = batch(24)
    soft = mixed(logits, target)
    maps = [t.view(2, 12, 5).movedim(2, 1).reshape(2, 5, 3, 4) for t in (logits, soft)]
    value, grad = value_and_gradient(*maps)
    expected, expected_grad = value_and_gradient(logits, soft)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad.flatten(2).movedim(1, 2).reshape(24, 5), expected_grad)


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        (torch.full((4, 3), 0.5), ProbabilityError, "sum to one"),
        (torch.tensor([[1.5, -0.5, 0.0]] * 4), ProbabilityError, "from -0.5 to 1.5"),
        (torch.full((4, 3), torch.nan), ProbabilityError, "nan"),
        (torch.zeros(4, 2), DataTypeError, "class numbers"),
    ],
)
def test_targets_that_are_no_probabilities_are_refused(target, error, words):
    with pytest.raises(error, match=words):
        aucoc_loss(torch.zeros(4, 3), target)


def test_one_column_with_class_numbers_stays_one_class():
    """Only logits and targets of one shape are a binary task; nothing is guessed."""
    with pytest.raises(LabelError, match=r"from 0 to 0.*single logit of a binary task.*zeros_like"):
        aucoc_loss(torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]))


def test_calibration_losses_want_class_numbers():
    with pytest.raises(DataTypeError, match="class numbers"):
        mmce_loss(torch.zeros(4, 3), torch.full((4, 3), 1 / 3))

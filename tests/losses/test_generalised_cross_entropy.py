import pytest
import torch
from tests.losses.test_baselines import batch, value_and_gradient
from torch.nn.functional import cross_entropy

from expertload.losses import (
    GeneralisedCrossEntropyLoss,
    build_loss,
    generalised_cross_entropy_loss,
)


def loss_of(q):
    return GeneralisedCrossEntropyLoss(q=q)


@pytest.mark.parametrize("q", [0.0, 1e-12, 1e-7])
def test_it_tends_to_cross_entropy(q):
    logits, target = batch()
    expected = value_and_gradient(cross_entropy, logits, target)
    found = value_and_gradient(loss_of(q), logits, target)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_at_one_it_is_the_probability_of_the_other_classes():
    logits, target = batch()
    missing = 1 - logits.softmax(1).gather(1, target[:, None]).mean()
    torch.testing.assert_close(loss_of(1.0)(logits, target), missing)


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_a_case_weighs_as_much_as_its_true_class_is_probable(q):
    """The gradient is that of cross-entropy, times p ** q: hopeless cases are let go."""
    logits, target = batch()
    _, plain = value_and_gradient(cross_entropy, logits, target)
    _, found = value_and_gradient(loss_of(q), logits, target)
    p = logits.softmax(1).gather(1, target[:, None])
    torch.testing.assert_close(found, plain * p**q)


def test_a_certain_error_costs_a_finite_price_and_pulls_at_nothing():
    logits = torch.tensor([[1000.0, 0.0]])
    value, gradient = value_and_gradient(loss_of(0.1), logits, torch.tensor([1]))
    assert value == pytest.approx(10)
    assert not gradient.any()


def test_reductions_agree():
    logits, target = batch()
    target[3] = -100
    per_case = generalised_cross_entropy_loss(logits, target, reduction="none")
    assert per_case[3] == 0
    total = generalised_cross_entropy_loss(logits, target, reduction="sum")
    torch.testing.assert_close(total, per_case.sum())
    torch.testing.assert_close(generalised_cross_entropy_loss(logits, target), per_case.sum() / 39)


def test_by_name():
    logits, target = batch()
    assert build_loss("gce", q=0.3)(logits, target) == loss_of(0.3)(logits, target)
    pair = build_loss("gce+aucoc", weight=0.1, primary_options={"q": 0.3})
    assert torch.isfinite(pair(logits, target))

import math

import torch
from tests.losses.test_baselines import batch, value_and_gradient

from expertload.losses import soft_avuc_loss


def test_entropy_is_measured_against_its_largest_value():
    """Uniform over 2 of 4 classes has half of the largest entropy, log 4."""
    logits = torch.tensor([[30.0, 30.0, 0.0, 0.0]], dtype=torch.float64)
    logits[0, 0] += 1e-9
    entropy = math.log(2)
    value = soft_avuc_loss(logits, torch.tensor([0]), threshold=0.5)  # so t = 1/2
    expected = math.log(1 + math.tanh(entropy) / (1 - math.tanh(entropy)))
    torch.testing.assert_close(value.item(), expected, rtol=1e-6, atol=0)


def test_right_cases_are_pushed_to_certainty_and_wrong_ones_to_doubt():
    logits, _ = batch(n=20)
    predicted = logits.argmax(1)
    other = (predicted + 1) % 5
    target = torch.where(torch.arange(20) < 10, predicted, other)
    _, gradient = value_and_gradient(soft_avuc_loss, logits, target)
    top = gradient.gather(1, predicted[:, None])[:, 0]
    assert (top[:10] < 0).float().mean() > 0.8
    assert (top[10:] > 0).float().mean() > 0.8


def test_confident_errors_alone_give_a_large_but_finite_loss():
    logits = torch.tensor([[200.0, 0.0]] * 6)
    value = soft_avuc_loss(logits, torch.ones(6, dtype=torch.long))
    assert 10 < value < 20

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses.test_baselines import batch, value_and_gradient

from expertload.losses import mmce_loss
from expertload.losses.calibration import kernel_sums


def dense_form(position, coefficient, width):
    kernel = torch.exp(-(position[:, None] - position).abs() / width)
    return coefficient @ kernel @ coefficient


@given(
    n=st.integers(0, 60),
    levels=st.sampled_from([1, 3, 1000]),
    width=st.sampled_from([0.1, 0.4, 2.0]),
    seed=st.integers(0, 10_000),
)
def test_sorted_sums_equal_all_pairs(n, levels, width, seed):
    """Values and slopes; a few levels make many equal positions."""
    generator = torch.Generator().manual_seed(seed)
    position = torch.randint(levels + 1, (n,), generator=generator).double() / levels
    coefficient = torch.randn(n, generator=generator, dtype=torch.float64)
    leaves = position.clone().requires_grad_(), coefficient.clone().requires_grad_()
    by_position, by_coefficient = torch.autograd.grad(dense_form(*leaves, width), leaves)
    form = leaves[1] @ kernel_sums(*leaves, width)
    slopes = torch.autograd.grad(form, leaves)
    torch.testing.assert_close(slopes, (by_position, by_coefficient), rtol=1e-10, atol=1e-9)


def test_a_large_batch_agrees_with_all_pairs():
    generator = torch.Generator().manual_seed(0)
    position = torch.rand(3000, generator=generator, dtype=torch.float64)
    coefficient = torch.randn(3000, generator=generator, dtype=torch.float64) / 3000
    torch.testing.assert_close(
        coefficient @ kernel_sums(position, coefficient, 0.4),
        dense_form(position, coefficient, 0.4),
        rtol=1e-11,
        atol=1e-14,
    )


@pytest.mark.slow
def test_a_million_cases_need_no_pairs():
    logits, target = batch(n=1_000_000, classes=3, dtype=torch.float32)
    value, gradient = value_and_gradient(mmce_loss, logits, target)
    assert value.isfinite()
    assert gradient.isfinite().all()


def test_a_group_that_is_missing_adds_nothing():
    """All right: what is left is the mean over pairs of (1 - r)(1 - r') k."""
    logits = torch.tensor([[1.0, 0.0], [3.0, 0.0]], dtype=torch.float64)
    r = torch.softmax(logits, 1).amax(1)
    for target, gap in ((0, 1 - r), (1, r)):
        expected = (dense_form(r, gap, 0.4) / 4).sqrt()
        torch.testing.assert_close(mmce_loss(logits, torch.full((2,), target)), expected)


def test_repeating_the_batch_changes_nothing():
    logits, target = batch()
    repeated = mmce_loss(logits.repeat(3, 1), target.repeat(3))
    torch.testing.assert_close(repeated, mmce_loss(logits, target))


@pytest.mark.parametrize("shift", [1e-3, 1e-6])
def test_gradient_is_bounded_next_to_perfect_calibration(shift):
    """The root's slope grows without bound at zero; the slope of what is under it must win."""
    logits = torch.tensor([[30.0 + shift, 0.0], [25.0, 0.0]], dtype=torch.float64)
    _, gradient = value_and_gradient(mmce_loss, logits, torch.tensor([0, 0]))
    assert gradient.abs().max() < 1

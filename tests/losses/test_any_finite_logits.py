"""Finite logits of any size give finite gradients, and the right ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples

from expertload.losses import AUCOCLoss, build_loss
from expertload.losses.base import Gradient, confidence_loss
from expertload.losses.build import PRIMARY, SECONDARY

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
LOSSES = [(name, {}) for name in (*PRIMARY, *SECONDARY)]
LOSSES += [
    ("aucoc", options)
    for options in (
        {"smoothing": "log_odds"},
        {"smoothing": "log_odds", "correctness": "hard"},
        {"smoothing": "log_odds", "bandwidth": 0.1},
        {"smoothing": "log_odds", "method": "exact"},
        {"bandwidth": 0.1},
        {"boundary": "reflect"},
    )
]
# Cross-entropy has no largest value. Where the dtype has none for it, it is infinite.
UNBOUNDED = {"ce", "focal", "adafocal53"}
sizes = st.sampled_from([0.0, 1e-30, 1.0, 30.0, 100.0, 1e3, 6e4, 1e10, 1e20, 1e30, 1e38, 1e300])


def value_and_gradient(name, options, logits, target):
    return value_and_gradient_of(build_loss(name, **options), logits, target)


def value_and_gradient_of(loss, logits, target):
    inputs = logits.clone().requires_grad_()
    value = loss(inputs, target)
    return value.detach(), *torch.autograd.grad(value, inputs)


@st.composite
def batches(draw):
    dtype = draw(st.sampled_from(DTYPES))
    n, n_classes = draw(st.integers(1, 12)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    chosen = np.array(draw(st.lists(sizes, min_size=1, max_size=3)))
    shape = (n, n_classes) if draw(st.booleans()) else (n, 1)  # one size a row, or for each logit
    logits = rng.choice(chosen, shape) * rng.choice([-1.0, 0.0, 0.3, 1.0], (n, n_classes))
    largest = torch.finfo(dtype).max
    target = torch.from_numpy(rng.integers(0, n_classes, n))
    return torch.from_numpy(logits).clamp(-largest, largest).to(dtype), target


@pytest.mark.parametrize(("name", "options"), LOSSES)
@examples(60)
@given(batch=batches())
def test_gradients_are_finite(name, options, batch):
    logits, target = batch
    value, gradient = value_and_gradient(name, options, logits, target)
    assert torch.isfinite(gradient).all()
    assert not torch.isnan(value)
    held = len(target) * float(logits.abs().max()) < torch.finfo(value.dtype).max / 4
    assert torch.isfinite(value) or (name in UNBOUNDED and not held)


def by_hand(logits, target, by_top, by_target, *, log_odds):
    """The gradient of the module's docstring; each softmax is of the logits themselves."""
    z = logits.double()
    first = torch.from_numpy(logits.double().numpy().argmax(1))
    top = torch.nn.functional.one_hot(first, logits.shape[1]).double()
    p = z.softmax(1)
    q = z.masked_fill(top == 1, -torch.inf).softmax(1) if log_odds else p
    if not target.is_floating_point():
        true = torch.nn.functional.one_hot(target, logits.shape[1]).double()
    else:
        weight = target.double() * (z - z.amax(1, keepdim=True)).exp()  # no target is zero
        true = weight / weight.sum(1, keepdim=True)
    return by_top[:, None] * (top - q) + by_target[:, None] * (true - p)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("log_odds", [False, True])
@pytest.mark.parametrize("size", [1.0, 50.0, 1e4, 1e10, 1e30, 3e38])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_right(dtype, size, log_odds, soft):
    rng = np.random.default_rng(1)
    size = min(size, torch.finfo(dtype).max)
    logits = rng.normal(0, 1, (64, 4)) * rng.choice([1.0, size], (64, 4))
    logits[:16] = rng.choice([-1.0, 0.5, 1.0], (16, 4)) * size  # equal ones
    logits[16:32] += rng.choice([-1.0, 1.0], (16, 1)) * size  # far from zero, near each other
    logits = torch.from_numpy(logits).clamp(-size, size).to(dtype)
    target = torch.from_numpy(rng.integers(0, 4, 64))
    if soft:
        target = torch.from_numpy(rng.dirichlet([1.0] * 4, 64)).to(dtype)
    rows = torch.from_numpy(rng.normal(0, 1, (2, 64)))
    inputs = logits.clone().requires_grad_()
    loss = confidence_loss(
        inputs,
        target,
        lambda _: Gradient(torch.zeros(()), *rows),
        ignore_index=-100,
        log_odds=log_odds,
        any_target=True,
    )
    (found,) = torch.autograd.grad(loss, inputs)
    wanted = by_hand(logits, target, *rows, log_odds=log_odds)
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), wanted, rtol=tolerance, atol=tolerance + 1e-6)


@pytest.mark.parametrize("size", [1e10, 1e30])
def test_certain_answers_are_learned_from_in_log_odds(size):
    """As for infinite certainty, only what is wrong has a gradient, and it is that of s."""
    logits = torch.tensor([[size, 0.0, 0.5], [0.0, size, -1.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.3]])
    target = torch.tensor([0, 1, 0, 2])
    found = value_and_gradient_of(AUCOCLoss(), logits, target)
    cut = value_and_gradient_of(AUCOCLoss(), logits.clamp(max=200), target)
    torch.testing.assert_close(found, cut)  # beyond 88, log odds are cut off


@pytest.mark.parametrize("smoothing", ["probability", "log_odds"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_given_width_smooths_nothing_where_all_confidences_are_one(smoothing, dtype):
    """The curve of equal confidences is flat, at the mean; a kernel at the end 1 would see none."""
    logits = torch.full((20, 3), -100.0, dtype=dtype)
    logits[:, 0] = 100
    loss = AUCOCLoss(smoothing=smoothing, bandwidth=0.1)
    value, gradient = value_and_gradient_of(loss, logits, torch.arange(20) % 2)
    assert value.item() == pytest.approx(np.log(2), abs=1e-6)
    assert gradient.abs().max() < 1e-6

"""AUCOCLoss with a memory: the curve of this batch and the past, learning from this batch alone."""

from __future__ import annotations

import pytest
import torch

from expertload.exceptions import ParameterError
from expertload.losses import AUCOCLoss, aucoc_loss, build_loss


def batch(n, seed, classes=4):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, classes, (n,), generator=generator)


def value_and_gradient(loss, logits, target):
    logits = logits.clone().requires_grad_()
    value = loss(logits, target)
    value.backward()
    return value.item(), logits.grad


@pytest.mark.parametrize(
    "options", [{}, {"estimator": "rank"}, {"correctness": "hard"}, {"gradient": "correctness"}]
)
def test_it_is_the_loss_of_all_batches_together(options):
    loss = AUCOCLoss(memory=100, **options)
    batches = [batch(n, seed) for seed, n in enumerate((30, 20, 10))]
    found = [value_and_gradient(loss, *one) for one in batches][-1]

    logits, target = (torch.cat(parts) for parts in zip(*reversed(batches), strict=True))
    value, gradient = value_and_gradient(lambda *b: aucoc_loss(*b, **options), logits, target)
    assert found[0] == pytest.approx(value, abs=1e-12)
    # Six times as many samples share the gradient of the whole.
    torch.testing.assert_close(found[1], 6 * gradient[:10], rtol=0, atol=1e-12)


def test_without_a_past_it_changes_nothing():
    found = value_and_gradient(AUCOCLoss(memory=64), *batch(16, 0))
    expected = value_and_gradient(aucoc_loss, *batch(16, 0))
    assert found[0] == expected[0]
    assert torch.equal(found[1], expected[1])


def test_the_oldest_are_forgotten():
    short, long = AUCOCLoss(memory=12), AUCOCLoss(memory=1000)
    short(*batch(50, 0))
    logits, target = batch(12, 1)
    for loss in (short, long):
        loss(logits, target)
    assert short(*batch(9, 2)) == long(*batch(9, 2))


def test_a_batch_larger_than_the_memory():
    loss = AUCOCLoss(memory=5)
    loss(*batch(50, 0))
    assert loss.memory.past.shape == (2, 5)


def test_ignored_samples_are_neither_learned_from_nor_remembered():
    logits, target = batch(20, 0)
    target[::2] = -100
    with_gaps, without = AUCOCLoss(memory=50), AUCOCLoss(memory=50)
    for _ in range(2):
        first, gradient = value_and_gradient(with_gaps, logits, target)
        second, expected = value_and_gradient(without, logits[1::2], target[1::2])
    assert first == pytest.approx(second, abs=1e-12)
    torch.testing.assert_close(gradient[1::2], expected, rtol=0, atol=1e-12)
    assert not gradient[::2].any()
    assert torch.equal(with_gaps.memory.past, without.memory.past)


def test_a_batch_that_is_all_ignored_learns_nothing():
    loss = AUCOCLoss(memory=50)
    logits, target = batch(20, 0)
    loss(logits, target)
    before = loss.memory.past
    value, gradient = value_and_gradient(loss, logits, torch.full_like(target, -100))
    assert value == 0
    assert not gradient.any()
    assert torch.equal(loss.memory.past, before)
    assert loss(logits[:0], target[:0]) == 0


def test_a_batch_that_is_no_number_is_forgotten():
    loss, plain = AUCOCLoss(memory=50), AUCOCLoss(memory=50)
    for one in (loss, plain):
        one(*batch(20, 0))
    logits, target = batch(20, 1)
    assert loss(torch.full_like(logits, float("nan")), target).isnan()
    assert loss(logits, target) == plain(logits, target)


def test_evaluation_is_not_remembered():
    loss = AUCOCLoss(memory=50).eval()
    loss(*batch(20, 0))
    with torch.no_grad():
        loss.train()(*batch(20, 0))
    assert loss.memory.past.shape == (2, 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_precision_for_the_network_leaves_the_past_alone(dtype):
    loss, other = AUCOCLoss(memory=50), AUCOCLoss(memory=50)
    for one in (loss, other):
        one(*batch(20, 0))
    assert loss.to(dtype)(*batch(20, 1)) == other(*batch(20, 1))


def test_its_state_goes_on_in_another_process():
    loss = AUCOCLoss(memory=50)
    loss(*batch(20, 0))
    other = AUCOCLoss(memory=50)
    other.load_state_dict(loss.state_dict())
    assert other(*batch(20, 1)) == loss(*batch(20, 1))


def test_without_a_memory_there_is_no_state():
    assert not AUCOCLoss().state_dict()


def test_a_memory_is_built_by_name_and_shown():
    assert build_loss("ce+aucoc", memory=10).secondary.memory.size == 10
    assert "memory=10" in repr(AUCOCLoss(memory=10))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": -1}, "at least 0"),
        ({"memory": 1.5}, "whole number"),
        ({"memory": 10, "sync_distributed": True}, "the samples of one process"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ParameterError, match=words):
        AUCOCLoss(**options)

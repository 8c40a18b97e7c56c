"""Losses that follow each case through training: against plain loops, and what they remember."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import baseline_losses as oracle
from tests.strategies import examples

from expertload.exceptions import DataTypeError, ParameterError, ShapeError
from expertload.losses import (
    AUCOCLoss,
    CombinedLoss,
    CorrectnessRankingLoss,
    SelfAdaptiveLoss,
    build_loss,
    self_adaptive_loss,
)

MODULES = [SelfAdaptiveLoss, CorrectnessRankingLoss]
every_module = pytest.mark.parametrize("module", MODULES)


def epochs(n_cases=12, n_epochs=4, batch_size=5, classes=3, seed=0, dtype=torch.float64):
    """Batches of several epochs in random order; a case keeps its label, its logits change."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n_cases,), generator=generator)
    for _ in range(n_epochs):
        for cases in torch.randperm(n_cases, generator=generator).split(batch_size):
            logits = 2 * torch.randn(len(cases), classes, generator=generator, dtype=dtype)
            yield logits, labels[cases], cases


def run(loss, batches):
    return [loss(*batch[:2], cases=batch[2]).item() for batch in batches]


def as_lists(batches):
    return [tuple(part.tolist() for part in batch) for batch in batches]


@examples(25)
@given(
    seed=st.integers(0, 1000),
    n_cases=st.integers(1, 20),
    batch_size=st.integers(1, 8),
    momentum=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    start=st.integers(0, 3),
)
def test_self_adaptive_training_is_the_algorithm(seed, n_cases, batch_size, momentum, start):
    batches = list(epochs(n_cases, batch_size=batch_size, seed=seed))
    found = run(SelfAdaptiveLoss(momentum=momentum, start=start), batches)
    assert found == pytest.approx(
        oracle.self_adaptive_training(as_lists(batches), momentum, start), rel=1e-10
    )


@examples(25)
@given(seed=st.integers(0, 1000), n_cases=st.integers(1, 20), batch_size=st.integers(1, 8))
def test_correctness_ranking_is_the_papers(seed, n_cases, batch_size):
    batches = list(epochs(n_cases, batch_size=batch_size, seed=seed))
    found = run(CorrectnessRankingLoss(), batches)
    expected = oracle.correctness_ranking_training(as_lists(batches))
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-15)


def test_before_targets_move_it_is_cross_entropy():
    for logits, target, cases in epochs(n_epochs=3):
        found = SelfAdaptiveLoss(start=3)(logits, target, cases=cases)
        torch.testing.assert_close(found, torch.nn.functional.cross_entropy(logits, target))


def test_the_gradient_holds_the_targets_fixed():
    first, second = list(epochs(n_cases=6, batch_size=6, n_epochs=2))
    loss = SelfAdaptiveLoss(momentum=0.5, start=0)
    run(loss, [first])
    leaf = second[0].clone().requires_grad_()
    loss(leaf, second[1], cases=second[2]).backward()
    soft = loss.seen.rows[second[2], 1:]
    twin = second[0].clone().requires_grad_()
    self_adaptive_loss(twin, second[1], soft_target=soft).backward()
    assert torch.equal(leaf.grad, twin.grad)
    assert leaf.grad.abs().max() > 1e-3


@every_module
def test_what_is_remembered_is_saved_with_the_loss(module):
    batches = list(epochs())
    whole, half = module(), module()
    expected = run(whole, batches)
    run(half, batches[:7])
    file = io.BytesIO()
    torch.save(half.state_dict(), file)
    file.seek(0)
    again = module()
    again.load_state_dict(torch.load(file, weights_only=True))
    assert run(again, batches[7:]) == expected[7:]
    state = whole.state_dict()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, state[name])


@every_module
@pytest.mark.parametrize("how", ["eval", "no_grad"])
def test_nothing_is_learned_of_cases_where_nothing_is_trained(module, how):
    batches = list(epochs())
    loss = module()
    run(loss, batches[:9])
    before = copy.deepcopy(loss.state_dict())
    with torch.set_grad_enabled(how != "no_grad"):
        run(loss.train(how != "eval"), batches[9:])
    for name, tensor in loss.state_dict().items():
        assert torch.equal(tensor, before[name])


@every_module
def test_ignored_cases_are_not_remembered(module):
    """A batch with ignored rows is the batch without them."""
    padded, plain = module(), module()
    for logits, target, cases in epochs():
        more = torch.cat((logits, 9 * torch.randn(3, 3).double()))
        labels = torch.cat((target, torch.full((3,), -100)))
        numbers = torch.cat((cases, torch.tensor([2, 400, 3])))
        assert padded(more, labels, cases=numbers) == plain(logits, target, cases=cases)
    assert len(padded.seen.rows) < 400


@every_module
def test_a_batch_without_cases(module):
    loss = module()
    run(loss, epochs(n_epochs=2))
    before = loss.seen.rows.clone()
    for n in (0, 3):
        logits = torch.randn(n, 3).double().requires_grad_()
        ignored = torch.full((n,), -100)
        value = loss(logits, ignored, cases=torch.arange(n))
        value.backward()
        assert value == 0
        assert (logits.grad == 0).all()
    assert torch.equal(loss.seen.rows, before)


@every_module
def test_dense_positions_are_cases_of_their_own(module):
    dense, flat = module(), module()
    for logits, target, cases in epochs(n_cases=12, batch_size=6):
        grid = logits.reshape(1, 2, 3, 3).movedim(-1, 1)
        found = dense(grid, target.reshape(1, 2, 3), cases=cases.reshape(1, 2, 3))
        assert found == flat(logits, target, cases=cases)


@every_module
def test_half_precision_is_remembered_in_single(module):
    loss, single = module(), module()
    for logits, target, cases in epochs(dtype=torch.bfloat16):
        assert loss(logits, target, cases=cases) == single(logits.float(), target, cases=cases)
    assert loss.seen.rows.dtype == torch.float32


def test_a_case_that_comes_twice_moves_once_to_the_mean():
    loss = SelfAdaptiveLoss(momentum=0.5, start=0)
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    loss(logits, torch.tensor([1, 1]), cases=torch.tensor([4, 4]))
    mean = logits.softmax(1).mean(0)
    expected = 0.5 * torch.tensor([0.0, 1.0]) + 0.5 * mean
    torch.testing.assert_close(loss.seen.rows[4], torch.cat((torch.ones(1), expected)))
    ranking = CorrectnessRankingLoss()
    ranking(logits, torch.tensor([1, 1]), cases=torch.tensor([4, 4]))
    assert ranking.seen.rows[4].tolist() == [2.0, 1.0]


def test_a_prediction_that_is_not_a_number_moves_no_target():
    loss = SelfAdaptiveLoss(momentum=0.5, start=0)
    logits = torch.tensor([[torch.nan, 0.0], [0.0, 1.0]])
    assert loss(logits, torch.tensor([0, 1]), cases=torch.tensor([0, 1])).isnan()
    assert loss.seen.rows[:2].isfinite().all()
    assert loss.seen.rows[0].tolist() == [1.0, 1.0, 0.0]


def test_a_class_that_is_ruled_out_costs_nothing():
    loss = SelfAdaptiveLoss(momentum=0.5, start=0)
    logits = torch.tensor([[1.0, 0.0, -torch.inf]], requires_grad=True)
    value = loss(logits, torch.tensor([1]), cases=torch.tensor([0]))
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()


def test_a_new_case_is_compared_with_none():
    loss = CorrectnessRankingLoss()
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    loss(logits[:2], torch.tensor([0, 0]), cases=torch.tensor([0, 1]))
    assert loss(logits[1:], torch.tensor([0, 0]), cases=torch.tensor([1, 2])) == 0
    assert loss(logits[:2], torch.tensor([0, 0]), cases=torch.tensor([0, 1])) > 0


@pytest.mark.parametrize(
    ("cases", "error", "words"),
    [
        (None, ParameterError, "follows each case through training.*pass cases="),
        (torch.tensor([0.0, 1.0]), DataTypeError, "'cases' .*whole numbers"),
        (torch.tensor([0]), ShapeError, r"'cases' .*shape \(2,\)"),
        (torch.tensor([0, -1]), ParameterError, "'cases' .*0 or more. Got -1"),
    ],
)
@every_module
def test_numbers_that_name_no_case_are_a_sentence(module, cases, error, words):
    with pytest.raises(error, match=words):
        module()(torch.zeros(2, 3), torch.tensor([0, 1]), cases=cases)


@every_module
def test_soft_labels_are_refused(module):
    with pytest.raises(DataTypeError, match="must hold class numbers"):
        module()(torch.zeros(2, 3), torch.full((2, 3), 1 / 3), cases=torch.arange(2))


def test_soft_targets_have_the_shape_of_logits():
    with pytest.raises(ShapeError, match=r"'soft_target' .* \(2, 3\)"):
        self_adaptive_loss(torch.zeros(2, 3), torch.tensor([0, 1]), soft_target=torch.zeros(2))


@pytest.mark.parametrize(("option", "value"), [("momentum", 1.5), ("start", -1), ("start", 0.5)])
def test_bad_options_are_refused(option, value):
    with pytest.raises(ParameterError, match=f"'{option}'"):
        SelfAdaptiveLoss(**{option: value})


@pytest.mark.parametrize("name", ["sat", "ce+crl", "sat+crl", "sat+aucoc", "crl"])
def test_a_pair_hands_the_numbers_to_the_part_that_needs_them(name):
    loss = build_loss(name)
    assert loss.needs_cases
    assert all(torch.tensor(run(loss, epochs())).isfinite())
    if isinstance(loss, CombinedLoss):
        with pytest.raises(ParameterError, match="pass cases="):
            loss(torch.zeros(2, 3), torch.tensor([0, 1]))


def test_a_pair_that_needs_no_numbers_does_not_pass_them_on():
    loss = CombinedLoss(torch.nn.CrossEntropyLoss(), AUCOCLoss())
    assert not loss.needs_cases
    logits, target, cases = next(epochs())
    assert loss(logits, target, cases=cases) == loss(logits, target)


def test_options_by_name():
    loss = build_loss("sat+crl", weight=0.5, primary_options={"momentum": 0.7, "start": 4})
    assert (loss.primary.momentum, loss.primary.start, loss.weight) == (0.7, 4, 0.5)
    assert "momentum=0.7, start=4" in repr(loss)

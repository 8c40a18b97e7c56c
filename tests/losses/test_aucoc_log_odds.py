"""AUCOCLoss smoothed in log odds: against the formula written out, and where probabilities end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.losses.test_aucoc_loss import PAPER, assert_same, batch, value_and_gradient
from tests.reference import aucoc_loss as reference

from expertload.exceptions import ParameterError
from expertload.losses import AUCOCLoss, aucoc_loss
from expertload.losses.base import _others


def in_log_odds(logits, target, **options):
    return value_and_gradient(logits, target, smoothing="log_odds", **options)


@pytest.mark.parametrize("method", ["auto", "exact", "fast"])
@pytest.mark.parametrize("correctness", ["target_probability", "hard"])
@pytest.mark.parametrize("bandwidth", ["scott", 0.3])
def test_value_and_gradient_against_the_oracle(method, correctness, bandwidth):
    logits, target = batch()
    ours = in_log_odds(logits, target, method=method, correctness=correctness, bandwidth=bandwidth)
    width = None if bandwidth == "scott" else bandwidth
    theirs = reference.aucoc_loss_in_log_odds(
        logits.numpy(), target.numpy(), correctness=correctness, width=width
    )
    assert_same(ours, theirs, 1e-10 if method == "exact" else 1e-6)


@given(
    n=st.integers(2, 12),
    classes=st.integers(2, 5),
    scale=st.sampled_from([0.01, 1.0, 10.0]),
    seed=st.integers(0, 10**6),
)
def test_any_batch_against_the_oracle(n, classes, scale, seed):
    logits, target = batch(n, classes, seed, scale)
    odds = reference.log_odds(logits.numpy())
    assume(np.std(odds) > 1e-6 and np.abs(odds).max() < 80)
    theirs = reference.aucoc_loss_in_log_odds(logits.numpy(), target.numpy())
    assume(np.isfinite(theirs[0]) and theirs[0] < 50)
    assert_same(in_log_odds(logits, target, method="exact"), theirs, 1e-8)


@pytest.mark.slow
def test_large_batches_by_the_grid_agree_with_all_pairs():
    logits, target = batch(3000, 10)
    exact = in_log_odds(logits, target, method="exact")
    fast = in_log_odds(logits, target, method="fast")
    assert float(fast[0]) == pytest.approx(float(exact[0]), abs=1e-5)
    np.testing.assert_allclose(fast[1], exact[1], atol=1e-4 * float(exact[1].abs().max()))


def test_paths_add_up_to_the_whole_gradient():
    logits, target = batch()
    whole = in_log_odds(logits, target)[1]
    parts = [in_log_odds(logits, target, gradient=path)[1] for path in ("correctness", "ranking")]
    torch.testing.assert_close(sum(parts), whole)


def test_a_confident_error_is_heard_where_a_probability_is_one():
    """In single precision these probabilities are all 1; their order is still learned."""
    odds = torch.linspace(20, 40, 60)
    logits = torch.stack((odds, torch.zeros(60)), 1)
    target = torch.zeros(60, dtype=torch.long)
    target[-3:] = 1  # the most confident are wrong
    assert (logits.softmax(1)[:, 0] == 1).all()
    _, plain = value_and_gradient(logits, target, gradient="ranking", correctness="hard", **PAPER)
    _, heard = in_log_odds(logits, target, gradient="ranking", correctness="hard")
    assert not plain.any()
    assert (heard[-3:, 0] > 0).all()  # a descent step lowers the logit of the wrong class
    torch.testing.assert_close(heard.sum(1), torch.zeros(60))


def test_no_mass_is_lost_at_the_top():
    """All right, and certain: the area is one, which the paper's kernel does not reach."""
    logits = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits[:, 0] += 12
    target = torch.zeros(200, dtype=torch.long)
    plain = aucoc_loss(logits, target, correctness="hard", **PAPER)
    found = aucoc_loss(logits, target, correctness="hard", smoothing="log_odds")
    assert float(plain) > 0.1
    # What is missing are the strips before the first and beyond the last threshold, no more.
    odds = np.sort(reference.log_odds(logits.numpy()))
    width = reference.scott(odds)
    first, last = (np.mean([reference.cdf((x - o) / width) for o in odds]) for x in odds[[0, -1]])
    assert float(found) == pytest.approx(-np.log(last - first / 2), abs=1e-6)
    assert float(found) < 0.02


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e4])
def test_extreme_logits_stay_finite(dtype, scale):
    logits, target = batch(50)
    logits = (logits * scale).to(dtype)
    if not torch.isfinite(logits).all():
        pytest.skip("beyond this precision's range")
    for method in ("exact", "fast"):
        value, grad = in_log_odds(logits, target, method=method)
        assert torch.isfinite(value)
        assert torch.isfinite(grad).all()


def test_one_class_and_excluded_classes_are_finite():
    one = torch.zeros(5, 1)
    value, grad = in_log_odds(one, torch.zeros(5, dtype=torch.long))
    assert value == 0
    assert not grad.any()
    logits, target = batch(30)
    logits[:, 4] = -torch.inf
    logits[0] = torch.tensor([1.0, *[-torch.inf] * 4])  # certain: no rival at all
    target = target.clamp(max=3)
    target[0] = 0
    value, grad = in_log_odds(logits, target)
    assert torch.isfinite(value)
    assert torch.isfinite(grad).all()


def test_ignored_positions_segmentation_and_nan_behave_as_in_probabilities():
    logits, target = batch(60)
    target[::3] = -100
    kept = target != -100
    value, grad = in_log_odds(logits, target)
    expected, expected_grad = in_log_odds(logits[kept], target[kept])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad[kept], expected_grad)
    assert not grad[~kept].any()

    maps, labels = logits.view(3, 20, 5).movedim(2, 1), target.view(3, 20)
    value_of_maps, grad_of_maps = in_log_odds(maps, labels)
    torch.testing.assert_close(value_of_maps, value)
    torch.testing.assert_close(grad_of_maps.movedim(1, 2).reshape(60, 5), grad)

    logits[1, 0] = torch.nan
    assert torch.isnan(aucoc_loss(logits, target, smoothing="log_odds"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"smoothing": "logit"}, "'smoothing'"),
        ({"smoothing": "log_odds", "boundary": "reflect"}, "no ends to reflect at"),
        ({"smoothing": "log_odds", "bandwidth": 0.001}, "at least 0.01"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ParameterError, match=words):
        AUCOCLoss(**options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("maps", [False, True])
def test_the_sum_of_other_classes_is_right_however_small(dtype, maps):
    """Across the place where probabilities are no longer added up, up to none at all."""
    top = torch.linspace(-3, 300, 61, dtype=torch.float64)
    rest = torch.randn(61, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits = torch.cat((rest[:, :2], rest.amax(1, keepdim=True) + top[:, None], rest[:, 2:]), 1)
    place = logits.argmax(1, keepdim=True)
    highest = logits.gather(1, place)
    wanted = highest - logits.scatter(1, place, -torch.inf).logsumexp(1, keepdim=True)
    given = logits.to(dtype)
    if maps:
        given, place = given.T[None], place.T[None]
    highest = given.gather(1, place)
    odds = (given - highest).exp().scatter(1, place, 0.0).sum(1, keepdim=True)
    found = _others(given, place, highest, odds)
    torch.testing.assert_close(found.log_odds.reshape(-1, 1).double(), wanted, rtol=1e-6, atol=2e-5)
    shares = (given - found.reference).scatter(1, place, -torch.inf).exp() * found.scale
    torch.testing.assert_close(shares.sum(1), torch.ones_like(shares.sum(1)))

"""What every baseline loss promises, whatever it computes."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import baseline_losses as oracle
from tests.strategies import examples

from expertload.exceptions import ParameterError
from expertload.losses import (
    AdaptiveFocalLoss,
    ConfidencePenalty,
    FocalLoss,
    GeneralisedCrossEntropyLoss,
    MMCELoss,
    SoftAvUCLoss,
    SoftECELoss,
    adaptive_focal_loss,
    confidence_penalty,
    focal_loss,
    generalised_cross_entropy_loss,
    mmce_loss,
    soft_avuc_loss,
    soft_ece_loss,
)


def mean_of(per_case):
    return lambda logits, target, **options: (
        math.fsum(per_case(logits, target, **options)) / len(target)
    )


FUNCTIONS = {
    "focal": (focal_loss, mean_of(oracle.focal)),
    "focal-half": (
        partial(focal_loss, gamma=0.5),
        partial(mean_of(oracle.focal), gamma=0.5),
    ),
    "gce": (generalised_cross_entropy_loss, mean_of(oracle.generalised_cross_entropy)),
    "gce-one": (
        partial(generalised_cross_entropy_loss, q=1.0),
        partial(mean_of(oracle.generalised_cross_entropy), q=1.0),
    ),
    "adaptive": (adaptive_focal_loss, mean_of(oracle.adaptive_focal)),
    "mmce": (mmce_loss, oracle.mmce_weighted),
    "sece": (soft_ece_loss, oracle.soft_ece),
    "sece-hot": (
        partial(soft_ece_loss, temperature=1.0, n_bins=4, norm=1.0),
        partial(oracle.soft_ece, temperature=1.0, n_bins=4, norm=1.0),
    ),
    "penalty": (confidence_penalty, oracle.confidence_penalty),
    "savuc": (soft_avuc_loss, oracle.soft_avuc),
    "savuc-sharp": (
        partial(soft_avuc_loss, temperature=0.1, threshold=0.7),
        partial(oracle.soft_avuc, temperature=0.1, threshold=0.7),
    ),
}
MODULES = {
    focal_loss: FocalLoss,
    adaptive_focal_loss: AdaptiveFocalLoss,
    confidence_penalty: ConfidencePenalty,
    generalised_cross_entropy_loss: GeneralisedCrossEntropyLoss,
    mmce_loss: MMCELoss,
    soft_ece_loss: SoftECELoss,
    soft_avuc_loss: SoftAvUCLoss,
}
every_loss = pytest.mark.parametrize("loss", [f for f, _ in FUNCTIONS.values()], ids=FUNCTIONS)


def batch(n=40, classes=5, seed=0, dtype=torch.float64, scale=1.5):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    # Half of the labels are the top class: a batch with right and with wrong cases.
    target = torch.randint(classes, (n,), generator=generator)
    target[::2] = logits.argmax(1)[::2]
    return logits.to(dtype), target


def value_and_gradient(loss, logits, target):
    leaf = logits.detach().clone().requires_grad_()
    value = loss(leaf, target)
    value.backward()
    return value.detach(), leaf.grad


@pytest.mark.parametrize(("loss", "reference"), FUNCTIONS.values(), ids=FUNCTIONS)
@examples(25)
@given(
    n=st.integers(1, 30),
    classes=st.integers(2, 12),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.3, 1.5, 5.0]),
)
def test_value_equals_the_written_out_formula(loss, reference, n, classes, seed, scale):
    logits, target = batch(n, classes, seed, scale=scale)
    expected = reference(logits.tolist(), target.tolist())
    assert loss(logits, target).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_gradient_equals_finite_differences(loss, seed):
    # Random points are away from the kinks: equal confidences, equal classes, p = 0.2.
    logits, target = batch(n=12, classes=4, seed=seed)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, target), (logits,))


@every_loss
def test_scaling_the_loss_scales_the_gradient(loss):
    logits, target = batch()
    _, gradient = value_and_gradient(loss, logits, target)
    _, scaled = value_and_gradient(lambda x, y: 3.5 * loss(x, y), logits, target)
    torch.testing.assert_close(scaled, 3.5 * gradient)
    assert gradient.abs().max() > 1e-6


@every_loss
def test_order_of_cases_does_not_matter(loss):
    logits, target = batch()
    logits[5:10], target[5:10] = logits[0], 1  # equal confidences, right and wrong
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(1))
    value, gradient = value_and_gradient(loss, logits, target)
    shuffled, shuffled_gradient = value_and_gradient(loss, logits[order], target[order])
    torch.testing.assert_close(shuffled, value)
    torch.testing.assert_close(shuffled_gradient, gradient[order])


@every_loss
def test_dense_logits_equal_their_flattened_cases(loss):
    logits, target = batch(n=24)
    dense = logits.reshape(2, 3, 4, 5).movedim(-1, 1)  # (N, C, d1, d2)
    value, gradient = value_and_gradient(loss, logits, target)
    dense_value, dense_gradient = value_and_gradient(loss, dense, target.reshape(2, 3, 4))
    torch.testing.assert_close(dense_value, value)
    torch.testing.assert_close(dense_gradient.movedim(1, -1).reshape(24, 5), gradient)


@every_loss
@pytest.mark.parametrize("ignore_index", [-100, 0, 255])
def test_ignored_cases_count_for_nothing(loss, ignore_index):
    logits, target = batch()
    target[target == ignore_index] = 1
    value, gradient = value_and_gradient(loss, logits, target)
    noise = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    longer = torch.cat([noise, logits])
    padded = torch.cat([torch.full((7,), ignore_index), target])
    with_option = partial(loss, ignore_index=ignore_index)
    longer_value, longer_gradient = value_and_gradient(with_option, longer, padded)
    torch.testing.assert_close(longer_value, value)
    torch.testing.assert_close(longer_gradient[7:], gradient)
    assert (longer_gradient[:7] == 0).all()


def _degenerate():
    logits, target = batch(dtype=torch.float32)
    predicted = logits.argmax(1)
    huge = 1e4 * logits
    yield "empty", logits[:0], target[:0]
    yield "empty-dense", torch.zeros(0, 5, 3, 3), torch.zeros(0, 3, 3, dtype=torch.long)
    yield "all-ignored", logits, torch.full_like(target, -100)
    yield "one", logits[:1], target[:1]
    yield "all-right", logits, predicted
    yield "all-wrong", logits, (predicted + 1) % 5
    yield "saturated", huge, target
    yield "saturated-right", huge, predicted
    yield "saturated-wrong", huge, (predicted + 1) % 5
    yield "uniform", torch.zeros(8, 5), torch.arange(8) % 5
    yield "one-class", torch.zeros(8, 1), torch.zeros(8, dtype=torch.long)
    masked = logits.clone()
    masked[torch.arange(40), (predicted + 2) % 5] = -torch.inf
    yield "ruled-out-class", masked, predicted


@every_loss
@pytest.mark.parametrize(
    ("logits", "target"),
    [case[1:] for case in _degenerate()],
    ids=[case[0] for case in _degenerate()],
)
def test_degenerate_batches_have_finite_value_and_gradient(loss, logits, target):
    value, gradient = value_and_gradient(loss, logits, target)
    assert value.isfinite()
    assert gradient.isfinite().all()
    if target.numel() == 0 or (target == -100).all():
        assert value == 0
        assert (gradient == 0).all()


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(loss, dtype):
    logits, target = batch(dtype=dtype)
    value, gradient = value_and_gradient(loss, logits, target)
    single, single_gradient = value_and_gradient(loss, logits.float(), target)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    torch.testing.assert_close(value, single)
    torch.testing.assert_close(gradient, single_gradient.to(dtype))


@every_loss
def test_single_precision_is_close_to_double(loss):
    logits, target = batch(n=400, classes=10)
    value, gradient = value_and_gradient(loss, logits, target)
    single, single_gradient = value_and_gradient(loss, logits.float(), target)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), value, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(single_gradient.double(), gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("function", MODULES, ids=lambda f: f.__name__)
def test_module_equals_function(function):
    logits, target = batch()
    module = MODULES[function]()
    assert module(logits, target) == function(logits, target)
    assert type(module).__name__ in repr(module)


@pytest.mark.parametrize(
    ("module", "option", "value"),
    [
        (FocalLoss, "gamma", -1.0),
        (FocalLoss, "reduction", "average"),
        (GeneralisedCrossEntropyLoss, "q", 1.5),
        (GeneralisedCrossEntropyLoss, "q", -0.1),
        (GeneralisedCrossEntropyLoss, "reduction", "average"),
        (AdaptiveFocalLoss, "gamma_below", math.inf),
        (AdaptiveFocalLoss, "gamma_above", "three"),
        (AdaptiveFocalLoss, "switch_probability", 20),
        (AdaptiveFocalLoss, "reduction", None),
        (SoftECELoss, "temperature", 0.0),
        (SoftECELoss, "n_bins", 0),
        (SoftECELoss, "norm", 0.5),
        (SoftECELoss, "norm", math.inf),
        (SoftAvUCLoss, "temperature", -1.0),
        (SoftAvUCLoss, "threshold", 1.0),
        (SoftAvUCLoss, "threshold", 0),
    ],
)
def test_bad_options_are_refused_when_the_module_is_made(module, option, value):
    with pytest.raises(ParameterError, match=f"'{option}'"):
        module(**{option: value})

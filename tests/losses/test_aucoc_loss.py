"""AUCOCLoss: options against the written-out formula, and what a training loop relies on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.reference import aucoc_loss as reference
from torch.nn.functional import cross_entropy

import expertload as el
from expertload.exceptions import (
    DataTypeError,
    LabelError,
    ParameterError,
    ShapeError,
)
from expertload.losses import (
    AUCOCLoss,
    AUCOCUpperBoundLoss,
    aucoc_loss,
    aucoc_upper_bound_loss,
    build_loss,
)
from expertload.losses.base import _warn_once

PAPER = {"smoothing": "probability"}
REFLECTED = {**PAPER, "boundary": "reflect"}


def batch(n=40, classes=5, seed=0, scale=2.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    guess = torch.randint(0, classes, (n,), generator=generator)
    right = torch.rand(n, generator=generator) < 0.6
    return logits.to(dtype), torch.where(right, logits.argmax(1), guess)


def value_and_gradient(logits, target, loss=aucoc_loss, **options):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits, target, **options)
    value.backward()
    return value.detach(), logits.grad


def assert_same(ours, theirs, tolerance):
    assert float(ours[0]) == pytest.approx(float(theirs[0]), abs=tolerance)
    expected = np.asarray(theirs[1])
    np.testing.assert_allclose(ours[1], expected, atol=tolerance * max(1, np.abs(expected).max()))


def test_gradient_through_one_path_alone():
    """Written out: the top probability r passes on dA/dr, the true class's s passes on dA/ds."""
    logits, target = batch()
    proba = logits.softmax(1).numpy()
    r, s = proba.max(1), proba[np.arange(len(proba)), target]
    kernel = reference.Kernel(reference.scott(r))
    area, by_value, by_confidence = reference.area_and_gradient(r, s, kernel)
    eye = np.eye(proba.shape[1])
    slopes = {
        "ranking": (np.array(by_confidence) * r)[:, None] * (eye[proba.argmax(1)] - proba),
        "correctness": (np.array(by_value) * s)[:, None] * (eye[target.numpy()] - proba),
    }
    for gradient, slope in slopes.items():
        found = value_and_gradient(logits, target, method="exact", gradient=gradient, **PAPER)
        assert_same(found, (-np.log(area), -slope / area), 1e-12)


@pytest.mark.parametrize("method", ["auto", "exact", "fast"])
@pytest.mark.parametrize("correctness", ["target_probability", "hard"])
@pytest.mark.parametrize("boundary", ["none", "reflect"])
@pytest.mark.parametrize("bandwidth", ["scott", 0.07])
def test_options_against_the_oracle(method, correctness, boundary, bandwidth):
    logits, target = batch()
    ours = value_and_gradient(
        logits,
        target,
        method=method,
        correctness=correctness,
        boundary=boundary,
        bandwidth=bandwidth,
        **PAPER,
    )
    theirs = reference.aucoc_loss(
        logits.numpy(),
        target.numpy(),
        correctness=correctness,
        width=None if bandwidth == "scott" else bandwidth,
        reflect=boundary == "reflect",
    )
    assert_same(ours, theirs, 1e-10 if method == "exact" else 1e-6)


def test_silverman_is_a_wider_scott():
    logits, target = batch()
    r = logits.softmax(1).amax(1)
    width = float(r.std()) * (3 * len(r) / 4) ** -0.2
    assert_same(
        value_and_gradient(logits, target, bandwidth="silverman", **PAPER),
        value_and_gradient(logits, target, bandwidth=width, **PAPER),
        1e-12,
    )


@given(
    n=st.integers(2, 12),
    classes=st.integers(2, 5),
    scale=st.sampled_from([0.01, 1.0, 10.0, 30.0]),
    seed=st.integers(0, 10**6),
)
def test_any_batch_against_the_oracle(n, classes, scale, seed):
    logits, target = batch(n, classes, seed, scale)
    r = logits.softmax(1).amax(1)
    assume(r.std() > 1e-8)  # below, rounding of r itself shows in what depends on r / h
    expected = reference.aucoc_loss(logits.numpy(), target.numpy())
    for method, tolerance in (("exact", 1e-7), ("fast", 1e-5)):
        found = value_and_gradient(logits, target, method=method, **PAPER)
        assert_same(found, expected, tolerance)


# ------------------------------------------------------------------- what training relies on


def test_scaling_the_loss_scales_the_gradient():
    logits, target = batch()
    _, once = value_and_gradient(logits, target)
    _, thrice = value_and_gradient(logits, target, loss=lambda z, y: 3 * aucoc_loss(z, y))
    torch.testing.assert_close(thrice, 3 * once)


def test_gradients_accumulate():
    logits, target = batch()
    leaf = logits.clone().requires_grad_()
    for _ in range(2):
        aucoc_loss(leaf, target).backward()
    torch.testing.assert_close(leaf.grad, 2 * value_and_gradient(logits, target)[1])


def test_gradient_flows_on_to_parameters_beside_cross_entropy():
    logits, target = batch(dtype=torch.float32)
    model = torch.nn.Linear(5, 5)
    (cross_entropy(model(logits), target) + AUCOCLoss()(model(logits), target)).backward()
    both = model.weight.grad.clone()
    model.zero_grad()
    cross_entropy(model(logits), target).backward()
    assert (both - model.weight.grad).abs().max() > 1e-4


def test_without_options_it_is_the_paper_s_loss():
    logits, target = batch()
    papers = aucoc_loss(logits, target, smoothing="probability")
    built = build_loss("ce+aucoc").parts(logits, target).secondary
    assert aucoc_loss(logits, target) == AUCOCLoss()(logits, target) == built == papers


def test_probabilities_instead_of_logits_warn_once():
    logits, target = batch()
    _warn_once.cache_clear()
    with pytest.warns(UserWarning, match="look like probabilities"):
        aucoc_loss(logits.softmax(1), target)
    aucoc_loss(logits.softmax(1), target)  # another warning would be an error here


def test_class_numbers_that_start_at_one_are_told_so():
    with pytest.raises(LabelError, match="pass target - 1"):
        aucoc_loss(torch.zeros(3, 10), torch.tensor([1, 4, 10]))


def test_function_and_module_are_one():
    logits, target = batch()
    options = {"bandwidth": 0.1, **REFLECTED}
    module = AUCOCLoss(**options)
    assert module(logits, target) == aucoc_loss(logits, target, **options)
    assert repr(module) == "AUCOCLoss(bandwidth=0.1, boundary='reflect')"
    assert repr(AUCOCLoss()) == "AUCOCLoss()"
    assert AUCOCLoss()(logits, target) == aucoc_loss(logits, target)
    assert repr(AUCOCUpperBoundLoss()) == "AUCOCUpperBoundLoss()"


def test_order_of_samples_does_not_matter():
    logits, target = batch()
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(3))
    value, grad = value_and_gradient(logits, target)
    moved, moved_grad = value_and_gradient(logits[order], target[order])
    torch.testing.assert_close(moved, value)
    torch.testing.assert_close(moved_grad, grad[order])


@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 5, 3, 4), (2, 5, 2, 3, 2), (0, 5, 3)])
def test_dense_tasks_are_the_flattened_ones(shape):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64)
    target = torch.randint(0, 5, (shape[0], *shape[2:]), generator=generator)
    value, grad = value_and_gradient(logits, target)
    flat, flat_grad = value_and_gradient(logits.movedim(1, -1).reshape(-1, 5), target.flatten())
    torch.testing.assert_close(value, flat)
    torch.testing.assert_close(grad.movedim(1, -1).reshape(-1, 5), flat_grad)


@pytest.mark.parametrize("options", [{}, PAPER, REFLECTED])
@pytest.mark.parametrize("ignore_index", [-100, 255, 2])
def test_ignored_positions_are_as_if_absent(ignore_index, options):
    logits, target = batch(60)
    target[::3] = ignore_index
    kept = target != ignore_index
    logits[::3] = torch.nan if ignore_index != 2 else 7.0  # not even NaN shows there
    options = {**options, "ignore_index": ignore_index}
    value, grad = value_and_gradient(logits, target, **options)
    expected, expected_grad = value_and_gradient(logits[kept], target[kept], **options)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad[kept], expected_grad)
    if ignore_index == 2:
        assert not grad[~kept].any()


def test_ignored_positions_are_absent_where_all_log_odds_are_negative():
    logits, target = batch(60, 10, scale=0.1)
    assert reference.log_odds(logits.numpy()).max() < 0
    target[::3] = -100
    kept = target != -100
    value, grad = value_and_gradient(logits, target)
    expected, expected_grad = value_and_gradient(logits[kept], target[kept])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grad[kept], expected_grad)


def test_every_label_counts_without_an_ignore_index():
    logits, target = batch()
    assert aucoc_loss(logits, target, ignore_index=None) == aucoc_loss(logits, target)
    target[0] = -100
    with pytest.raises(LabelError, match="from -100 to"):
        aucoc_loss(logits, target, ignore_index=None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    logits, target = batch(200)
    logits = logits.to(dtype)
    value, grad = value_and_gradient(logits, target)
    single, single_grad = value_and_gradient(logits.float(), target)
    assert value.dtype == torch.float32
    assert grad.dtype == dtype
    assert value == single
    torch.testing.assert_close(grad, single_grad.to(dtype))


def test_single_precision_is_close_to_double():
    logits, target = batch(3000, 10)
    value, grad = value_and_gradient(logits.float(), target)
    double, double_grad = value_and_gradient(logits, target)
    assert float(value) == pytest.approx(float(double), abs=1e-6)
    np.testing.assert_allclose(grad, double_grad, atol=2e-5 * float(double_grad.abs().max()))


def test_autocast_changes_nothing_in_the_loss():
    inputs, target = batch(dtype=torch.float32)
    model = torch.nn.Linear(5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs)
        inside = aucoc_loss(logits, target)
    assert logits.dtype == torch.bfloat16
    assert inside == aucoc_loss(logits, target)
    inside.backward()
    assert model.weight.grad.dtype == torch.float32
    assert torch.isfinite(model.weight.grad).all()


def test_int32_targets_are_welcome():
    logits, target = batch()
    assert aucoc_loss(logits, target.int()) == aucoc_loss(logits, target)


@pytest.mark.parametrize(("form", "a_sample"), [(PAPER, 5), ({}, 6)])
def test_only_a_few_numbers_a_sample_are_kept_for_backward(form, a_sample):
    logits, target = batch(50, 200)
    logits.requires_grad_()
    kept = []

    def note(tensor):
        if tensor.untyped_storage().data_ptr() != logits.untyped_storage().data_ptr():
            kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        aucoc_loss(logits, target, **form)
    assert sum(kept) <= a_sample * 50


def test_there_is_no_second_derivative():
    logits, target = batch()
    logits.requires_grad_()
    (grad,) = torch.autograd.grad(aucoc_loss(logits, target) ** 2, logits, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_compiled_gives_the_same():
    inputs, target = batch(dtype=torch.float32)
    model, criterion = torch.nn.Linear(5, 5), AUCOCLoss()

    def objective(x, y):
        logits = model(x)
        return cross_entropy(logits, y) + criterion(logits, y)

    results = []
    for function in (objective, torch.compile(objective, backend="aot_eager")):
        model.zero_grad()
        value = function(inputs, target)
        value.backward()
        results.append((value.detach(), model.weight.grad.clone()))
    torch.testing.assert_close(*results)


@pytest.mark.slow
def test_training_with_it_raises_the_area_on_unseen_cases():
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(4, 10, generator=generator)

    def draw(n):
        y = torch.randint(0, 4, (n,), generator=generator)
        return centres[y] + 1.5 * torch.randn(n, 10, generator=generator), y

    (x, y), (unseen, truth) = draw(600), draw(600)
    model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

    def unseen_area():
        with torch.no_grad():
            return el.aucoc_score(truth.numpy(), model(unseen).softmax(1).double().numpy())

    before = unseen_area()
    for _ in range(10):
        for rows in torch.randperm(600, generator=generator).split(100):
            optimiser.zero_grad()
            logits = model(x[rows])
            (cross_entropy(logits, y[rows]) + aucoc_loss(logits, y[rows])).backward()
            optimiser.step()
    assert unseen_area() > before + 0.2


# ------------------------------------------------------------------- the bound


@pytest.mark.parametrize("method", ["exact", "fast"])
def test_upper_bound_against_the_oracle(method):
    logits, target = batch(25)
    ours = value_and_gradient(logits, target, loss=aucoc_upper_bound_loss, method=method)
    theirs = reference.upper_bound(logits.numpy(), target.numpy())
    assert_same(ours, theirs, 1e-10 if method == "exact" else 1e-5)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), scale=st.sampled_from([0.1, 3.0, 20.0]))
def test_upper_bound_is_one(seed, n, scale):
    logits, target = batch(n, 3, seed, scale)
    bound = AUCOCUpperBoundLoss(method="exact")(logits, target)
    assert bound >= aucoc_loss(logits, target, method="exact", **PAPER) - 1e-9


# ------------------------------------------------------------------- batches without information


def finite(value, grad):
    return bool(torch.isfinite(value)) and bool(torch.isfinite(grad).all())


@pytest.mark.parametrize("loss", [aucoc_loss, aucoc_upper_bound_loss])
@pytest.mark.parametrize("options", [{}, {"bandwidth": 0.1}])
def test_empty_and_all_ignored_batches_are_zero(loss, options):
    for logits, target in [
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)),
        (torch.randn(4, 3), torch.full((4,), -100)),
    ]:
        value, grad = value_and_gradient(logits, target, loss=loss, **options)
        assert value == 0
        assert grad.shape == logits.shape
        assert not grad.any()


def test_one_sample_and_equal_confidences_give_the_mean_probability():
    one = torch.tensor([[1.0, 0.0, -1.0]])
    value, grad = value_and_gradient(one, torch.tensor([1]))
    expected = one.clone().requires_grad_()
    cross_entropy(expected, torch.tensor([1])).backward()
    torch.testing.assert_close(grad, expected.grad)
    assert float(value) == pytest.approx(float(cross_entropy(one, torch.tensor([1]))))

    rolled = torch.stack([one[0].roll(i) for i in (0, 1, 2, 0)])  # equal up to rounding
    target = torch.tensor([0, 0, 2, 1])
    value, grad = value_and_gradient(rolled, target)
    s = rolled.softmax(1).gather(1, target[:, None])
    assert float(value) == pytest.approx(-float(s.mean().log()), abs=1e-6)
    assert finite(value, grad)


@pytest.mark.parametrize("form", [{}, PAPER, REFLECTED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("unsaturated", [0, 1, 3])
def test_a_saturated_softmax_is_finite(form, dtype, unsaturated):
    logits = torch.zeros(50, 4, dtype=dtype)
    logits[:, 1] = 1000.0
    logits[:unsaturated] /= 700
    target = torch.ones(50, dtype=torch.long)
    target[-5:] = 0
    for method in ("exact", "fast"):
        value, grad = value_and_gradient(logits, target, method=method, **form)
        assert finite(value, grad)


def test_certain_and_wrong_everywhere_is_finite():
    logits = torch.zeros(20, 3)
    logits[:, 0] = 500.0
    value, grad = value_and_gradient(logits, torch.ones(20, dtype=torch.long))
    assert finite(value, grad)
    assert float(value) == pytest.approx(-np.log(1e-30), rel=1e-5)
    value, grad = value_and_gradient(logits, torch.ones(20, dtype=torch.long), correctness="hard")
    assert finite(value, grad)


def test_nan_is_passed_on():
    logits, target = batch()
    logits[3, 1] = torch.nan
    for bandwidth in ("scott", 0.1):
        assert torch.isnan(aucoc_loss(logits, target, bandwidth=bandwidth))


# ------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("logits", "target", "error", "words"),
    [
        (torch.zeros(4), torch.zeros(5).long(), ShapeError, r"shape \(4,\)"),
        (torch.zeros(4, 0), torch.zeros(4).long(), ShapeError, "at least one class"),
        (torch.zeros(4, 3), torch.zeros(5).long(), ShapeError, r"must have shape \(4,\)"),
        (torch.zeros(4, 3), torch.zeros(4, 2).long(), ShapeError, "one class number per position"),
        (torch.zeros(4, 3), torch.zeros(4, 3).long(), ShapeError, r"one-hot .*argmax\(dim=1\)"),
        (torch.zeros(4, 3), torch.zeros(4, 1).long(), ShapeError, r"target\.squeeze\(1\)"),
        (torch.zeros(4, 3, 2), torch.zeros(4).long(), ShapeError, r"shape \(4, 2\)"),
        (torch.zeros(4, 3), torch.zeros(4), DataTypeError, r"target\.long\(\)"),
        (torch.zeros(4, 3), torch.zeros(4).bool(), DataTypeError, "class numbers"),
        (torch.zeros(4, 3).long(), torch.zeros(4).long(), DataTypeError, "floating"),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, 3]), LabelError, "from 0 to 2"),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, -1]), LabelError, "ignore_index"),
    ],
)
@pytest.mark.parametrize("loss", [aucoc_loss, aucoc_upper_bound_loss])
def test_bad_batches_are_named(loss, logits, target, error, words):
    with pytest.raises(error, match=words):
        loss(logits, target)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"correctness": "soft"}, "'correctness'"),
        ({"bandwidth": "wide"}, "'scott', 'silverman'"),
        ({"bandwidth": 0.0}, "'bandwidth'"),
        ({"bandwidth": float("nan"), "smoothing": "log_odds"}, "at least 0.01"),
        ({"bandwidth": float("nan")}, "at least 0.0001"),
        ({"boundary": "reflect", "smoothing": "log_odds"}, "no ends to reflect"),
        ({"bandwidth": True}, "a number"),
        ({"boundary": "mirror"}, "'boundary'"),
        ({"method": "quick"}, "'method'"),
        ({"correctness": "hard", "gradient": "correctness"}, "nothing could be learned"),
        ({"gradient": "none"}, "'gradient'"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ParameterError, match=words):
        AUCOCLoss(**options)
    with pytest.raises(ParameterError, match=words):
        aucoc_loss(*batch(), **options)

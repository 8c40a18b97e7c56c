"""The three classes against the library's functions, and against what torchmetrics asks of them."""

import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples
from torch.utils.data import SequentialSampler
from torchmetrics import MetricCollection

import expertload
from expertload.display import COCDisplay
from expertload.exceptions import (
    DataTypeError,
    LabelError,
    NonFiniteError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)
from expertload.torch_metrics import AUCOC, COC, LoadAtAccuracy, not_padding

SCALARS = {
    "aucoc": (AUCOC, expertload.aucoc_score),
    "load": (
        lambda **options: LoadAtAccuracy(0.8, **options),
        lambda y, p, **more: expertload.load_at_accuracy(y, p, target_accuracy=0.8, **more),
    ),
}
every_scalar = pytest.mark.parametrize(("make", "reference"), SCALARS.values(), ids=SCALARS)
every_metric = pytest.mark.parametrize(
    "make",
    [AUCOC, COC, lambda **options: LoadAtAccuracy(0.8, **options)],
    ids=["aucoc", "coc", "load"],
)


def batch(n=200, classes=4, seed=0, dtype=torch.float32, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    target = torch.randint(classes, (n,), generator=generator)
    target[: n // 2] = logits.argmax(1)[: n // 2]
    shuffled = torch.randperm(n, generator=generator)
    return torch.softmax(logits, 1)[shuffled].to(dtype), target[shuffled]


def feed(metric, proba, target, size=64, **rows):
    for start in range(0, len(target), size):
        part = slice(start, start + size)
        metric.update(
            proba[part], target[part], **{name: value[part] for name, value in rows.items()}
        )
    return metric


def same(left, right):
    if isinstance(left, torch.Tensor):
        return left.item() == right.item()
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


# --------------------------------------------------------------------------- exact


@every_scalar
@examples(40)
@given(seed=st.integers(0, 1000), n=st.integers(1, 150), size=st.integers(1, 70))
def test_equals_the_function_however_batches_are_cut(make, reference, seed, n, size):
    proba, target = batch(n, seed=seed)
    metric = feed(make(), proba, target, size)
    assert metric.compute().item() == reference(target.numpy(), proba.numpy(), labels=range(4))


def test_curve_equals_the_function():
    proba, target = batch()
    curve = feed(COC(), proba, target).compute()
    expected = expertload.coc_curve(target.numpy(), proba.numpy())
    assert isinstance(curve, expertload.COCCurve)
    assert same(curve, expected)


@every_scalar
@pytest.mark.parametrize("columns", ["vector", "column", "two"])
def test_binary_problems_come_as_one_column_or_two(make, reference, columns):
    two, target = batch(classes=2)
    one = two[:, 1]
    proba = {"vector": one, "column": one[:, None], "two": two}[columns]
    metric = feed(make(), proba, target)
    assert metric.compute().item() == reference(target.numpy(), proba.numpy())
    assert feed(make(), proba, target.bool()).compute() == metric.compute()


@every_scalar
def test_lists_and_arrays_are_as_good_as_tensors(make, reference):
    proba, target = batch(dtype=torch.float64)
    valid = np.arange(200) < 150
    metric = make()
    metric.update(proba.tolist(), target.numpy(), valid=valid.tolist())
    expected = reference(target[:150].numpy(), proba[:150].float().numpy())
    assert metric.compute().item() == expected


@every_scalar
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_precision(make, reference, dtype):
    proba, target = batch(classes=30, dtype=dtype)
    expected = reference(target.numpy(), proba)
    assert feed(make(), proba, target).compute().item() == expected


@every_scalar
@pytest.mark.parametrize("bins", [None, 100])
def test_forward_gives_the_batch_and_keeps_the_whole(make, reference, bins):
    proba, target = batch()
    metric, whole = make(bins=bins), feed(make(bins=bins), proba, target)
    for part in (slice(0, 90), slice(90, 200)):
        alone = feed(make(bins=bins), proba[part], target[part])
        assert metric(proba[part], target[part]).item() == alone.compute().item()
    assert metric.compute().item() == whole.compute().item()


@every_metric
@pytest.mark.parametrize("bins", [None, 50])
def test_reset_pickle_clone_and_state_of_a_module(make, bins):
    proba, target = batch()
    metric = feed(make(bins=bins), *batch(seed=9))
    metric.reset()
    feed(metric, proba, target)
    value = metric.compute()
    assert same(pickle.loads(pickle.dumps(metric)).compute(), value)
    assert same(metric.clone().compute(), value)
    assert same(feed(make(bins=bins), proba, target).compute(), value)
    assert not metric.is_differentiable
    assert list(metric.state_dict()) == []


@every_metric
@pytest.mark.parametrize("bins", [None, 50])
def test_merging_states_equals_one_metric(make, bins):
    proba, target = batch()
    left, right = make(bins=bins), make(bins=bins)
    feed(left, proba[:70], target[:70])
    feed(right, proba[70:], target[70:])
    left.merge_state(right)
    whole = feed(make(bins=bins), proba, target)
    assert same(left.compute(), whole.compute())


@pytest.mark.parametrize("bins", [None, 50])
def test_a_collection_keeps_the_cases_once(bins):
    proba, target = batch()
    metrics = MetricCollection(
        {
            "aucoc": AUCOC(bins=bins),
            "load": LoadAtAccuracy(0.9, bins=bins),
            "curve": COC(bins=bins),
        }
    )
    for part in (slice(0, 90), slice(90, 200)):
        metrics.update(proba[part], target[part], valid=torch.ones(len(target[part])) > 0)
    values = metrics.compute()
    assert len(metrics.compute_groups) == 1
    assert values["aucoc"].item() == feed(AUCOC(bins=bins), proba, target).compute().item()
    load = feed(LoadAtAccuracy(0.9, bins=bins), proba, target).compute()
    assert values["load"].item() == load.item()
    curve = feed(COC(bins=bins), proba, target).compute()
    assert same(values["curve"], curve)


def test_directions():
    assert AUCOC.higher_is_better is True
    assert LoadAtAccuracy.higher_is_better is False
    assert COC.higher_is_better is None
    assert AUCOC.full_state_update is False


@every_scalar
@pytest.mark.parametrize("bins", [None, 50])
def test_no_cases(make, reference, bins):
    proba, target = batch(n=4)
    metric = make(bins=bins)
    nothing = torch.zeros(4, dtype=torch.bool)
    assert math.isnan(metric(proba, target, valid=nothing))
    assert all(math.isnan(bound) for bound in metric.bounds())
    metric.update(proba, target)
    assert not math.isnan(metric.compute())
    curve = COC(bins=bins)(proba, target, valid=nothing)
    assert [len(column) for column in curve] == [0, 0, 0]


# --------------------------------------------------------------------------- repeats and padding


@every_metric
@pytest.mark.parametrize("bins", [None, 50])
def test_rows_that_are_not_valid_do_not_count(make, bins):
    proba, target = batch()
    valid = torch.arange(200) % 3 > 0
    masked_target = torch.where(valid, target, 255)  # not even looked at
    metric = feed(make(bins=bins), proba, masked_target, valid=valid)
    assert same(metric.compute(), feed(make(bins=bins), proba[valid], target[valid]).compute())


def test_another_sampler_has_no_padding():
    with pytest.raises(
        DataTypeError, match="must be a DistributedSampler. Got a SequentialSampler"
    ):
        not_padding(SequentialSampler(range(3)))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("n", "world"), [(5, 2), (6, 2), (10, 3), (11, 3), (2, 5), (1, 3)])
def test_not_padding_leaves_each_sample_once(n, world, shuffle, drop_last):
    seen = []
    for rank in range(world):
        sampler = torch.utils.data.DistributedSampler(
            range(n), num_replicas=world, rank=rank, shuffle=shuffle, drop_last=drop_last
        )
        kept = not_padding(sampler).tolist()
        seen += [index for index, keep in zip(sampler, kept, strict=True) if keep]
    if drop_last:
        assert len(set(seen)) == len(seen) == n // world * world
    else:
        assert sorted(seen) == list(range(n))


def test_a_process_without_cases_takes_part_with_the_right_types():
    """Gathering needs one type in all processes; torchmetrics by itself would send floats."""
    proba, target = batch()
    other = feed(AUCOC(), proba, target)
    other_states = iter([other.confidence, other.correct])
    sent = []

    def gather(tensor, group):
        sent.append((tensor.dtype, len(tensor)))
        return [tensor, torch.cat(next(other_states))]

    metric = AUCOC(dist_sync_fn=gather, distributed_available_fn=lambda: True)
    metric.update(proba[:0], target[:0])
    metric.reset()
    metric._update_count = 1  # or torchmetrics warns of a compute before any update
    assert metric.compute().item() == other.compute().item()
    assert sent == [(torch.float64, 0), (torch.bool, 0)]
    assert metric.confidence == []


# --------------------------------------------------------------------------- bad input


def bad_inputs():
    proba, target = batch(n=6)
    logits = proba.log()
    yield "logits", ProbabilityError, "softmax", logits, target, {}
    yield "large-logits", ProbabilityError, "softmax", 30 * proba, target, {}
    yield "one-column-logits", ProbabilityError, "preds", 4 * proba[:, 0], target % 2, {}
    yield "rows", ProbabilityError, "sum to one", proba / 2, target, {}
    yield "nan", NonFiniteError, "finite", torch.full_like(proba, torch.nan), target, {}
    yield "label", LabelError, "class numbers from 0 to 3", proba, target + 9, {}
    yield "negative", LabelError, "class numbers", proba, target - 9, {}
    yield "binary-label", LabelError, "from 0 to 1", proba[:, 0], target + 2, {}
    yield "classes", DataTypeError, "not predicted classes", target, target, {}
    yield "float-target", DataTypeError, "'target'", proba, target.float(), {}
    yield "length", ShapeError, "'target'", proba, target[:5], {}
    yield "one-hot", ShapeError, "'target'", proba, torch.eye(4)[target].long(), {}
    yield "dense", ShapeError, "second axis", proba[..., None], target, {}
    yield "mask", DataTypeError, "'valid'", proba, target, {"valid": target}
    yield "mask-length", ShapeError, "'valid'", proba, target, {"valid": target[:2] > 0}


@pytest.mark.parametrize(
    ("error", "words", "preds", "target", "options"),
    [case[1:] for case in bad_inputs()],
    ids=[case[0] for case in bad_inputs()],
)
def test_bad_input_is_named(error, words, preds, target, options):
    metric = AUCOC()
    with pytest.raises(error, match=words):
        metric.update(preds, target, **options)


def test_values_are_not_looked_at_when_asked_not_to():
    proba, target = batch()
    metric = AUCOC(validate_args=False)
    metric.update(2 * proba, target)
    assert metric.compute().isfinite()


@pytest.mark.parametrize("bins", [0, -3, 2.5, "many"])
def test_bad_bins(bins):
    with pytest.raises(ParameterError, match="'bins'"):
        COC(bins=bins)


@pytest.mark.parametrize("target_accuracy", [95, -0.1, "high"])
def test_bad_target_accuracy(target_accuracy):
    with pytest.raises(ParameterError, match="'target_accuracy'"):
        LoadAtAccuracy(target_accuracy)


# --------------------------------------------------------------------------- plots


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot

    yield matplotlib.pyplot
    matplotlib.pyplot.close("all")


def test_plot_of_the_curve(pyplot):
    proba, target = batch()
    metric = feed(COC(), proba, target)
    _, axes = metric.plot()
    curve = metric.compute()
    display = COCDisplay(expert_load=curve.expert_load, accuracy=curve.accuracy).plot()
    np.testing.assert_array_equal(axes.lines[0].get_data(), display.line_.get_data())
    assert "Expert load" in axes.get_xlabel()
    figure, again = metric.plot(curve, ax=axes)
    assert again is axes
    assert figure is axes.figure
    assert len(axes.lines) == 2


@every_scalar
def test_plot_of_a_value(make, reference, pyplot):
    proba, target = batch()
    _, axes = feed(make(), proba, target).plot()
    assert axes.get_ylim()[1] >= 1

"""The fast kernel sums against the exact ones, and the torch arithmetic against numpy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.reference import aucoc_loss as reference

from expertload.losses.kde.area import REACH, Samples, smoothed_area
from expertload.losses.kde.bandwidth import kernel_width, largest_span
from expertload.losses.kde.choice import choose_sums
from expertload.losses.kde.dense import DenseSums
from expertload.losses.kde.grid import GridSums
from expertload.losses.kde.kernel_sums import Points
from expertload.losses.kde.lowrank import LowRankSums

RESOLUTION = np.finfo(float).eps


def uniform(rng, n):
    return 0.1 + 0.9 * rng.random(n)


def bimodal(rng, n):
    u = rng.random(n)
    return np.where(rng.random(n) < 0.5, 0.2 + 0.05 * u, 0.9 + 0.1 * u**2)


def nearly_saturated(rng, n):
    return 1 - 1e-6 * rng.random(n) ** 3


def saturated_but_a_few(rng, n):
    r = np.where(rng.random(n) < 0.02, rng.random(n), 1 - 1e-9 * rng.random(n))
    r[0] = 0.3  # at least one, or there would be no spread
    return r


def heavily_tied(rng, n):
    r = np.floor(5 * rng.random(n)) / 5 + 0.1
    r[:2] = 0.1, 0.9
    return r


def mostly_one(rng, n):
    r = np.where(rng.random(n) < 0.9, 1.0, rng.random(n))
    r[0] = 0.4
    return r


SHAPES = [uniform, bimodal, nearly_saturated, saturated_but_a_few, heavily_tied, mostly_one]


def samples(shape, n, seed=0):
    rng = np.random.default_rng(seed)
    r = shape(rng, n)
    value = np.clip(r * (rng.random(n) < 0.7) + 0.05 * rng.random(n), 0, 1)
    return Samples(r, value, None, float(n))


def area(batch, sums, *, reflect=False):
    width = kernel_width(batch, "scott", RESOLUTION).value
    r = batch.confidence
    span = (min(r.max() / width + REACH, 1 / width) - max(r.min() / width - REACH, 0)) + (
        2 * REACH if reflect else 0
    )
    make = {
        "exact": DenseSums,
        "lowrank": lambda points: LowRankSums(points, span),
        "grid": lambda points: GridSums(points, span),
    }[sums]
    return smoothed_area(batch, width, make, reflect=reflect)


def assert_close(fast, exact, *, loss=1e-5, gradient=1e-4):
    assert math.log(fast.area) == pytest.approx(math.log(exact.area), abs=loss)
    for ours, theirs in zip(fast[1:], exact[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=gradient * np.abs(theirs).max())


@pytest.mark.parametrize("n", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sums", ["lowrank", "grid"])
def test_fast_sums_are_close_to_exact_ones(shape, n, sums):
    batch = samples(shape, n)
    assert_close(area(batch, sums), area(batch, "exact"))


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_are_far_more_accurate_than_promised(shape):
    batch = samples(shape, 300)
    assert_close(area(batch, "lowrank"), area(batch, "exact"), loss=1e-6, gradient=1e-6)


@pytest.mark.parametrize("shape", [uniform, bimodal, nearly_saturated])
@pytest.mark.parametrize("sums", ["lowrank", "grid"])
def test_fast_sums_with_reflection(shape, sums):
    batch = samples(shape, 200)
    assert_close(area(batch, sums, reflect=True), area(batch, "exact", reflect=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_thousand_samples(shape):
    """Repeated samples weigh as many, so a thousand distinct ones give the exact answer."""
    distinct, repeats = samples(shape, 1000, seed=1), 100
    r, value = distinct.confidence, distinct.value
    n = float(len(r) * repeats)
    many = Samples(np.repeat(r, repeats), np.repeat(value, repeats), None, n)
    width = kernel_width(many, "scott", RESOLUTION).value
    fast = smoothed_area(
        many, width, lambda points: choose_sums(points, "scott", "fast"), reflect=False
    )
    weighted = Samples(r, value * repeats, np.full(len(r), float(repeats)), n)
    exact = smoothed_area(weighted, width, DenseSums, reflect=False)
    assert math.log(fast.area) == pytest.approx(math.log(exact.area), abs=1e-5)
    ours, theirs = fast.by_value[::repeats], exact.by_value
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * theirs.max())
    ours, theirs = repeats * fast.by_confidence[::repeats], exact.by_confidence
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("reflect", [False, True])
def test_exact_sums_against_the_written_out_formula(reflect):
    batch = samples(bimodal, 25)
    kernel = reference.Kernel(reference.scott(batch.confidence), reflect=reflect)
    expected = reference.area_and_gradient(batch.confidence, batch.value, kernel)
    for ours, theirs in zip(area(batch, "exact", reflect=reflect), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def test_exact_sums_do_not_depend_on_the_size_of_blocks(monkeypatch):
    batch = samples(uniform, 50)
    whole = area(batch, "exact")
    monkeypatch.setattr("expertload.losses.kde.dense.PAIRS_PER_BLOCK", 64)
    assert_close(area(batch, "exact"), whole, loss=1e-12, gradient=1e-12)


@pytest.mark.parametrize(("method", "n"), [("exact", 60), ("fast", 60), ("fast", 6000)])
@pytest.mark.parametrize("reflect", [False, True])
def test_tensors_give_what_arrays_give(method, n, reflect):
    """On an accelerator the same formulas run in torch, with sizes bounded and not looked up."""
    batch = samples(uniform, n)
    tensors = Samples(*(torch.from_numpy(x) for x in batch[:2]), None, float(n))
    results = []
    for data in (batch, tensors):
        width = kernel_width(data, "scott", RESOLUTION).value
        make = lambda points: choose_sums(points, "scott", method)  # noqa: E731
        results.append(smoothed_area(data, width, make, reflect=reflect))
    assert isinstance(results[1].area, torch.Tensor)
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [2, 3, 50, 5000])
@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_span_is_bounded_whatever_the_confidences(shape, n, rule):
    batch = samples(shape, n)
    width = kernel_width(batch, rule, RESOLUTION).value
    assert np.ptp(batch.confidence) / width <= largest_span(n, rule)


def test_the_bound_on_the_span_is_reached_by_two_outliers():
    n = 1001
    r = np.full(n, 0.5)
    r[:2] = 0.0, 1.0
    width = kernel_width(Samples(r, r, None, float(n)), "scott", RESOLUTION).value
    assert 1 / width == pytest.approx(largest_span(n, "scott"), rel=1e-3)


def test_bandwidth_is_that_of_scipy():
    from scipy.stats import gaussian_kde

    batch = samples(bimodal, 70)
    for rule in ("scott", "silverman"):
        expected = gaussian_kde(batch.confidence, bw_method=rule).covariance[0, 0] ** 0.5
        assert kernel_width(batch, rule, RESOLUTION).value == pytest.approx(expected)
    assert kernel_width(batch, 0.05, RESOLUTION) == (0.05, False)


@pytest.mark.parametrize(
    ("n", "bandwidth", "expected"),
    [
        (500, "scott", LowRankSums),
        (50_000, "scott", GridSums),
        (50, 1e-4, DenseSums),
        (5000, 1e-3, GridSums),
    ],
)
def test_auto_takes_the_cheapest_way(n, bandwidth, expected):
    batch = samples(uniform, n)
    width = kernel_width(batch, bandwidth, RESOLUTION).value
    r = batch.confidence
    points = Points(r, r, np.array([0.0, 1.0]), width)
    assert type(choose_sums(points, bandwidth, "auto")) is expected

"""The fast kernel sums against the exact ones, and those against the formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.reference import aucoc_loss as reference

from expertload.losses import kde
from expertload.losses.kde import (
    BANDWIDTH_RULES,
    DenseSums,
    GridSums,
    Kernel,
    LowRankSums,
    Points,
    choose_sums,
)

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
    return torch.from_numpy(r), torch.from_numpy(value)


@pytest.fixture
def area(monkeypatch):
    """The area of a batch by one of the three kinds of sums, whatever would be chosen."""
    kinds = {"exact": DenseSums, "lowrank": LowRankSums, "grid": GridSums}

    def compute(batch, sums, **options):
        with monkeypatch.context() as patch:
            patch.setattr(
                "expertload.losses.kde.choose_sums", lambda points, _: kinds[sums](points)
            )
            return Kernel(**options).area(*batch, RESOLUTION)

    return compute


def assert_close(fast, exact, *, loss=1e-5, gradient=1e-4):
    assert math.log(fast.area) == pytest.approx(math.log(exact.area), abs=loss)
    for ours, theirs in zip(fast[1:], exact[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=gradient * float(theirs.abs().max()))


@pytest.mark.parametrize("n", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sums", ["lowrank", "grid"])
def test_fast_sums_are_close_to_exact_ones(area, shape, n, sums):
    batch = samples(shape, n)
    assert_close(area(batch, sums), area(batch, "exact"))


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_are_far_more_accurate_than_promised(area, shape):
    batch = samples(shape, 300)
    assert_close(area(batch, "lowrank"), area(batch, "exact"), loss=1e-6, gradient=1e-6)


@pytest.mark.parametrize("shape", [uniform, bimodal, nearly_saturated])
@pytest.mark.parametrize("sums", ["lowrank", "grid"])
def test_fast_sums_with_reflection(area, shape, sums):
    batch = samples(shape, 200)
    assert_close(area(batch, sums, boundary="reflect"), area(batch, "exact", boundary="reflect"))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_thousand_samples(shape):
    """Repeated samples have the curve of one each, so a thousand give the exact answer."""
    r, value = samples(shape, 1000, seed=1)
    repeats = 100
    many = r.repeat_interleave(repeats), value.repeat_interleave(repeats)
    width = Kernel().width(many[0], RESOLUTION)
    fast = Kernel(method="fast").area(*many, RESOLUTION)
    exact = Kernel(method="exact").smoothed_area(r, value, width)
    assert math.log(fast.area) == pytest.approx(math.log(exact.area), abs=1e-5)
    ours, theirs = repeats * fast.by_value[::repeats], exact.by_value
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * float(theirs.max()))
    ours, theirs = repeats * fast.by_confidence[::repeats], exact.by_confidence
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * float(theirs.abs().max()))


@pytest.mark.parametrize("boundary", ["none", "reflect"])
def test_exact_sums_against_the_written_out_formula(area, boundary):
    r, value = samples(bimodal, 25)
    kernel = reference.Kernel(reference.scott(r.numpy()), reflect=boundary == "reflect")
    expected = reference.area_and_gradient(r.numpy(), value.numpy(), kernel)
    for ours, theirs in zip(area((r, value), "exact", boundary=boundary), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def test_exact_sums_do_not_depend_on_the_size_of_blocks(area, monkeypatch):
    batch = samples(uniform, 50)
    whole = area(batch, "exact")
    monkeypatch.setattr(kde, "PAIRS_PER_BLOCK", 64)
    assert_close(area(batch, "exact"), whole, loss=1e-12, gradient=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [2, 3, 50, 5000])
@pytest.mark.parametrize("rule", BANDWIDTH_RULES)
def test_outliers_cannot_make_the_grid_run_away(shape, n, rule):
    """The smallest standard deviation for a range is that of two outliers and equal others."""
    r, _ = samples(shape, n)
    largest = math.sqrt(2 * n) * (BANDWIDTH_RULES[rule] * n) ** 0.2
    assert float(r.max() - r.min()) / Kernel(rule).width(r, RESOLUTION) <= largest


def test_bandwidth_is_that_of_scipy():
    from scipy.stats import gaussian_kde

    r, _ = samples(bimodal, 70)
    for rule in ("scott", "silverman"):
        expected = gaussian_kde(r.numpy(), bw_method=rule).covariance[0, 0] ** 0.5
        assert Kernel(rule).width(r, RESOLUTION) == pytest.approx(expected)
    assert Kernel(0.05).width(r, RESOLUTION) == 0.05
    assert Kernel(0.05).width(torch.ones(5), RESOLUTION) is None


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
    r, _ = samples(uniform, n)
    width = Kernel(bandwidth).width(r, RESOLUTION)
    points = Points(r, r, torch.tensor([0.0, 1.0], dtype=r.dtype), width, 1 / width)
    assert type(choose_sums(points, "auto")) is expected

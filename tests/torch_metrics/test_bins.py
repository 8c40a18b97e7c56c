"""Counting on a grid: what stays exact, and how far off the rest can be."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import examples
from tests.torch_metrics.test_metrics import batch, feed

from expertload import (
    Cases,
    aucoc_score,
    coc_curve,
    load_at_accuracy,
)
from expertload.torch_metrics import AUCOC, COC, LoadAtAccuracy, cell_of, lower_edges

ROUNDING = 1e-12


@pytest.mark.parametrize("n_cells", [1, 2, 100, 20_000])
def test_the_grid_covers_all_confidences(n_cells):
    edges = lower_edges(n_cells)
    assert len(edges) == n_cells
    assert edges[0] == 0
    assert (edges.diff() >= 0).all()
    assert edges[-1] < 1
    for dtype in (torch.float32, torch.float64):
        assert cell_of(torch.tensor([0.0], dtype=dtype), edges) == 0
        assert cell_of(torch.tensor([1.0], dtype=dtype), edges) == n_cells - 1
        assert (edges[cell_of(edges.to(dtype), edges)] == edges).all()


def test_cells_are_narrow_near_one():
    widths = torch.cat([lower_edges(1000), torch.ones(1)]).double().diff()
    assert widths[0] < 0.01
    assert widths[-1] < 1e-6


@examples(40)
@given(seed=st.integers(0, 500), bins=st.integers(1, 200), scale=st.sampled_from([0.5, 2, 15]))
def test_bounds_hold(seed, bins, scale):
    proba, target = batch(60, seed=seed, scale=scale)
    y, p = target.numpy(), proba.numpy()
    area = feed(AUCOC(bins=bins), proba, target)
    low, high = area.bounds()
    assert low - ROUNDING <= aucoc_score(y, p) <= high + ROUNDING
    assert low - ROUNDING <= area.compute().item() <= high + ROUNDING
    for accuracy in (0.0, 0.5, 0.8, 1.0):
        load = feed(LoadAtAccuracy(accuracy, bins=bins), proba, target)
        low, high = load.bounds()
        exact = load_at_accuracy(y, p, target_accuracy=accuracy)
        assert low - ROUNDING <= exact <= high + ROUNDING
        assert high == load.compute().item()


def orders_of_one_cell(right, wrong):
    """All sequences of right and wrong cases inside one cell, with confidences that differ."""
    n = right + wrong
    for chosen in itertools.combinations(range(n), right):
        correct = np.isin(np.arange(n), chosen)
        yield correct, 0.1 + 1e-4 * np.arange(n)


@pytest.mark.parametrize(("right", "wrong"), [(1, 1), (3, 2), (2, 4), (0, 3), (3, 0)])
def test_bounds_are_reached(right, wrong):
    """Over all orders that give the same counts, the extremes are the bounds, not just inside."""
    cases = list(orders_of_one_cell(right, wrong))
    areas = [aucoc_score(Cases.from_correctness(*case)) for case in cases]
    loads = [load_at_accuracy(Cases.from_correctness(*case), target_accuracy=0.7) for case in cases]
    n = right + wrong
    proba = torch.tensor([[0.9, 0.1]]).repeat(n, 1)
    target = (torch.arange(n) >= right).long()
    area, load = AUCOC(bins=1), LoadAtAccuracy(0.7, bins=1)
    area.update(proba, target)
    load.update(proba, target)
    np.testing.assert_allclose(area.bounds(), (min(areas), max(areas)), atol=1e-12)
    np.testing.assert_allclose(load.bounds()[0], min(loads), atol=1e-12)


def test_without_bins_there_is_no_doubt():
    proba, target = batch()
    for metric in (AUCOC(), LoadAtAccuracy(0.8)):
        value = feed(metric, proba, target).compute().item()
        assert metric.bounds() == (value, value)


@examples(40)
@given(seed=st.integers(0, 500), bins=st.integers(1, 300))
def test_points_of_a_binned_curve_are_points_of_the_curve(seed, bins):
    proba, target = batch(80, seed=seed)
    binned = feed(COC(bins=bins), proba, target).compute()
    confidence, correct = proba.double().amax(1).numpy(), (proba.argmax(1) == target).numpy()
    for load, accuracy, threshold in zip(*(part.numpy() for part in binned), strict=True):
        accepted = confidence >= threshold
        assert load == pytest.approx(1 - accepted.mean(), abs=1e-12)
        assert accuracy == pytest.approx(correct[accepted].mean(), abs=1e-12)
    assert len(binned.expert_load) <= min(bins, len(coc_curve(target, proba).expert_load))


def test_memory_does_not_grow_with_the_data():
    metric = AUCOC(bins=64)
    proba, target = batch()
    for _ in range(5):
        metric.update(proba, target)
    states = [getattr(metric, name) for name in metric._defaults]
    assert sum(state.numel() for state in states) == 2 * 64


@pytest.mark.parametrize("scale", [2.0, 8.0])
def test_a_thousand_cells_are_close_to_exact(scale):
    """For an over-confident model; at scale 8 a third of its confidences are above 0.99."""
    proba, _ = batch(20_000, classes=10, scale=scale)
    tempered = (proba.log() / 2).softmax(1)
    target = torch.multinomial(tempered, 1, generator=torch.Generator().manual_seed(0))[:, 0]
    metric = feed(AUCOC(bins=1000), proba, target, size=5000)
    low, high = metric.bounds()
    assert high - low < 5e-3
    exact = aucoc_score(target.numpy(), proba.numpy())
    assert metric.compute().item() == pytest.approx(exact, abs=1e-4)

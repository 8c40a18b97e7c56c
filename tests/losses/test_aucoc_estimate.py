"""Estimating areas where values cannot be looked at: tensors, as on an accelerator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from expertload.losses.aucoc import _solve
from expertload.losses.aucoc_upper_bound import _solve as solve_bound
from expertload.losses.confidence_function import LogConfidences
from expertload.losses.estimate import Batch, estimate_areas
from expertload.losses.kde.array_namespace import as_mask, as_working, namespace
from expertload.losses.options import AreaOptions

RESOLUTION = np.finfo(np.float32).eps


def draw(n, *, tied=False, keep="all"):
    rng = np.random.default_rng(0)
    r = np.full(n, 0.7) if tied else 0.2 + 0.8 * rng.random(n)
    masks = {"all": None, "some": rng.random(n) < 0.6, "none": np.zeros(n, dtype=bool)}
    return r, r * rng.random(n), masks[keep]


def as_tensors(*arrays):
    return [None if a is None else torch.from_numpy(a) for a in arrays]


@pytest.mark.parametrize("keep", ["all", "some", "none"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        AreaOptions(),
        AreaOptions(method="exact"),
        AreaOptions(boundary="reflect"),
        AreaOptions(estimator="rank"),
        AreaOptions(bandwidth=0.1),
    ],
    ids=lambda options: options.describe() or "defaults",
)
def test_tensors_give_what_arrays_give(options, tied, keep):
    r, value, mask = draw(40, tied=tied, keep=keep)
    expected, empty = estimate_areas(Batch(r, (value,), mask, RESOLUTION), options)
    tr, tvalue, tmask = as_tensors(r, value, mask)
    ours, ours_empty = estimate_areas(Batch(tr, (tvalue,), tmask, RESOLUTION), options)
    assert bool(ours_empty) == empty == (keep == "none")
    for theirs, mine in zip(expected[0], ours[0], strict=True):
        assert isinstance(mine, torch.Tensor)
        np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-6 * max(1, np.abs(theirs).max()))


@pytest.mark.parametrize("solve", [_solve, solve_bound])
@pytest.mark.parametrize("keep", ["all", "some", "none"])
def test_losses_solve_on_tensors_too(solve, keep):
    r, value, mask = draw(40, keep=keep)
    logs = [np.log(r), np.log(value)]
    expected = solve(
        LogConfidences(*logs, lambda: value > 0.3, mask, RESOLUTION), options=AreaOptions()
    )
    tensors = as_tensors(*logs)
    ours = solve(
        LogConfidences(*tensors, lambda: None, *as_tensors(mask), RESOLUTION),
        options=AreaOptions(),
    )
    for theirs, mine in zip(expected, ours, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-6)


def test_a_grid_larger_than_looked_up_serves_as_well():
    """Without looking, the grid is sized for the worst spread there can be."""
    r, value, _ = draw(3000)
    options = AreaOptions(method="fast")
    ((expected,), _) = estimate_areas(Batch(r, (value,), None, RESOLUTION), options)
    ((ours,), _) = estimate_areas(
        Batch(*as_tensors(r), tuple(as_tensors(value)), None, RESOLUTION), options
    )
    np.testing.assert_allclose(ours.by_value.numpy(), expected.by_value, rtol=1e-4)


def test_working_precision_is_double_and_apart():
    log = torch.zeros(3)
    array = as_working(log)
    assert array.dtype == np.float64
    array += 1
    assert not log.any()
    double = torch.zeros(3, dtype=torch.float64)
    as_working(double)[0] = 1
    assert not double.any()
    assert namespace(array) is np
    assert namespace(log) is torch


@pytest.mark.slow
def test_tensors_of_other_devices_stay_there():
    meta = torch.zeros(3, device="meta")
    assert as_working(meta).dtype == torch.float64
    assert as_working(meta).device.type == "meta"
    assert as_mask(meta > 0).device.type == "meta"

"""Batch norm in two processes is torch's own on the batch of both."""

from __future__ import annotations

import pytest
import torch
from tests import forked
from tests.lab.training import batch_norm_worker
from tests.lab.training.batch_norm_worker import CASES, SHARES, batches, layer_of, passes
from torch import nn

from expertload.exceptions import ParameterError
from expertload.lab.training.setup import synchronise_batch_norm

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def in_two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    ranks = range(len(SHARES))
    processes = [forked.start(batch_norm_worker.main, rank, folder) for rank in ranks]
    assert forked.finish(processes) == [0, 0]
    return [torch.load(folder / f"{rank}.pt") for rank in ranks]


def assert_close(found, expected, tolerance, what):
    assert torch.allclose(found.double(), expected, rtol=tolerance, atol=tolerance), what


@pytest.mark.parametrize("name", CASES)
def test_two_processes_normalise_as_one(name, in_two_processes):
    make, shape, dtype = CASES[name]
    parts = [found[name] for found in in_two_processes]
    exact = (batch.double() for batch in batches(shape, dtype))
    whole = passes(layer_of(make, torch.float64), *exact)
    # What is left is the order of summation; half precision then rounds its results, once.
    digits = 1e-12 if dtype == torch.float64 else 1e-5
    rounding = max(digits, torch.finfo(dtype).eps)
    for key in ("out", "again", "after", "gradient"):
        both = torch.cat([part[key] for part in parts])
        assert both.dtype == dtype
        assert_close(both, whole[key], rounding, key)
    for key, expected in whole["weights"].items():  # each process has the part of its own rows
        assert_close(sum(part["weights"][key] for part in parts), expected, digits, key)
    for part in parts:
        assert part["statistics"].keys() == whole["statistics"].keys()
        for key, expected in whole["statistics"].items():
            assert_close(part["statistics"][key], expected.double(), digits, key)


class WithForward(nn.BatchNorm2d):
    def forward(self, images):
        return super().forward(images).relu()


def test_batch_norm_with_a_way_of_its_own_is_refused():
    with pytest.raises(ParameterError, match="cannot synchronise WithForward"):
        synchronise_batch_norm(nn.Sequential(nn.Linear(3, 3), WithForward(3)))


def test_what_is_synchronised_already_is_left_alone():
    layers = synchronise_batch_norm(nn.Sequential(nn.SyncBatchNorm(3), nn.BatchNorm1d(3)))
    kinds = [type(layer) for layer in layers]
    assert kinds[0] is nn.SyncBatchNorm
    assert issubclass(kinds[1], nn.BatchNorm1d)
    assert [type(layer) for layer in synchronise_batch_norm(layers)] == kinds

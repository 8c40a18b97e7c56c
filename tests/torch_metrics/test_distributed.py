"""Real processes over gloo: the answer is that of one process, whatever each of them holds."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests import forked
from tests.torch_metrics.test_metrics import batch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from expertload.torch_metrics import AUCOC, COC, LoadAtAccuracy, not_padding

pytestmark = pytest.mark.processes

N = 101  # neither 2 nor 3 divide it


def join(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=60),
    )


def readings(aucoc, load, curve, binned, binned_load):
    return {
        "aucoc": aucoc.compute().item(),
        "load": load.compute().item(),
        "curve": [column.tolist() for column in curve.compute()],
        "binned": [binned.compute().item(), *binned.bounds()],
        "binned load": [binned_load.compute().item(), *binned_load.bounds()],
        "again": aucoc.compute().item(),
    }


def new_metrics():
    return AUCOC(), LoadAtAccuracy(0.8), COC(), AUCOC(bins=40), LoadAtAccuracy(0.8, bins=40)


def with_padding_sampler():
    """As a training loop does it: the sampler pads, the mask tells the repeats."""
    data = TensorDataset(*batch(N))
    sampler = DistributedSampler(data, shuffle=True)
    valid = not_padding(sampler)
    metrics = new_metrics()
    for step, (proba, target) in enumerate(DataLoader(data, 16, sampler=sampler)):
        real = valid[16 * step : 16 * step + 16]
        for metric in metrics:
            metric.update(proba, target, valid=real)
    return readings(*metrics)


def with_uneven_shares(rank, world):
    """Shares of very different sizes; the last process has no cases at all."""
    proba, target = batch(N)
    cuts = [0, 7, N, N] if world == 3 else [0, N, N]
    part = slice(cuts[rank], cuts[rank + 1])
    metrics = new_metrics()
    if cuts[rank] < cuts[rank + 1]:
        for metric in metrics:
            metric.update(proba[part], target[part])
    else:
        for metric in metrics:  # or torchmetrics warns of a compute before any update
            metric._update_count = 1
    return readings(*metrics)


def both(rank, world, folder):
    join(rank, world, folder)
    answers = {"padding": with_padding_sampler(), "uneven": with_uneven_shares(rank, world)}
    Path(folder, f"{rank}.json").write_text(json.dumps(answers))
    dist.destroy_process_group()


@pytest.mark.parametrize("world", [2, 3])
def test_every_process_gets_the_answer_of_one(world, tmp_path):
    processes = [forked.start(both, rank, world, str(tmp_path)) for rank in range(world)]
    assert forked.finish(processes) == [0] * world
    alone = new_metrics()
    for metric in alone:
        metric.update(*batch(N))
    expected = readings(*alone)
    for rank in range(world):
        answers = json.loads((tmp_path / f"{rank}.json").read_text())
        assert answers["padding"] == expected
        assert answers["uneven"] == expected


def lose_a_rank(rank, world, folder):
    join(rank, world, folder)
    metric = AUCOC()
    metric.update(*batch(N))
    if rank == 1:
        os._exit(9)  # as if killed: no goodbye to the others
    try:
        metric.compute()
    except Exception as error:
        Path(folder, "error").write_text(str(error))
    os._exit(0)


def test_a_killed_process_is_an_error_not_a_hang(tmp_path):
    processes = [forked.start(lose_a_rank, rank, 2, str(tmp_path)) for rank in range(2)]
    assert forked.finish(processes) == [0, 9]
    assert (tmp_path / "error").read_text()

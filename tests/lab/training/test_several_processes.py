"""Two processes train to the weights that one trains to, on the same global batches."""

from __future__ import annotations

import json

import pytest
import torch
from tests.lab.conftest import run_command, tiny

from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.network import load_weights
from expertload.lab.training.loop import train

pytestmark = pytest.mark.processes

# Batch norm is synchronised; in double precision what is left is the order of summation.
CONFIG = tiny(
    "ce+aucoc",
    weight=1.0,
    epochs=2,
    batch_size=128,
    precision="64-true",
    augment={"padding": 1, "symmetries": True, "reflect": True},
    ema_epochs=1.0,
)


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "run"
    torch.set_num_threads(1)
    train(CONFIG, path)
    return path


def assert_equal_runs(path, expected, kinds=("raw", "averaged")):
    for kind in kinds:
        weights, theirs = (load_weights(RunFolder(p).best_of(kind))[0] for p in (path, expected))
        for name, tensor in theirs.items():
            assert torch.allclose(weights[name], tensor, rtol=0, atol=1e-10), name
    for split in ("validation", "test"):
        (ours, labels), (theirs, same) = (RunFolder(p).read_logits(split) for p in (path, expected))
        assert (labels == same).all()
        assert abs(ours - theirs).max() < 1e-5  # logits are written in single precision
    losses = [
        [json.loads(line)["train_loss"] for line in (p / "metrics.jsonl").read_text().splitlines()]
        for p in (path, expected)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


def test_two_processes_train_as_one(in_one_process, run_path):
    RunFolder(run_path).create(CONFIG)
    done = run_command("lab", "train", run_path, "--devices", 2, "--accelerator", "cpu")
    assert done.returncode == 0, done.stderr
    assert "MEMBER: 2/2" in done.stderr  # there were two
    assert done.stdout.count("epoch   1/2") == 1  # and one of them spoke
    assert_equal_runs(run_path, in_one_process)
    assert RunFolder(run_path).read_json("environment.json")["processes"] == 2


def test_torchrun(in_one_process, run_path):
    RunFolder(run_path).create(CONFIG)
    done = run_command(
        *("--standalone", "--nproc-per-node", 2, "-m", "expertload"),
        *("lab", "train", run_path, "--accelerator", "cpu"),
        module="torch.distributed.run",
    )
    assert done.returncode == 0, done.stderr
    assert_equal_runs(run_path, in_one_process)


def test_what_is_wrong_is_said_once(tmp_path):
    done = run_command(
        "lab", "train", "digits", "--out", tmp_path, "--devices", 2, "--set", "model.name=resnet21"
    )
    assert done.returncode == 1
    assert done.stderr.count("resnet21") == 1
    assert "Traceback" not in done.stderr

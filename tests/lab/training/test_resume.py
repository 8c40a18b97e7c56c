"""Kill -9 at any moment, run it again: the result is that of the uninterrupted run, to the bit."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import forked
from tests.lab.conftest import tiny
from tests.lab.training import kill_driver
from torch import nn

from expertload.lab.runs.folder import RunFolder
from expertload.lab.training.loop import train

pytestmark = pytest.mark.processes

CONFIG = tiny(
    "ce+aucoc",
    weight=0.5,
    epochs=6,
    batch_size=64,
    milestones=(3,),
    warm_up=2,
    select_by="ece",
    augment={"padding": 1, "symmetries": True},
    ema_epochs=1.5,
)


class Remembering(nn.Module):
    """A loss whose scale depends on all batches before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, logits, target):
        value = nn.functional.cross_entropy(logits, target)
        self.mean.lerp_(value.detach(), 0.1)
        return value / (1 + self.mean)


FOLLOWING = tiny(
    "tests.lab.training.test_resume:Remembering",
    epochs=10,
    schedule="one-cycle",
    augment={"padding": 1, "reflect": True},
)


def without_seconds(value):
    return {key: entry for key, entry in value.items() if key != "seconds"}


def contents(path: Path) -> dict:
    """Everything that a run leaves, less the clock."""
    folder = RunFolder(path)
    found = {
        "weights": {file.name: file.read_bytes() for file in path.glob("best*.safetensors")},
        "results": without_seconds(folder.read_json("results.json")),
        "config": folder.read_json("config.json"),
        "environment": folder.read_json("environment.json"),
        "history": [
            without_seconds(json.loads(line))
            for line in (path / "metrics.jsonl").read_text().splitlines()
        ],
    }
    for split in ("validation", "test"):
        found[split] = [array.tobytes() for array in folder.read_logits(split)]
    return found


def drive(folder: Path, config, how: str) -> int:
    """Train in processes that are killed; how many were."""
    return kill_driver.drive_in_a_process(partial(train, config, folder), how)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    assert drive(path, CONFIG, "never") == 0
    return contents(path)


@pytest.mark.parametrize("how", ["anywhere", "writing", "writing in turn"])
def test_killed_runs_end_as_uninterrupted_ones(how, uninterrupted, run_path):
    kills = drive(run_path, CONFIG, how)
    assert kills >= 3
    found = contents(run_path)
    for part, expected in uninterrupted.items():
        assert found[part] == expected, part


def test_what_a_loss_remembers_survives(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert drive(whole, FOLLOWING, "never") == 0
    assert drive(killed, FOLLOWING, "anywhere") >= 3
    assert contents(killed) == contents(whole)


def test_the_same_command_goes_on(tmp_path, uninterrupted):
    """The command line itself, killed once it has something to lose."""
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(
        """
        data = { name = "digits", augment = { padding = 1, symmetries = true } }
        model = { name = "small-cnn", options = { width = 8 } }
        losses."ce+aucoc" = { weight = 0.5 }
        [training]
        epochs = 6
        batch_size = 64
        optimiser = "adam"
        learning_rate = 0.01
        milestones = [3]
        warm_up = 2
        select_by = "ece"
        ema_epochs = 1.5
        """
    )
    arguments = ["lab", "train", recipe, "--loss", "ce+aucoc", "--out", tmp_path]
    path = tmp_path / CONFIG.run_name
    said = tmp_path / "said"
    killed = forked.start(kill_driver.killed_in_its_second_epoch, arguments, said)
    assert forked.finish([killed]) == [-signal.SIGKILL]
    assert len((path / "metrics.jsonl").read_text().splitlines()) == 1
    assert not RunFolder(path).is_done
    done = forked.start(forked.run_command, arguments, said)
    assert forked.finish([done]) == [0], said.read_text()
    assert "resumed at epoch" in said.read_text()
    assert contents(path) == uninterrupted


def test_the_comparison_above_can_fail(uninterrupted, run_path):
    drive(run_path, CONFIG.model_copy(update={"seed": 1}), "never")
    found = contents(run_path)
    assert set(found["weights"]) == {"best.safetensors", "best-averaged.safetensors"}
    for name, weights in found["weights"].items():
        assert weights != uninterrupted["weights"][name]
    assert not np.array_equal(found["test"], uninterrupted["test"])

"""A run that is small enough to be trained in a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from expertload.lab.runs.recipe import (
    DataConfig,
    LossConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
    load_recipe,
)

SRC = Path(__file__).resolve().parents[2] / "src"


def tiny(
    loss="ce",
    *,
    weight=None,
    options=None,
    data="digits",
    model="small-cnn",
    seed=0,
    augment=True,
    **given,
):
    """The configuration of a run of a second or two."""
    training = {"epochs": 2, "batch_size": 64, "optimiser": "adam", "learning_rate": 0.01, **given}
    network = {"width": 8} if model == "small-cnn" else {}
    return RunConfig(
        data=DataConfig(name=data, augment=augment),
        model=ModelConfig(name=model, options=network),
        loss=LossConfig(name=loss, weight=weight, options=options or {}),
        training=TrainingConfig(**training),
        seed=seed,
    )


def environment(**more):
    """For processes that tests start: our sources, and one thread, so that bits are the same."""
    paths = [str(SRC), os.environ.get("PYTHONPATH", "")]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **threads, **more}


def run_command(*arguments, module="expertload", **options):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=environment(**options),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small gain nothing from a second one, and wait for it on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def run_path(tmp_path):
    return tmp_path / "run"


RECIPE = """
data.name = "digits"
model = { name = "small-cnn", options = { width = 8 } }
[training]
epochs = 2
batch_size = 128
optimiser = "adam"
learning_rate = 0.01
[losses]
ce = {}
"ce+aucoc" = { weight = [0.1, 1.0, 10.0] }
"""


@pytest.fixture
def recipe_path(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def recipe(recipe_path):
    return load_recipe(recipe_path)

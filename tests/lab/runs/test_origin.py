"""Data and code that change under their name, and folders that name what to import."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console
from tests.lab.conftest import environment, tiny
from tests.lab.synthetic_runs import make_config, write_run
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.models import build_model
from expertload.lab.results.ensembles import with_views
from expertload.lab.results.evaluate import evaluate_runs
from expertload.lab.results.outliers import evaluate_outliers
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.origin import load_run_data
from expertload.lab.runs.recipe import load_recipe
from expertload.lab.sweeps.launch import ProcessLauncher
from expertload.lab.sweeps.sweep import Sweep
from expertload.lab.sweeps.worker import Worker
from expertload.lab.training.loop import train
from expertload.lab.training.progress import Reporter

MODULE = """
from torch import nn

def network(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear({inputs}, num_classes))

def loss():
    return nn.CrossEntropyLoss()
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module of the user's, and a function that changes it."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    path = tmp_path / f"{name}.py"
    monkeypatch.syspath_prepend(tmp_path)

    def write(comment=""):
        path.write_text(MODULE.format(inputs=64) + comment)
        sys.modules.pop(name, None)
        return name

    write()
    yield write
    sys.modules.pop(name, None)


def config_of(name, **given):
    return tiny(f"{name}:loss", model=f"{name}:network", epochs=1, batch_size=256, **given)


def write_images(path, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, n in (("train", 40), ("val", 20), ("test", 20)):
        arrays[f"{part}_images"] = rng.integers(0, 256, (n, 8, 8), dtype=np.uint8)
        arrays[f"{part}_labels"] = np.arange(n) % 2
    np.savez(path, **arrays)
    return f"npz:{path}"


@pytest.mark.training
def test_a_run_that_was_done_before_says_so(run_path):
    config = tiny(epochs=1, batch_size=256)
    first, second = io.StringIO(), io.StringIO()
    for text in (first, second):
        results = train(config, run_path, reporter=Reporter(Console(file=text, width=160)))
    day = f"{RunFolder(run_path).finished:%Y-%m-%d}"
    assert "nothing trained" not in first.getvalue()
    assert f"finished on {day} at " in second.getvalue()
    assert "nothing trained" in second.getvalue()
    assert f"AUCOC {results['test']['aucoc']:.4f}" in second.getvalue()


@pytest.mark.training
def test_data_that_have_changed_are_refused(tmp_path, run_path):
    data = write_images(tmp_path / "mine.npz")
    config = tiny(data=data, epochs=1, batch_size=16)
    train(config, run_path)
    train(config, run_path)  # as it is
    write_images(tmp_path / "mine.npz", seed=1)
    with pytest.raises(FileFormatError, match="have changed since the run in .* was trained"):
        train(config, run_path)


@pytest.mark.training
def test_data_that_change_while_a_run_goes_on_are_refused(tmp_path, run_path):
    data = write_images(tmp_path / "mine.npz")
    config = tiny(data=data, epochs=1, batch_size=16)
    train(config, run_path)
    (run_path / "results.json").unlink()
    write_images(tmp_path / "mine.npz", seed=1)
    with pytest.raises(FileFormatError, match="was begun"):
        train(config, run_path)


@pytest.mark.training
@pytest.mark.parametrize("what", ["network", "loss"])
def test_a_network_or_loss_that_has_changed_is_refused(what, own_module, run_path):
    name = own_module()
    config = config_of(name) if what == "network" else tiny(f"{name}:loss", epochs=1)
    train(config, run_path)
    train(config, run_path)
    own_module("# another version")
    with pytest.raises(FileFormatError, match=f"{name}:{what}' is in has changed"):
        train(config, run_path)


def test_a_sweep_refuses_runs_of_other_data(recipe, tmp_path):
    dataset = load_run_data(recipe.data)
    run = recipe.run(recipe.candidates("ce")[0], 0)
    path = write_run(tmp_path, run)
    assert Sweep(recipe, tmp_path, losses=["ce"], seeds=[0], dataset=dataset).waiting() == []
    (path / "environment.json").write_text(json.dumps({"data": {"sha256": "another"}}))
    with pytest.raises(FileFormatError, match="'digits' have changed"):
        Sweep(recipe, tmp_path, losses=["ce"], seeds=[0], dataset=dataset).waiting()


# ------------------------------------------------------------------ folders that were found


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """The folder of a run whose network does something else when it is built."""
    mark = tmp_path / "it-ran"
    (tmp_path / "trap.py").write_text(
        "import pathlib\ndef spring(mark, **options):\n    pathlib.Path(mark).touch()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = {"name": "trap:spring", "options": {"mark": str(mark)}}
    path = write_run(tmp_path / "found", make_config(model=model))
    yield path, mark
    sys.modules.pop("trap", None)


def refused(call, *arguments, **options):
    with pytest.raises(ParameterError, match=r"import and call trap:spring.*--allow-import"):
        call(*arguments, **options)


def test_a_found_folder_runs_nothing(trap):
    path, mark = trap
    refused(with_views, path)
    refused(evaluate_outliers, path, ["digits-clean"])
    refused(FinishedRun(path).load_network, load_run_data(FinishedRun(path).config.data))
    refused(Worker(), str(path))
    assert evaluate_runs(path).runs  # which needs no network
    assert not mark.exists()
    with pytest.raises(ParameterError, match="must be a torch module"):
        build_model("trap:spring", num_classes=4, mark=str(mark))
    assert mark.exists()  # so it would have been seen


@pytest.mark.parametrize(
    "words",
    [
        ["train"],
        ["ood", "--against", "digits-clean"],
        ["evaluate", "--views", "auto"],
    ],
    ids=lambda words: words[0],
)
def test_commands_on_a_found_folder_run_nothing(words, trap):
    path, mark = trap
    (path / "results.json").touch()
    done = CliRunner().invoke(app, ["lab", words[0], str(path), *words[1:]])
    assert done.exit_code == 1
    assert "--allow-import trap:spring" in done.output
    assert not mark.exists()


def test_a_ladder_that_continues_a_found_folder_imports_nothing_unasked(tmp_path, monkeypatch):
    (tmp_path / "sprung.py").write_text("import pathlib\npathlib.Path('it-ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    path = write_run(tmp_path / "found", make_config(model={"name": "sprung:network"}))
    words = ["lab", "lower-load", "digits", "--continue", str(path), "--out", "out"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "--allow-import sprung:network" in done.output
    assert not (tmp_path / "it-ran").exists()
    for permission in ("--allow-import", "--network"):
        sys.modules.pop("sprung", None)
        done = CliRunner().invoke(app, [*words, permission, "sprung:network"])
        assert "The module 'sprung' has nothing to call" in " ".join(done.output.split())
        (tmp_path / "it-ran").unlink()


@pytest.mark.training
def test_what_is_allowed_by_name_is_imported(own_module, run_path):
    name = own_module()
    train(config_of(name), run_path)
    data = FinishedRun(run_path).load_data()
    refused_name = rf"import and call {name}:network,"
    with pytest.raises(ParameterError, match=refused_name):
        FinishedRun(run_path, allow=["other:network"]).load_network(data)
    allowed = FinishedRun(run_path, allow=[f"{name}:network"])
    assert allowed.load_network(data)(np_images()).shape == (2, 10)


def np_images():
    import torch

    return torch.zeros(2, 1, 8, 8)


@pytest.mark.training
def test_workers_may_import_what_the_recipe_named_and_nothing_else(own_module, tmp_path):
    name = own_module()
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'data.name = "digits"\n'
        f'model.name = "{name}:network"\n'
        "training = { epochs = 1, batch_size = 256, learning_rate = 0.1 }\n"
        f'[losses]\nce = {{}}\n"ce+{name}:loss" = {{}}\n'
    )
    loaded = load_recipe(recipe)
    grid = Sweep(loaded, tmp_path / "runs", losses=list(loaded.losses), seeds=[0])
    assert grid.imports() == [f"{name}:network", f"{name}:loss"]
    folder = RunFolder(tmp_path / "runs" / "one")
    folder.create(loaded.run(loaded.candidates("ce")[0], 0))
    Worker(allow=grid.imports(), accelerator="cpu")(str(folder.path))
    assert folder.is_done


@pytest.mark.processes
def test_workers_import_nothing_from_the_working_folder(tmp_path, monkeypatch):
    """A file that is called as a module of Python's is not taken for it."""
    (tmp_path / "pydantic.py").write_text("raise SystemExit('the wrong pydantic')")
    launcher = ProcessLauncher(jobs=1, accelerator="cpu")
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    command = [sys.executable, "-c", "import pydantic; print(pydantic.__file__)"]
    done = subprocess.run(
        command, cwd=tmp_path, env=launcher.environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout.startswith(str(tmp_path))
    started = []
    monkeypatch.setattr(
        "expertload.lab.sweeps.launch.subprocess.Popen",
        lambda command, **options: started.append(command) or done,
    )
    launcher.start(tmp_path)
    assert started[0][1:4] == ["-P", "-m", "expertload.lab.sweeps.worker"]
    assert os.environ.get("PYTHONSAFEPATH") is None

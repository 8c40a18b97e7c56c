"""Files that are cut, changed or not what they are called: a sentence, never a traceback."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.conftest import tiny
from tests.lab.synthetic_runs import make_config, write_run
from tests.strategies import examples

from expertload.exceptions import FileFormatError
from expertload.lab.results.evaluate import evaluate_runs
from expertload.lab.results.rows import collect
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.network import load_weights, save_weights
from expertload.lab.runs.recipe import load_recipe
from expertload.lab.sweeps.sweep import Observer, Sweep
from expertload.lab.training.loop import train


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path, make_config())


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = write_run(tmp_path_factory.mktemp("run"), make_config(), n=20)
    return (folder / "test.npz").read_bytes()


@examples(60)
@given(st.data())
def test_a_damaged_archive_is_said_or_read(archive, tmp_path_factory, data):
    place = tmp_path_factory.mktemp("damaged")
    start = data.draw(st.integers(0, len(archive) - 1))
    patch = data.draw(st.binary(min_size=0, max_size=8))
    cut = data.draw(st.booleans())
    content = archive[:start] + patch + (b"" if cut else archive[start + len(patch) :])
    (place / "test.npz").write_bytes(content)
    try:
        logits, labels = RunFolder(place).read_logits("test")
    except FileFormatError:
        return
    assert logits.shape == (20, 4)
    assert labels.shape == (20,)


@pytest.mark.parametrize(
    "arrays",
    [
        {"logits": np.zeros((3, 2)), "labels": np.zeros(2, np.int64)},
        {"logits": np.zeros(3), "labels": np.zeros(3, np.int64)},
        {"logits": np.zeros((3, 2)), "labels": np.array([0, 1, 2])},
        {"logits": np.zeros((3, 2)), "labels": np.array([0, 1, -1])},
        {"logits": np.zeros((3, 2)), "labels": np.zeros(3)},
        {"logits": np.zeros((0, 2)), "labels": np.zeros(0, np.int64)},
        {"labels": np.zeros(3, np.int64)},
    ],
)
def test_arrays_that_are_no_predictions(arrays, run):
    np.savez(run / "test.npz", **arrays)
    with pytest.raises(FileFormatError, match=r"test\.npz is damaged"):
        evaluate_runs(run)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '"text"', "[" * 100_000, "1" * 5000])
@pytest.mark.parametrize("name", ["config.json", "results.json", "environment.json"])
def test_json_that_is_damaged(name, content, run):
    (run / name).write_text(content)
    with pytest.raises(FileFormatError, match=rf"{name} is (damaged|not the conf)"):
        collect(run)


@pytest.mark.parametrize("content", [{"test": {"aucoc": "high"}}, {"test": 3}, {"test": [1]}])
def test_results_that_are_not_numbers(content, run):
    (run / "results.json").write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="is damaged"):
        collect(run)
    with pytest.raises(FileFormatError, match="is damaged"):
        RunFolder(run).validation_score("aucoc")


def test_outliers_and_choices_that_are_damaged(run, tmp_path):
    (run / "outliers.json").write_text('{"evaluations": [3]}')
    with pytest.raises(FileFormatError, match="is damaged"):
        collect(run)
    (tmp_path / "choice.json").write_text("[")
    with pytest.raises(FileFormatError, match=r"choice\.json is damaged"):
        Sweep(load_recipe("digits"), tmp_path, losses=["ce"], seeds=[0]).run(
            None, jobs=1, observer=Observer()
        )


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 20, b"\xff" * 8 + b"{}", b"not a tensor at all"]
)
def test_weights_that_are_damaged(content, run):
    FinishedRun(run).folder.best_of("raw").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"best\.safetensors is damaged"):
        load_weights(run / "best.safetensors")


def test_facts_that_are_no_facts(tmp_path):
    save_weights(tmp_path / "w", {}, [1])
    with pytest.raises(FileFormatError, match="its header has no facts"):
        load_weights(tmp_path / "w")


@pytest.mark.parametrize(
    "progress", [{}, {"history": 3, "best_epoch": 0, "precision": {}}, {"history": [3]}, 3]
)
def test_a_checkpoint_without_its_progress(progress, run_path):
    config = tiny(epochs=1, batch_size=512)
    train(config, run_path)
    (run_path / "results.json").unlink()
    tensors, _ = load_weights(run_path / "best.safetensors")
    model = {f"model/{name}": tensor for name, tensor in tensors.items()}
    groups = [{"lr": 0.01, "params": list(range(15))}]
    optimiser = {"groups": groups, "scalars": {}}
    save_weights(
        run_path / "last.safetensors", model, {"progress": progress, "optimiser": optimiser}
    )
    with pytest.raises(FileFormatError, match=r"last\.safetensors"):
        train(config, run_path)

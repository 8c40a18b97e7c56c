"""Trainings that are refused, fail or end early: what is said, and how they go on."""

from __future__ import annotations

import resource
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.lab.conftest import tiny
from tests.lab.training.own_parts import (
    PLAIN,
    StopError,
    history,
    smaller_network,
    stop,
    stop_after,
)

from expertload.exceptions import (
    FileFormatError,
    FileWriteError,
    ParameterError,
    RunInUseError,
    TrainingDivergedError,
)
from expertload.lab.data import load_dataset
from expertload.lab.results.rows import collect
from expertload.lab.runs import network as weights_module
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.network import load_weights, save_weights
from expertload.lab.training import loop as training_module
from expertload.lab.training import state as training_state
from expertload.lab.training.loop import train
from expertload.lab.training.setup import describe_environment

pytestmark = pytest.mark.training


def test_another_configuration_is_refused(run_path):
    train(tiny(), run_path)
    with pytest.raises(FileFormatError, match=r"training\.epochs: 2 there, 3 requested"):
        train(tiny(epochs=3), run_path)


def test_a_configuration_that_does_not_match_the_checkpoint_is_refused(run_path):
    stop_after(run_path, tiny(epochs=3), epochs=1)
    with pytest.raises(FileFormatError, match="another configuration"):
        train(tiny(epochs=3, learning_rate=0.2), run_path)
    assert train(tiny(epochs=3), run_path)["best_epoch"] >= 1  # and the state is still good


def test_nonsense_is_refused_before_a_folder_is_made(run_path):
    for config in (tiny("ce+aucoo"), tiny(model="resnet21"), tiny("ce", options={"gamma": 1})):
        with pytest.raises(ParameterError):
            train(config, run_path)
    assert not run_path.exists()


def test_unknown_accelerators_are_refused_in_words(run_path):
    with pytest.raises(ParameterError, match="abacus"):
        train(tiny(), run_path, accelerator="abacus")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileWriteError, match="could not be written"):
        train(tiny(), tmp_path / "file" / "run")


def test_a_full_disk_is_said_and_leaves_the_last_good_state(tmp_path):
    config = tiny(epochs=3)
    stop_after(tmp_path / "full", config, epochs=1)
    good = (tmp_path / "full" / "last.safetensors").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores the signal, so that a write beyond the limit fails as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(
            FileWriteError, match=r"Could not write .*The previous file is unchanged"
        ):
            train(config, tmp_path / "full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "full" / "last.safetensors").read_bytes() == good
    assert not list((tmp_path / "full").glob(".*.tmp"))
    resumed, whole = train(config, tmp_path / "full"), train(config, tmp_path / "whole")
    assert resumed["test"] == whole["test"]


def test_killed_between_the_two_files_of_an_epoch(run_path, monkeypatch):
    """And what was trained after that is worse: results and weights are of the same epoch."""
    scores = iter([0.5, 0.6, 0.4, 0.4])
    measure = training_module._validation_metrics
    monkeypatch.setattr(
        training_module,
        "_validation_metrics",
        lambda logits, labels: {**measure(logits, labels), "aucoc": next(scores)},
    )
    write, written = weights_module.write_whole, []

    def write_three(path, content):
        if len(written) == 3:
            raise StopError
        write(path, content)
        written.append(path.name)

    with monkeypatch.context() as patch:
        patch.setattr(weights_module, "write_whole", write_three)
        with pytest.raises(StopError):
            train(tiny(epochs=3), run_path)
    assert sorted(written[:2]) == ["best.safetensors", "last.safetensors"]
    results = train(tiny(epochs=3), run_path)
    kept = [record["aucoc"] for record in history(run_path)]
    assert results["best_epoch"] == int(np.argmax(kept)) + 1
    _, facts = load_weights(run_path / "best.safetensors")
    assert facts == {"epoch": results["best_epoch"] - 1}
    accuracy = history(run_path)[results["best_epoch"] - 1]["accuracy"]
    assert results["validation"]["accuracy"] == accuracy


def test_killed_between_the_last_checkpoint_and_its_line_of_metrics(run_path, monkeypatch):
    write = RunFolder.write_metrics

    def write_one(folder, records):
        if len(records) == 2:
            raise StopError
        write(folder, records)

    monkeypatch.setattr(RunFolder, "write_metrics", write_one)
    with pytest.raises(StopError):
        train(tiny(epochs=2), run_path)
    assert len(history(run_path)) == 1
    monkeypatch.undo()
    train(tiny(epochs=2), run_path)
    assert [record["epoch"] for record in history(run_path)] == [1, 2]


def test_killed_between_configuration_and_environment(run_path, monkeypatch):
    write = RunFolder.write_json

    def write_no_environment(folder, name, value):
        if name == "environment.json":
            raise StopError
        write(folder, name, value)

    monkeypatch.setattr(RunFolder, "write_json", write_no_environment)
    with pytest.raises(StopError):
        train(tiny(), run_path)
    monkeypatch.undo()
    assert (run_path / "config.json").exists()
    train(tiny(), run_path)
    assert "torch" in RunFolder(run_path).read_json("environment.json")["versions"]
    assert all("torch" in row.versions for row in collect(run_path))


def test_the_environment_is_that_of_the_process_that_trains(run_path):
    RunFolder(run_path).create(tiny())
    assert [path.name for path in run_path.iterdir()] == ["config.json"]
    train(tiny(), run_path)
    data = load_dataset("digits")
    fabric = SimpleNamespace(device=torch.device("cpu"), world_size=1)
    expected = describe_environment(fabric, data, tiny())
    assert RunFolder(run_path).read_json("environment.json") == expected


def test_best_weights_of_another_epoch_are_refused_in_words(run_path, monkeypatch):
    still = tiny(learning_rate=1e-30, model=PLAIN)  # the first of equals is best
    monkeypatch.setattr(training_module, "_finish", stop)
    with pytest.raises(KeyboardInterrupt):
        train(still, run_path)
    monkeypatch.undo()
    weights, _ = load_weights(run_path / "best.safetensors")
    save_weights(run_path / "best.safetensors", weights, {"epoch": 1})
    with pytest.raises(FileFormatError, match="does not hold the weights of the selected epoch, 1"):
        train(still, run_path)


def test_a_damaged_checkpoint_is_refused_in_words(run_path):
    stop_after(run_path, tiny(epochs=3), epochs=1)
    path = run_path / "last.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileFormatError, match=r"last\.safetensors is damaged.*start over"):
        train(tiny(epochs=3), run_path)


def test_a_network_that_has_changed_is_refused_in_words(run_path, monkeypatch):
    config = tiny(epochs=3, model=PLAIN)
    stop_after(run_path, config, epochs=1)
    monkeypatch.setattr("tests.lab.training.own_parts.plain_network", smaller_network)
    with pytest.raises(FileFormatError, match="does not fit this network"):
        train(config, run_path)


@pytest.mark.parametrize("batch_size", [64, 997])  # the loss becomes NaN, or only the weights do
@pytest.mark.parametrize("clip_norm", [None, 2.0])
def test_divergence_is_an_error_that_keeps_the_state_before(batch_size, clip_norm, run_path):
    wild = {"learning_rate": 1e38, "momentum": 0.0, "clip_norm": clip_norm, "optimiser": "sgd"}
    config = tiny(batch_size=batch_size, **wild)
    with pytest.raises(TrainingDivergedError, match="lower the learning rate"):
        train(config, run_path)
    assert not RunFolder(run_path).is_done


def test_two_processes_cannot_train_in_one_folder(run_path, monkeypatch):
    monkeypatch.setattr("expertload.lab.runs.folder.PATIENCE", 0.1)
    RunFolder(run_path).create(tiny())
    with RunFolder(run_path).held(), pytest.raises(RunInUseError, match="Another process"):
        train(tiny(), run_path)
    train(tiny(), run_path)


def test_moments_come_back_in_the_layout_of_their_weights(run_path, monkeypatch):
    """Convolutions are kept with channels last, and a file knows nothing of layouts."""
    layouts = []
    lay_out = training_state._lay_out_like_parameters

    def watch(optimiser):
        lay_out(optimiser)
        for parameter, state in optimiser.state.items():
            layouts.extend((parameter.stride(), state[key].stride()) for key in ("exp_avg",))

    monkeypatch.setattr(training_state, "_lay_out_like_parameters", watch)
    monkeypatch.setattr(training_module, "_finish", stop)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(), run_path)
    monkeypatch.undo()
    monkeypatch.setattr(training_state, "_lay_out_like_parameters", watch)
    train(tiny(), run_path)
    assert layouts
    assert all(weight == moment for weight, moment in layouts)
    assert any(stride[1] == 1 < stride[0] for stride, _ in layouts if len(stride) == 4)

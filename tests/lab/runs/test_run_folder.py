"""The folder of a run and its checkpoint: whole files, and words about broken ones."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from tests.lab.conftest import tiny

from expertload.exceptions import FileFormatError, FileWriteError
from expertload.lab.data import load_dataset
from expertload.lab.runs.folder import RunFolder
from expertload.lab.training.setup import describe_environment
from expertload.lab.training.state import (
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_checkpoint_comes_back_as_it_was(kind, tmp_path):
    model = torch.nn.Linear(3, 2)
    make = torch.optim.Adam if kind == "adam" else torch.optim.SGD
    options = {} if kind == "adam" else {"momentum": 0.9}
    optimiser = make(model.parameters(), lr=0.1, **options)
    for _ in range(3):
        optimiser.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        optimiser.step()
    states = [torch.get_rng_state(), torch.get_rng_state().flip(0)]
    tensors = {
        "model": model.state_dict(),
        "averaged": {},
        "loss": {"past": torch.ones(2, 3)},
        "generator": {str(rank): state for rank, state in enumerate(states)},
    }
    save_checkpoint(tmp_path / "state", tensors, optimiser.state_dict(), {"history": [1, 2]})
    parts, moments, progress = load_checkpoint(tmp_path / "state")
    assert progress == {"history": [1, 2]}
    for part, own in tensors.items():
        assert parts[part].keys() == own.keys()
        assert all(torch.equal(parts[part][name], own[name]) for name in own)
    other = make(torch.nn.Linear(3, 2).parameters(), lr=9.0, **options)
    other.load_state_dict(moments)
    ours, theirs = other.state_dict(), optimiser.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    for index, state in theirs["state"].items():
        for key, value in state.items():
            assert torch.equal(torch.as_tensor(ours["state"][index][key]), torch.as_tensor(value))


def test_weights_that_are_not_there_or_not_weights(tmp_path):
    with pytest.raises(FileFormatError, match="no weights at"):
        load_weights(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FileFormatError, match="damaged or not a checkpoint"):
        load_weights(tmp_path / "text")
    save_weights(tmp_path / "other", {"a": torch.ones(1)}, {"epoch": 1})
    with pytest.raises(FileFormatError, match="is damaged"):
        load_checkpoint(tmp_path / "other")


def test_files_that_are_missing_or_damaged(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(FileFormatError, match="has no config"):
        folder.config()
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FileFormatError, match="damaged"):
        folder.config()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileFormatError, match="not the configuration"):
        folder.config()
    with pytest.raises(FileFormatError, match="has no test.npz"):
        folder.read_logits("test")
    (tmp_path / "test.npz").write_bytes(b"PK nonsense")
    with pytest.raises(FileFormatError, match="damaged"):
        folder.read_logits("test")


def test_differences_are_named(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(tiny())
    folder.create(tiny())
    with pytest.raises(FileFormatError, match="seed: 0 there, 1 requested"):
        folder.create(tiny(seed=1))
    with pytest.raises(FileFormatError, match="loss.name: ce there, focal requested"):
        folder.create(tiny("focal"))
    with pytest.raises(FileFormatError, match=r"loss\.options: {}, not {'gamma': 1}"):
        folder.create(tiny(options={"gamma": 1}))


def test_a_folder_that_cannot_be_locked(tmp_path):
    (tmp_path / "file").write_text("")
    folder = RunFolder(tmp_path / "file")
    with pytest.raises(FileWriteError, match="Could not write to"), folder.held():
        pass


def test_an_environment_says_what_was_trained_with():
    digits = load_dataset("digits")
    fabric = SimpleNamespace(device=torch.device("cpu"), world_size=3)
    found = describe_environment(fabric, digits, tiny())
    assert json.loads(json.dumps(found)) == found
    assert found["versions"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert (found["device"], found["processes"]) == ("cpu", 3)
    assert found["data"] == {
        "source": "scikit-learn",
        "sha256": digits.checksum(),
        "classes": [str(digit) for digit in range(10)],
        "image_shape": [8, 8, 1],
        "mean": [0.5],
        "std": [0.5],
    }


def test_environments_of_earlier_epochs_are_kept(tmp_path):
    folder = RunFolder(tmp_path)
    folder.record_environment({"threads": 8})
    folder.record_environment({"threads": 1})  # the first was killed before an epoch was over
    assert folder.read_json("environment.json") == {"threads": 1}
    folder.last.touch()
    folder.record_environment({"threads": 1})
    assert folder.read_json("environment.json") == {"threads": 1}
    folder.record_environment({"threads": 2})
    folder.record_environment({"threads": 2})
    folder.record_environment({"threads": 4})
    assert folder.read_json("environment.json") == {
        "threads": 4,
        "earlier": [{"threads": 1}, {"threads": 2}],
    }

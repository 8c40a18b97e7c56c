"""The whole ladder, really trained: on digits and on a stranger's folder, killed and resumed."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from functools import partial

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.exceptions import ExpertLoadError, ParameterError
from expertload.lab import lower_load
from expertload.lab.data import load_dataset
from expertload.lab.ladder import lowering
from expertload.lab.ladder.outcome import certified_load
from expertload.lab.ladder.steps import STEPS
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.lab.training.loop import train
from expertload.operating_point import load_operating_point

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:TemperatureScaling"),
]
SMALL = ["data.train_images=300", "model.options={width=8}", "training.batch_size=32"]


class Here:
    """Trains in this process, and is stopped after some runs."""

    poll_seconds = 0.0

    def __init__(self, stop_after=None):
        self.trained, self.stop_after = [], stop_after

    def start(self, folder):
        if len(self.trained) == self.stop_after:
            raise KeyboardInterrupt
        train(RunFolder(folder).config(), folder, accelerator="cpu")
        self.trained.append(folder.name)
        return self

    def ended(self):
        return True

    def stop(self):
        pass

    def log_of(self, folder):
        return folder / "train.log"


@pytest.fixture(scope="module")
def climbed(tmp_path_factory):
    """A ladder that was stopped after three of its six trainings, and gone on with."""
    out = tmp_path_factory.mktemp("ladder")
    options = {"out": out, "epochs": 2, "settings": SMALL, "target_accuracy": (0.8, 0.9)}
    before = Here(stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        lower_load("digits", launcher=before, **options)
    after = Here()
    return lower_load("digits", launcher=after, **options), before, after, options


def test_what_was_trained_before_a_stop_is_not_trained_again(climbed):
    _, before, after, _ = climbed
    assert len(before.trained) == len(after.trained) == 3
    assert len({*before.trained, *after.trained}) == 6


def test_called_again_it_trains_nothing_and_finds_the_same(climbed):
    found, _, _, options = climbed
    again = lower_load("digits", launcher=Here(stop_after=0), **options)
    assert again.rows == found.rows
    assert again.promise == found.promise


def test_the_table_has_every_step(climbed):
    found, *_ = climbed
    assert [row.step for row in found.rows] == list(STEPS)
    with found.table.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [float(line["load@80"]) for line in lines] == [row.loads[0.8] for row in found.rows]
    facts = json.loads(found.table.with_suffix(".json").read_text())
    assert [line["step"] for line in facts["steps"]] == list(STEPS)
    assert facts["target_accuracies"] == [0.8, 0.9]


def test_the_model_answers_as_the_top_of_the_ladder(climbed):
    found, *_ = climbed
    model = FinishedRun(found.model)
    top = found.rows[-1]
    right = (model.test_proba.argmax(axis=1) == model.test[1]).mean()
    assert right == pytest.approx(top.accuracy)
    assert len(model.members) == 2


def test_the_folder_of_a_ladder_stands_for_its_model(climbed):
    """For every command that takes a run: evaluate, ood, ensemble, compare."""
    found, *_ = climbed
    model = FinishedRun(found.report.parent)
    assert model.folder.path.resolve() == found.model.resolve()


def test_the_reason_of_a_failed_run_is_said(tmp_path):
    class Failing(Here):
        def start(self, folder):
            (folder / "train.log").write_text("epoch 1\nThe loss became nan.\n")
            return self

    options = {"out": tmp_path, "epochs": 1, "settings": SMALL, "launcher": Failing()}
    with pytest.raises(ExpertLoadError, match=r"failed: The loss became nan\. Hint: .*train\.log"):
        lower_load("digits", **options)


def test_the_policy_is_of_one_half_of_the_test_images(climbed):
    found, *_ = climbed
    model = FinishedRun(found.model)
    wanted = certified_load(model.test[1], model.test_proba, target_accuracy=0.8)
    assert wanted.point.is_certified
    policy = load_operating_point(found.policy)
    assert policy.threshold == wanted.point.threshold
    assert policy.target_accuracy == 0.8
    assert found.certified.load == wanted.load


def test_new_images_are_decided_by_the_model_and_its_policy(climbed, tmp_path):
    found, *_ = climbed
    moved = tmp_path / "moved"
    shutil.copytree(found.table.parent, moved)  # also where the ladder was not made
    np.savez(tmp_path / "new.npz", images=load_dataset("digits").test.images)
    new, decided = tmp_path / "new.csv", tmp_path / "decided.csv"
    for words in (
        ["lab", "predict", moved, "--data", f"npz:{tmp_path / 'new.npz'}", "--out", new],
        ["decide", moved / "policy.json", new, "--keep", "image", "--out", decided],
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
    with decided.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    model, threshold = FinishedRun(found.model), load_operating_point(found.policy).threshold
    assert [int(line["image"]) for line in lines] == list(range(500))
    confidence = model.test_proba.max(axis=1)
    clear = np.abs(confidence - threshold) > 1e-6  # networks round otherwise in other batches
    accepted = np.array([line["accepted"] == "true" for line in lines])
    assert (accepted == (confidence >= threshold))[clear].all()
    assert [int(line["label"]) for line in lines] == model.test_proba.argmax(axis=1).tolist()


def test_the_report_and_the_picture_are_there(climbed):
    found, *_ = climbed
    page = found.report.read_text()
    assert "The policy is certified on one half of them, drawn at random" in page
    assert page.index("top of the ladder") < page.index("cross-entropy alone")
    assert found.picture.read_bytes().startswith(b"\x89PNG")


def test_one_network_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="networks"):
        lower_load("digits", out=tmp_path, networks=1)


# ------------------------------------------------------------------ a stranger's folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Two kinds of striped images, sixty each: far too few to certify anything."""
    place, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for kind in ("across", "down"):
        (place / kind).mkdir()
        for number in range(60):
            stripes = np.zeros((12, 12))
            stripes[::3] = 1
            pixels = stripes if kind == "across" else stripes.T
            noisy = 120 * pixels + rng.integers(0, 130, (12, 12))
            Image.fromarray(noisy.astype(np.uint8)).save(place / kind / f"{number}.png")
    return place


def test_a_strangers_folder_by_the_command(images, tmp_path, monkeypatch):
    monkeypatch.setattr(lowering, "lower_load", partial(lower_load, launcher=Here()))
    out = tmp_path / "out"
    words = ["lab", "lower-load", f"folder:{images}", "--out", str(out), "--epochs", "1"]
    words += ["--no-aucoc", "--target-accuracy", "0.99", "--set", "model.options={width=8}"]
    words += ["--max-passes", "11"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "at most 10 passes for each image" in done.output
    assert "with augmentation (shifts by up to 1 pixel)" in done.output
    assert "none: nothing could be certified" in done.output
    assert "No policy was saved" in done.output
    assert not (out / "policy.json").exists()
    for name in ("report.html", "coc.png", "ladder.csv", "ladder.json"):
        assert (out / name).exists(), name
    assert "+ AUCOC" not in done.output  # the step that was left out
    assert f"expertload lab predict {out} --data folder:NEW" in done.output
    assert "expertload decide" not in done.output  # without a policy


def test_the_next_command_works_as_printed_with_an_own_network(images, tmp_path, monkeypatch):
    monkeypatch.setattr(lowering, "lower_load", partial(lower_load, launcher=Here()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_net.py").write_text(
        "from torch import nn\n"
        "def network(num_classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(432, num_classes))\n"
    )
    words = ["lab", "lower-load", f"folder:{images}", "--out", "my out", "--epochs", "1"]
    words += ["--no-aucoc", "--no-augment", "--network", "own_net:network"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (line,) = (line for line in done.output.splitlines() if "lab predict" in line)
    printed = shlex.split(line.replace("folder:NEW", f"folder:{images}"))
    done = CliRunner().invoke(app, printed[1:])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new.csv").read_text().count("\n") == 121


# ------------------------------------------------------------------ a stranger's arrays


def write_arrays(path, *, validation, shape=(8, 8)):
    """Grey images whose bright row tells the class, in the layout of MedMNIST."""
    rng = np.random.default_rng(0)
    labels = {"train": np.arange(60) % 3, "val": np.array(validation), "test": np.arange(40) % 3}
    arrays = {}
    for part, own in labels.items():
        images = rng.integers(0, 120, (len(own), *shape))
        images[np.arange(len(own)), own] += 120
        arrays |= {f"{part}_images": images.astype(np.uint8), f"{part}_labels": own}
    np.savez(path, **arrays)
    return f"npz:{path}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "notes"),
    [
        ({"validation": [0, 1] * 10}, ("No validation image belongs to the class '2'.",)),
        ({"validation": [1] * 9}, ("No validation image belongs to the classes '0', '2'.",)),
        ({"validation": [0, 1, 2] * 5, "shape": (8, 6)}, ()),
    ],
    ids=["a class without validation", "one class to validate", "oblong"],
)
def test_arrays_that_lack_something_are_climbed(data, notes, tmp_path):
    found = lower_load(
        write_arrays(tmp_path / "mine.npz", **data),
        out=tmp_path / "out",
        epochs=1,
        settings=["model.options={width=4}"],
        launcher=Here(),
    )
    assert found.notes == notes
    assert [row.step for row in found.rows] == list(STEPS)


def test_too_few_images_are_a_sentence(tmp_path):
    for kind in ("a", "b"):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (8, 8)).save(tmp_path / "images" / kind / f"{number}.png")
    done = CliRunner().invoke(app, ["lab", "lower-load", f"folder:{tmp_path / 'images'}"])
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "at least 2 validation image(s) to choose by" in said
    assert "Got 1." in said

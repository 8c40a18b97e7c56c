"""The whole ladder, really trained: on digits and on a stranger's folder, killed and resumed."""

from __future__ import annotations

import csv
import json
from functools import partial

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.exceptions import ParameterError
from expertload.lab import ladder, lower_load
from expertload.lab.ladder import STEPS, certified_load
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.lab.training import train
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
    assert [row.numbers.step for row in found.rows] == list(STEPS)
    with found.table.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [float(line["load@80"]) for line in lines] == [
        row.numbers.loads[0.8] for row in found.rows
    ]
    facts = json.loads(found.table.with_suffix(".json").read_text())
    assert [line["step"] for line in facts["steps"]] == list(STEPS)
    assert facts["target_accuracies"] == [0.8, 0.9]


def test_the_model_answers_as_the_top_of_the_ladder(climbed):
    found, *_ = climbed
    model = FinishedRun(found.model)
    top = found.rows[-1].numbers
    right = (model.test_proba.argmax(axis=1) == model.test[1]).mean()
    assert right == pytest.approx(top.accuracy)
    assert len(model.members) == 2


def test_the_policy_is_of_one_half_of_the_test_images(climbed):
    found, *_ = climbed
    model = FinishedRun(found.model)
    wanted = certified_load(model.test[1], model.test_proba, target_accuracy=0.8)
    assert wanted.point.is_certified
    policy = load_operating_point(found.policy)
    assert policy.threshold == wanted.point.threshold
    assert policy.target_accuracy == 0.8
    assert found.certified.load == wanted.load


def test_the_report_and_the_picture_are_there(climbed):
    found, *_ = climbed
    page = found.report.read_text()
    assert "One half of them, drawn at random, certified the policy" in page
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
    monkeypatch.setattr(ladder, "lower_load", partial(lower_load, launcher=Here()))
    out = tmp_path / "out"
    words = ["lab", "lower-load", f"folder:{images}", "--out", str(out), "--epochs", "1"]
    words += ["--no-aucoc", "--target-accuracy", "0.99", "--set", "model.options={width=8}"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "with augmentation (shifts by up to 1 pixel)" in done.output
    assert "none: nothing could be certified" in done.output
    assert "No policy was saved" in done.output
    assert not (out / "policy.json").exists()
    for name in ("report.html", "coc.png", "ladder.csv", "ladder.json"):
        assert (out / name).exists(), name
    assert "+ AUCOC" not in done.output  # the step that was left out

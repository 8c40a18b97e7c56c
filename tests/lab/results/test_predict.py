"""New images by the networks of runs: the answers of their test images, and refusals in words."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from tests.lab.synthetic_runs import make_config, train_once
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.exceptions import (
    DataDamagedError,
    DataNotFoundError,
    FileFormatError,
    ParameterError,
    ShapeError,
)
from expertload.lab import make_ensemble, predict_images, train
from expertload.lab.data import load_dataset
from expertload.lab.runs.finished import FinishedRun

CLOSE = 1e-6  # other batch sizes round otherwise


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_once(tmp_path_factory.getbasetemp())


@pytest.fixture
def new(tmp_path):
    """The test images of digits, as if nobody knew their class."""
    path = tmp_path / "new.npz"
    np.savez(path, images=load_dataset("digits").test.images)
    return f"npz:{path}"


def answers(text):
    """The names of images and their probabilities, from CSV."""
    head, *lines = csv.reader(io.StringIO(text))
    assert head[0] == "image"
    return head[1:], [line[0] for line in lines], np.array([line[1:] for line in lines], float)


def predicted(*words, **options):
    out = io.StringIO()
    count = predict_images(*words, out, **options)
    classes, names, proba = answers(out.getvalue())
    assert count == len(names)
    return classes, names, proba


@pytest.mark.parametrize("batch_size", [7, 512])
def test_known_images_get_the_answers_of_the_run(trained, new, batch_size):
    classes, names, proba = predicted(trained, new, batch_size=batch_size)
    assert classes == [f"p_{digit}" for digit in range(10)]
    assert names == [str(row) for row in range(500)]
    np.testing.assert_allclose(proba, FinishedRun(trained).test_proba, atol=CLOSE)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_several_runs_normalise_each_by_its_own_training_images(trained, new, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(trained, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"seed": 99}))  # another run
    record = json.loads((other / "environment.json").read_text())
    record["data"]["mean"] = [0.9]
    (other / "environment.json").write_text(json.dumps(record))
    one, two = predicted(trained, new)[2], predicted(other, new)[2]
    assert np.abs(one - two).max() > 0.1
    np.testing.assert_allclose(predicted([trained, other], new)[2], (one + two) / 2, atol=CLOSE)
    record["data"]["classes"][0] = "nought"
    (other / "environment.json").write_text(json.dumps(record))
    with pytest.raises(ParameterError, match="with the same classes and image size"):
        predicted([trained, other], new)


@pytest.mark.slow
def test_an_ensemble_keeps_its_views_and_several_runs_are_averaged(trained, new, tmp_path):
    second = tmp_path / "second"
    train(make_config(seed=1), second, accelerator="cpu")
    model = make_ensemble([trained, second], out=tmp_path / "both", views="shift")
    np.testing.assert_allclose(predicted(model.folder.path, new)[2], model.test_proba, atol=CLOSE)
    mean = (FinishedRun(trained).test_proba + FinishedRun(second).test_proba) / 2
    np.testing.assert_allclose(predicted([trained, second], new)[2], mean, atol=CLOSE)
    assert np.abs(mean - model.test_proba).max() > 100 * CLOSE


def test_the_data_of_the_training_are_not_needed(trained, new, tmp_path, monkeypatch):
    def gone(*_, **__):
        raise AssertionError("the data were asked for")

    monkeypatch.setattr("expertload.lab.runs.finished.load_run_data", gone)
    assert len(predicted(trained, new)[1]) == 500
    old = tmp_path / "old"
    shutil.copytree(trained, old)
    record = json.loads((old / "environment.json").read_text())
    record["data"] = {"sha256": record["data"]["sha256"]}  # as earlier versions wrote it
    (old / "environment.json").write_text(json.dumps(record))
    with pytest.raises(AssertionError, match="were asked for"):
        predicted(old, new)
    monkeypatch.undo()
    np.testing.assert_array_equal(predicted(old, new)[2], predicted(trained, new)[2])


@pytest.fixture
def files(tmp_path):
    """Three digits as grey image files, one of them in a folder of its own, and a note."""
    folder = tmp_path / "files"
    (folder / "later").mkdir(parents=True)
    images = load_dataset("digits").test.images[:3, ..., 0]
    for name, pixels in zip(("b.png", "a.PNG", "later/c.png"), images, strict=True):
        Image.fromarray(pixels).save(folder / name)
    (folder / "note.txt").write_text("three digits")
    return folder


def test_image_files_are_named_by_their_paths(trained, files):
    _, names, proba = predicted(trained, f"folder:{files}", batch_size=2)
    assert names == ["a.PNG", "b.png", "later/c.png"]
    wanted = FinishedRun(trained).test_proba[[1, 0, 2]]
    np.testing.assert_allclose(proba, wanted, atol=CLOSE)


@pytest.mark.filterwarnings("ignore:TemperatureScaling")  # all are right
def test_images_of_a_folder_are_resized_as_those_of_the_training(tmp_path):
    rng = np.random.default_rng(0)
    place = tmp_path / "images"
    for kind in ("dark", "light"):
        (place / kind).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 120, (14, 12, 3)) + 130 * (kind == "light")
            Image.fromarray(pixels.astype(np.uint8)).save(place / kind / f"{number:02}.png")
    data = {"name": f"folder:{place}", "image_size": 8}
    train(make_config(data=data, epochs=1, batch_size=8), tmp_path / "run", accelerator="cpu")
    classes, names, proba = predicted(tmp_path / "run", f"folder:{place}")
    assert classes == ["p_dark", "p_light"]
    assert len(names) == 40
    known = FinishedRun(tmp_path / "run").test_proba  # some of these, in an order of its own
    for row in known:
        assert np.abs(proba - row).max(axis=1).min() < CLOSE


def test_by_the_command_into_files(trained, new, tmp_path):
    out = tmp_path / "new.csv"
    words = ["lab", "predict", str(trained), "--data", new]
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "500 images" in done.output
    shown = CliRunner().invoke(app, words)
    assert shown.stdout == out.read_text()


# ------------------------------------------------------------------ refusals


def write(path, **arrays):
    np.savez(path, **arrays)
    return f"npz:{path}"


def test_other_images_are_refused_in_words(trained, files, tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(colour).save(files / "colour.png")
    (tmp_path / "empty").mkdir()
    cases = {
        f"folder:{files}": (
            ShapeError,
            "must be .* grey, like the training images. Got .* in colour",
        ),
        write(tmp_path / "big.npz", images=np.zeros((2, 9, 8), np.uint8)): (
            ShapeError,
            "must be 8 x 8 pixels, grey, like the training images. Got 8 x 9 pixels, grey",
        ),
        write(tmp_path / "float.npz", images=np.zeros((2, 8, 8))): (DataDamagedError, "uint8"),
        write(tmp_path / "none.npz", images=np.zeros((0, 8, 8), np.uint8)): (
            DataNotFoundError,
            "has no images",
        ),
        write(tmp_path / "other.npz", pixels=np.zeros(3)): (FileFormatError, "no array 'images'"),
        f"folder:{tmp_path / 'empty'}": (DataNotFoundError, "has no images"),
        f"folder:{tmp_path / 'nowhere'}": (DataNotFoundError, "There is no folder"),
        f"npz:{tmp_path / 'nowhere'}": (DataNotFoundError, "There is no file"),
        "digits": (ParameterError, "folder:PATH or npz:PATH"),
    }
    for source, (kind, message) in cases.items():
        out = tmp_path / "new.csv"
        with pytest.raises(kind, match=message):
            predict_images(trained, source, out)
        assert not out.exists()


def test_a_ladder_that_names_no_model_is_refused(tmp_path, new):
    (tmp_path / "ladder.json").write_text("{}")
    with pytest.raises(FileFormatError, match="config.json"):
        predict_images(tmp_path, new, io.StringIO())

"""A user's own images: of any size, in a folder or a file, from the recipe to the outliers."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError
from tests.lab.conftest import tiny
from torch import nn
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.exceptions import DataDamagedError, ParameterError
from expertload.lab.data import Augmentation
from expertload.lab.results.outliers import evaluate_outliers
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.origin import load_run_data
from expertload.lab.runs.recipe import DataConfig, ModelConfig, TrainingConfig
from expertload.lab.training.loop import train
from expertload.lab.training.step import batch_norm_hint

pytestmark = pytest.mark.filterwarnings("ignore:TemperatureScaling")  # hardly trained


def write_images(root, *, seed=0, n=20):
    """Noise in two classes, every image of a size of its own."""
    rng = np.random.default_rng(seed)
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for number in range(n):
            pixels = rng.integers(0, 256, (9 + number % 3, 12 - number % 2, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return f"folder:{root}"


def own(name, **settings):
    config = tiny(batch_size=8, epochs=1)
    return config.model_copy(update={"data": DataConfig(name=name, **settings)})


@pytest.mark.training
def test_images_of_mixed_sizes_are_trained_on_at_the_size_that_is_named(tmp_path, run_path):
    name = write_images(tmp_path / "images")
    with pytest.raises(
        DataDamagedError, match=r"--image-size 64 of lower-load, data\.image_size=64"
    ):
        train(own(name), run_path)
    train(own(name, image_size=8), run_path)
    run = FinishedRun(run_path)
    assert run.load_data().image_shape == (8, 8, 3)
    others = write_images(tmp_path / "others", seed=1)
    found = evaluate_outliers(run_path, [others])
    assert 0 <= found.results[others]["msp"]["auroc"] <= 1


@pytest.mark.training
def test_the_hint_of_the_message_is_a_setting_of_the_recipe(tmp_path):
    name = write_images(tmp_path / "images")
    arguments = ["lab", "train", "digits", "--set", f"data.name={name}", "--out", f"{tmp_path}/out"]
    arguments += ["--set", "training.epochs=2", "--set", "training.milestones=[]"]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 1
    assert "--set" in refused.stderr
    done = CliRunner().invoke(app, [*arguments, "--set", "data.image_size=8"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("augment", "expected"),
    [
        (True, Augmentation()),  # nothing is customary for images that we do not know
        (False, Augmentation()),
        ({"padding": 2}, Augmentation(padding=2)),
        ({"padding": 4, "flip": True}, Augmentation(padding=4, flip=True)),
    ],
)
def test_own_images_are_changed_as_the_recipe_says(augment, expected, tmp_path):
    name = write_images(tmp_path / "images")
    assert load_run_data(own(name, image_size=8, augment=augment).data).augmentation == expected


def test_a_choice_takes_the_place_of_what_is_customary(tmp_path):
    customary, none, chosen = (
        load_run_data(DataConfig(name="digits", augment=augment)).augmentation
        for augment in (True, False, {"flip": True})
    )
    assert (customary, none) == (Augmentation(padding=1), Augmentation())
    assert chosen == Augmentation(flip=True)


@pytest.mark.training
def test_training_sees_the_changed_images(tmp_path):
    name = write_images(tmp_path / "images")
    logits = []
    for place, augment in (("plain", True), ("changed", {"padding": 2, "flip": True})):
        train(own(name, image_size=8, augment=augment), tmp_path / place)
        logits.append(FinishedRun(tmp_path / place).test[0])
    assert not np.allclose(*logits, atol=1e-3)


def test_an_augmentation_that_does_not_exist_is_refused():
    with pytest.raises(ValidationError, match="Extra inputs"):
        DataConfig(name="digits", augment={"rotate": True})
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        DataConfig(name="digits", augment={"padding": -1})


def normalised_network(num_classes):
    """A network whose batch normalisation has one value an image and channel."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(192, 8), nn.BatchNorm1d(8), nn.Linear(8, num_classes)
    )


@pytest.fixture
def lone_image(tmp_path):
    """28 images to train on: three batches of nine, and one image left over."""
    config = own(write_images(tmp_path / "images"), image_size=8)
    model = ModelConfig(name="tests.lab.runs.test_own_data:normalised_network")
    return config.model_copy(update={"model": model})


def with_training(config, **settings):
    training = TrainingConfig(**{**config.training.model_dump(), **settings})
    return config.model_copy(update={"training": training})


@pytest.mark.training
def test_a_last_batch_of_one_image_is_explained_and_can_be_left_out(lone_image, tmp_path):
    with pytest.raises(ParameterError, match=r"single image.*training\.drop_last=true"):
        train(with_training(lone_image, batch_size=9), tmp_path / "refused")
    results = train(with_training(lone_image, batch_size=9, drop_last=True), tmp_path / "run")
    assert results["best_epoch"] == 1


@pytest.mark.training
def test_leaving_out_the_only_batch_is_refused(lone_image, tmp_path):
    with pytest.raises(ParameterError, match=r"28 images are too few for a batch of 29"):
        train(with_training(lone_image, batch_size=29, drop_last=True), tmp_path / "run")


def test_other_mistakes_of_a_network_are_its_own():
    with pytest.raises(ValueError, match="not these images"), batch_norm_hint(1):
        raise ValueError("not these images")


def test_a_size_is_refused_where_images_have_theirs():
    with pytest.raises(ParameterError, match="only for 'folder:PATH'. Got 16 with 'digits'"):
        load_run_data(DataConfig(name="digits", image_size=16))

"""Answers of a desk teach a network: exported, weighted, and continued from an earlier run."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

pytest.importorskip("fastapi")

from tests.desk.test_watch import read_all
from tests.desk.world import Clock, World

from expertload.desk import Desk, Rules
from expertload.desk.trail.training import export_for_training
from expertload.exceptions import DataDamagedError, FileFormatError, ParameterError
from expertload.lab import RunConfig, load_dataset, lower_load, train
from expertload.lab.data import Normalisation, Split
from expertload.lab.data.dataset import carve
from expertload.lab.data.loader import BatchLoader

pytestmark = [
    pytest.mark.training,
    pytest.mark.filterwarnings("ignore:TemperatureScaling"),  # of networks that learnt nothing
]
CLASSES = tuple("0123456789")


def picture(pixels) -> dict:
    out = io.BytesIO()
    Image.fromarray(np.uint8(15 * pixels.reshape(8, 8))).save(out, "PNG")
    return {"kind": "image", "content": base64.b64encode(out.getvalue()).decode()}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """300 digits of 100 writers, answered at a desk and exported."""
    folder = tmp_path_factory.mktemp("desk")
    images, labels = load_digits(return_X_y=True)
    even = dict.fromkeys(CLASSES, 0.1)
    rules = Rules(classes=CLASSES, second_share=0)
    with Desk.open(folder / "desk", rules=rules, secret=b"test") as desk:  # always the same cases
        world = World(desk, Clock())
        world.send(
            *(
                {
                    "key": f"digit-{i}",
                    "probabilities": even,
                    "cluster": f"writer-{i % 100}",
                    "body": picture(images[i]),
                }
                for i in range(300)
            )
        )
        read_all(world, lambda key: CLASSES[labels[int(key[6:])]])
        manifest = export_for_training(desk, folder / "answers")
    assert 100 < manifest["n_cases"] < 200
    return folder / "answers"


def config(data, *, epochs=2, rate=0.01, **model) -> RunConfig:
    return RunConfig.model_validate(
        {
            "data": {"name": f"folder:{data}", "augment": False},
            "model": {"name": "small-cnn", **model},
            "loss": {"name": "ce"},
            "training": {"epochs": epochs, "batch_size": 32, "learning_rate": rate},
        }
    )


def test_an_export_is_a_data_set_with_weights_and_patients(answers):
    data = load_dataset(f"folder:{answers}")
    manifest = json.loads((answers / "manifest.json").read_text())
    splits = (data.train, data.validation, data.test)
    assert data.class_names == CLASSES
    assert sum(map(len, splits)) == manifest["n_cases"]
    assert all(np.all(split.weights == 2.0) for split in splits), "half of the writers teach"
    writers = [set(split.patients.tolist()) for split in splits]
    assert not writers[0] & writers[1] | writers[0] & writers[2] | writers[1] & writers[2]


def test_a_network_starts_from_earlier_weights(answers, tmp_path):
    """With a learning rate of almost nothing it stays there; without them it is elsewhere."""
    train(config(answers, epochs=8), tmp_path / "first")
    for name, more in {"again": {"start": str(tmp_path / "first")}, "alone": {}}.items():
        train(config(answers, epochs=1, rate=1e-12, **more), tmp_path / name)
    logits = {
        name: np.load(tmp_path / name / "test.npz")["logits"]
        for name in ("first", "again", "alone")
    }
    # Batch normalisation counts on, so the numbers are close but not equal.
    near, far = (np.abs(logits[name] - logits["first"]).mean() for name in ("again", "alone"))
    assert near < far / 2


def test_other_classes_are_refused(answers, tmp_path):
    digits = config(answers, epochs=1).model_copy(
        update={"data": config(answers).data.model_copy(update={"name": "digits"})}
    )
    train(config(answers, epochs=1), tmp_path / "first")
    two = tmp_path / "two"
    for name in CLASSES[:2]:
        (two / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (8, 8), (20 * number,) * 3).save(two / name / f"{number}.png")
    with pytest.raises(ParameterError, match="trained for other classes"):
        train(config(two, epochs=1, start=str(tmp_path / "first")), tmp_path / "second")
    start = digits.model.model_copy(update={"start": str(tmp_path / "first")})
    with pytest.raises(FileFormatError, match="does not fit the network"):  # grey, not colour
        train(digits.model_copy(update={"model": start}), tmp_path / "third")


@pytest.mark.slow
def test_lower_load_continues_a_ladder(answers, tmp_path):
    options = {"epochs": 2, "aucoc": False, "settings": ["data.augment=false"], "jobs": 1}
    first = lower_load(f"folder:{answers}", out=tmp_path / "first", **options)
    second = lower_load(
        f"folder:{answers}", out=tmp_path / "second", start=tmp_path / "first", **options
    )
    reached = [found.rows[0].validation_aucoc for found in (first, second)]
    assert reached[1] > reached[0] + 0.03
    runs = [json.loads(p.read_text()) for p in (tmp_path / "second/plain").rglob("config.json")]
    assert {run["model"]["start"] for run in runs} == {str((tmp_path / "first").resolve())}


# ------------------------------------------------------------------ the parts


def test_images_are_drawn_in_proportion_to_their_weights():
    weights = np.array([1.0, 1.0, 2.0, 4.0])
    split = Split(np.zeros((4, 2, 2, 1), np.uint8), np.arange(4), weights)
    loader = BatchLoader(
        split, batch_size=4, normalisation=Normalisation((0.5,), (0.5,)), shuffle=True
    )
    seen = Counter(int(i) for epoch in range(2000) for b in loader.epoch(epoch) for i in b.indices)
    shares = np.array([seen[i] for i in range(4)]) / 8000
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.02)
    plain = BatchLoader(
        Split(split.images, split.labels),
        batch_size=4,
        normalisation=Normalisation((0.5,), (0.5,)),
        shuffle=True,
    )
    (batch,) = plain.epoch(0)
    assert sorted(batch.indices.tolist()) == [0, 1, 2, 3], "without weights, each image once"


def test_a_patient_is_in_one_part_with_the_weights():
    rng = np.random.default_rng(0)
    patients = rng.integers(0, 40, 200)
    weights = rng.random(200)
    split = Split(np.zeros((200, 2, 2, 1), np.uint8), rng.integers(0, 3, 200), weights, patients)
    kept, held = carve(split, 0.2, 0)
    assert not set(kept.patients) & set(held.patients)
    assert len(kept) + len(held) == 200
    assert sorted([*kept.weights, *held.weights]) == sorted(weights)
    assert len(set(held.patients)) == 8


@pytest.mark.parametrize("what", ["manifest", "table", "image"])
def test_what_was_changed_by_hand_is_refused(answers, tmp_path, what):
    copy = shutil.copytree(answers, tmp_path / "copy")
    if what == "manifest":
        path = copy / "manifest.json"
        path.write_text(path.read_text().replace('"certify_share": 0.5', '"certify_share": 0.1'))
    elif what == "table":
        path = copy / "metadata.csv"
        path.write_text(path.read_text().replace(",2,", ",9,", 1))
    else:
        next(copy.glob("3/*.png")).unlink()
    with pytest.raises((FileFormatError, DataDamagedError), match=r"export the cases again"):
        load_dataset(f"folder:{copy}")

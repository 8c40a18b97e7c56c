from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from tests.lab.data.test_svhn_and_fashion import write_svhn
from tests.lab.synthetic_runs import make_config, train_once
from tests.strategies import examples

from expertload.calibrators import TemperatureScaling
from expertload.exceptions import ParameterError
from expertload.lab.data import corrupt, corruption_names, load_dataset
from expertload.lab.models import build_model
from expertload.lab.results.ensembles import make_ensemble
from expertload.lab.results.outliers import (
    SCORE_NAMES,
    convert_images,
    describe_conversion,
    evaluate_outliers,
    perturb,
)
from expertload.lab.results.rows import collect
from expertload.lab.results.tables import build_tables
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.network import apply_network
from expertload.lab.training.loop import train
from expertload.metrics import fpr_at_tpr_error, outlier_aupr_score, outlier_auroc_score
from expertload.scores import (
    energy_confidence,
    max_logit_confidence,
    max_softmax_confidence,
    tempered_softmax_confidence,
)


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    return train_once(tmp_path_factory.getbasetemp())


def write_outliers(path, images):
    labels = np.zeros(len(images), np.int64)
    parts = ("train", "val", "test")
    arrays = {f"{part}_images": images for part in parts}
    np.savez(path, **arrays, **{f"{part}_labels": labels for part in parts})
    return f"npz:{path}"


def noise(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture(scope="module")
def colour_noise(tmp_path_factory):
    """Outliers of another size and with other channels than the digits."""
    return write_outliers(tmp_path_factory.mktemp("noise") / "noise.npz", noise((120, 12, 10, 3)))


@pytest.fixture(scope="module")
def grey_noise(tmp_path_factory):
    return write_outliers(tmp_path_factory.mktemp("noise") / "grey.npz", noise((90, 8, 8, 1)))


# ------------------------------------------------------------------ the numbers


def logits_of(run, images):
    """Logits in the plainest way: one batch, normalised by hand."""
    data = run.load_data()
    network = run.load_network(data)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    mean, std = data.normalisation.mean[0], data.normalisation.std[0]
    with torch.no_grad():
        return network((pixels - mean) / std).numpy().astype(np.float64)


def test_numbers_are_those_of_the_core(trained_run, grey_noise):
    found = evaluate_outliers(trained_run, [grey_noise]).results[grey_noise]
    run = FinishedRun(trained_run)
    inside = logits_of(run, run.load_data().test.images)
    outside = logits_of(run, noise((90, 8, 8, 1)))
    fitted = TemperatureScaling().fit(*run.validation).temperature_
    confidences = {
        "msp": max_softmax_confidence,
        "odin": lambda logits: tempered_softmax_confidence(logits, temperature=fitted),
        "maxlogit": max_logit_confidence,
        "energy": energy_confidence,
    }
    is_outlier = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    # Other batch sizes round otherwise, which may exchange two neighbours: one inlier in 500.
    for name, confidence in confidences.items():
        score = -confidence(np.vstack([inside, outside]))
        assert found[name]["auroc"] == pytest.approx(
            outlier_auroc_score(is_outlier, score), abs=1e-4
        )
        assert found[name]["aupr"] == pytest.approx(outlier_aupr_score(is_outlier, score), abs=5e-4)
        expected = fpr_at_tpr_error(is_outlier, score)
        assert found[name]["fpr95"] == pytest.approx(expected, abs=2.1e-3)
    assert set(found) == set(SCORE_NAMES)


def test_the_perturbation_is_measured_in_pixel_values(trained_run, grey_noise):
    epsilon, temperature = 0.0014, 1000.0
    found = evaluate_outliers(trained_run, [grey_noise]).results[grey_noise]["odin_perturbed"]
    run = FinishedRun(trained_run)
    data = run.load_data()
    network = run.load_network(data)

    def confidence(images):
        pixels = (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255).requires_grad_()
        logits = network((pixels - data.normalisation.mean[0]) / data.normalisation.std[0])
        torch.log_softmax(logits / temperature, 1).max(1).values.sum().backward()
        moved = (pixels + epsilon * pixels.grad.sign() - data.normalisation.mean[0]).detach()
        with torch.no_grad():
            logits = network(moved / data.normalisation.std[0]).numpy().astype(np.float64)
        return tempered_softmax_confidence(logits, temperature=temperature)

    inside, outside = confidence(data.test.images), confidence(noise((90, 8, 8, 1)))
    is_outlier = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    expected = outlier_auroc_score(is_outlier, -np.r_[inside, outside])
    assert found["auroc"] == pytest.approx(expected, abs=2e-4)


def test_images_of_another_kind_are_converted_and_it_is_said(trained_run, colour_noise, tmp_path):
    evaluation = evaluate_outliers(trained_run, colour_noise)
    expected = "colour to grey, 12 x 10 resized to 8 x 8 (bilinear)"
    assert evaluation.conversions[colour_noise] == expected
    by_hand = convert_images(noise((120, 12, 10, 3)), (8, 8, 1))
    name = write_outliers(tmp_path / "converted.npz", by_hand)
    assert evaluate_outliers(trained_run, [name]).results[name] == evaluation.results[colour_noise]


def test_svhn_from_files_in_its_official_format(trained_run, tmp_path):
    written = write_svhn(tmp_path)
    found = evaluate_outliers(trained_run, ["svhn"], data_dir=tmp_path).results["svhn"]
    images = np.moveaxis(written["test"]["X"], -1, 0)
    name = write_outliers(tmp_path / "the-same.npz", images)
    assert found == evaluate_outliers(trained_run, [name]).results[name]


def test_all_corruptions_are_averaged(trained_run, monkeypatch):
    clean = load_dataset("digits")
    asked = []

    def stand_in(name, **options):
        if not name.startswith("cifar100-c:"):
            return load_dataset(name, **options)
        asked.append(name)
        other = load_dataset("digits-clean")
        images = noise(clean.test.images.shape, seed=len(asked))
        return type(other)(**{**vars(other), "test": type(other.test)(images, other.test.labels)})

    monkeypatch.setattr("expertload.lab.results.outliers.load_dataset", stand_in)
    few = {"max_images": 20}
    mean = evaluate_outliers(trained_run, ["cifar100-c:all:3"], **few).results["cifar100-c:all:3"]
    assert asked == [f"cifar100-c:{name}:3" for name in corruption_names()]
    asked.clear()
    names = [f"cifar100-c:{name}" for name in corruption_names()]
    each = evaluate_outliers(trained_run, names, **few).results
    for score in SCORE_NAMES:
        by_hand = np.mean([each[name][score]["auroc"] for name in names])
        assert mean[score]["auroc"] == pytest.approx(by_hand)


def test_own_images_are_corrupted_by_name_and_severity(trained_run, tmp_path):
    clean = load_dataset("digits").test.images
    names = ["corrupted:contrast:4", "corrupted:gaussian_noise:4", "corrupted:contrast"]
    found = evaluate_outliers(trained_run, names)
    assert set(found.conversions.values()) == {"as they are"}
    by_hand = [
        corrupt(clean, "contrast", 4),
        corrupt(clean, "gaussian_noise", 4),
        np.concatenate([corrupt(clean, "contrast", severity) for severity in range(1, 6)]),
    ]
    for place, (name, images) in enumerate(zip(names, by_hand, strict=True)):
        same = write_outliers(tmp_path / f"{place}.npz", images)
        expected = evaluate_outliers(trained_run, [same]).results[same]
        assert found.results[name] == expected
    together = "corrupted:contrast+gaussian_noise:4"
    mean = evaluate_outliers(trained_run, [together]).results[together]
    for score in SCORE_NAMES:
        each = [found.results[name][score]["fpr95"] for name in names[:2]]
        assert mean[score]["fpr95"] == pytest.approx(np.mean(each))


@pytest.mark.slow
def test_an_ensemble_has_its_probability_alone(trained_run, grey_noise, tmp_path):
    second = tmp_path / "second"
    train(make_config(seed=1), second, accelerator="cpu")
    ensemble = make_ensemble([trained_run, second], out=tmp_path / "both")
    found = evaluate_outliers(ensemble.folder.path, [grey_noise], save=True).results[grey_noise]
    members = [FinishedRun(path) for path in (trained_run, second)]
    inside, outside = (
        np.mean([softmax(logits_of(run, images), axis=1) for run in members], axis=0).max(axis=1)
        for images in (members[0].load_data().test.images, noise((90, 8, 8, 1)))
    )
    is_outlier = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    expected = outlier_auroc_score(is_outlier, -np.r_[inside, outside])
    assert [*found] == ["msp"]
    assert found["msp"]["auroc"] == pytest.approx(expected, abs=1e-4)
    (table,) = build_tables(collect(tmp_path / "both"), kind="ood")
    assert [column.heading for column in table.columns] == ["MSP"]


def test_a_part_of_the_images_is_spread_evenly(trained_run, monkeypatch):
    seen = []

    def spy(network, split, *arguments, **options):
        seen.append(split)
        return apply_network(network, split, *arguments, **options)

    monkeypatch.setattr("expertload.lab.runs.network.apply_network", spy)
    evaluate_outliers(trained_run, ["digits-clean"], max_images=11)
    whole = load_dataset("digits").test
    rows = [0, 49, 99, 149, 199, 249, 299, 349, 399, 449, 499]
    np.testing.assert_array_equal(seen[0].images, whole.images[rows])
    assert [len(split) for split in seen] == [11] * 4  # each side as it is, and perturbed


def test_results_are_added_to_the_folder(tmp_path, trained_run, grey_noise):
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    first = evaluate_outliers(run, ["digits-clean"], save=True)
    second = evaluate_outliers(run, [grey_noise], save=True)
    (kept,) = FinishedRun(run).folder.read_json("outliers.json")["evaluations"]
    assert kept["results"] == {**first.results, **second.results}
    assert kept["conversions"]["digits-clean"] == "as they are"


def test_other_settings_are_another_result(tmp_path, trained_run):
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    usual, other = (
        evaluate_outliers(run, ["digits-clean"], max_images=number, save=True)
        for number in (None, 40)
    )
    splits = {row.split: row.value for row in collect(run) if row.metric == "odin_perturbed/auroc"}
    assert splits == {
        "outliers:digits-clean": usual.results["digits-clean"]["odin_perturbed"]["auroc"],
        "outliers:digits-clean (max_images 40)": other.results["digits-clean"]["odin_perturbed"][
            "auroc"
        ],
    }
    captions = [table.caption for table in build_tables(collect(run), kind="ood")]
    assert [caption.partition("from ")[2] for caption in captions] == [
        "digits-clean",
        "digits-clean (max_images 40)",
    ]


# ------------------------------------------------------------------ the perturbation


@examples(20)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 1000.0]))
def test_a_small_perturbation_raises_the_top_probability(seed, temperature):
    torch.manual_seed(seed)
    network = build_model("small-cnn", num_classes=5, in_channels=1, width=4).double().eval()
    images = torch.randn(8, 1, 8, 8, dtype=torch.float64)
    before = torch.softmax(network(images) / temperature, 1).max(1).values
    moved = perturb(network, images, epsilon=1e-7, temperature=temperature)
    after = torch.softmax(network(moved) / temperature, 1).max(1).values
    assert (after > before).all()
    assert torch.equal((moved - images).abs() <= 1.001e-7, torch.ones_like(images).bool())


def test_a_step_of_nothing_leaves_images_alone():
    network = build_model("small-cnn", num_classes=5, in_channels=1).eval()
    images = torch.randn(3, 1, 8, 8)
    assert torch.equal(perturb(network, images, epsilon=0.0), images)


def test_perturbing_leaves_no_gradient_behind():
    network = build_model("small-cnn", num_classes=5, in_channels=1).eval()
    with torch.no_grad():
        moved = perturb(network, torch.randn(3, 1, 8, 8), epsilon=0.1)
    assert not moved.requires_grad
    assert all(parameter.grad is None for parameter in network.parameters())


# ------------------------------------------------------------------ conversion


def test_grey_is_repeated_and_colour_is_weighed():
    grey = noise((3, 4, 5, 1))
    np.testing.assert_array_equal(convert_images(grey, (4, 5, 3)), np.repeat(grey, 3, axis=-1))
    colour = np.array([[[[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9]]]], np.uint8)
    assert convert_images(colour, (1, 4, 1)).ravel().tolist() == [76, 150, 29, 9]


def test_resizing_keeps_the_mean():
    flat = np.full((2, 28, 28, 3), 77, np.uint8)
    assert (convert_images(flat, (32, 32, 3)) == 77).all()


def test_shrinking_smooths_first():
    checkers = np.indices((16, 16)).sum(axis=0) % 2 * 255
    small = convert_images(checkers[None, ..., None].astype(np.uint8), (4, 4, 1))
    assert (np.abs(small.astype(int) - 127) < 40).all()


def test_many_images_are_converted_in_parts(monkeypatch):
    images = noise((10, 4, 4, 1))
    whole = convert_images(images, (6, 6, 3))
    monkeypatch.setattr("expertload.lab.results.outliers.CHUNK", 3)
    np.testing.assert_array_equal(convert_images(images, (6, 6, 3)), whole)


def test_conversions_in_words():
    assert describe_conversion((8, 8, 1), (8, 8, 1)) == "as they are"
    assert describe_conversion((8, 8, 3), (8, 8, 1)) == "colour to grey"


# ------------------------------------------------------------------ refusals


def test_channels_that_mean_nothing_are_refused():
    with pytest.raises(ParameterError, match="Images with 4 channels cannot be converted"):
        convert_images(noise((1, 4, 4, 4)), (4, 4, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"against": []}, "at least one data set"),
        ({"against": ["digits"]}, "must differ from the run's own test images"),
        ({"against": ["corrupted:fog:9"]}, "severity after corrupted:fog: must be from 1 to 5"),
        ({"against": ["corrupted:mist:3"]}, "corruption after corrupted:.*must be one of"),
        ({"against": ["no-such-set"]}, "no data set 'no-such-set'"),
        ({"objective": "f1"}, "must be one of 'nll', 'ece'"),
        ({"max_images": 0}, "whole number of at least 1"),
    ],
)
def test_bad_requests_are_refused_in_words(trained_run, options, message):
    with pytest.raises(ParameterError, match=message):
        evaluate_outliers(trained_run, **{"against": ["digits-clean"], **options})

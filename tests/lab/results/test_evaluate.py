from __future__ import annotations

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest
import torch
from scipy.special import softmax
from tests.lab.synthetic_runs import make_config, train_once, write_run

from expertload import Cases, aucoc_score, load_at_accuracy
from expertload.calibrators import CALIBRATORS, KCal, TemperatureScaling
from expertload.exceptions import FileFormatError, LabelError, ParameterError
from expertload.lab.results.evaluate import evaluate_logits, evaluate_probabilities, evaluate_runs
from expertload.lab.runs.finished import FinishedRun, describe_loss
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.network import load_weights, save_weights
from expertload.lab.training.loop import _validation_metrics
from expertload.metrics import (
    brier_loss,
    classwise_calibration_error,
    expected_calibration_error,
    kolmogorov_smirnov_error,
    log_loss,
)
from expertload.significance import aucoc_interval


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    return train_once(tmp_path_factory.getbasetemp())


def probabilities(folder, split="test"):
    logits, labels = RunFolder(folder).read_logits(split)
    return labels, softmax(logits.astype(np.float64), axis=1)


def test_numbers_are_those_of_the_core(tmp_path):
    labels, proba = probabilities(write_run(tmp_path, make_config()))
    interval = aucoc_interval(Cases.from_predictions(labels, proba))
    assert evaluate_probabilities(labels, proba, [0.9, 0.955]) == {
        "aucoc": aucoc_score(labels, proba),
        "accuracy": (proba.argmax(1) == labels).mean(),
        "ece": expected_calibration_error(labels, proba),
        "ks": kolmogorov_smirnov_error(labels, proba),
        "brier": brier_loss(labels, proba),
        "cwece": classwise_calibration_error(labels, proba),
        "nll": log_loss(labels, proba),
        "load@90": load_at_accuracy(labels, proba, target_accuracy=0.9),
        "load@95.5": load_at_accuracy(labels, proba, target_accuracy=0.955),
        "aucoc_low": interval.low,
        "aucoc_high": interval.high,
    }


def test_a_split_without_the_first_class_is_evaluated():
    rng = np.random.default_rng(3)
    proba = rng.dirichlet([1, 1, 1], 60)
    labels = rng.integers(1, 3, 60)
    with pytest.raises(LabelError, match="and 0 must occur"):
        aucoc_score(labels, proba)
    found = evaluate_probabilities(labels, proba, [0.9])
    # Class 0 as the last column and the others moved up: the same cases under other numbers.
    same = evaluate_probabilities((labels - 1) % 3, np.roll(proba, -1, axis=1), [0.9])
    assert found == pytest.approx(same, abs=1e-12)
    assert found["accuracy"] == (proba.argmax(axis=1) == labels).mean()
    metrics = _validation_metrics(np.log(proba), labels)
    assert metrics["aucoc"] == pytest.approx(found["aucoc"], abs=1e-12)
    assert metrics["ece"] == pytest.approx(found["ece"], abs=1e-12)


def test_a_run_is_evaluated_before_and_after_calibration(tmp_path):
    folder = write_run(tmp_path, make_config())
    evaluation = evaluate_runs(folder, target_accuracies=[0.8])
    results = evaluation.runs[folder.name]
    logits, labels = RunFolder(folder).read_logits("test")
    fitted = TemperatureScaling().fit(*RunFolder(folder).read_logits("validation"))
    calibrated = fitted.transform(logits)
    assert results["test"]["ece"] == expected_calibration_error(*probabilities(folder))
    assert results["test_calibrated"]["ece"] == expected_calibration_error(labels, calibrated)
    assert results["validation"]["aucoc"] == aucoc_score(*probabilities(folder, "validation"))
    assert set(results["test"]) >= {"load@80"}
    assert "load@90" not in results["test"]
    assert evaluation.ensemble is None
    assert json.loads(json.dumps(asdict(evaluation)))["data"] == "digits"


def test_loads_are_read_where_the_runs_settings_say(tmp_path):
    evaluation = evaluate_runs(write_run(tmp_path, make_config()))
    (results,) = evaluation.runs.values()
    assert {"load@90", "load@95"} <= set(results["test"])


def test_an_ensemble_answers_with_the_mean_probability(tmp_path):
    folders = [write_run(tmp_path, make_config(seed=seed)) for seed in (0, 1, 2)]
    evaluation = evaluate_runs(folders)
    labels, _ = probabilities(folders[0])
    mean = sum(probabilities(folder)[1] for folder in folders) / 3
    validation = sum(probabilities(folder, "validation")[1] for folder in folders) / 3
    assert evaluation.ensemble["test"]["aucoc"] == pytest.approx(aucoc_score(labels, mean))
    fitted = TemperatureScaling(input="probabilities").fit(
        validation, probabilities(folders[0], "validation")[0]
    )
    expected = expected_calibration_error(labels, fitted.transform(mean))
    assert evaluation.ensemble["test_calibrated"]["ece"] == pytest.approx(expected, abs=1e-9)
    for folder in folders:
        alone = evaluate_runs(folder).runs[folder.name]
        assert evaluation.runs[folder.name] == alone


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if name != "kcal"])
def test_every_calibrator_serves_runs_and_ensembles(tmp_path, name):
    folders = [write_run(tmp_path, make_config(seed=seed)) for seed in (0, 1)]
    evaluation = evaluate_runs(folders, calibrator=name)
    assert evaluation.ensemble["calibrator"] == name
    assert 0 < evaluation.ensemble["test_calibrated"]["aucoc"] < 1


def test_kcal_works_on_the_features_of_the_selected_weights(trained_run):
    folder = trained_run
    run = FinishedRun(folder)
    data = run.load_data()
    network = run.load_network(data)

    def features(split):
        pixels = torch.from_numpy(split.images).permute(0, 3, 1, 2).float() / 255
        mean, std = data.normalisation.mean[0], data.normalisation.std[0]
        with torch.no_grad():
            return network.body((pixels - mean) / std).numpy()

    fitted = KCal(n_classes=10).fit(features(data.validation), data.validation.labels)
    expected = aucoc_score(data.test.labels, fitted.transform(features(data.test)))
    evaluation = evaluate_runs(folder, calibrator="kcal")
    assert evaluation.runs["run"]["test_calibrated"]["aucoc"] == pytest.approx(expected, abs=1e-5)
    with torch.no_grad():
        logits = network.head(torch.from_numpy(features(data.test))).numpy()
    np.testing.assert_allclose(logits, run.test[0], atol=1e-4)


def test_kcal_of_an_ensemble_takes_the_features_side_by_side(tmp_path, trained_run):
    # A twin of the trained run that differs in its seed alone: the same features twice.
    twin = tmp_path / "twin"
    shutil.copytree(trained_run, twin)
    RunFolder(twin).write_json("config.json", make_config(seed=1).model_dump(mode="json"))
    evaluation = evaluate_runs([trained_run, twin], calibrator="kcal")
    alone = evaluation.runs["run"]["test_calibrated"]["aucoc"]
    # Doubling features stretches all distances alike, and the bandwidth with them.
    assert evaluation.ensemble["test_calibrated"]["aucoc"] == pytest.approx(alone, abs=0.01)


def test_a_double_precision_run_stays_double(tmp_path, trained_run):
    run = FinishedRun(trained_run)
    data = run.load_data()
    shutil.copytree(trained_run, tmp_path / "double")
    double = FinishedRun(tmp_path / "double")
    weights, facts = load_weights(double.folder.best)
    wide = {k: v.double() if v.is_floating_point() else v for k, v in weights.items()}
    save_weights(double.folder.best, wide, facts)
    assert next(double.load_network(data).parameters()).dtype == torch.float64
    assert next(run.load_network(data).parameters()).dtype == torch.float32


def test_names_that_collide_are_told_apart_by_their_paths(tmp_path):
    folders = []
    for seed, parent in enumerate(("a", "b")):
        made = write_run(tmp_path / parent, make_config(seed=seed))
        folders.append(made.rename(made.with_name("run")))
    assert set(evaluate_runs(folders).runs) == {str(folder) for folder in folders}


def test_describing_a_loss():
    assert describe_loss(make_config("ce+aucoc", weight=1.5).loss) == "ce+aucoc (weight 1.5)"
    assert describe_loss(make_config("focal").loss) == "focal"


# ------------------------------------------------------------------ refusals


def test_runs_of_different_data_are_refused(tmp_path):
    a = write_run(tmp_path, make_config())
    b = write_run(tmp_path, make_config(data={"name": "svhn"}))
    with pytest.raises(ParameterError, match="of the same data. Got 'digits'"):
        evaluate_runs([a, b])


def test_another_split_is_other_data(tmp_path):
    a = write_run(tmp_path, make_config())
    b = write_run(tmp_path, make_config(data={"split_seed": 1}))
    with pytest.raises(ParameterError, match=r"\(split 0\).*\(split 1\)"):
        evaluate_runs([a, b])


def test_labels_that_differ_are_other_data(tmp_path):
    a = write_run(tmp_path, make_config())
    b = write_run(tmp_path, make_config(seed=1), labels_seed=1)
    with pytest.raises(ParameterError, match="validation labels .* differ"):
        evaluate_runs([a, b])


def test_a_run_counts_once(tmp_path):
    a = write_run(tmp_path, make_config())
    with pytest.raises(ParameterError, match="are the same run"):
        evaluate_runs([a, a])


def test_no_runs_are_refused():
    with pytest.raises(ParameterError, match="At least one run"):
        evaluate_runs([])


def test_a_run_that_is_not_done_is_refused(tmp_path):
    a = write_run(tmp_path, make_config())
    (a / "results.json").unlink()
    with pytest.raises(FileFormatError, match="is not finished"):
        evaluate_runs(a)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="has no config.json"):
        evaluate_runs(tmp_path)


def test_an_unknown_calibrator_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="must be one of 'temperature'"):
        evaluate_runs(write_run(tmp_path, make_config()), calibrator="magic")


def test_accuracies_in_per_cent_are_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"pass 0.9 for 90 %"):
        evaluate_runs(write_run(tmp_path, make_config()), target_accuracies=[90])


def test_kcal_on_logits_alone_is_refused(tmp_path):
    run = RunFolder(write_run(tmp_path, make_config()))
    both = run.read_logits("validation"), run.read_logits("test")
    with pytest.raises(ParameterError, match="works on features"):
        evaluate_logits(*both, [0.9], calibrator="kcal")


def test_kcal_needs_the_data_of_the_training(tmp_path):
    # Its logits were drawn, not computed, and so were its labels.
    with pytest.raises(FileFormatError, match="differ from those of the run"):
        evaluate_runs(write_run(tmp_path, make_config()), calibrator="kcal")


def test_weights_of_another_network_are_refused(tmp_path, trained_run):
    shutil.copytree(trained_run, tmp_path / "run")
    other = make_config(model={"options": {"width": 8}}).model_dump(mode="json")
    RunFolder(tmp_path / "run").write_json("config.json", other)
    with pytest.raises(FileFormatError, match="does not fit the network 'small-cnn'"):
        evaluate_runs(tmp_path / "run", calibrator="kcal")

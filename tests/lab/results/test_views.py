"""Test-time augmentation of runs: the views, what they cost, and what becomes of the answers."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from tests.lab.synthetic_runs import make_config, train_once, write_run
from typer.testing import CliRunner

from expertload import aucoc_score
from expertload.cli.app import app
from expertload.ensembling import ViewEnsemble, make_views
from expertload.exceptions import ParameterError
from expertload.lab.data import Augmentation, load_dataset
from expertload.lab.results.compare import compare_runs
from expertload.lab.results.ensembles import affordable_views, with_views
from expertload.lab.results.evaluate import evaluate_runs, evaluate_test_cases
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.network import apply_network


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    return train_once(tmp_path_factory.getbasetemp())


def test_none_is_the_run_as_it_is(trained_run):
    (viewed,) = with_views(trained_run, views="none")
    np.testing.assert_allclose(viewed.test_proba, FinishedRun(trained_run).test_proba, atol=1e-5)
    assert viewed.choice.passes == 1


def test_views_are_the_mean_over_a_loop(trained_run):
    (viewed,) = with_views(trained_run, views="shift")
    run = FinishedRun(trained_run)
    data = run.load_data()
    network = run.load_network(data)
    each = []
    with torch.no_grad():
        for view in make_views("shift"):
            logits = apply_network(
                network, data.test, data.normalisation, lambda x, view=view: network(view(x))
            )
            each.append(softmax(logits.astype(np.float64), axis=1))
    np.testing.assert_allclose(viewed.test_proba, np.mean(each, axis=0), atol=1e-6)
    numbers = evaluate_runs(viewed).runs[run.name]
    assert numbers["test"]["aucoc"] == pytest.approx(
        aucoc_score(data.test.labels, np.mean(each, axis=0)), abs=1e-6
    )


def test_the_views_are_chosen_on_validation_data_alone(trained_run, monkeypatch):
    (viewed,) = with_views(trained_run)
    assert set(viewed.choice.scores) == {"none", "flip", "shift", "symmetries"}
    for name, score in viewed.choice.scores.items():
        (one,) = with_views(trained_run, views=name)
        assert score == pytest.approx(aucoc_score(one.validation[1], one.validation_proba))
    assert viewed.choice.scores[viewed.choice.views] == max(viewed.choice.scores.values())


def test_a_run_with_views_is_compared_and_certified_like_any(trained_run):
    (viewed,) = with_views(trained_run, views="flip")
    models = evaluate_test_cases(viewed, target_accuracies=[0.5])
    assert models[viewed.name].aucoc.estimate == pytest.approx(
        aucoc_score(viewed.test[1], viewed.test_proba)
    )
    result = compare_runs(viewed, FinishedRun(trained_run), n_rounds=10)
    assert result.values[0] == pytest.approx(models[viewed.name].aucoc.estimate)


def test_the_command_says_what_was_chosen_and_what_it_costs(trained_run):
    words = ["lab", "evaluate", str(trained_run), "--views"]
    done = CliRunner().invoke(app, [*words, "shift"])
    assert done.exit_code == 0, done.output
    assert "views: shift, 5 passes for each image" in done.output
    (viewed,) = with_views(trained_run, views="shift")
    expected = evaluate_runs(viewed).runs[viewed.name]["test"]["aucoc"]
    assert f"{100 * expected:.2f} (" in done.output
    as_json = CliRunner().invoke(app, [*words, "auto", "--json"])
    assert json.loads(as_json.stdout)["runs"]
    assert "views: " in as_json.stderr


def test_unknown_views_and_foreign_networks_are_refused(trained_run, tmp_path):
    with pytest.raises(ParameterError, match="'spin'"):
        with_views(trained_run, views="spin")
    model = {"name": "subprocess:Popen"}
    with pytest.raises(ParameterError, match="--allow-import subprocess:Popen"):
        with_views(write_run(tmp_path, make_config(model=model)))


def test_an_ensemble_of_views_is_a_module():
    assert len(list(ViewEnsemble(torch.nn.Linear(1, 1)).parameters())) == 2


def test_views_are_limited_to_a_number_of_passes(trained_run):
    data = FinishedRun(trained_run).load_data()
    assert affordable_views(data) == ["none", "flip", "shift", "symmetries"]
    assert affordable_views(data, 5) == ["none", "flip", "shift"]
    oblong = replace(data.test, images=data.test.images[:, :, :6])
    assert affordable_views(replace(data, test=oblong)) == ["none", "flip", "shift"]
    (viewed,) = with_views(trained_run, max_passes=2)
    assert set(viewed.choice.scores) == {"none", "flip"}
    assert viewed.choice.passes <= 2


@pytest.mark.parametrize(
    ("augmentation", "views"),
    [
        ({"padding": 1}, ["none", "shift"]),
        ({"flip": True}, ["none", "flip", "shift"]),
        ({"symmetries": True}, ["none", "flip", "shift", "symmetries"]),
    ],
)
def test_own_images_are_mirrored_only_if_training_mirrors_them(augmentation, views):
    digits = load_dataset("digits")
    own = replace(digits, name="folder:scans", augmentation=Augmentation(**augmentation))
    assert affordable_views(own) == views

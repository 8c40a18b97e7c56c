"""The commands that come after training, each run as a user would."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import numpy as np
import pytest
from typer.testing import CliRunner

from expertload.calibrators import CALIBRATORS
from expertload.cases import Cases
from expertload.cli.app import app
from expertload.ensembling import view_names
from expertload.evaluation import evaluate
from expertload.lab.results.evaluate import evaluate_runs
from expertload.lab.results.rows import collect, read_rows
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.operating_point import load_operating_point
from tests.lab.synthetic_runs import make_config, train_once, write_run


def run(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["lab", *map(str, words)])


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """`runs/digits` in an empty folder, as a sweep leaves it."""
    monkeypatch.chdir(tmp_path)
    for loss, skill, weights in (("ce", 1.0, [None]), ("ce+aucoc", 2.0, [1.0, 5.0])):
        for weight in weights:
            for seed in (0, 1):
                config = make_config(loss, seed=seed, weight=weight)
                write_run(tmp_path / "runs" / "digits", config, skill=skill + (weight or 0) / 10)
    return tmp_path / "runs" / "digits"


def folders(runs, loss):
    return sorted(path for path in runs.iterdir() if RunFolder(path).config().loss.name == loss)


def test_evaluate_prints_runs_and_their_ensemble(runs):
    done = run("evaluate", *folders(runs, "ce"), "--at", "0.8")
    assert done.exit_code == 0
    numbers = evaluate_runs(folders(runs, "ce"), target_accuracies=[0.8])
    assert f"{100 * numbers.ensemble['test']['aucoc']:.2f} (" in done.output
    assert f"{numbers.ensemble['test']['nll']:.3f}" in done.output
    assert "load at 80 %" in done.output
    assert "aucoc_low" not in done.output


def test_evaluate_as_json(runs):
    (first, *_) = folders(runs, "ce")
    done = run("evaluate", first, "--json", "--calibrator", "isotonic")
    assert json.loads(done.output) == asdict(evaluate_runs(first, calibrator="isotonic"))


def test_evaluate_says_what_is_wrong(runs):
    assert "list of accuracies" in run("evaluate", runs, "--at", "most").output
    done = run("evaluate", runs / "nowhere")
    assert done.exit_code == 1
    assert "has no config.json" in done.output


@pytest.mark.slow
def test_ood_prints_and_keeps_its_numbers(tmp_path, tmp_path_factory):
    trained = train_once(tmp_path_factory.getbasetemp())
    words = ("ood", trained, "--against", "digits-clean", "--max-images", 50)
    done = run(*words)
    assert done.exit_code == 0
    assert "odin_perturbed" in done.output
    assert "images: as they are" in done.output
    (kept,) = RunFolder(trained).read_json("outliers.json")["evaluations"]
    assert json.loads(run(*words, "--json").output)["results"] == kept["results"]
    assert "MSP" in run("table", trained, "--kind", "ood").output
    (trained / "outliers.json").unlink()


def test_table_finds_a_recipes_runs_and_writes_rows(runs, tmp_path):
    by_name = run("table", "digits", "--save-rows", tmp_path / "rows.csv")
    assert by_name.exit_code == 0
    assert "| ce+aucoc (weight 5) | 2 | **" in by_name.output
    assert by_name.output == run("table", runs).output
    assert read_rows(tmp_path / "rows.csv") == collect(runs)
    assert "focal |" in run("table", runs, "--losses", "focal, ce").output


def test_table_without_results_says_so(runs, tmp_path):
    done = run("table", runs, "--kind", "ood")
    assert done.exit_code == 1
    assert "no results for --kind ood" in done.output
    (tmp_path / "empty").mkdir()
    assert "no runs that are done" in run("table", tmp_path / "empty").output


def test_compare_takes_runs_or_losses(runs):
    best = [path for path in folders(runs, "ce+aucoc") if "-w5-" in path.name]
    groups = [",".join(map(str, paths)) for paths in (best, folders(runs, "ce"))]
    by_path = run("compare", *groups, "--rounds", 50)
    assert by_path.exit_code == 0
    assert "Over 2 seeds" in by_path.output
    assert run("compare", "ce+aucoc", "ce", "--runs", "digits", "--rounds", 50).output == (
        by_path.output
    )


def test_compare_says_which_losses_there_are(runs):
    done = run("compare", "focal", "ce", "--runs", "digits")
    assert done.exit_code == 1
    assert "it has finished runs of ce, ce+aucoc" in done.output


def test_compare_refuses_mixed_experiments(runs):
    write_run(runs, make_config("ce", epochs=9))
    assert "different experiments" in run("compare", "ce", "ce+aucoc", "--runs", runs).output


# ------------------------------------------------------------------ into the rest of the library


@pytest.mark.slow
def test_runs_become_a_report_and_a_policy(runs, tmp_path):
    chosen = folders(runs, "ce+aucoc")[-2:]
    report, policy = tmp_path / "report.html", tmp_path / "policy.json"
    done = run("evaluate", *chosen, "--at", "0.8,0.9", "--out", report, "--save-policy", policy)
    assert done.exit_code == 0, done.output
    page = report.read_text()
    assert "Expert load on digits" in page
    assert all(path.name in page for path in chosen)
    assert "ensemble" in page
    point = load_operating_point(policy)
    runs_read = [FinishedRun(path) for path in chosen]
    mean = np.mean([found.test_proba for found in runs_read], axis=0)
    by_hand = evaluate(
        Cases.from_predictions(runs_read[0].test[1], mean), target_accuracy=[0.8, 0.9]
    )
    assert point.threshold == by_hand.certification.threshold
    assert point.origin.model_name is None  # nobody has named it


def test_a_policy_decides_new_cases_of_the_same_network(runs, tmp_path):
    (first, *_) = folders(runs, "ce+aucoc")
    policy = tmp_path / "policy.json"
    assert run("evaluate", first, "--at", "0.8", "--save-policy", policy).exit_code == 0
    proba = FinishedRun(first).test_proba
    accepted = load_operating_point(policy).decide(proba).accepted
    assert 0 < accepted.mean() < 1


def test_what_cannot_be_certified_is_not_saved(runs, tmp_path):
    (first, *_) = folders(runs, "ce")
    done = run("evaluate", first, "--at", "0.999", "--save-policy", tmp_path / "policy.json")
    assert done.exit_code == 1
    assert "No policy was saved." in done.output
    assert not (tmp_path / "policy.json").exists()


@pytest.mark.slow
def test_json_stays_json_beside_a_report(runs, tmp_path):
    (first, *_) = folders(runs, "ce")
    done = run("evaluate", first, "--json", "--out", tmp_path / "report.html")
    assert json.loads(done.stdout)["data"] == "digits"
    assert "The report is in" in done.stderr


def test_the_help_names_the_calibrators_that_there_are():
    words = re.findall(r"[a-z_]+", run("evaluate", "--help").output)
    for name in set(CALIBRATORS) - {"kcal"}:  # which works on features
        assert name in words
    assert not {"vector", "matrix"} & set(words)


@pytest.mark.parametrize("command", ["evaluate", "ensemble"])
def test_the_help_names_the_views_that_there_are(command):
    words = re.findall(r"[a-z]+", run(command, "--help").output)
    assert set(view_names()) <= set(words)

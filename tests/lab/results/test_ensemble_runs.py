"""An ensemble as a run: its folder, and everything that takes runs."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
import torch
from tests.lab.conftest import tiny
from tests.lab.synthetic_runs import make_config, write_run
from typer.testing import CliRunner

from expertload import aucoc_score
from expertload.cli.app import app
from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab import load_dataset, train
from expertload.lab.results.compare import compare_runs
from expertload.lab.results.ensembles import collect_ensembles, make_ensemble, with_views
from expertload.lab.results.evaluate import evaluate_runs
from expertload.lab.results.rows import collect, read_rows, runs_of_loss, write_rows
from expertload.lab.results.tables import make_table
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.network import apply_network
from expertload.operating_point import load_operating_point


@pytest.fixture
def seeds(tmp_path):
    return [write_run(tmp_path, make_config(seed=seed)) for seed in range(3)]


def test_it_answers_with_the_mean_probability(seeds):
    made = make_ensemble(seeds)
    runs = [FinishedRun(path) for path in seeds]
    for split in ("validation_proba", "test_proba"):
        expected = sum(getattr(run, split) for run in runs) / 3
        np.testing.assert_allclose(getattr(made, split), expected, rtol=1e-12)
    results = made.folder.read_json("results.json")
    assert results["test"]["aucoc"] == pytest.approx(
        aucoc_score(runs[0].test[1], np.mean([run.test_proba for run in runs], axis=0))
    )
    beside = evaluate_runs(seeds).ensemble
    assert results["test"] == pytest.approx(beside["test"])


def test_it_is_evaluated_and_compared_like_any_run(seeds):
    made = make_ensemble(seeds)
    assert evaluate_runs(made.folder.path).runs[made.name]["test"]["aucoc"] > 0
    result = compare_runs(made.folder.path, seeds[0], n_rounds=20)
    assert result.values[0] == pytest.approx(aucoc_score(made.test[1], made.test_proba))
    assert "ce" in str(result)


def test_it_has_a_line_in_tables_and_leaves_the_others_alone(seeds, tmp_path):
    before = make_table(collect(tmp_path))
    make_ensemble(seeds)
    rows = collect(tmp_path)
    table = make_table(rows)
    assert "| ensemble of ce | 3 |" in table
    for line in before.splitlines():
        if line.startswith("| ce"):
            cells = [re.sub(r"\*|</?u>", "", cell) for cell in line.split("|")]
            assert any(
                [re.sub(r"\*|</?u>", "", cell) for cell in other.split("|")] == cells
                for other in table.splitlines()
            )
    assert {row.n_runs for row in rows} == {1, 3}
    write_rows(tmp_path / "rows.csv", rows)
    assert read_rows(tmp_path / "rows.csv") == rows
    assert sorted(runs_of_loss(tmp_path, "ce")) == sorted(seeds)
    assert {row.n_runs for row in collect_ensembles(tmp_path)} == {3}


def test_ensembles_of_other_sizes_are_other_lines(seeds, tmp_path):
    for pair in (seeds[:2], seeds[1:]):
        make_ensemble(pair)
    make_ensemble(seeds)
    lines = [line for line in make_table(collect(tmp_path)).splitlines() if "ensemble of" in line]
    assert [line.split("|")[2].strip() for line in lines] == ["2", "3"]
    assert "±" in lines[0]  # two pairs
    assert "±" not in lines[1]


def test_options_are_still_chosen_by_single_runs(tmp_path):
    for weight, skill in ((1.0, 1.0), (2.0, 3.0)):
        runs = [
            write_run(tmp_path, make_config("ce+aucoc", seed=seed, weight=weight), skill=skill)
            for seed in (0, 1)
        ]
        if weight == 1.0:
            make_ensemble(runs)
    assert "| ce+aucoc (weight 2) | 2 |" in make_table(collect(tmp_path))


def test_members_of_several_losses_stand_side_by_side(tmp_path):
    runs = [write_run(tmp_path, make_config(loss)) for loss in ("ce", "focal")]
    made = make_ensemble(runs)
    assert made.label == "ce and focal"
    assert "| ensemble of ce and focal | 2 |" in make_table(collect(tmp_path))


def test_making_it_again_reads_it(seeds):
    made = make_ensemble(seeds)
    before = {path: path.read_bytes() for path in made.folder.path.iterdir()}
    again = make_ensemble(seeds[::-1], out=made.folder.path)
    assert again.folder.path == made.folder.path
    assert {path: path.read_bytes() for path in made.folder.path.iterdir()} == before
    with pytest.raises(FileFormatError, match="holds another run or ensemble"):
        make_ensemble(seeds[:2], out=made.folder.path)
    with pytest.raises(FileFormatError, match="holds another run or ensemble"):
        make_ensemble(seeds[:2], out=seeds[2])


def test_a_kill_while_it_is_made_loses_nothing(seeds):
    made = make_ensemble(seeds)
    (made.folder.path / "results.json").unlink()
    (made.folder.path / "test.npz").unlink()
    with pytest.raises(ParameterError, match="which is not trained"):
        train(made.config, made.folder.path)
    again = make_ensemble(seeds)
    np.testing.assert_array_equal(again.test[0], made.test[0])


def test_what_makes_no_ensemble_is_refused(seeds, tmp_path):
    made = make_ensemble(seeds)
    with pytest.raises(ParameterError, match="two runs or more"):
        make_ensemble(seeds[:1])
    with pytest.raises(ParameterError, match="distinct"):
        make_ensemble([seeds[0], seeds[0]])
    with pytest.raises(ParameterError, match="needs single runs"):
        make_ensemble([seeds[0], made.folder.path])
    (made.folder.path / "ensemble.json").write_text('{"members": [3]}')
    with pytest.raises(FileFormatError, match="is damaged"):
        collect(made.folder.path)


def test_the_command_makes_what_reports_and_policies_take(seeds, tmp_path):
    done = CliRunner().invoke(app, ["lab", "ensemble", *map(str, seeds)])
    assert done.exit_code == 0, done.output
    assert "ensemble of 3: ce" in done.output
    assert "cost: 3 passes for each image" in done.output
    folder = done.output.strip().rpartition("folder: ")[2]
    report, policy = tmp_path / "report.html", tmp_path / "policy.json"
    words = ["lab", "evaluate", folder, "--at", "0.7", "--out", report, "--save-policy", policy]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert load_operating_point(policy).target_accuracy == 0.7
    assert "ensemble-of-3" in report.read_text()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    for seed in (0, 1):
        train(tiny(seed=seed, epochs=1, batch_size=256), place / f"seed{seed}", accelerator="cpu")
    return [place / "seed0", place / "seed1"]


@pytest.mark.parametrize("views", [None, "shift"])
def test_its_network_gives_its_predictions(views, trained, tmp_path):
    made = make_ensemble(trained, out=tmp_path / "ensemble", views=views)
    data = made.load_data()
    network = made.load_network(data)
    with torch.no_grad():
        logits = apply_network(network, data.test, data.normalisation)
    np.testing.assert_allclose(np.exp(logits), made.test_proba, atol=1e-5)
    (viewed,) = with_views(made, views="flip")
    assert viewed.choice.passes == (4 if views is None else 20)  # five views of each member


def test_its_numbers_outlive_its_members(seeds, tmp_path):
    made = make_ensemble(seeds, out=tmp_path / "elsewhere" / "ensemble")
    for path in seeds:
        shutil.rmtree(path)
    assert "| ensemble of ce | 3 |" in make_table(collect(tmp_path / "elsewhere"))
    assert evaluate_runs(made.folder.path).runs
    with pytest.raises(FileFormatError, match=r"has no config\.json"):
        FinishedRun(made.folder.path).load_network(load_dataset("digits"))


def test_members_are_found_when_the_folder_moves_with_them(trained, tmp_path):
    for path in trained:
        shutil.copytree(path, tmp_path / "old" / path.name)
    made = make_ensemble([tmp_path / "old" / path.name for path in trained])
    (tmp_path / "old").rename(tmp_path / "new")
    moved = FinishedRun(tmp_path / "new" / made.name)
    assert [member.path.name for member in moved.members] == ["seed0", "seed1"]
    assert moved.load_network(moved.load_data()).passes == 2
    note = json.loads((moved.folder.path / "ensemble.json").read_text())
    assert note["members"][0]["folder"] == "../seed0"

"""Ensembles of seeds, as rows and as lines of the tables."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lab.synthetic_runs import make_config, write_run
from typer.testing import CliRunner

from expertload import aucoc_score
from expertload.cli.app import app
from expertload.lab.results.ensembles import collect_ensembles
from expertload.lab.results.measures import find_measure
from expertload.lab.results.rows import collect
from expertload.lab.results.tables import Cell, Line, Table, make_table, marks_of
from expertload.lab.runs.finished import FinishedRun


@pytest.fixture
def runs(tmp_path):
    """Three seeds of cross-entropy, two of AUCOC with the better of two weights, one of focal."""
    for seed in range(3):
        write_run(tmp_path, make_config("ce", seed=seed))
    for seed in range(2):
        write_run(tmp_path, make_config("ce+aucoc", weight=1.0, seed=seed), skill=3.0)
        write_run(tmp_path, make_config("ce+aucoc", weight=9.0, seed=seed), skill=0.5)
    write_run(tmp_path, make_config("focal"))
    return tmp_path


def test_it_is_the_mean_probability_of_the_seeds(runs):
    rows = collect_ensembles(runs)
    found = {row.loss: row for row in rows if (row.split, row.metric) == ("test", "aucoc")}
    members = [FinishedRun(path) for path in runs.glob("ce-seed*")]
    proba = np.mean([run.test_proba for run in members], axis=0)
    assert found["ce"].value == pytest.approx(aucoc_score(members[0].test[1], proba), abs=1e-12)
    assert (found["ce"].n_runs, found["ce"].seed) == (3, 0)


def test_only_the_chosen_options_and_only_several_seeds(runs):
    rows = collect_ensembles(runs)
    assert {(row.loss, row.options, row.n_runs) for row in rows} == {
        ("ce", "{}", 3),
        ("ce+aucoc", '{"weight": 1.0}', 2),
    }
    assert {row.split for row in rows} == {"test", "test_calibrated"}


def test_experiments_are_not_mixed(runs):
    for seed in range(2):
        write_run(runs, make_config("ce", seed=seed, epochs=7))
    rows = [row for row in collect_ensembles(runs) if row.loss == "ce"]
    assert sorted({(row.n_runs, row.settings) for row in rows}, reverse=True)[0][0] == 3
    assert {row.n_runs for row in rows} == {2, 3}


def test_lines_of_the_table(runs):
    rows = collect(runs)
    plain, with_ensembles = make_table(rows), make_table(rows + collect_ensembles(runs))
    lines = with_ensembles.splitlines()
    assert [line for line in lines if "ensemble" not in line] == plain.splitlines()
    (line,) = (line for line in lines if line.startswith("| ensemble of ce |"))
    assert line.split("|")[2].strip() == "3"
    assert "±" not in line


def test_ensembles_are_ranked_among_themselves():
    values = [(3.0, False), (1.0, False), (9.0, True), (7.0, True), (8.0, True)]
    lines = tuple(Line("", 1, (Cell(v, None, None),), is_ensemble=e) for v, e in values)
    marks = marks_of(Table("", (find_measure("aucoc"),), lines, None), 0)
    assert marks == ["best", "second", "best", "", "second"]


def test_on_the_command_line(runs):
    printed = CliRunner().invoke(app, ["lab", "table", str(runs), "--ensembles"])
    assert printed.exit_code == 0, printed.output
    assert "ensemble of ce+aucoc (weight 1)" in printed.output

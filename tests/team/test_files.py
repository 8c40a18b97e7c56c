"""The team from files: columns, readings, JSON, the report, the plot and the screen."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from tests.team.test_curve import example

from expertload.cli.app import app
from expertload.display import TeamDisplay
from expertload.evaluation import evaluate
from expertload.exceptions import FileFormatError
from expertload.io import Identity, read_cases, read_readings
from expertload.report import build_report
from expertload.team import Combiner, team_curve

NAMES = ("cat", "dog", "cow")


def write(path, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


@pytest.fixture
def cases():
    return example(300)


@pytest.fixture
def predictions(tmp_path, cases):
    """A third of the cases was read by nobody."""
    rows = [["id", "label", "p_cat", "p_dog", "p_cow", "doctor"]]
    for i, (target, proba, answer) in enumerate(
        zip(cases.target, cases.proba, cases.expert_answers, strict=True)
    ):
        read = NAMES[answer] if i % 3 else ""
        rows.append([f"c{i}", NAMES[target], *(repr(float(p)) for p in proba), read])
    return write(tmp_path / "predictions.csv", rows)


@pytest.fixture
def readings(tmp_path, cases):
    rows = [["case", "reader", "answer"]]
    for i, answer in enumerate(cases.expert_answers):
        rows += [[f"c{i}", reader, NAMES[answer]] for reader in ("Ann", "Bo")]
    return write(tmp_path / "readings.csv", rows)


def run(arguments):
    from typer.testing import CliRunner

    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_column_of_answers_is_read(predictions, cases):
    read = read_cases(predictions, identity=Identity(expert="doctor"))
    expected = np.where(np.arange(300) % 3, cases.expert_answers, -1)
    assert read.expert_answers.tolist() == expected.tolist()


def test_the_truth_is_not_an_expert(predictions):
    with pytest.raises(FileFormatError, match="both the truth and an expert"):
        read_cases(predictions, identity=Identity(expert="label"))
    correct = write(predictions.with_name("c.csv"), [["correct", "confidence", "e"], [1, 0.9, "a"]])
    with pytest.raises(FileFormatError, match="--probabilities"):
        read_cases(correct, identity=Identity(expert="e"))


def test_evaluate_tells_of_the_team(predictions, cases):
    done = run(["evaluate", predictions, "--expert", "doctor", "--json"])
    team = json.loads(done.stdout)["models"][0]["team"]
    read = read_cases(predictions, identity=Identity(expert="doctor"))
    assert team == evaluate(read).team.to_dict()
    assert team["n_read"] == 200
    shown = run(["evaluate", predictions, "--expert", "doctor"]).stdout
    assert "experts alone" in shown
    assert "answers combined" in shown


def test_readings_take_the_place_of_a_column(predictions, readings, cases):
    assert len(read_readings(readings)) == 600
    done = run(["evaluate", predictions, "--readings", readings, "--json"])
    team = json.loads(done.stdout)["models"][0]["team"]
    assert team["n_read"] == 300
    assert team["experts"]["estimate"] == pytest.approx(
        (cases.expert_answers == cases.target).mean()
    )
    both = run(["evaluate", predictions, "--readings", readings, "--expert", "doctor"])
    assert both.exit_code == 2


def test_without_experts_nothing_is_said_of_a_team(predictions):
    done = run(["evaluate", predictions, "--json"])
    assert "team" not in json.loads(done.stdout)["models"][0]


def test_the_report_uses_what_experts_really_do(tmp_path, cases):
    page = build_report(evaluate(cases), path=tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Model and experts as a team" in page
    numbers = json.loads(re.search(r'id="numbers"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    model = numbers["models"][0]
    curve = team_curve(cases)
    assert len(model["team"]) == len(model["threshold"])
    assert model["team"][0] == pytest.approx(curve.accuracy[0])
    assert model["team"][-1] == pytest.approx(curve.accuracy[-1])


def test_the_plot(tmp_path, predictions):
    done = run(["plot", predictions, "--expert", "doctor", "--out", tmp_path / "team.svg"])
    assert done.exit_code == 0
    assert (tmp_path / "team.svg").stat().st_size > 1000
    two = run(["plot", predictions, predictions, "--expert", "doctor", "--out", tmp_path / "t.svg"])
    assert two.exit_code == 2


def test_the_display_draws_four_lines(cases):
    drawn = TeamDisplay.from_cases(cases, combine=Combiner(), expert_load=0.3)
    curve = team_curve(cases)
    assert drawn.line_.get_ydata()[[0, -1]] == pytest.approx(curve.accuracy[[0, -1]])
    assert drawn.experts_.get_ydata()[0] == pytest.approx(curve.accuracy[-1])
    assert drawn.model_.get_ydata()[0] == pytest.approx(curve.accuracy[0])
    assert drawn.combined_ is not None
    assert len(drawn.ax_.get_legend().get_texts()) == 4
    again = TeamDisplay.from_cases(cases, ax=drawn.ax_)
    assert again.combined_ is None
    assert again.figure_ is drawn.figure_

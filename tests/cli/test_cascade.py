"""`expertload cascade`: two files, two thresholds, one promise."""

from __future__ import annotations

import json

import numpy as np
import pytest

from expertload.io import read_cases
from expertload.operating_point import certify_cascade, load_operating_point
from tests.io.files import predictions, write

PROMISE = ("--target-accuracy", 0.9, "--handover", 0.8, "--handover", 0.95, "--costs", "1,20,300")


@pytest.fixture
def files(tmp_path):
    """Two models on the same cases, the second in another order."""
    small, large = predictions(1200), predictions(1200, seed=5)
    order = np.random.default_rng(0).permutation(1200)
    write(tmp_path / "small.csv", small)
    write(tmp_path / "large.jsonl", {name: values[order] for name, values in large.items()})
    write(tmp_path / "ordered.csv", large)
    return "small.csv", "large.jsonl"


def test_it_is_the_cascade_of_the_library(run, files, tmp_path):
    found = json.loads(run("cascade", *files, *PROMISE, "--json").stdout)
    small, large = read_cases(tmp_path / "small.csv"), read_cases(tmp_path / "ordered.csv")
    options = {"handover": [0.8, 0.95], "target_accuracy": 0.9, "costs": (1, 20, 300)}
    expected = certify_cascade(small, large, **options)
    assert found["guarantee"] == expected.guarantee
    assert (found["mean_cost"], found["expert_load"]) == (expected.mean_cost, expected.expert_load)
    first, then, experts = found["stages"]
    assert first["threshold"] == expected.small.threshold
    assert then["threshold"] == expected.large.threshold
    assert (first["name"], then["name"], experts["name"]) == ("small", "large", "experts")
    assert sum(stage["decided"] for stage in found["stages"]) == pytest.approx(1)
    assert sum(stage["cost"] for stage in found["stages"]) == pytest.approx(found["mean_cost"])
    assert (first["asked"], then["asked"]) == (1, pytest.approx(1 - first["decided"]))


def test_its_policies_decide_as_it_does(run, files, tmp_path):
    run("cascade", *files, *PROMISE, "--save-policies", "both")
    models = [read_cases(tmp_path / name) for name in ("small.csv", "ordered.csv")]
    options = {"handover": [0.8, 0.95], "target_accuracy": 0.9, "costs": (1, 20, 300)}
    cascade = certify_cascade(*models, **options)
    points = {"small": cascade.small, "large": cascade.large}
    for (name, point), cases in zip(points.items(), models, strict=True):
        saved = load_operating_point(tmp_path / "both" / f"{name}.json")
        np.testing.assert_array_equal(
            saved.decide(cases.proba).accepted, point.decide(cases.proba).accepted
        )
    missing = run("cascade", *files, "--target-accuracy", 0.9999, "--save-policies", "none", code=1)
    assert "No policies were saved" in missing.stderr
    assert not (tmp_path / "none").exists()


def test_what_the_screen_says(run, files):
    said = " ".join(run("cascade", *files, *PROMISE, "--name", "a", "--name", "b").stdout.split())
    assert "stage threshold asked decides right of these cost of a case" in said
    assert "and 300 if experts decide all" in said
    assert "decided by either model is at least 0.9" in said
    nothing = run("cascade", *files, "--target-accuracy", 0.9999).stdout
    assert "The models decide 0 % of 1200 cases" in nothing


def test_the_handover_is_the_target_unless_another_is_named(run, files):
    usual, named = (
        run("cascade", *files, "--target-accuracy", 0.9, *more, "--json").stdout
        for more in ((), ("--handover", 0.9))
    )
    assert usual == named


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--costs", "1,20"], 1, "--costs must be the prices"),
        (["--costs", "cheap"], 2, "list of prices"),
        (["--costs", "1,20,-3"], 1, "--costs must"),
        (["--target-accuracy", 2], 1, "--target-accuracy must"),
    ],
)
def test_wrong_use(run, files, options, code, words):
    assert words in run("cascade", *files, *options, code=code).stderr


def test_other_cases_are_refused(run, files, tmp_path):
    write(tmp_path / "other.csv", predictions(300))
    assert "cases" in run("cascade", "small.csv", "other.csv", code=1).stderr


def test_real_judges(run, shared):
    folder = shared / "data" / "human"
    judges = [folder / f"judge_{name}.csv" for name in ("mistral-7b-instruct", "gpt-3_5-turbo")]
    if not judges[0].exists():
        pytest.skip("the judgements of two language models are not at hand")
    # The probabilities of two tokens do not sum to one: read as logits, they do.
    logs = ", ".join(f"ln(p_{i}::DOUBLE) AS logit_{i + 1}" for i in (0, 1))
    query = ["--query", f"SELECT preferred_by_people AS label, {logs} FROM file"]
    options = [*query, "--target-accuracy", 0.85, "--confidence-level", 0.9, "--handover", 0.99]
    found = json.loads(run("cascade", *judges, *options, "--json").stdout)
    assert found["is_certified"]
    assert found["n_cases"] == 500
    assert 0.3 < found["expert_load"] < 0.9
    assert all(stage["decided"] > 0 for stage in found["stages"])

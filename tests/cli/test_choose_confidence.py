"""`evaluate --choose-confidence`, and what becomes of the policy that it saves."""

from __future__ import annotations

import csv
import hashlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from expertload._format import percent
from expertload.cli.app import app
from expertload.desk.intake.case import SentCase
from expertload.desk.intake.routing import read_policy
from expertload.exceptions import FileFormatError
from expertload.operating_point import load_operating_point

CLASSES = ("a", "b", "c")


def cases(n=700, seed=0):
    """Logits of three classes; predictions of the last are right less often than they say."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, 3))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    predicted, top = proba.argmax(axis=1), proba.max(axis=1)
    right = rng.random(n) < np.where(predicted == 2, top**3, 1 - (1 - top) ** 1.5)
    return np.where(right, predicted, (predicted + 1) % 3), logits, proba


def write(path, y_true, logits, names=CLASSES, **more):
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["label", *(f"logit_{name}" for name in names), *more])
        for k, (label, row) in enumerate(zip(y_true, logits.tolist(), strict=True)):
            out.writerow([CLASSES[label], *row, *(values[k] for values in more.values())])
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chosen")
    y_true, logits, _ = cases()
    file = write(folder / "predictions.csv", y_true, logits)
    policy = folder / "policy.json"
    arguments = ("--target-accuracy", 0.85, "--choose-confidence", "--save-policy", policy)
    done = run("evaluate", file, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return file, policy, json.loads(done.stdout)


@pytest.mark.slow
def test_the_choice_is_told_and_the_others_are_certified(chosen):
    _, policy, told = chosen
    choice, (model,) = told["confidence_choice"], told["models"]
    assert choice["score"]["name"] == "correctness"
    assert (choice["n_choosing"], choice["n_certifying"]) == (210, 490)
    assert choice["loads"]["correctness"] < choice["loads"]["max_probability"]
    assert choice["load_saved"]["low"] <= choice["load_saved"]["estimate"]
    assert model["n_cases"] == 490
    point = load_operating_point(policy)
    assert point.n_cases == 490
    assert point.origin.ranked_by == "score"
    assert point.origin.score.to_dict() == choice["score"]


@pytest.mark.slow
def test_decide_applies_the_same_confidence(chosen, tmp_path):
    """Read again from another file, in another order of columns."""
    _, policy, _ = chosen
    point = load_operating_point(policy)
    y_true, logits, proba = cases(seed=1)
    file = write(tmp_path / "new.csv", y_true, logits[:, ::-1], names=CLASSES[::-1])
    done = run("decide", policy, file, "--out", tmp_path / "decisions.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "decisions.csv").open() as read:
        rows = list(csv.DictReader(read))
    confidence = point.origin.score.confidence(proba)
    np.testing.assert_allclose([float(row["confidence"]) for row in rows], confidence, rtol=1e-9)
    accepted = [row["accepted"] == "true" for row in rows]
    assert accepted == (confidence >= point.threshold).tolist()
    assert accepted == point.decide(proba).accepted.tolist()
    top = proba.max(axis=1)
    assert accepted != (top >= np.quantile(top, 1 - np.mean(accepted))).tolist()


def test_the_desk_applies_the_same_confidence(chosen):
    _, policy, _ = chosen
    point = load_operating_point(policy)
    _, _, proba = cases(40, seed=2)
    sent = [
        SentCase(str(k), "", dict(zip(CLASSES, row, strict=True)), model="predictions")
        for k, row in enumerate(proba.tolist())
    ]
    routes = read_policy(policy.read_text()).route(sent)
    assert [route.accepted for route in routes] == point.decide(proba).accepted.tolist()
    assert [r.confidence for r in routes] == point.origin.score.confidence(proba).tolist()


def test_a_saved_score_that_does_not_fit_is_refused(chosen, tmp_path):
    _, policy, _ = chosen
    document = json.loads(policy.read_text())
    for change in ({"score": None}, {"ranked_by": "top_probability"}, {"score": {"name": "x"}}):
        content = {**document, "origin": {**document["origin"], **change}}
        content.pop("sha256")
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (tmp_path / "forged.json").write_text(json.dumps(content))
        with pytest.raises(FileFormatError):
            load_operating_point(tmp_path / "forged.json")


@pytest.mark.slow
def test_a_person_reads_what_was_chosen(chosen):
    file, _, told = chosen
    done = run("evaluate", file, "--target-accuracy", 0.85, "--choose-confidence")
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "'correctness' was chosen on 210 cases" in words
    assert "the other 490 cases" in words
    assert "Cases are ranked by 'correctness', which was chosen on 210 other cases" in words
    load = told["confidence_choice"]["loads"]["margin"]
    assert f"margin {percent(1 - load)} {percent(load)}" in words


@pytest.mark.parametrize(
    ("option", "words"),
    [("--confidence", "leave out --confidence"), ("--weight", "needs cases without weights")],
)
def test_what_cannot_be_chosen_on_is_a_sentence(option, words, tmp_path):
    y_true, logits, _ = cases(60)
    file = write(tmp_path / "odd.csv", y_true, logits, given=np.linspace(0.1, 0.9, 60))
    done = run("evaluate", file, "--choose-confidence", option, "given")
    assert done.exit_code != 0
    assert words in " ".join(done.output.split())


def test_two_models_are_refused(tmp_path):
    y_true, logits, _ = cases(60)
    files = [write(tmp_path / f"{k}.csv", y_true, logits) for k in "xy"]
    done = run("evaluate", *files, "--choose-confidence")
    assert done.exit_code != 0
    assert "supports only one model" in " ".join(done.output.split())

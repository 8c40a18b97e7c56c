"""`expertload evaluate` with several models: whose cases are the same, and one p-value a pair."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from expertload.cli.files import name_files
from expertload.report.page import FORMATS
from tests.io.files import CLASSES, predictions, write


def shuffled(table, seed=0):
    order = np.random.default_rng(seed).permutation(len(table["id"]))
    return {name: values[order] for name, values in table.items()}


@pytest.mark.slow
@pytest.mark.parametrize("column", ["id", "case_id"])
def test_cases_are_matched_by_their_identifier(run, tmp_path, column):
    """Sorted differently, files of the same cases are compared as if they were not."""
    a, b = predictions(400), predictions(400, seed=1)
    for each in (a, b):
        each[column] = each.pop("id")
    mixed = dict(zip(b, shuffled({**b, "id": b[column]}).values(), strict=False))
    for name, each in (("a.csv", a), ("b.csv", b), ("mixed.csv", mixed)):
        write(tmp_path / name, each)
    sorted_alike = json.loads(run("evaluate", "a.csv", "b.csv", "--json").stdout)
    found = json.loads(run("evaluate", "a.csv", "mixed.csv", "--json", "--out", "r.html").stdout)
    assert found["cases_matched_by"] == column
    assert found["comparisons"][0]["p_value"] == sorted_alike["comparisons"][0]["p_value"]
    assert f"matched by {column}" in run("evaluate", "a.csv", "mixed.csv").stdout
    assert f"on the same cases, matched by {column}" in (tmp_path / "r.html").read_text("utf-8")
    named = run("evaluate", "a.csv", "mixed.csv", "--id", column).stdout
    assert f"matched by {column}" in named


@pytest.mark.slow
def test_without_an_identifier_the_same_cases_are_assumed_and_it_is_said(run, tmp_path):
    for name, seed in (("a.csv", 0), ("b.csv", 1)):
        write(tmp_path / name, {k: v for k, v in predictions(400, seed=seed).items() if k != "id"})
    result = run("evaluate", "a.csv", "b.csv", "--out", "r.html")
    assert "assumed to be the same cases, in the same order" in result.stdout
    assert "assumed to be the same cases" in (tmp_path / "r.html").read_text("utf-8")
    printed = json.loads(run("evaluate", "a.csv", "b.csv", "--json").stdout)
    assert printed["cases_matched_by"] is None
    assert "no column 'case'" in run("evaluate", "a.csv", "b.csv", "--id", "case", code=1).stderr


def test_other_cases_are_evaluated_and_not_compared(run, tmp_path):
    a, b = predictions(400), predictions(400, seed=1)
    write(tmp_path / "a.csv", a)
    write(tmp_path / "b.csv", {**b, "id": b["id"] + 5})
    said = run("evaluate", "a.csv", "b.csv").stdout
    assert "b is not compared with a. a.csv and b.csv must hold the same cases" in said
    assert "10 such case(s)" in said
    assert "Paired" not in said
    found = json.loads(run("evaluate", "a.csv", "b.csv", "--json").stdout)
    assert found["comparisons"] == []
    assert list(found["not_compared"]) == ["b"]
    assert "assumed" in run("evaluate", "a.csv", "b.csv", "--id", "none").stdout


def test_unequal_models_of_one_file_get_a_sentence_each(run, tmp_path):
    """Such a file was refused twice: first as one model, then with an internal name."""
    for with_id, why in ((True, "of old only, and 42"), (False, "400 cases of one and 358")):
        path = long_format(tmp_path, with_id=with_id)
        rows = pd.read_csv(path)
        rows.iloc[:-42].to_csv(path, index=False)
        hint = run("evaluate", "long.csv", code=1).stderr
        assert "--model-column model evaluates each model and compares them" in hint
        said = run("evaluate", "long.csv", "--model-column", "model").stdout
        assert "new is not compared with old." in said
        assert why in said
    chosen = "SELECT * FROM file WHERE model = 'old'"
    assert chosen.replace("old", "new") in hint
    assert "400 cases" in run("evaluate", "long.csv", "--query", chosen).stdout


def test_the_load_at_the_target_is_compared(run, tmp_path):
    for name, seed in (("a.csv", 0), ("b.csv", 1)):
        write(tmp_path / name, predictions(400, seed=seed))
    files = ("a.csv", "b.csv", "--target-accuracy", "0.9")
    load = json.loads(run("evaluate", *files, "--json").stdout)["comparisons"][0]["load"]
    low, high = (f"{100 * load[end]:+.1f}" for end in ("low", "high"))
    said = f"{100 * load['estimate']:+.1f} points (95 % interval {low} to {high})"
    assert f"Load at 90 %, b minus a: {said}" in run("evaluate", *files).stdout


def long_format(tmp_path, *, with_id=True):
    tables = {"old": predictions(400), "new": shuffled(predictions(400, seed=1))}
    columns = {
        name: np.concatenate([table[name] for table in tables.values()])
        for name in tables["old"]
        if with_id or name != "id"
    }
    columns["model"] = np.repeat(list(tables), 400)
    write(tmp_path / "long.csv", columns)
    for name, table in tables.items():
        write(tmp_path / f"{name}.csv", table)
    return tmp_path / "long.csv"


def test_a_file_of_several_models_is_not_read_as_one(run, tmp_path):
    """Every case would count twice, and be certified so."""
    long_format(tmp_path)
    assert "names 2 models" in run("evaluate", "long.csv", code=1).stderr
    declined = run("evaluate", "long.csv", "--model-column", "none", code=1).stderr
    assert "cases would count more than once" in declined
    long_format(tmp_path, with_id=False)
    assert "names 2 models" in run("evaluate", "long.csv", code=1).stderr


def test_a_column_splits_a_file_into_models(run, tmp_path):
    long_format(tmp_path)
    found = json.loads(run("evaluate", "long.csv", "--model-column", "model", "--json").stdout)
    apart = json.loads(run("evaluate", "old.csv", "new.csv", "--json").stdout)
    assert [model["name"] for model in found["models"]] == ["old", "new"]
    assert [m["aucoc"] for m in found["models"]] == [m["aucoc"] for m in apart["models"]]
    assert found["comparisons"] == apart["comparisons"]
    assert found["cases_matched_by"] == "id"


def test_identifiers_that_repeat_are_refused(run, tmp_path):
    table = predictions(400)
    gaps = np.array(["" if i == 1 else f"{i // 2}" for i in range(400)])
    write(tmp_path / "gaps.csv", {**table, "id": gaps})
    assert "holds '1' in row 3 and again in row 4" in run("evaluate", "gaps.csv", code=1).stderr
    write(tmp_path / "twice.csv", {**table, "id": table["id"] // 2})
    said = run("evaluate", "twice.csv", code=1).stderr
    assert "'0' in row 1 and again in row 2, and 200 such repeat(s)" in said
    assert "--id none" in said
    run("evaluate", "twice.csv", "--id", "none")


@pytest.mark.slow
def test_several_sets_of_probabilities_are_a_model_each(run, tmp_path):
    a, b = predictions(400), predictions(400, seed=1)
    both = {
        "label": a["label"],
        **{f"a_{name}": a[f"p_{name}"] for name in CLASSES},
        **{f"b_{name}": b[f"p_{name}"] for name in CLASSES},
    }
    write(tmp_path / "both.csv", both)
    for name, table in (("a.csv", a), ("b.csv", b)):
        write(tmp_path / name, {k: v for k, v in table.items() if k not in ("id", "group")})
    options = ["--probabilities", "a_*", "--probabilities", "b_*", "--json"]
    found = json.loads(run("evaluate", "both.csv", *options).stdout)
    apart = json.loads(run("evaluate", "a.csv", "b.csv", "--json").stdout)
    assert [model["name"] for model in found["models"]] == ["a_*", "b_*"]
    assert found["cases_matched_by"] == "row"
    for ours, theirs in zip(found["comparisons"], apart["comparisons"], strict=True):
        assert ours["p_value"] == theirs["p_value"]
    called = run("evaluate", "both.csv", *options, "--name", "A", "--name", "B")
    assert [m["name"] for m in json.loads(called.stdout)["models"]] == ["A", "B"]


@pytest.mark.slow
def test_screen_json_and_report_have_one_p_value(run, tmp_path):
    """Four models are three comparisons: both p-values of each are the same everywhere."""
    for seed in range(4):
        write(tmp_path / f"{'abcd'[seed]}.csv", predictions(300, seed=seed))
    files = ["a.csv", "b.csv", "c.csv", "d.csv"]
    found = json.loads(run("evaluate", *files, "--json", "--out", "r.html").stdout)["comparisons"]
    screen = run("evaluate", *files).stdout
    page = (tmp_path / "r.html").read_text("utf-8")
    assert len(found) == 3
    smallest = min(each["p_value"] for each in found)
    assert min(each["adjusted_p_value"] for each in found) == min(3 * smallest, 1)
    for each in found:
        raw, adjusted = each["p_value"], each["adjusted_p_value"]
        assert f"p = {raw:.2g} ({adjusted:.2g} adjusted for 3 comparisons)" in screen
        assert f"<td>{FORMATS['chance'](raw)}</td><td>{FORMATS['chance'](adjusted)}</td>" in page


def test_a_model_is_called_as_its_file_is_without_known_endings():
    """A folder called confidence=0.99 was the model confidence=0."""
    files = ["runs/confidence=0.99", "run.v1.csv", "run.v2.CSV.GZ", "a.b", ".csv"]
    called = ["confidence=0.99", "run.v1", "run.v2", "a.b", ".csv"]
    assert name_files([Path(file) for file in files]) == called


def test_two_models_of_one_name_are_refused(run, tmp_path):
    """The second would take the place of the first, and nothing would say so."""
    write(tmp_path / "a.csv", predictions(50))
    write(tmp_path / "b.csv", predictions(50, seed=1))
    header, *rows = (tmp_path / "a.csv").read_text().splitlines()
    both = [f"{name},{row}" for name in ("A", "B") for row in rows]
    (tmp_path / "long.csv").write_text("\n".join([f"model,{header}", *both]) + "\n")
    twice = ("--name", "x", "--name", "x")
    for command in (("evaluate",), ("plot", "--out", "coc.png")):
        for read in (
            ("a.csv", "b.csv", *twice),
            ("long.csv", "--model-column", "model", *twice),
        ):
            assert "more than once" in run(*command, *read, code=2).stderr
    patterns = ("--probabilities", "p_*") * 2
    assert "more than once" in run("evaluate", "a.csv", *patterns, code=2).stderr


def test_a_folder_of_several_models_is_not_read_as_one(run, tmp_path):
    frame = pd.DataFrame({"label": [0, 1, 1], "p_1": [0.1, 0.8, 0.4]})
    for part in ("model=a/site=1", "model=a/site=2", "model=b/site=1"):
        (tmp_path / "all" / part).mkdir(parents=True)
        frame.to_parquet(tmp_path / "all" / part / "x.parquet")
    said = " ".join(run("evaluate", "all", code=1).stderr.split())
    assert "holds the rows of 2 models, in model=a, model=b" in said
    found = json.loads(run("evaluate", "all/model=a", "--json").stdout)
    assert found["models"][0]["n_cases"] == 6

"""`expertload policy sql`, as it is typed."""

from __future__ import annotations

import csv

import duckdb
import numpy as np
import pytest

from tests.io.files import predictions, write


@pytest.mark.slow
def test_the_statement_decides_as_the_command_decide(run, tmp_path):
    write(tmp_path / "model.csv", predictions(400))
    write(tmp_path / "new.csv", predictions(50, seed=1))
    run("evaluate", "model.csv", "--target-accuracy", 0.9, "--save-policy", "policy.json")
    run("decide", "policy.json", "new.csv", "--keep", "id", "--out", "decisions.csv")
    table = f"'{tmp_path}/new.csv'"
    said = run("policy", "sql", "policy.json", "--table", table, "--keep", "id").stdout
    found = {i: row for i, *row in duckdb.sql(said).fetchall()}
    with (tmp_path / "decisions.csv").open(newline="") as stream:
        wanted = list(csv.DictReader(stream))
    assert len(found) == len(wanted) == 50
    for row in wanted:
        accepted, label, confidence, why = found[int(row["id"])]
        assert (str(accepted).lower(), label, why) == (row["accepted"], row["label"], None)
        assert confidence == float(row["confidence"])


def test_a_dialect_that_is_not_known_is_wrong_use(run, tmp_path):
    assert run("policy", "sql", "policy.json", "--dialect", "oracle", code=2).stdout == ""


def test_predictions_of_another_model_are_not_decided(run, tmp_path):
    table = predictions(400)
    write(tmp_path / "model.csv", table)
    run(
        "evaluate", "model.csv", "--name", "v1", "--target-accuracy", 0.9, "--save-policy", "p.json"
    )
    write(tmp_path / "new.csv", {**table, "Model": np.repeat(["v1", "v2"], [399, 1])})
    said = run("decide", "p.json", "new.csv", code=1).stderr
    assert "made for the model 'v1', but the column 'Model' of new.csv names 'v2'" in said
    other = 'SELECT * EXCLUDE ("Model") FROM file'
    run("decide", "p.json", "new.csv", "--query", other, "--out", "d.csv")
    write(tmp_path / "new.csv", {**table, "Model": np.repeat("v1", 400)})
    run("decide", "p.json", "new.csv", "--keep", "Model", "--out", "d.csv")

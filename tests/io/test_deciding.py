"""Decisions of a file are the policy's own, in any order of columns and size of chunks."""

from __future__ import annotations

import csv
import io
import json
import resource
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

import expertload
from expertload import Cases
from expertload.exceptions import FileFormatError, FileWriteError
from expertload.io import ColumnNames, FileOptions, decide_file
from expertload.operating_point import (
    certify_groups,
    choose,
)
from tests.io.files import CLASSES, KINDS, predictions, write


@pytest.fixture
def table():
    return predictions()


@pytest.fixture
def policy(table):
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    return choose(
        Cases.from_predictions(table["label"], proba, labels=CLASSES), target_accuracy=0.95
    )


def expected(policy, table):
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    return policy.decide(proba), proba.max(axis=1)


def rows_of_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [7, 20_000])
def test_every_kind_of_file_and_any_chunk(tmp_path, policy, table, kind, size, monkeypatch):
    monkeypatch.setattr("expertload.io.source.BATCH", size)
    shuffled = {name: table[name] for name in ("p_owl", "id", "p_cat", "label", "p_dog")}
    path, stream = tmp_path / f"new.{kind}", io.StringIO()
    query = write(path, shuffled)
    counts = decide_file(policy, path, out=stream, keep=("id",), options=FileOptions(query=query))
    decisions, confidence = expected(policy, table)
    rows = rows_of_csv(stream.getvalue())
    assert [row["accepted"] == "true" for row in rows] == decisions.accepted.tolist()
    assert [row["label"] for row in rows] == decisions.labels.tolist()
    assert [float(row["confidence"]) for row in rows] == confidence.tolist()
    assert [int(row["id"]) for row in rows] == table["id"].tolist()
    assert [int(row["row"]) for row in rows] == list(range(1, 301))
    assert counts.n_accepted == decisions.accepted.sum()
    assert counts.n_cases == 300


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_kind_of_output(tmp_path, policy, table, kind):
    path, out = tmp_path / "new.csv", tmp_path / f"out.{kind}"
    write(path, table)
    decide_file(policy, path, out=out, keep=("group",))
    decisions, confidence = expected(policy, table)
    if kind == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        found = [[row[name] for name in row] for row in rows]
    else:
        found = [list(row) for row in duckdb.sql(f"FROM '{out}'").fetchall()]
    columns = [range(1, 301), table["group"], decisions.accepted, decisions.labels, confidence]
    assert found == [list(row) for row in zip(*map(list, columns), strict=True)]


def test_a_confidence_of_its_own(tmp_path):
    policy = choose(Cases.from_correctness([0, 1, 1], [-1.5, 0.5, 2]), target_accuracy=1)
    path, stream = tmp_path / "new.csv", io.StringIO()
    path.write_text("confidence,note\n0.4,a\n0.5,b\n7,c\n")
    counts = decide_file(policy, path, out=stream)
    assert stream.getvalue() == "row,accepted,confidence\n1,false,0.4\n2,true,0.5\n3,true,7\n"
    assert (counts.n_accepted, counts.n_delegated) == (2, 1)
    path.write_text("score\n0.4\n")
    with pytest.raises(FileFormatError, match="--confidence"):
        decide_file(policy, path, out=stream)
    decide_file(policy, path, out=stream, names=ColumnNames(confidence="score"))


def test_one_column_of_probabilities(tmp_path):
    policy = choose(
        Cases.from_predictions(["ill", "well", "well"], [0.1, 0.7, 0.9]), target_accuracy=1
    )
    path, stream = tmp_path / "new.csv", io.StringIO()
    path.write_text("p_well\n0.05\n0.95\n0.6\n")
    decide_file(policy, path, out=stream)
    assert [row["label"] for row in rows_of_csv(stream.getvalue())] == ["ill", "well", "well"]
    assert [row["accepted"] for row in rows_of_csv(stream.getvalue())] == ["true", "true", "false"]
    assert rows_of_csv(stream.getvalue())[0]["confidence"] == "0.95"


@pytest.mark.parametrize("names", [(1, 2), ("north", "south")])
def test_a_threshold_for_each_group(tmp_path, names):
    table = predictions(2000)
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    site = np.where(table["id"] < 1200, *names)
    cases = Cases.from_predictions(table["label"], proba, labels=CLASSES, groups=site)
    policy = certify_groups(cases, target_accuracy=0.97)
    path, stream = tmp_path / "new.csv", io.StringIO()
    write(path, {**table, "group": site})
    decide_file(policy, path, out=stream)
    accepted = [row["accepted"] == "true" for row in rows_of_csv(stream.getvalue())]
    assert accepted == policy.decide(proba, groups=site).accepted.tolist()
    assert 0 < sum(accepted) < 2000
    unknown = {**table, "group": np.where(table["id"] < 5, "elsewhere", site.astype(str))}
    write(path, unknown)
    stream = io.StringIO()
    decide_file(policy, path, out=stream)
    seen = [row["accepted"] == "true" for row in rows_of_csv(stream.getvalue())]
    assert seen[:5] == [False] * 5
    assert seen[5:] == accepted[5:]
    write(path, {name: table[name] for name in ("p_cat", "p_dog", "p_owl")})
    with pytest.raises(FileFormatError, match="--group"):
        decide_file(policy, path, out=stream)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("invalid", ["refuse", "delegate"])
def test_it_is_said_why_a_group_has_no_threshold(tmp_path, kind, invalid):
    groups = ["north"] * 300 + ["south"] * 2
    policy = certify_groups(
        Cases.from_correctness([1] * 302, [0.5] * 302, groups=groups), target_accuracy=0.95
    )
    rows = [("north", 0.6), ("south", 0.9), ("east, or so", 0.9), ("", 0.9), ("north", 0.4)]
    wanted = [
        None,
        "nothing is certified for the group south",
        "the policy does not know the group east, or so",
        "the group is missing",
        None,
    ]
    if invalid == "delegate":
        rows.append(("elsewhere", "none"))
        wanted.append("confidence is missing or not a number")
    path, out = tmp_path / "new.csv", tmp_path / f"out.{kind}"
    path.write_text("site,confidence\n" + "".join(f'"{g}",{c}\n' for g, c in rows))
    names = ColumnNames(group="site")
    counts = decide_file(policy, path, out=out, names=names, invalid=invalid)
    found = duckdb.sql(f"SELECT accepted, why FROM '{out}' ORDER BY row").fetchall()
    assert found == [(i == 0, why) for i, why in enumerate(wanted)]
    assert (counts.n_accepted, counts.n_without_threshold) == (1, 3)
    assert counts.n_invalid == (invalid == "delegate")


def test_a_policy_without_groups_has_no_reasons_to_give(tmp_path, policy, table):
    path, stream = tmp_path / "new.csv", io.StringIO()
    write(path, table)
    assert decide_file(policy, path, out=stream).n_without_threshold == 0
    assert stream.getvalue().startswith("row,accepted,label,confidence\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p_cat,p_dog\n0.5,0.5\n", "has the classes cat, dog, owl"),
        ("p_cat,p_dog,p_cow\n0.5,0.5,0\n", "belong to cat, dog, cow"),
        ("label\ncat\n", "--probabilities"),
        ("p_cat,p_dog,p_owl\n", "no cases"),
        ("p_cat,p_dog,p_owl\n1,0,0\n1,x,0\n", "Row 2 .*p_dog is missing or not a number"),
        (
            "p_cat,p_dog,p_owl\n1,0,0\n3,-1,0\n",
            "Row 2 .*cannot be decided: p_cat is not in",
        ),
        ("p_cat,p_dog,p_owl\n3,-1,0\n", "Row 1 of new.csv cannot be decided"),
        ("p_cat,p_dog,p_owl\n1,0,0\n1,,0\n", "Row 2 .*p_dog is missing"),
    ],
)
def test_refusals_leave_the_old_file(tmp_path, policy, text, says):
    path, out = tmp_path / "new.csv", tmp_path / "out.csv"
    path.write_text(text)
    out.write_text("old")
    with pytest.raises(FileFormatError, match=says):
        decide_file(policy, path, out=out)
    assert out.read_text() == "old"
    assert set(tmp_path.iterdir()) == {path, out}


def test_a_bad_row_in_a_late_chunk_is_named_by_its_row(tmp_path, policy, monkeypatch):
    monkeypatch.setattr("expertload.io.source.BATCH", 3)
    path, out = tmp_path / "new.jsonl", tmp_path / "out.jsonl"
    line = '{"p_cat": 1, "p_dog": 0, "p_owl": 0}\n'
    path.write_text(line * 7 + '{"p_cat": 1, "p_owl": 0}\n')
    with pytest.raises(FileFormatError, match="Row 8 of new.jsonl.*p_dog is missing"):
        decide_file(policy, path, out=out)
    assert list(tmp_path.iterdir()) == [path]


def test_outputs_that_cannot_be(tmp_path, policy, table):
    path = tmp_path / "new.csv"
    write(path, table)
    with pytest.raises(FileFormatError, match=r"\.csv, \.jsonl or \.parquet"):
        decide_file(policy, path, out=tmp_path / "out.xlsx")
    with pytest.raises(FileWriteError, match="could not be written"):
        decide_file(policy, path, out=tmp_path / "none" / "out.csv")
    with pytest.raises(FileFormatError, match="cannot be kept"):
        decide_file(policy, path, out=tmp_path / "out.csv", keep=("label",))
    with pytest.raises(FileFormatError, match="no column 'nope'"):
        decide_file(policy, path, out=tmp_path / "out.csv", keep=("nope",))
    assert list(tmp_path.iterdir()) == [path]


STREAM = """
import resource, sys
from expertload import Cases
from expertload.operating_point import choose
from expertload.io import decide_file
cases = Cases.from_predictions([0, 1], [[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
policy = choose(cases, target_accuracy=1)
counts = decide_file(policy, sys.argv[1], out=sys.argv[2])
print(counts.n_cases, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(resource, "RUSAGE_SELF"), reason="no resource usage here")
def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(n):
        path = tmp_path / f"{n}.parquet"
        duckdb.sql(
            f"COPY (SELECT p p_0, 1 - p p_1 FROM (SELECT random() p FROM range({n}))) TO '{path}'"
        )
        done = subprocess.run(
            [sys.executable, "-c", STREAM, str(path), str(tmp_path / "out.csv")],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(Path(expertload.__file__).parents[1])},
        )
        n_cases, kilobytes = map(int, done.stdout.split())
        assert n_cases == n
        return kilobytes / 1024

    # To hold the rows that are more would take Python about 80 megabytes.
    assert peak(600_000) - peak(60_000) < 30

"""Decisions are the policy's own, whatever is kept beside them and wherever they are written."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import expertload
from expertload import Cases
from expertload.exceptions import FileFormatError, FileWriteError, ParameterError
from expertload.io import decide_file, draw_audits
from expertload.io.source import open_source
from expertload.operating_point import certify_groups, choose
from tests.io.files import CLASSES, predictions, write
from tests.strategies import examples_in_one_folder

fuzz = examples_in_one_folder(40)
texts = st.text(st.sampled_from("ab,\"'\n\r #é\\\t1"), max_size=6)


@pytest.fixture(scope="module")
def policy():
    table = predictions(200)
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    return choose(
        Cases.from_predictions(table["label"], proba, labels=CLASSES), target_accuracy=0.95
    )


def read_back(out):
    """What was written, as text, by programs that are not ours."""
    if out.suffix == ".parquet":
        table = pq.ParquetFile(out).read().to_pylist()
    elif out.suffix == ".csv":
        with out.open(encoding="utf-8", newline="") as stream:
            table = list(csv.DictReader(stream, strict=True))
    else:
        table = [json.loads(line) for line in out.read_text("utf-8").split("\n")[:-1]]
    return table


@pytest.mark.slow
@fuzz
@given(
    kept=st.lists(st.one_of(st.none(), texts), min_size=1, max_size=12),
    kind=st.sampled_from(["csv", "jsonl", "parquet"]),
    size=st.sampled_from([1, 5, 100_000]),
    seed=st.integers(0, 99),
)
def test_decisions_equal_decide_and_kept_text_is_as_it_was(
    policy, tmp_path, kept, kind, size, seed
):
    proba = np.random.default_rng(seed).dirichlet([0.4] * 3, size=len(kept))
    path, out = tmp_path / "new.parquet", tmp_path / f"out.{kind}"
    columns = {f"p_{name}": proba[:, i] for i, name in enumerate(CLASSES)}
    pq.write_table(pa.table({"id": pa.array(kept, pa.string()), **columns}), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expertload.io.source.BATCH", size)
        counts = decide_file(policy, path, out=out, keep=("id",))
    accepted, labels = policy.decide(proba)
    rows = read_back(out)
    assert [str(row["accepted"]).lower() == "true" for row in rows] == accepted.tolist()
    assert [row["label"] for row in rows] == labels.tolist()
    assert [float(row["confidence"]) for row in rows] == proba.max(axis=1).tolist()
    assert [int(row["row"]) for row in rows] == list(range(1, len(kept) + 1))
    wanted = [text or "" for text in kept] if kind == "csv" else kept
    assert [row["id"] for row in rows] == wanted
    assert counts.n_accepted == accepted.sum()
    if kind == "csv":  # and we read what we write
        assert open_source(out).read(["id"])["id"].tolist() == [text or None for text in kept]


def test_kept_columns_keep_their_types_in_parquet(tmp_path, policy):
    path, out = tmp_path / "new.parquet", tmp_path / "out.parquet"
    table = predictions(5)
    moments = np.array(["2020-01-01T10:00"] * 5, dtype="datetime64[us]")
    pq.write_table(pa.table({**table, "at": moments, "x": np.arange(5.0)}), path)
    decide_file(policy, path, out=out, keep=("id", "at", "x", "p_cat"))
    schema = pq.ParquetFile(out).schema_arrow
    types = {field.name: str(field.type) for field in schema}
    assert (types["id"], types["at"], types["x"]) == ("int64", "timestamp[us]", "double")
    assert (types["row"], types["accepted"], types["label"]) == ("int64", "bool", "string")


def test_types_that_numpy_lacks_are_kept_from_parquet_to_parquet(tmp_path, policy):
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    kept = {
        "price": pa.array([Decimal("1.50"), None]),
        "zoned": pa.array([when, None], pa.timestamp("us", "UTC")),
        "at": pa.array([time(1, 2), None]),
        "nanoseconds": pa.array([1, None], pa.timestamp("ns")),
        "marks": pa.array([[1, None], []], pa.list_(pa.int32())),
        "boxes": pa.array([[{"x": 1.5, "name": "a"}], None]),
        "raw": pa.array([b"\xff", None]),
    }
    numbers = {
        f"p_{name}": [1.0, 0.0] if i == 0 else [0.0, 1.0 * (i == 1)]
        for i, name in enumerate(CLASSES)
    }
    pq.write_table(pa.table({**kept, **numbers}), tmp_path / "new.parquet")
    decide_file(policy, tmp_path / "new.parquet", out=tmp_path / "out.parquet", keep=tuple(kept))
    found = pq.ParquetFile(tmp_path / "out.parquet").read()
    for name, column in kept.items():
        assert found[name].to_pylist() == column.to_pylist(), name
        assert found[name].type.id == column.type.id, name
    decide_file(policy, tmp_path / "new.parquet", out=tmp_path / "out.csv", keep=tuple(kept))
    assert "1.50,2026-01-02 03:04:05" in (tmp_path / "out.csv").read_text()


def test_an_archive_of_another_byte_order(tmp_path):
    two = choose(Cases.from_predictions([0, 1], [[0.9, 0.1], [0.2, 0.8]]), target_accuracy=1)
    proba = np.array([[0.95, 0.05], [0.4, 0.6]])
    np.savez(tmp_path / "x.npz", y_proba=proba.astype(">f8"), odd=np.array([1j, 2j]))
    out = io.StringIO()
    decide_file(two, tmp_path / "x.npz", out=out)
    assert out.getvalue().splitlines()[1:] == ["1,true,0,0.95", "2,false,1,0.6"]
    with pytest.raises(FileFormatError, match="could not be read as npz"):
        decide_file(two, tmp_path / "x.npz", out=io.StringIO(), keep=("odd",))


def test_a_column_can_be_kept_as_written_and_decided_by(tmp_path, policy):
    path, stream = tmp_path / "new.csv", io.StringIO()
    path.write_text("p_cat,p_dog,p_owl\n0.90,0.050,5e-2\n")
    decide_file(policy, path, out=stream, keep=("p_owl", "p_owl"))
    assert stream.getvalue().splitlines()[0].startswith("row,p_owl,accepted")
    assert stream.getvalue().splitlines()[1].startswith("1,5e-2,")


# ------------------------------------------------------------------------- what is no case

BAD = {
    "": "p_dog is missing or not a number",
    "x": "p_dog is missing or not a number",
    "nan": "p_dog is not finite",
    "1e999": "p_dog is not finite",
    "-0.5": "p_dog is not in [0, 1]",
    "0.9": "the probabilities do not sum to one",
}


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(["csv", "parquet", "jsonl"]), st.sampled_from([2, 100_000]))
def test_what_cannot_be_decided_goes_to_experts(policy, tmp_path, data, kind, size):
    table = predictions(12)
    n_bad = data.draw(st.sets(st.integers(0, 11)))
    given_ = {i: data.draw(st.sampled_from(list(BAD))) for i in sorted(n_bad)}
    table["p_dog"] = np.array([given_.get(i, repr(float(p))) for i, p in enumerate(table["p_dog"])])
    path, out = tmp_path / "new.csv", tmp_path / f"out.{kind}"
    write(path, table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expertload.io.source.BATCH", size)
        counts = decide_file(policy, path, out=out, keep=("id",), invalid="delegate")
    rows = read_back(out)
    assert counts.n_invalid == len(given_)
    sound = [i for i in range(12) if i not in given_]
    proba = np.array([[float(table[f"p_{name}"][i]) for name in CLASSES] for i in sound])
    accepted, labels = policy.decide(proba) if sound else ([], [])
    expected = dict(zip(sound, zip(accepted, labels, strict=True), strict=True))
    for i, row in enumerate(rows):
        says = str(row["accepted"]).lower() == "true", row["label"]
        assert says == (tuple(expected[i]) if i in expected else (False, row["label"]))
        if i in given_:
            assert row["label"] in (None, "")
            assert row["confidence"] in (None, "")
        assert (row["why"] or "") == BAD.get(given_.get(i), "")
    assert counts.n_delegated + counts.n_accepted == 12
    if given_:
        with pytest.raises(Exception, match="p_dog|sum to one"):
            decide_file(policy, path, out=out)
    with pytest.raises(ParameterError, match="'refuse', 'delegate'"):
        decide_file(policy, path, out=out, invalid="accept")


def test_groups_and_unsound_rows(tmp_path):
    table = predictions(2000)
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    site = np.where(table["id"] % 2, "north", "south")
    points = certify_groups(
        Cases.from_predictions(table["label"], proba, labels=CLASSES, groups=site),
        target_accuracy=0.9,
    )
    stream, path = io.StringIO(), tmp_path / "x.csv"
    write(path, {**table, "group": site, "p_cat": np.where(table["id"] == 3, "?", proba[:, 0])})
    counts = decide_file(points, path, out=stream, invalid="delegate")
    accepted = points.decide(proba, groups=site).accepted
    accepted[3] = False
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [row["accepted"] == "true" for row in rows] == accepted.tolist()
    assert (counts.n_invalid, rows[3]["why"]) == (1, "p_cat is missing or not a number")


# ------------------------------------------------------------------------- what goes wrong


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
from expertload.exceptions import FileWriteError
from expertload import Cases
from expertload.operating_point import choose
from expertload.io import decide_file
cases = Cases.from_predictions([0, 1], [[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
policy = choose(cases, target_accuracy=1)
try:
    decide_file(policy, sys.argv[1], out=sys.argv[2])
except FileWriteError as error:
    print(error)
"""


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_disk_that_takes_no_more_leaves_the_old_file(tmp_path, kind):
    """A limit on the size of files stands for a full disk: writing fails half-way."""
    path, out = tmp_path / "new.npz", tmp_path / f"out.{kind}"
    rng = np.random.default_rng(0)
    np.savez(path, y_proba=rng.dirichlet([1, 1], size=20_000))
    out.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(out)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(expertload.__file__).parents[1])},
    )
    assert f"out.{kind} could not be written: " in done.stdout
    assert done.stdout.count("\n") == 1
    assert out.read_text() == "old"
    assert {file.name for file in tmp_path.iterdir()} == {"new.npz", out.name}


def test_progress_is_told(tmp_path, policy, monkeypatch):
    monkeypatch.setattr("expertload.io.source.BATCH", 100)
    path, seen = tmp_path / "new.csv", []
    write(path, predictions(250))
    decide_file(policy, path, out=io.StringIO(), progress=lambda *done: seen.append(done))
    assert seen[-1] == (250, 250)


def test_links_are_not_replaced(tmp_path, policy):
    path, link = tmp_path / "new.csv", tmp_path / "link.csv"
    write(path, predictions(5))
    link.symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(FileWriteError, match="it is a link"):
        decide_file(policy, path, out=link)
    assert link.is_symlink()
    with pytest.raises(FileFormatError, match="cannot be kept"):
        decide_file(policy, path, out=tmp_path / "o.csv", keep=("why",))


def test_numbers_that_json_does_not_have_are_null(policy, tmp_path):
    """NaN and infinity in a kept column: the file stays JSON that every program reads."""
    columns = predictions(3)
    file, out = tmp_path / "in.parquet", tmp_path / "out.jsonl"
    pq.write_table(pa.table({**columns, "dose": [float("nan"), float("inf"), 1.5]}), file)
    decide_file(policy, file, out=out, keep=["dose"])

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    lines = out.read_text("utf-8").splitlines()
    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [row["dose"] for row in rows] == [None, None, 1.5]


def test_without_probabilities_the_label_is_the_prediction(tmp_path):
    """Decisions by a stated confidence can be audited like any other."""
    new = {"id": [1, 2, 3], "prediction": ["a", "b", "a"], "confidence": [0.9, 0.6, 0.8]}
    write(tmp_path / "new.csv", {name: np.array(values) for name, values in new.items()})
    policy = choose(Cases.from_correctness([1, 0, 1], [0.9, 0.5, 0.7]), target_accuracy=1)
    decide_file(policy, tmp_path / "new.csv", out=tmp_path / "decided.csv", keep=("id",))
    names, *rows = csv.reader(io.StringIO((tmp_path / "decided.csv").read_text()))
    assert names == ["row", "id", "accepted", "label", "confidence"]
    assert [row[3] for row in rows] == ["a", "b", "a"]
    counts = draw_audits(tmp_path / "decided.csv", rate=1.0, out=tmp_path / "audits.csv")
    assert counts.n_drawn == 2

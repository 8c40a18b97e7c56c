"""Whole numbers that doubles cannot tell apart stay as written, or are refused in a sentence."""

from __future__ import annotations

import json
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import expertload as el
from expertload import Cases
from expertload._check import EXACT, as_floats
from expertload.evaluation import evaluate
from expertload.exceptions import DataTypeError, ExpertLoadError, FileFormatError, LabelError
from expertload.io import (
    FileOptions,
    Identity,
    decide_file,
    read_audits,
    read_predictions,
    scan_file,
    tally_frame,
)
from expertload.io.source import open_source
from expertload.monitoring import AccuracyMonitor
from expertload.operating_point import certify_groups, choose

ENDINGS = ("csv", "tsv", "json", "jsonl")
NEIGHBOURS = [(EXACT + 1, EXACT), (-EXACT - 1, -EXACT), (2**64 + 1, 2**64), (10**40 + 1, 10**40)]
both = pytest.mark.parametrize(("one", "other"), NEIGHBOURS)
every = pytest.mark.parametrize("ending", ENDINGS)
refused = pytest.raises(FileFormatError, match=r"up to 2\*\*53.*row 1.*Hint: replace them by their")


def written(folder, ending, rows):
    path = folder / f"x.{ending}"
    lines = [json.dumps(row) for row in rows]
    if ending == "json":
        path.write_text(f"[{','.join(lines)}]")
    elif ending == "jsonl":
        path.write_text("\n".join(lines))
    else:
        between = "," if ending == "csv" else "\t"
        table = [rows[0].keys(), *(row.values() for row in rows)]
        path.write_text("\n".join(between.join(map(str, row)) for row in table))
    return path


# ------------------------------------------------------------------------- names stay as written


@every
@both
def test_names_are_kept_to_the_last_digit(tmp_path, ending, one, other):
    rows = [{"label": y, f"p_{one}": 0.9, f"p_{other}": 0.1, "id": y} for y in (one, other)]
    rows = [{**row, "group": row["id"], "patient": row["id"]} for row in rows]
    path = written(tmp_path, ending, rows)
    found = read_predictions(path, identity=Identity(cluster="patient"))
    names = [str(one), str(other)]
    assert [str(each) for each in found.y_true] == names
    assert found.cases.groups.tolist() == found.identifiers.tolist() == names
    assert len(set(found.cases.clusters.tolist())) == 2
    assert found.evaluate().accuracy.estimate == 0.5
    assert tally_frame(scan_file(path), label="label", probabilities="p_*").accuracy == 0.5


@every
@both
def test_decisions_and_answers_of_neighbours_differ(tmp_path, ending, one, other):
    rows = [{"label": one, "prediction": each, "confidence": 0.5} for each in (one, other)]
    assert read_predictions(written(tmp_path, ending, rows)).cases.correct.tolist() == [True, False]
    rows = [{"key": each, "decided": one, "label": each} for each in (one, other)]
    audits = read_audits(written(tmp_path, ending, rows))
    assert (audits.correct.tolist(), audits.key) == ([1, 0], [str(one), str(other)])


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@both
def test_lists_and_objects_are_kept(tmp_path, ending, one, other):
    path = written(tmp_path, ending, [{"x": [one, {"y": other}]}, {"x": {"z": [one]}}])
    found = [json.loads(text) for text in open_source(path).read(["x"])["x"]]
    assert found == [[one, {"y": other}], {"z": [one]}]


@every
@both
def test_kept_columns_are_copied_as_written(tmp_path, ending, one, other):
    policy = choose(Cases.from_correctness([1, 0], [0.9, 0.1]), target_accuracy=1)
    path = written(tmp_path, ending, [{"confidence": 0.5, "n": n} for n in (one, other)])
    decide_file(policy, path, out=tmp_path / "out.csv", keep=("n",))
    kept = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in kept] == [str(one), str(other)]


def test_zeros_in_front_are_kept_but_name_the_same_class(tmp_path):
    """Of labels the zeros say nothing (`columns/spelling`), of everything else they do."""
    rows = [{"label": "007", "p_7": 0.9, "p_8": 0.1, "id": "007", "group": "007"}]
    rows += [{"label": "7", "p_7": 0.2, "p_8": 0.8, "id": "7", "group": "7"}]
    found = read_predictions(written(tmp_path, "csv", rows))
    assert found.cases.target.tolist() == [0, 0]
    assert found.identifiers.tolist() == found.cases.groups.tolist() == ["007", "7"]
    columns = [{"label": y, "p_7": 0.9, "p_007": 0.1} for y in ("7", "007")]
    assert read_predictions(written(tmp_path, "csv", columns)).cases.target.tolist() == [0, 1]


# ------------------------------------------------------------------------- moments


@every
@both
def test_moments_are_kept_to_the_last_digit(tmp_path, ending, one, other):
    rows = [{"correct": i % 2, "decided_at": each} for i, each in enumerate((one, other))]
    moments = read_audits(written(tmp_path, ending, rows)).decided_at
    assert moments.tolist() == [one, other]
    monitor = AccuracyMonitor(target_accuracy=0.5).update([0, 1], decided_at=moments)
    monitor.save(tmp_path / "monitor.json")
    stored = json.loads((tmp_path / "monitor.json").read_text())
    assert stored["audits"]["decided_at"] == sorted([one, other])


def test_moments_of_both_kinds(tmp_path):
    rows = [{"correct": 1, "decided_at": each} for each in (EXACT + 1, 0.5, "1e3")]
    assert read_audits(written(tmp_path, "csv", rows)).decided_at.tolist() == [EXACT + 1, 0.5, 1000]


# ------------------------------------------------------------------------- numbers are refused


@every
@both
def test_confidences_are_refused(tmp_path, ending, one, other):
    rows = [{"confidence": each, "correct": 1} for each in (one, other)]
    path = written(tmp_path, ending, rows)
    with refused:
        read_predictions(path)
    with pytest.raises(ExpertLoadError, match=r"2\*\*53"):
        tally_frame(scan_file(path))
    policy = choose(Cases.from_correctness([1, 0], [1e18, 0.1]), target_accuracy=1)
    with pytest.raises(FileFormatError, match=r"Row 1 .* confidence .*2\*\*53"):
        decide_file(policy, path, out=tmp_path / "out.csv")
    counts = decide_file(policy, path, out=tmp_path / "out.csv", invalid="delegate")
    assert counts.n_invalid == (1 if abs(other) == EXACT else 2)


@every
def test_numbers_that_doubles_hold_are_read(tmp_path, ending):
    given = [EXACT, -EXACT, 0.25, 1e300, 12345678901234567.0]
    if ending in ("csv", "tsv"):
        given += ["0" * 60 + "1", "+1"]
    path = written(tmp_path, ending, [{"confidence": each, "correct": 1} for each in given])
    wanted = [float(each) for each in given]
    assert read_predictions(path).cases.confidence.tolist() == wanted
    assert sorted(tally_frame(scan_file(path)).confidence.tolist()) == sorted({*wanted})


@pytest.mark.parametrize("kind", ["HUGEINT", "UHUGEINT", "DECIMAL(38,0)", "DECIMAL(38,2)"])
def test_types_that_no_array_has(tmp_path, kind):
    database = tmp_path / "x.duckdb"
    with duckdb.connect(database) as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT x::{kind} AS confidence, 1 AS correct "
            f"FROM (VALUES ({EXACT + 1}::{kind}), ({EXACT}), (3)) AS v(x)"
        )
        every_row = connection.sql("SELECT * FROM t")
        if kind != "UHUGEINT":
            with pytest.raises(ExpertLoadError, match=r"2\*\*53"):
                tally_frame(every_row)
    with refused:
        read_predictions(database, options=FileOptions(query="SELECT * FROM t"))
    some = FileOptions(query=f"SELECT * FROM t WHERE confidence <= {EXACT}")
    assert read_predictions(database, options=some).cases.confidence.tolist() == [EXACT, 3]


@pytest.mark.parametrize(
    "given",
    [
        [np.int64(EXACT + 1), 1],
        [np.uint64(EXACT + 1), 0.5],
        [Decimal(EXACT + 1), Decimal(1)],
    ],
)
def test_objects_are_refused(given):
    with pytest.raises(DataTypeError, match=r"up to 2\*\*53"):
        as_floats(np.array(given, dtype=object), "confidence")
    assert as_floats(np.array([Decimal("0.5"), 1], dtype=object), "x").tolist() == [0.5, 1]


@pytest.mark.parametrize("make", [pd.Series, lambda texts: np.array(texts, dtype=object), list])
def test_text_is_no_number(make):
    with pytest.raises(DataTypeError, match="must hold real numbers"):
        el.aucoc_score(Cases.from_correctness([1, 0], make(["0.5", "0.7"])))


# ------------------------------------------------------------------------- floats that name


ROUNDED = [(np.float64, EXACT), (np.float32, 2**24)]
rounded = pytest.mark.parametrize(("kind", "limit"), ROUNDED)
unnamed = pytest.raises(FileFormatError, match=r"floats.*skip whole numbers.*Hint")


@rounded
def test_floats_too_large_to_name_anything(tmp_path, kind, limit):
    """A float of this size may have been the next whole number before it was rounded."""
    path = tmp_path / "x.parquet"
    large, small = np.array([limit + 1, 1], dtype=kind), np.array([limit - 1, 1], dtype=kind)
    roles = {"label": 1, "prediction": 1, "group": 1, "id": 1, "patient": 1}
    for role in roles:
        for named, values in ((True, small), (False, large)):
            columns = {"label": ["1", "1"], "prediction": ["1", "1"], "confidence": [0.5, 0.6]}
            pl.DataFrame({**columns, role: values}).write_parquet(path)
            if named:
                assert read_predictions(path).n_cases == 2
            else:
                with unnamed:
                    read_predictions(path)
    for role in ("decided", "label", "key"):
        columns = {"decided": ["1", "1"], "label": ["1", "1"], "key": ["1", "2"], role: large}
        pl.DataFrame(columns).write_parquet(path)
        with unnamed:
            read_audits(path)
    policy = certify_groups(
        Cases.from_correctness([1] * 300, np.ones(300), groups=[limit] * 300), target_accuracy=0.9
    )
    pl.DataFrame({"confidence": [1.0, 1.0], "group": large}).write_parquet(path)
    with unnamed:
        decide_file(policy, path, out=tmp_path / "out.csv")


@rounded
def test_arrays_and_frames_of_such_floats(kind, limit):
    large, proba = np.array([limit + 1, 1], dtype=kind), np.array([[0.9, 0.1], [0.9, 0.1]])
    with pytest.raises(LabelError, match="floats skip whole numbers"):
        el.aucoc_score(large, proba, labels=[limit, 1])
    with pytest.raises(LabelError, match="skip whole numbers"):
        tally_frame(
            pl.DataFrame({"label": large, f"p_{limit}": 0.9, "p_1": 0.1}), probabilities="p_*"
        )
    with pytest.raises(ExpertLoadError, match="floats skip whole numbers"):
        evaluate(Cases.from_predictions([0, 1], proba, groups=large))


def test_mixed_objects_that_round_to_a_neighbour():
    proba = np.array([[0.9, 0.1], [0.9, 0.1]])
    for y in ([EXACT + 1, 1.0], [Decimal(EXACT + 1), Decimal(1)], [np.int64(EXACT + 1), 1.0]):
        with pytest.raises(LabelError, match="floats skip whole numbers"):
            el.aucoc_score(np.array(y, dtype=object), proba, labels=[EXACT, 1])

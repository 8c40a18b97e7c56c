"""Frames and databases decide every row as `expertload decide` does, odd rows too."""

from __future__ import annotations

import json
import math

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from expertload import Cases, certify
from expertload.exceptions import DataTypeError, FileFormatError, ParameterError
from expertload.io import (
    ColumnNames,
    decide_file,
    decide_frame,
    policy_sql,
    read_predictions,
    scan_file,
)
from expertload.operating_point import (
    certify_classes,
    certify_group_classes,
    certify_groups,
    choose,
    from_json,
)
from tests.io.backends import make_frame

NAN, INF = math.nan, math.inf
CLASSES = ("cat", "dog", "it's \\ owl")
COLUMNS = tuple(f"p_{name}" for name in CLASSES)


def calibration(**options):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([0.3] * 3, size=3000).round(2)
    proba[:, 2] = 1 - proba[:, 0] - proba[:, 1]
    proba = proba.clip(0, 1)
    truth = [rng.choice(3, p=p / p.sum()) for p in proba]
    site = np.array(["north", "south", "it's"])[np.minimum(np.arange(3000) % 50, 2)]
    number = np.arange(3000) % 50 % 3 + 7
    groups = {"site": site, "number": number}.get(options.pop("groups", None))
    return Cases.from_predictions(
        np.array(CLASSES)[truth], proba, labels=CLASSES, groups=groups, **options
    )


POLICIES = {
    "point": lambda: certify(calibration(), target_accuracy=0.9),
    "nothing": lambda: certify(calibration(), target_accuracy=0.9999),
    "groups": lambda: certify_groups(calibration(groups="site"), target_accuracy=0.9),
    "numbers": lambda: certify_groups(calibration(groups="number"), target_accuracy=0.9),
    "classes": lambda: certify_classes(
        calibration(), promises=["precision:cat=0.9", "missed:dog=0.1"]
    ),
    "group classes": lambda: certify_group_classes(
        calibration(groups="site"), promises=["precision:cat=0.9", "missed:dog=0.1"]
    ),
    "confidence": lambda: choose(
        calibration(confidence=calibration().confidence * 3), target_accuracy=0.95
    ),
}
NAMES = {
    **dict.fromkeys(["groups", "group classes"], ColumnNames(group="site")),
    "numbers": ColumnNames(group="number"),
}


def rows(threshold):
    """Plain rows, ties, both sides of the threshold, and everything that cannot be decided."""
    below = np.nextafter(threshold, 0)
    shares = [
        *[(0.9, 0.1, 0.0), (0.1, 0.9, 0.0), (0.0, 0.0, 1.0), (0.34, 0.33, 0.33)],
        *[(0.5, 0.5, 0.0), (0.4, 0.2, 0.4), (0.0, 0.5, 0.5)],
        *[
            (threshold, 1 - threshold, 0.0),
            (below, 1 - below, 0.0),
            (0.0, threshold, 1 - threshold),
        ],
        *[(None, 0.1, 0.9), (0.9, None, None), (NAN, 0.5, 0.5), (INF, 0.0, 0.0)],
        *[
            (INF, -INF, 1.0),
            (1.2, -0.2, 0.0),
            (0.5, 0.4, 0.2),
            (0.999, 0.0, 0.0),
            (0.9995, 0.0, 0.0),
        ],
    ] * 3
    n = len(shares)
    table = dict(zip(COLUMNS, map(list, zip(*shares, strict=True)), strict=True))
    sites = ["north", "south", "it's", "elsewhere", None]
    scores = [0.3, 2.9, None, NAN, INF, -INF, 1.0, 2.5, 1e308]
    return {
        "id": list(range(n)),
        **table,
        "site": [sites[i % 5] for i in range(n)],
        "number": [[7, 8, 9, 1, None][i % 5] for i in range(n)],
        "confidence": [scores[i % 9] for i in range(n)],
    }


def policy_and_rows(kind):
    policy = POLICIES[kind]()
    finite = [0.7]
    points = policy.values() if hasattr(policy, "values") else [policy]
    finite = [p.threshold for p in points if p.threshold <= 1] or finite
    table = rows(finite[0])
    if kind != "confidence":
        del table["confidence"]
    return policy, table


def by_command(policy, table, kind, tmp_path):
    """The decisions of the command about a Parquet file with the same rows."""
    path, out = tmp_path / "new.parquet", tmp_path / "out.jsonl"
    pq.write_table(pa.table(table), path)
    names = NAMES.get(kind)
    decide_file(policy, path, out=out, names=names, keep=("id",), invalid="delegate")
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return {row["id"]: [row.get(name) for name in OUTPUTS] for row in found}


OUTPUTS = ("accepted", "label", "confidence", "why")


def plain(frame):
    """The rows of any frame as Python values, None for missing ones."""
    if hasattr(frame, "collect") and hasattr(frame, "lazy"):
        frame = frame.collect()
    for step in ("compute", "toArrow", "to_arrow_table", "to_arrow"):
        frame = getattr(frame, step)() if hasattr(frame, step) else frame
    if not isinstance(frame, pa.Table):
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    found = {}
    for row in frame.to_pylist():
        values = [row.get(name) for name in OUTPUTS]
        is_nan = [isinstance(value, float) and math.isnan(value) for value in values]
        found[row["id"]] = [None if nan else v for nan, v in zip(is_nan, values, strict=True)]
    return found


def the_same(found, wanted, *, tells_nan=True):
    assert found.keys() == wanted.keys()
    for key, (accepted, label, confidence, why) in wanted.items():
        assert found[key][:3] == [accepted, label, confidence], key
        if tells_nan or "finite" not in str(why):
            # pandas stores whole numbers as floats if one is missing
            assert str(found[key][3]).removesuffix(".0") == str(why), key


@pytest.mark.parametrize("kind", POLICIES)
def test_every_engine_decides_as_the_command(kind, backend, frame_of, tmp_path):
    policy, table = policy_and_rows(kind)
    wanted = by_command(policy, table, kind, tmp_path)
    if kind == "numbers" and backend == "dask":
        table["number"] = [0 if value is None else value for value in table["number"]]
        wanted = by_command(policy, table, kind, tmp_path)
    frame = frame_of(table)
    found = decide_frame(policy, frame, names=NAMES.get(kind), keep=["id"])
    if not isinstance(frame, duckdb.DuckDBPyRelation):
        assert type(found) is type(frame)
    the_same(plain(found), wanted, tells_nan=not backend.startswith(("pandas", "dask")))
    n_accepted = sum(accepted for accepted, *_ in wanted.values())
    assert (n_accepted == 0) == (kind == "nothing")


@pytest.mark.parametrize("kind", POLICIES)
def test_the_statement_decides_as_the_command_in_duckdb(kind, tmp_path):
    policy, table = policy_and_rows(kind)
    wanted = by_command(policy, table, kind, tmp_path)
    cases = pa.table(table)  # noqa: F841 - read by the statement
    statement = policy_sql(policy, keep=["id"], names=NAMES.get(kind))
    the_same(plain(duckdb.sql(statement)), wanted)


@pytest.mark.parametrize("kind", POLICIES)
def test_the_statement_decides_as_the_command_in_spark(kind, spark, tmp_path):
    policy, table = policy_and_rows(kind)
    wanted = by_command(policy, table, kind, tmp_path)
    (tmp_path / "spark").mkdir()
    make_frame("spark", table, spark, tmp_path / "spark").createOrReplaceTempView("cases")
    statement = policy_sql(policy, dialect="spark", keep=["id"], names=NAMES.get(kind))
    the_same(plain(spark.sql(statement)), wanted)


@pytest.mark.parametrize("kind", POLICIES)
def test_the_statement_decides_as_the_command_in_postgres(kind, cluster, tmp_path):
    psycopg = pytest.importorskip("psycopg")
    policy, table = policy_and_rows(kind)
    wanted = by_command(policy, table, kind, tmp_path)
    kinds = {"id": "integer", "site": "text", "number": "integer"}
    names = ", ".join(f'"{name}" {kinds.get(name, "double precision")}' for name in table)
    address = cluster.address("desk").replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE TEMPORARY TABLE cases ({names})")
        marks = ", ".join(["%s"] * len(table))
        connection.cursor().executemany(
            f"INSERT INTO cases VALUES ({marks})", list(zip(*table.values(), strict=True))
        )
        statement = policy_sql(policy, dialect="postgres", keep=["id"], names=NAMES.get(kind))
        rows = connection.execute(statement).fetchall()
    columns = ["id", *(OUTPUTS if len(rows[0]) == 5 else (n for n in OUTPUTS if n != "label"))]
    the_same(plain(pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True)))), wanted)


@pytest.mark.parametrize("dialect", ["bigquery", "duckdb", "postgres", "snowflake", "spark"])
def test_names_and_text_are_quoted_in_each_dialect(dialect):
    text = policy_sql(POLICIES["groups"](), dialect=dialect, table="a.b", keep=["the id"])
    quote = "`" if dialect in ("bigquery", "spark") else '"'
    assert f"{quote}the id{quote}" in text
    assert "FROM a.b\n" in text
    plain_text = dialect in ("duckdb", "postgres")
    assert ("'it''s \\ owl'" if plain_text else "'it\\'s \\\\ owl'") in text


# ------------------------------------------------------------------ other policies and columns


@pytest.mark.parametrize("column", ["p_ill", "p_well"])
def test_one_column_of_two_classes(column):
    cases = Cases.from_predictions(["ill", "well", "well"], [0.1, 0.7, 0.9])
    policy = choose(cases, target_accuracy=1)
    frame = pa.table({"id": [1, 2, 3, 4, 5], column: [0.05, 0.95, 0.6, None, 1.5]})
    names = ColumnNames(probabilities=column)
    found = plain(decide_frame(policy, frame, names=names, keep=["id"]))
    proba = np.array([0.05, 0.95, 0.6])
    accepted, labels = policy.decide(1 - proba if column == "p_ill" else proba)
    assert [found[i][0] for i in (1, 2, 3)] == accepted.tolist()
    assert [found[i][1] for i in (1, 2, 3)] == labels.tolist()
    assert found[4] == [False, None, None, f"{column} is missing or not a number"]
    assert found[5] == [False, None, None, f"{column} is not in [0, 1]"]
    cases = frame
    assert plain(duckdb.sql(policy_sql(policy, keep=["id"], names=names))) == found


def test_numbers_divided_by_their_sum(tmp_path):
    """The sum has the same digits in a file, a frame and a statement, for forty classes too."""
    rng = np.random.default_rng(1)
    proba = rng.dirichlet([0.2] * 40, size=500).round(3)
    columns = {f"p_{i}": proba[:, i] for i in range(40)}
    path = tmp_path / "cases.parquet"
    pq.write_table(pa.table({"label": proba.argmax(axis=1), "id": np.arange(500), **columns}), path)
    evaluation = read_predictions(path, names=ColumnNames(normalize=True)).evaluate()
    policy = evaluation.operating_point
    assert policy.origin.read_as == "normalized"
    wanted = by_command(policy, {"id": np.arange(500), **columns}, "", tmp_path)
    cases = pq.read_table(path)
    assert plain(decide_frame(policy, cases.drop(["label"]), keep=["id"])) == wanted
    assert plain(duckdb.sql(policy_sql(policy, keep=["id"]))) == wanted
    assert sum(accepted for accepted, *_ in wanted.values()) > 0


def test_single_precision_is_compared_in_double(frame_of):
    """A threshold rounded to single precision would accept 0.7 in single precision, a bit less."""
    policy = choose(Cases.from_correctness([0, 1], [0.6, 0.7]), target_accuracy=1)
    frame = frame_of({"id": [1, 2], "confidence": np.float32([0.7, 0.71])})
    found = plain(decide_frame(policy, frame, keep=["id"]))
    assert [found[1][0], found[2][0]] == [False, True]


def test_a_file_of_text_that_duckdb_scans(tmp_path):
    policy = POLICIES["point"]()
    path = tmp_path / "new.csv"
    path.write_text('id,p_cat,p_dog,"p_it\'s \\ owl"\n7,0.95,0.05,0\n8,0.5,0.5,0\n')
    found = plain(decide_frame(policy, scan_file(path), keep=["id"]))
    assert [found["7"][:2], found["8"][:2]] == [[True, "cat"], [False, "cat"]]


def test_a_lazy_frame_stays_lazy_and_its_columns_stay():
    pl = pytest.importorskip("polars")
    policy, table = policy_and_rows("point")
    found = decide_frame(policy, pl.LazyFrame(table))
    assert isinstance(found, pl.LazyFrame)
    assert found.collect_schema().names() == [*table, *OUTPUTS]
    with pytest.raises(FileFormatError, match="keep="):
        decide_frame(policy, pl.LazyFrame({**table, "label": table["site"]}))


def test_what_engines_would_compute_differently_is_refused(tmp_path):
    path = tmp_path / "cases.csv"
    rng = np.random.default_rng(0)
    lines = [
        f"{a},{a},{b}" for a, b in zip(rng.integers(0, 2, 99), rng.normal(size=99), strict=True)
    ]
    path.write_text("label,logit_0,logit_1\n" + "\n".join(lines) + "\n")
    policy = read_predictions(path).evaluate().operating_point
    with pytest.raises(ParameterError, match="logits"):
        decide_frame(policy, pa.table({"logit_0": [0.1], "logit_1": [0.2]}))
    with pytest.raises(ParameterError, match="logits"):
        policy_sql(policy)


def test_types_that_cannot_be_compared_are_refused():
    policy, table = policy_and_rows("groups")
    with pytest.raises(DataTypeError, match="'p_cat'"):
        decide_frame(
            policy, pa.table({**table, "p_cat": ["x"] * len(table["id"])}), names=NAMES["groups"]
        )
    sites = pa.table({**table, "site": [0.5] * len(table["id"])})
    with pytest.raises(DataTypeError, match="'site'"):
        decide_frame(policy, sites, names=NAMES["groups"])
    with pytest.raises(ParameterError, match="dialect"):
        policy_sql(policy, dialect="oracle")
    with pytest.raises(ParameterError, match="'label'"):
        policy_sql(policy, keep=["label"])


def test_a_saved_policy_decides_alike(tmp_path):
    policy, table = policy_and_rows("classes")
    again = from_json(policy.to_json())
    assert plain(decide_frame(again, pa.table(table), keep=["id"])) == plain(
        decide_frame(policy, pa.table(table), keep=["id"])
    )
    assert policy_sql(again) == policy_sql(policy)


def test_whole_numbers_stay_whole_in_pandas():
    proba = np.array([[0.9, 0.1], [0.2, 0.8]] * 50)
    policy = choose(Cases.from_predictions([0, 1] * 50, proba), target_accuracy=0.9)
    new = pd.DataFrame({"p_0": [0.9, np.nan, 0.3], "p_1": [0.1, 0.5, 0.7]})
    found = decide_frame(policy, new)["label"]
    assert str(found.dtype) == "Int64"
    assert found.astype(object).where(found.notna(), None).tolist() == [0, None, 1]
    with pytest.raises(FileFormatError, match=r"names=ColumnNames\(classes"):
        decide_frame(policy, new.rename(columns={"p_0": "p_a", "p_1": "p_b"}))

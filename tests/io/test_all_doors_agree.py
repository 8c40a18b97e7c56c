"""Arrays, pandas, Polars, DuckDB, a CSV file and a policy: the same classes, or all refuse."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import expertload as el
from expertload import Cases
from expertload import operating_point as op
from expertload.evaluation import split_cases
from expertload.exceptions import ExpertLoadError
from expertload.io import Identity, decide_file, read_predictions, tally_frame
from tests.strategies import examples_in_one_folder

duckdb = pytest.importorskip("duckdb")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

REFUSED = "refused"
SPELLINGS = [
    "cat", "Cat", " cat", "dog", "owl", "0", "1", "2", "01", "1.0", "-1", "+1", "10", "True",
    "false", "yes", "no", "pos", "neg", "y", "n", "p_cat", "9007199254740993", "9" * 30,
]  # fmt: skip
names = st.sampled_from(SPELLINGS)


@st.composite
def tables(draw):
    """Labels as text, names of columns after p_, and probabilities without ties."""
    alike = str.lower  # of two headers that differ in case alone, a file is refused as a file
    columns = draw(st.lists(names, min_size=2, max_size=4, unique_by=alike))
    pool = columns if draw(st.booleans()) else draw(st.lists(names, min_size=1, max_size=4))
    n = draw(st.integers(2, 6))
    labels = draw(st.lists(st.sampled_from(pool), min_size=n, max_size=n))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return labels, [f"p_{name}" for name in columns], rng.dirichlet(np.ones(len(columns)), n)


def outcome(read):
    """What a door says: a number, or that it refuses."""
    try:
        return read()
    except ExpertLoadError:
        return REFUSED


def write_csv(path, labels, columns, proba):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(["label"] if labels else []), *columns])
        for row, shares in enumerate(proba.tolist()):
            writer.writerow([*([labels[row]] if labels else []), *map(repr, shares)])
    return path


@pytest.mark.slow
@examples_in_one_folder(30)
@given(table=tables())
def test_all_doors_agree(tmp_path, table):
    labels, columns, proba = table
    shares = dict(zip(columns, proba.T, strict=True))
    both = {"label": labels, **shares}
    path = write_csv(tmp_path / "x.csv", labels, columns, proba)
    doors = {
        "pandas": lambda: el.accuracy_at_load(labels, pd.DataFrame(shares), expert_load=0),
        "polars": lambda: el.accuracy_at_load(labels, pl.DataFrame(shares), expert_load=0),
        "pandas, engine": lambda: tally_frame(pd.DataFrame(both), probabilities="p_*").accuracy,
        "polars, engine": lambda: tally_frame(pl.LazyFrame(both), probabilities="p_*").accuracy,
        "duckdb": lambda: (
            tally_frame(
                duckdb.from_arrow(pl.DataFrame(both).to_arrow()), probabilities="p_*"
            ).accuracy
        ),
        "file": lambda: 1 - np.mean(read_predictions(path).evaluate().cases.correct == 0),
    }
    found = {door: outcome(read) for door, read in doors.items()}
    said = {value if value == REFUSED else round(float(value), 9) for value in found.values()}
    assert len(said) == 1, found
    if said != {REFUSED}:
        classes = list(read_predictions(path).cases.labels)
        array = el.accuracy_at_load(
            labels, proba, expert_load=0, labels=[str(each) for each in classes]
        )
        assert round(array, 9) in said


@pytest.mark.slow
@examples_in_one_folder(30)
@given(table=tables(), other=tables(), data=st.data())
def test_a_policy_decides_alike_whatever_the_door(tmp_path, table, other, data):
    """Frames, and a file, in any order of columns, of its own classes or of others."""
    _, columns, proba = table if data.draw(st.booleans()) else other
    labels = [column.removeprefix("p_") for column in table[1]]
    sure = np.eye(len(labels)) * 0.6 + 0.4 / len(labels)
    policy = op.choose(Cases.from_predictions(labels, sure, labels=labels), load_budget=0)
    order = data.draw(st.permutations(range(len(columns))))
    columns, proba = [columns[i] for i in order], proba[:, order]
    path = write_csv(tmp_path / "new.csv", None, columns, proba)
    shares = dict(zip(columns, proba.T, strict=True))

    def from_file():
        stream = io.StringIO()
        decide_file(policy, path, out=stream)
        rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
        return [(row["accepted"] == "true", row["label"]) for row in rows]

    def from_frame(kind):
        accepted, answers = policy.decide(kind(shares))
        return list(zip(accepted.tolist(), answers.tolist(), strict=True))

    found = {
        "file": outcome(from_file),
        "pandas": outcome(lambda: from_frame(pd.DataFrame)),
        "polars": outcome(lambda: from_frame(pl.DataFrame)),
    }
    assert found["file"] == found["pandas"] == found["polars"], found
    if {f"p_{label}" for label in labels} == set(columns) and found["file"] != REFUSED:
        by_name = np.array([label.removeprefix("p_") for label in columns])[proba.argmax(axis=1)]
        assert [label for _, label in found["file"]] == by_name.tolist()


@pytest.mark.parametrize("promise", ["all_cases", "one_case_each"])
def test_clusters_are_drawn_alike_as_numbers_and_as_text(tmp_path, promise):
    """Patient 7 of a Parquet file is patient '7' of a CSV, and no draw depends on the type."""
    rng = np.random.default_rng(0)
    patient, confidence = rng.integers(0, 150, 600), rng.random(600)
    correct = rng.random(600) < 0.5 + confidence / 2
    options = {"target_accuracy": 0.7, "cluster_promise": promise}
    points = [
        op.certify(Cases.from_correctness(correct, confidence, clusters=clusters), **options)
        for clusters in (patient, patient.astype(str), patient.astype(np.uint8), list(patient))
    ]
    table = pl.DataFrame({"patient": patient, "confidence": confidence, "correct": correct})
    table.write_csv(tmp_path / "x.csv")
    table.write_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        read = read_predictions(tmp_path / name, identity=Identity(cluster="patient"))
        points.append(read.evaluate(**options).certification)
    assert len({(point.threshold, point.n_accepted) for point in points}) == 1
    splits = [split_cases(600, clusters=each)[0] for each in (patient, patient.astype(str))]
    np.testing.assert_array_equal(*splits)

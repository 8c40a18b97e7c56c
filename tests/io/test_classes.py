"""Labels and columns are matched by name: the same numbers in any order, or a refusal."""

from __future__ import annotations

import csv
import io

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import Cases
from expertload.evaluation import evaluate
from expertload.exceptions import ExpertLoadError, LabelError
from expertload.io import decide_file, read_predictions
from expertload.operating_point import certify_groups, choose
from tests.strategies import examples_in_one_folder

fuzz = examples_in_one_folder(60)

# The first and the second class, as people spell them.
PAIRS = [
    ("no", "yes"), ("No", "Yes"), ("n", "y"), ("f", "t"), ("F", "T"), ("False", "True"),
    ("false", "true"), ("off", "on"), ("0", "1"), ("0.0", "1.0"), ("-1", "1"), ("1", "2"),
    ("01", "02"), ("benign", "malignant"), ("12E4", "7E1"), ("08:00", "20:00"),
    ("2024-01-05", "2024-02-05"), ("1.5", "2.5"), ("NULL", "nan"),
]  # fmt: skip
# One of these tells what the other is.
KNOWN_BY_HALF = [("0", "1"), ("0.0", "1.0"), ("False", "True"), ("false", "true")]
# Exact in binary, so that one minus them is too, and never one half, where the order would tell.
shares = st.integers(0, 63).filter(lambda i: i != 32).map(lambda i: i / 64)
cases = st.lists(st.tuples(st.integers(0, 1), shares), min_size=2, max_size=30)


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def accuracy_of(path):
    return read_predictions(path).evaluate().accuracy.estimate


@pytest.mark.slow
@fuzz
@given(
    rows=cases,
    pair=st.sampled_from(PAIRS),
    columns=st.sampled_from([(0, 1), (1, 0), (0,), (1,)]),
    prefix=st.sampled_from(["p_", "prob_", "Proba_"]),
)
def test_two_classes_in_any_order_or_one_of_them(tmp_path, rows, pair, columns, prefix):
    header = ["label", *(prefix + pair[i] for i in columns)]
    lines = [[pair[y], *((1 - p, p)[i] for i in columns)] for y, p in rows]
    path = write_csv(tmp_path / "x.csv", header, lines)
    y, p = zip(*rows, strict=True)
    if len(columns) == 1 and len(set(y)) == 1 and pair not in KNOWN_BY_HALF:
        with pytest.raises(LabelError, match="needs two classes"):
            read_predictions(path)
        return
    expected = evaluate(Cases.from_predictions(y, p, labels=[0, 1]))
    found = read_predictions(path).evaluate()
    assert found.accuracy == expected.accuracy
    assert found.aucoc == expected.aucoc


@pytest.mark.slow
@fuzz
@given(
    data=st.data(),
    names=st.lists(
        st.sampled_from(["-1", "0", "1", "2", "10", "other", "cat", "1.5", "yes", "true", "a b"]),
        min_size=3,
        max_size=6,
        unique=True,
    ),
    kind=st.sampled_from(["csv", "parquet", "jsonl"]),
)
def test_many_classes_in_any_order(tmp_path, data, names, kind):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    proba = rng.dirichlet(np.ones(len(names)), 20)
    y = rng.integers(0, data.draw(st.integers(1, len(names))), 20)
    order = data.draw(st.permutations(range(len(names))))
    header = ["label", *(f"p_{names[i]}" for i in order)]
    lines = [[names[y[row]], *proba[row, order]] for row in range(20)]
    path = write_csv(tmp_path / "x.csv", header, lines)
    if kind != "csv":
        typed = tmp_path / f"x.{kind}"
        types = "header = true, types = {'label': 'VARCHAR'}"
        duckdb.sql(f"COPY (FROM read_csv('{path}', {types})) TO '{typed}'")
        path = typed
    expected = evaluate(Cases.from_predictions(y, proba, labels=range(len(names))))
    found = read_predictions(path).evaluate()
    assert found.accuracy == expected.accuracy
    assert found.aucoc.estimate == pytest.approx(expected.aucoc.estimate, abs=1e-12)


@pytest.mark.parametrize("kind", ["BOOLEAN", "DOUBLE", "TINYINT", "VARCHAR"])
@pytest.mark.parametrize("header", ["p_1,p_0", "p_0,p_1", "p_1.0,p_0.0", "p_1", "p_0"])
def test_labels_of_any_type(tmp_path, kind, header):
    numbers = {"p_1": "0.75", "p_0": "0.25", "p_1.0": "0.75", "p_0.0": "0.25"}
    columns = ", ".join(f"{numbers[name]} AS '{name}'" for name in header.split(","))
    path = tmp_path / "x.parquet"
    duckdb.sql(f"COPY (SELECT 1::{kind} AS label, {columns} FROM range(4)) TO '{path}'")
    assert accuracy_of(path) == 1
    duckdb.sql(f"COPY (SELECT 0::{kind} AS label, {columns} FROM range(4)) TO '{path}'")
    assert accuracy_of(path) == 0


@pytest.mark.parametrize("columns", ["p_True,p_False", "p_yes,p_no", "P_TRUE,P_FALSE"])
@pytest.mark.parametrize("label", ["true", "1"])
def test_true_is_yes_and_one(tmp_path, columns, label):
    path = tmp_path / "x.csv"
    path.write_text(f"label,{columns}\n" + f"{label},0.75,0.25\n" * 3)
    assert accuracy_of(path) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("label,p_1,p_2\n0,0.9,0.1\n1,0.2,0.8\n", "names no column: 0. .* are of 1, 2"),
        ("label,p_1,p_2,p_other\n0,0.9,0.1,0\n1,0.2,0.8,0\n", "names no column: 0"),
        ("label,p_1,p_other\n0,0.9,0.1\n0,0.2,0.8\n", "names no column: 0"),
        ("label,p_a,p_b\n0,0.9,0.1\na,0.2,0.8\n", "names no column: 0"),
        ("label,p_a,p_b\nyes,0.9,0.1\nno,0.2,0.8\n", "names no column: no"),
        ("label,p_sick\nill,0.9\nwell,0.2\n", "'p_sick' of x.csv .* ill, well: .* Hint: .* p_well"),
        ("label,p_1\nill,0.9\nwell,0.2\n", "'p_1' of x.csv .* it is not clear which class"),
        ("label,p_2\n0,0.9\n1,0.2\n", "'p_2' of x.csv .* it is not clear which class"),
        ("label,proba\n1,0.9\n2,0.2\n", "'proba' of x.csv .* it is not clear which class"),
        ("label,p_a\na,0.9\nb,0.2\nc,0.2\n", "needs two classes. .* a, b, c"),
        ("label,p_2\n0,0.9\n1,0.2\n2,0.2\n", "needs two classes"),
        ('label,p_a,p_b\n"c\nd",0.9,0.1\na,0.2,0.8\n', "names no column: c d"),
    ],
)
def test_labels_that_leave_a_doubt_are_refused(tmp_path, text, says):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(LabelError, match=says):
        read_predictions(path)


def test_a_name_that_says_nothing_is_the_second_class(tmp_path):
    path = tmp_path / "x.csv"
    for header in ("y_proba", "probability"):
        path.write_text(f"label,{header}\nill,0.1\nwell,0.9\nwell,0.8\n")
        assert accuracy_of(path) == 1
    path.write_text("label,p_disease\n0,0.1\n1,0.9\n0,0.2\n")
    assert accuracy_of(path) == 1


# ------------------------------------------------------------------ what is copied


@pytest.mark.slow
@fuzz
@given(st.lists(st.text("0123456789eE:/.-+ trufalsno", min_size=1, max_size=12), min_size=1))
def test_what_is_kept_of_a_csv_is_what_was_there(tmp_path, identifiers):
    policy = choose(Cases.from_predictions(["a", "b"], [0.1, 0.9]), target_accuracy=1)
    path = write_csv(tmp_path / "x.csv", ["id", "p_b"], [[each, 0.5] for each in identifiers])
    stream = io.StringIO()
    decide_file(policy, path, out=stream, keep=("id",))
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [row["id"] for row in rows] == identifiers


@pytest.mark.parametrize(
    "names", [("yes", "no"), ("1E5", "2E5"), ("08:00", "20:00"), ("01", "1"), ("1.0", "1.10")]
)
def test_groups_of_a_csv_are_those_of_the_policy(tmp_path, names):
    rng = np.random.default_rng(0)
    proba = rng.beta(0.2, 0.2, 3000)
    y, groups = rng.random(3000) < proba, rng.choice(names, 3000)
    policy = certify_groups(Cases.from_predictions(y, proba, groups=groups), target_accuracy=0.9)
    path = write_csv(tmp_path / "x.csv", ["group", "p_1"], zip(groups, proba, strict=True))
    counts = decide_file(policy, path, out=io.StringIO())
    assert counts.n_accepted == policy.decide(proba, groups=groups).accepted.sum() > 1000
    assert {each.name for each in read_groups(tmp_path, y, proba, groups)} == set(names)


def read_groups(folder, y, proba, groups):
    rows = zip(groups, y.astype(int), proba, strict=True)
    path = write_csv(folder / "y.csv", ["group", "label", "p_1"], rows)
    return read_predictions(path).evaluate().groups


@pytest.mark.parametrize("words", ["true,false", "True,False", "yes,no", "T,F", "1,0", "1.0,0.0"])
def test_correctness_in_words(tmp_path, words):
    right, wrong = words.split(",")
    path = tmp_path / "x.csv"
    path.write_text(f"confidence,correct\n0.9,{right}\n0.8,{wrong}\n0.7,{right}\n0.6,{right}\n")
    assert read_predictions(path).cases.correct.tolist() == [1, 0, 1, 1]
    path.write_text(f"confidence,correct\n0.9,{right}\n0.8,perhaps\n")
    with pytest.raises(ExpertLoadError, match="must hold numbers"):
        read_predictions(path)


def test_one_letter_is_the_same_in_both_ways_to_write_it(tmp_path):
    """An editor may write é as one character, and a file system as an e and an accent."""
    path = tmp_path / "x.csv"
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    path.write_text(
        f"label,p_{decomposed},p_tea\n{composed},0.9,0.1\ntea,0.2,0.8\n", encoding="utf-8"
    )
    assert read_predictions(path).cases.target.tolist() == [0, 1]
    header = f"label,p_{decomposed},p_{composed}\n"
    path.write_text(header + f"{composed},0.1,0.9\n{decomposed},0.8,0.2\n", encoding="utf-8")
    assert read_predictions(path).cases.target.tolist() == [1, 0]

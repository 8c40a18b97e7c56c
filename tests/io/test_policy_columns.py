"""A policy decides by the columns it was made with, and by the class each is named after."""

from __future__ import annotations

import csv
import io
import json

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import Cases
from expertload.exceptions import ExpertLoadError, FileFormatError
from expertload.io import ColumnNames, decide_file, read_predictions
from expertload.operating_point import choose, load_operating_point
from tests.operating_point.test_storage import sign
from tests.strategies import examples_in_one_folder

fuzz = examples_in_one_folder(60)
PAIRS = [("benign", "malignant"), ("0", "1"), ("False", "True"), ("no", "yes"), ("-1", "1")]
SUBSETS = [(0, 1), (1, 0), (0,), (1,)]
P = np.array([2, 5, 60, 63, 40, 10, 50, 61]) / 64


def write(path, pair, columns, p, labels=None, prefix="p_"):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(["label"] if labels else []), *(prefix + pair[i] for i in columns)])
        for row, share in enumerate(p):
            shares = [(1 - share, share)[i] for i in columns]
            writer.writerow([*([labels[row]] if labels else []), *shares])
    return path


def policy_of(path, target=0.9, **names):
    return read_predictions(path, names=ColumnNames(**names)).evaluate(target_accuracy=target)


def decide(policy, path, **options):
    stream = io.StringIO()
    decide_file(policy, path, out=stream, **options)
    return list(csv.DictReader(io.StringIO(stream.getvalue())))


@pytest.mark.slow
@fuzz
@given(
    pair=st.sampled_from(PAIRS),
    made=st.sampled_from(SUBSETS),
    new=st.sampled_from(SUBSETS),
    prefix=st.sampled_from(["p_", "prob_"]),
    wanted=st.sampled_from([None, "p_*", "prob_*"]),
    saved=st.booleans(),
)
def test_two_classes_whatever_the_columns(tmp_path, pair, made, new, prefix, wanted, saved):
    """Right labels or a refusal: from files, and from a policy that knows no file."""
    labels = [pair[int(share > 0.5)] for share in P]
    policy = policy_of(write(tmp_path / "made.csv", pair, made, P, labels)).operating_point
    if saved:
        policy.save(tmp_path / "p.json")
        policy = load_operating_point(tmp_path / "p.json")
    path = write(tmp_path / "new.csv", pair, new, P, prefix=prefix)
    try:
        rows = decide(policy, path, names=ColumnNames(probabilities=wanted))
    except ExpertLoadError:
        named = wanted is None or wanted.startswith(prefix)
        absent = prefix != "p_" or not set(made) & set(new)
        assert not named or (wanted is None and absent)
        return
    assert [row["label"] for row in rows] == labels
    assert [float(row["confidence"]) for row in rows] == np.maximum(P, 1 - P).tolist()


@pytest.mark.slow
@fuzz
@given(
    columns=st.lists(st.sampled_from(["0", "1", "2", "cat", "dog"]), max_size=4, unique=True),
    classes=st.sampled_from([(0, 1), (0, 1, 2), ("cat", "dog"), (1, 2), (2, 0)]),
    old=st.booleans(),
)
def test_any_columns_for_any_policy(tmp_path, columns, classes, old):
    """What is decided is what the column's name says; whatever else is refused."""
    eye = np.eye(len(classes)) * 0.8 + 0.2 / len(classes)
    labels = None if classes == tuple(range(len(classes))) else list(classes)
    policy = choose(Cases.from_predictions(classes, eye, labels=labels), target_accuracy=1)
    if old and labels is None:  # such policies had no labels
        policy = older(policy, tmp_path / "p.json", labels=None)
    path = tmp_path / "new.csv"
    for name in columns:
        others = {each: 0.1 / max(len(columns) - 1, 1) for each in columns}
        shares = {**others, name: 0.9}
        path.write_text(
            ",".join(f"p_{each}" for each in columns)
            + "\n"
            + ",".join(str(shares[each]) for each in columns)
        )
        try:
            (row,) = decide(policy, path)
        except ExpertLoadError:
            continue
        place = 1 if len(columns) == 1 else columns.index(name)
        assert row["label"] == (name if name in {*"012", *classes} else str(place))


def older(policy, path, **origin):
    """The same policy as a file of the first schema."""
    policy.save(path)
    document = json.loads(path.read_text())
    document["schema_version"] = 1
    for name in (
        "probability_columns",
        "read_as",
        "confidence_column",
        "confidence_quantiles",
        "score",
        "group_column",
    ):
        del document["origin"][name]
    document["origin"].update(origin)
    path.write_text(json.dumps(sign(document)))
    return load_operating_point(path)


def test_older_policies_match_numbers_too(tmp_path):
    policy = older(
        choose(Cases.from_predictions([0, 1], [0.1, 0.9]), target_accuracy=1),
        tmp_path / "p.json",
        labels=None,
    )
    path = tmp_path / "new.csv"
    path.write_text("p_1,p_0\n0.9,0.1\n")
    assert decide(policy, path)[0]["label"] == "1"
    path.write_text("p_True,p_False\n0.9,0.1\n")
    assert decide(policy, path)[0]["label"] == "1"
    path.write_text("p_0\n0.9\n")
    assert decide(policy, path)[0]["label"] == "0"
    path.write_text("p_1,p_2\n0.9,0.1\n")
    with pytest.raises(FileFormatError, match="has the classes 0, 1, .* belong to 1, 2"):
        decide(policy, path)
    path.write_text("p_2\n0.9\n")
    with pytest.raises(ExpertLoadError, match="it is not clear which class"):
        decide(policy, path)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("p_benign,p_malignant,p_other", "has the classes benign, malignant, .* belong to benign"),
        ("p_other", "'p_other' of new.csv must be named after one of the classes"),
        ("p_0,p_1", "belong to 0, 1"),
        ("p_benign,p_other", "belong to benign, other"),
    ],
)
def test_columns_of_other_classes_are_refused(tmp_path, header, says):
    policy = choose(Cases.from_predictions(["benign", "malignant"], [0.1, 0.9]), target_accuracy=1)
    path = tmp_path / "new.csv"
    path.write_text(f"{header}\n" + ",".join(["1", "0", "0"][: header.count(",") + 1]))
    with pytest.raises(ExpertLoadError, match=says):
        decide(policy, path)


def test_three_classes_have_three_columns(tmp_path):
    policy = choose(Cases.from_predictions(["a", "b", "c"], np.eye(3)), target_accuracy=1)
    path = tmp_path / "new.csv"
    path.write_text("p_a\n0.9\n")
    with pytest.raises(FileFormatError, match="has the classes a, b, c, .* belong to a"):
        decide(policy, path)


# ------------------------------------------------------------------ the policy's own columns


@pytest.fixture
def table(tmp_path):
    """Two models, and two confidences of which only the margin is one."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.2, 0.2, 400)
    y = np.where(rng.random(400) < p, "pos", "neg")
    path = tmp_path / "table.csv"
    header = "label,good_pos,good_neg,p_neg,p_pos,margin,confidence"
    columns = [y, p, 1 - p, 0.9 - 0.8 * p, 0.1 + 0.8 * p, np.abs(2 * p - 1), rng.random(400)]
    write_columns(path, header, *columns)
    return path, y, p


def write_columns(path, header, *columns):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *zip(*columns, strict=True)])


def assert_decides_as_evaluated(folder, path, y, **names):
    found = policy_of(path, **names)
    assert found.certification.origin == found.operating_point.origin
    found.operating_point.save(folder / "p.json")
    policy = load_operating_point(folder / "p.json")
    rows = decide(policy, path)
    accepted = [row["accepted"] == "true" for row in rows]
    assert sum(accepted) == policy.n_accepted > 0
    wrong = [row["label"] != label for row, label in zip(rows, y, strict=True)]
    assert sum(a and w for a, w in zip(accepted, wrong, strict=True)) == policy.n_errors


@pytest.mark.parametrize(
    "names",
    [
        {"confidence": "margin"},
        {"probabilities": "good_*"},
        {"probabilities": "good_*", "confidence": "margin"},
    ],
)
def test_a_policy_knows_its_columns(tmp_path, table, names):
    path, y, _ = table
    assert_decides_as_evaluated(tmp_path, path, y, **names)


@pytest.mark.parametrize("side", ["neg", "pos"])
def test_a_policy_knows_its_only_column(tmp_path, table, side):
    _, y, p = table
    path = tmp_path / "lone.csv"
    share = p if side == "pos" else 1 - p
    write_columns(path, f"label,good_{side},p_neg,p_pos", y, share, p, 1 - p)
    assert_decides_as_evaluated(tmp_path, path, y, probabilities="good_*")


@pytest.mark.slow
def test_what_a_policy_decides_by_must_be_there_or_be_named(tmp_path, table):
    path, *_ = table
    policy = policy_of(path, confidence="margin").operating_point
    new = tmp_path / "new.csv"
    new.write_text("confidence,p_neg,p_pos\n0.99,0.1,0.9\n")
    with pytest.raises(FileFormatError, match="threshold for the column 'margin', but new.csv"):
        decide(policy, new)
    names = ColumnNames(confidence="confidence")
    assert decide(policy, new, names=names)[0]["confidence"] == "0.99"
    new.write_text("Margin\n0.99\n")
    assert decide(policy, new) == [{"row": "1", "accepted": "true", "confidence": "0.99"}]
    policy = policy_of(path, probabilities="good_*").operating_point
    new.write_text("p_neg,p_pos\n0.1,0.9\n")
    with pytest.raises(FileFormatError, match="column.s. good_pos, good_neg, but new.csv lacks"):
        decide(policy, new)
    assert decide(policy, new, names=ColumnNames(probabilities="p_*"))[0]["label"] == "pos"


def test_correctness_alone_leaves_labels_to_the_file(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("confidence,score,correct\n0.9,1,true\n0.1,2,false\n")
    policy = policy_of(path, confidence="score").operating_point
    assert policy.origin.labels is None
    assert policy.origin.confidence_column == "score"
    path.write_text("confidence,score,p_9,p_cat\n0.9,3,0.2,0.8\n")
    assert decide(policy, path)[0]["label"] == "cat"
    assert float(decide(policy, path)[0]["confidence"]) == 3
    other = choose(Cases.from_correctness([1, 0], [2, 1]), target_accuracy=1)
    assert decide(other, path)[0]["confidence"] == "0.9"
    path.write_text("confidence,score,p_cat\n0.9,3,0.8\n")  # the other class has no name
    assert "label" not in decide(policy, path)[0]
    path.write_text("confidence,score,p_0\n0.9,3,0.8\n")
    assert decide(policy, path)[0]["label"] == "0"


@pytest.mark.parametrize("seed", [8, 9])
def test_single_precision_decides_as_it_was_evaluated(tmp_path, seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.2, 0.2, 3000).astype(np.float32)
    y = (rng.random(3000) < p).astype(int)
    np.savez(tmp_path / "x.npz", label=y, p_1=p)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (label INT, p_1 FLOAT)")
    connection.execute(
        "INSERT INTO t SELECT unnest(?), unnest(?)", [y.tolist(), p.astype(float).tolist()]
    )
    connection.execute(f"COPY t TO '{tmp_path / 'x.parquet'}'")
    for path in (tmp_path / "x.npz", tmp_path / "x.parquet"):
        policy = policy_of(path, target=0.95).certification
        accepted = [row["accepted"] == "true" for row in decide(policy, path)]
        assert sum(accepted) == policy.n_accepted == policy.decide(p).accepted.sum()


@pytest.mark.slow
def test_files_of_the_same_cases_are_compared_in_any_order(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.beta(0.3, 0.3, 200)
    y = rng.random(200) < p
    tables = []
    for i, (pair, columns) in enumerate(
        [(("neg", "pos"), (0, 1)), (("neg", "pos"), (1, 0)), (("neg", "pos"), (1,))]
    ):
        labels = [pair[int(each)] for each in y]
        path = write(tmp_path / f"{i}.csv", pair, columns, p, labels)
        tables.append(read_predictions(path).evaluate())
    numbered = [str(int(each)) for each in y]
    for columns in ((0, 1), (0,)):
        path = write(tmp_path / "n.csv", ("0", "1"), columns, p, numbered)
        tables.append(read_predictions(path).evaluate())
    for found in tables[1:]:
        assert found.compare(tables[0]).difference == pytest.approx(0, abs=1e-12)
    other = write(tmp_path / "o.csv", ("neg", "pos"), (1, 0), p, ["neg", "pos"] * 100)
    with pytest.raises(ExpertLoadError, match="labels that differ"):
        read_predictions(other).evaluate().compare(tables[0])


# ------------------------------------------------------------------ columns that are something else


def test_weight_may_be_in_kilograms(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("label,p_a,p_b,weight,group\na,0.9,0.1,81,x\nb,0.2,0.8,62,y\n")
    found = read_predictions(path)
    assert found.cases.weight is None
    assert found.columns.group == "group"
    found = read_predictions(path, names=ColumnNames(weight="weight", group="none"))
    assert found.cases.weight.tolist() == [81, 62]
    assert found.cases.groups is None


def test_none_is_no_column_unless_one_is_called_so(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("class,confidence,correct,p_a,sample_weight\n3,0.9,1,7,0\n2,0.8,0,9,0\n")
    found = read_predictions(path, names=ColumnNames(label="none", weight="none"))
    assert found.columns.correct == "correct"
    assert found.cases.weight is None
    path.write_text("confidence,correct,none\n0.9,1,x\n0.8,0,y\n")
    assert read_predictions(path, names=ColumnNames(group="none")).cases.groups.tolist() == [
        "x",
        "y",
    ]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (ColumnNames(confidence="sure"), "uses the probabilities.*column 'sure'"),
        (ColumnNames(group="site"), "one threshold for all cases.*column 'site'"),
    ],
)
def test_a_column_that_would_not_be_used_is_refused(tmp_path, names, words):
    policy = choose(Cases.from_predictions(["a", "b"], [[0.9, 0.1], [0.2, 0.8]]), target_accuracy=1)
    file, out = tmp_path / "x.csv", tmp_path / "out.csv"
    file.write_text("p_a,p_b,sure,site\n0.6,0.4,0.99,north\n")
    with pytest.raises(FileFormatError, match=words):
        decide_file(policy, file, out=out, names=names)
    assert not out.exists()
    decide_file(policy, file, out=out, names=ColumnNames(confidence="none", group="none"))
    assert out.exists()


@pytest.mark.parametrize("columns", [("cat", "dog", "owl"), ("owl", "cat", "dog")])
def test_a_policy_finds_columns_named_as_its_classes(tmp_path, columns):
    """A policy made in Python stores classes and no columns."""
    classes = ("cat", "dog", "owl")
    proba = np.random.default_rng(0).dirichlet(np.full(3, 0.3), size=40)
    labels = [classes[i] for i in proba.argmax(axis=1)]
    policy = choose(Cases.from_predictions(labels, proba, labels=classes), target_accuracy=0.9)
    path = tmp_path / "new.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", *columns])
        writer.writerows([7, *(row[classes.index(c)] for c in columns)] for row in proba.tolist())
    assert [row["label"] for row in decide(policy, path)] == labels
    path.write_text(path.read_text().replace("owl", "crow"))
    with pytest.raises(FileFormatError, match="needs probabilities"):
        decide(policy, path)

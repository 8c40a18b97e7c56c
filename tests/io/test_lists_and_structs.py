"""Lists and structs of Parquet are columns of numbers: what flat columns say, they say."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax
from typer.testing import CliRunner

from expertload import exceptions as ex
from expertload.cli.app import app
from expertload.io import ColumnNames, FileOptions, decide_file, read_predictions
from expertload.operating_point import load_operating_point

RNG = np.random.default_rng(5)
N = 1000
LOGITS = RNG.normal(0, 3, (N, 3))
PROBA = softmax(LOGITS, axis=1)
NAMES = ["cat", "dog", "owl"]
PLACES = (RNG.random((N, 1)) > PROBA.cumsum(axis=1)[:, :2]).sum(axis=1)  # well calibrated
TRUE = np.array(NAMES)[PLACES]


def save(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def flat(path, proba=PROBA, prefix="p_", **others):
    named = {prefix + name: column for name, column in zip(NAMES, proba.T, strict=True)}
    return save(path, **others, **named)


def structs(proba=PROBA, names=NAMES):
    return pa.array([dict(zip(names, row, strict=True)) for row in proba.tolist()])


def decide(policy, path, names=None, **options):
    stream = io.StringIO()
    decide_file(policy, path, out=stream, names=names or ColumnNames(), **options)
    return list(csv.DictReader(io.StringIO(stream.getvalue())))


LISTS = {
    "list": pa.array(PROBA.tolist()),
    "large list": pa.array(PROBA.tolist(), pa.large_list(pa.float64())),
    "fixed list": pa.array(PROBA.tolist(), pa.list_(pa.float64(), 3)),
}


# ------------------------------------------------------------------ the same as flat columns


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*LISTS, "struct", "reversed struct"])
@pytest.mark.parametrize("column", ["probabilities", "y_proba", "scores"])
def test_evaluated_saved_and_decided_like_flat_columns(tmp_path, kind, column):
    held = LISTS.get(kind)
    names = {} if held is None else {"classes": ",".join(NAMES)}
    if held is None:
        order = slice(None, None, -1) if kind.startswith("reversed") else slice(None)
        held = structs(PROBA[:, order], NAMES[order])
    if column == "scores":
        names["probabilities"] = "scores"
    expected = read_predictions(flat(tmp_path / "flat.parquet", label=TRUE))
    path = save(tmp_path / "x.parquet", label=TRUE, **{column: held})
    found = read_predictions(path, names=ColumnNames(**names))
    ours, theirs = found.evaluate(target_accuracy=0.9), expected.evaluate(target_accuracy=0.9)
    assert ours.aucoc.estimate == theirs.aucoc.estimate
    assert ours.certification.threshold == theirs.certification.threshold

    new = softmax(RNG.normal(0, 2, (50, 3)), axis=1)
    fresh = structs(new) if "struct" in kind else pa.array(new.tolist(), held.type)
    ours.certification.save(tmp_path / "policy.json")
    policy = load_operating_point(tmp_path / "policy.json")
    rows = decide(policy, save(tmp_path / "new.parquet", id=np.arange(50), **{column: fresh}))
    assert rows == decide(theirs.certification, flat(tmp_path / "n.parquet", new))
    assert {row["accepted"] for row in rows} == {"true", "false"}


@pytest.mark.slow
def test_on_the_command_line(tmp_path):
    path = save(tmp_path / "x.parquet", id=np.arange(N), label=TRUE, probabilities=LISTS["list"])
    policy, out = tmp_path / "policy.json", tmp_path / "out.csv"
    run = CliRunner().invoke
    named = ["--classes", "cat,dog,owl"]
    result = run(app, ["evaluate", str(path), *named, "--json", "--save-policy", str(policy)])
    assert result.exit_code == 0, result.output
    read = json.loads(result.stdout)["models"][0]
    flat_file = flat(tmp_path / "flat.parquet", label=TRUE, id=np.arange(N))
    same = json.loads(run(app, ["evaluate", str(flat_file), "--json"]).stdout)["models"][0]
    assert read.pop("columns")["classes"] == same.pop("columns")["classes"] == NAMES
    assert {**read, "name": "flat", "file": "flat.parquet"} == same
    keep = ["--keep", "id", "--keep", "probabilities"]
    result = run(app, ["decide", str(policy), str(path), "--out", str(out), *keep])
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["id"] for row in rows] == [str(i) for i in range(N)]
    np.testing.assert_allclose([json.loads(row["probabilities"]) for row in rows], PROBA)
    drawn = run(app, ["plot", str(path), *named, "--out", str(tmp_path / "coc.svg")])
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "coc.svg").exists()


def test_integers_are_places_of_a_list(tmp_path):
    path = save(tmp_path / "x.parquet", y_true=PLACES, proba=LISTS["list"])
    found = read_predictions(path)
    np.testing.assert_array_equal(found.cases.proba, PROBA)
    np.testing.assert_array_equal(found.y_true, PLACES)
    later = save(tmp_path / "y.parquet", y_true=PLACES + 1, proba=LISTS["list"])
    with pytest.raises(ex.LabelError, match="Got labels from 1 to 3"):
        read_predictions(later)


def test_logits_in_a_list_or_struct(tmp_path):
    for held in (pa.array(LOGITS.tolist()), structs(LOGITS)):
        path = save(tmp_path / "x.parquet", label=TRUE, logits=held)
        found = read_predictions(path)  # text labels stand in sorted order, as in any matrix
        np.testing.assert_allclose(found.cases.proba, PROBA, rtol=1e-14)
        assert "softmax of logits." in str(found.columns)
        policy = found.evaluate(target_accuracy=0.9).operating_point
        assert len([r for r in decide(policy, path) if r["accepted"] == "true"]) > 0


def test_single_precision_stays_single(tmp_path):
    single = PROBA.astype(np.float32)
    path = save(tmp_path / "x.parquet", y_true=PLACES, proba=pa.array(list(single)))
    assert read_predictions(path).cases.proba.dtype == np.float32
    np.testing.assert_array_equal(read_predictions(path).cases.proba, single)


def test_lists_of_one_number_are_a_column(tmp_path):
    sick, label = PROBA[:, :1], (PLACES == 0).astype(int)
    path = save(tmp_path / "x.parquet", label=label, proba=pa.array(sick.tolist()))
    one = save(tmp_path / "one.parquet", label=label, proba=sick[:, 0])
    np.testing.assert_array_equal(
        read_predictions(path).cases.proba, read_predictions(one).cases.proba
    )


@pytest.mark.slow
def test_a_query_makes_lists_and_picks_from_them(tmp_path):
    path = flat(tmp_path / "x.parquet", label=PLACES)
    packed = FileOptions(query="SELECT label, [p_cat, p_dog, p_owl] AS proba FROM file")
    np.testing.assert_array_equal(read_predictions(path, options=packed).cases.proba, PROBA)


# ------------------------------------------------------------------ refused in a sentence


def lists(*changed):
    rows = PROBA.tolist()
    for row, value in changed:
        rows[row] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lists((6, [0.5, 0.5])), r"lacks 1 value.* row 7.*as many numbers as the first"),
        (lists((6, [0.5, 0.5, 0, 0])), r"lacks 1 value.* row 7.*as many numbers as the first"),
        (lists((6, [])), r"lacks 1 value.* row 7"),
        (lists((0, [0.5, 0.5])), r"lacks 999 value.* row 2.*as many numbers as the first"),
        (
            lists((6, None)),
            r"'probabilities.0' of x.parquet lacks 1 value\(s\), the first in row 7",
        ),
        (lists((6, [0.5, None, 0.5])), r"'probabilities.1' of x.parquet lacks 1 value.* in row 7"),
        (lists((6, [0.5, float("nan"), 0.5])), r"'probabilities.1' .* must be finite"),
        (lists((6, [0.5, 0.1, 0.5])), r"must sum to one over the classes. Got 1.1 in row 7"),
        ([[]] * N, r"'probabilities' of x.parquet must hold numbers. Got '\[\]' in row 1"),
        ([[["a"]]] * N, r"'probabilities' of x.parquet must hold numbers"),
        ([{"cat": 1.0, "why": "it purrs"}] * N, r"'probabilities' of x.parquet must hold numbers"),
        ([None] * N, r"lacks 1000 value"),
    ],
)
def test_what_is_no_list_of_probabilities(tmp_path, rows, message):
    path = save(tmp_path / "x.parquet", label=PLACES % 2, probabilities=pa.array(rows))
    with pytest.raises(ex.ExpertLoadError, match=message):
        read_predictions(path)


def test_the_classes_must_be_as_many(tmp_path):
    path = save(tmp_path / "x.parquet", label=TRUE, probabilities=LISTS["list"])
    with pytest.raises(ex.FileFormatError, match="once for each column .*Got cat, dog"):
        read_predictions(path, names=ColumnNames(classes="cat,dog"))
    some = ColumnNames(probabilities="probabilities.0,probabilities.1", classes="cat,dog")
    with pytest.raises(ex.FileFormatError, match="All 3 numbers .* must be used. Got 2"):
        read_predictions(path, names=some)


def policy_of(path, **names):
    own = ColumnNames(classes=",".join(NAMES), **names)
    return read_predictions(path, names=own).evaluate(target_accuracy=0.9).operating_point


@pytest.mark.parametrize("length", [2, 4])
def test_a_policy_refuses_lists_of_another_length(tmp_path, length):
    policy = policy_of(save(tmp_path / "x.parquet", label=TRUE, probabilities=LISTS["list"]))
    row = [0.9, 0.1, 0.0, 0.0][:length]  # what is left of it sums to one
    other = save(tmp_path / "y.parquet", probabilities=pa.array([row] * 5))
    for invalid in ("refuse", "delegate"):
        with pytest.raises(ex.FileFormatError, match="probabilities"):
            decide(policy, other, invalid=invalid)


def test_a_list_of_another_length_is_delegated_if_asked(tmp_path):
    policy = policy_of(save(tmp_path / "x.parquet", label=TRUE, probabilities=LISTS["list"]))
    rows = [[0.98, 0.01, 0.01], [1.0, 0.0], None, [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    path = save(tmp_path / "y.parquet", probabilities=pa.array(rows))
    with pytest.raises(ex.FileFormatError, match=r"Row 2 of y.parquet cannot be decided"):
        decide(policy, path)
    found = decide(policy, path, invalid="delegate")
    assert [row["accepted"] for row in found] == ["true", "false", "false", "false", "true"]
    assert [row["label"] for row in found] == ["cat", "", "", "", "dog"]


def test_flat_columns_of_the_same_names_come_first(tmp_path):
    own = {"probabilities.cat": PROBA[:, 0], "probabilities.dog": 1 - PROBA[:, 0]}
    held = structs(PROBA[:, :2] * 0, NAMES[:2])
    path = save(tmp_path / "x.parquet", label=PLACES % 2, probabilities=held, **own)
    found = read_predictions(path, names=ColumnNames(classes="0,1"))
    np.testing.assert_array_equal(found.cases.proba[:, 0], PROBA[:, 0])


def test_the_classes_of_places_are_said_unless_they_are_the_places(tmp_path):
    """Text labels are matched in sorted order; a list in another order must not pass unseen."""
    path = save(tmp_path / "list.parquet", label=TRUE, probabilities=list(PROBA))
    places = "probabilities.0, probabilities.1, probabilities.2"
    assert str(read_predictions(path).columns).endswith(f"{places} (of cat, dog, owl)")
    path = save(tmp_path / "places.parquet", label=PLACES, probabilities=list(PROBA))
    assert str(read_predictions(path).columns).endswith(places)

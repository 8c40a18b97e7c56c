"""Columns and labels, matched before the engine runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import expertload as el
from expertload import exceptions
from expertload.io import tally_frame, tally_groups

pl = pytest.importorskip("polars")

FRAME = pl.DataFrame({"confidence": [0.5, 0.75], "correct": [True, False], "name": ["a", "b"]})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"confidence": "score"}, exceptions.ParameterError, "'score'.*columns are: confidence"),
        ({"weight": 3}, exceptions.ParameterError, "'weight'.*must name a column. Got 3"),
        ({"correct": "name"}, exceptions.DataTypeError, "'name'.*numbers.*Got String.*cast"),
        ({"bits": 60}, exceptions.ParameterError, "'bits'.*from 0 to 52. Got 60"),
        ({"bits": 1.5}, exceptions.ParameterError, "'bits'"),
        ({"max_rows": 0}, exceptions.ParameterError, "'max_rows'"),
        ({"max_rows": 1}, exceptions.ParameterError, "at most 1 distinct.*bits=16"),
        ({"probabilities": "q_*"}, exceptions.ParameterError, "'q_.*matches none.*'p_"),
        ({"probabilities": []}, exceptions.ParameterError, "matches none"),
        ({"probabilities": ["confidence"]}, exceptions.ParameterError, "'label'.*'label'"),
        ({"probabilities": "name", "label": "name"}, exceptions.DataTypeError, "'name'"),
        (
            {"probabilities": ["confidence", "conf*"], "label": "name"},
            exceptions.ParameterError,
            "one column twice",
        ),
    ],
)
def test_requests_that_cannot_be_met(options, error, words):
    with pytest.raises(error, match=words):
        tally_frame(FRAME, **options)


def test_things_that_are_no_frames():
    for thing in (np.zeros(3), "predictions.parquet", None, pl.Series([1.0])):
        with pytest.raises(exceptions.DataTypeError, match="must be a data frame.*scan_file"):
            tally_frame(thing)
    with pytest.raises(exceptions.ParameterError, match="no columns"):
        tally_frame(pl.DataFrame())


def test_columns_of_one_name_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[0.1, 0.9, 0.1]], columns=["p_a", "p_b", "p_a"])
    with pytest.raises(
        exceptions.DataTypeError, match=r"distinct column names. .*'p_a' 2 times .*Hint"
    ):
        tally_frame(frame, confidence="p_a", correct="p_b")


def test_group_column_must_exist():
    with pytest.raises(exceptions.ParameterError, match="'by'"):
        tally_groups(FRAME, by="site")


def test_groups_without_name_and_without_weight():
    frame = FRAME.with_columns(site=pl.Series(["A", None]), weight=pl.Series([1, 1]))
    assert list(tally_groups(frame, by="site")) == ["A", None]
    frame = frame.with_columns(weight=pl.Series([0, 1]))
    assert list(tally_groups(frame, by="site", weight="weight")) == [None]


def test_confidences_too_large_to_round():
    frame = FRAME.with_columns(confidence=pl.Series([1e300, 0.5]))
    assert tally_frame(frame).n_cases == 2
    with pytest.raises(exceptions.NonFiniteError, match=r"2\*\*\(53 - bits\).*1 row"):
        tally_frame(frame, bits=8)


def test_confidences_of_any_sign_and_kind_are_rounded_down():
    frame = FRAME.with_columns(confidence=pl.Series([-3, 12]))
    assert tally_frame(frame, bits=0).confidence.tolist() == [-3, 12]
    frame = FRAME.with_columns(confidence=pl.Series([-0.3, 12.7]))
    assert tally_frame(frame, bits=1).confidence.tolist() == [-0.5, 12.5]


# --------------------------------------------------------------------------- labels

PROBA = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])
TRUE = np.array([0, 2, 0, 2])


def predictions(label, names):
    return pl.DataFrame({"label": label, **dict(zip(names, PROBA.T, strict=True))})


WANTED = el.aucoc_score(TRUE, PROBA)


@pytest.mark.parametrize(
    ("frame", "options"),
    [
        (predictions(TRUE, ["x0", "x1", "x2"]), {"probabilities": "x*"}),
        (predictions(TRUE.astype(float), ["p_0", "p_1", "p_2"]), {"probabilities": "p_*"}),
        (
            predictions(TRUE, ["x", "y", "z"]),
            {"probabilities": ["x", "y", "z"], "labels": [0, 1, 2]},
        ),
        (
            predictions(TRUE * 10, ["p10", "p_0", "p_20"]),
            {"probabilities": "p*", "labels": [0, 10, 20]},
        ),
        (
            predictions(np.array(["x", "y", "z"])[TRUE], ["x", "y", "z"]),
            {"probabilities": ["x", "y", "z"]},
        ),
        (
            predictions(np.array(["x", "y", "z"])[TRUE], ["p.x", "p.y", "p.z"]),
            {"probabilities": "p.*"},
        ),
        (predictions(5 - TRUE, ["p_5", "p_4", "p_3"]), {"probabilities": "p_*"}),
        (
            predictions(TRUE, ["p_a", "p_b", "p_c"]),
            {"probabilities": "p_*", "labels": np.arange(3)},
        ),
    ],
)
def test_labels_are_matched_to_columns(frame, options):
    assert tally_frame(frame, **options).aucoc() == pytest.approx(WANTED, abs=1e-12)


def test_categories_are_text():
    names = ["x", "y", "z"]
    frame = predictions(np.array(names)[TRUE], names)
    frame = frame.with_columns(pl.col("label").cast(pl.Categorical))
    assert tally_frame(frame, probabilities=names).aucoc() == pytest.approx(WANTED, abs=1e-12)


@pytest.mark.parametrize(
    ("label", "options", "words"),
    [
        (TRUE, {"labels": [0, 1]}, "must name the 3 columns"),
        (TRUE, {"labels": [0, 1, 1]}, "distinct"),
        (TRUE, {"labels": ["a", "b", "c"]}, "names no column: 0"),
        (TRUE.astype(str), {"labels": [3, 4, 5]}, "names no column: 0"),
        (TRUE, {}, "names no column: 0. .* of x, y, z. .*labels="),
        (TRUE + 0.5, {"labels": [0, 1, 2]}, "names no column: 0.5"),
        (TRUE - 1, {"labels": [0, 1, 2]}, "names no column: -1"),
        (TRUE + 2.0**60, {"labels": [0, 1, 2]}, "floats skip whole numbers"),
    ],
)
def test_labels_that_cannot_be_matched(label, options, words):
    frame = predictions(label, ["x", "y", "z"])
    with pytest.raises(exceptions.LabelError, match=words):
        tally_frame(frame, probabilities=["x", "y", "z"], **options)


@pytest.mark.parametrize("kind", [pl.Int64, pl.Float64, pl.Boolean])
@pytest.mark.parametrize(
    ("names", "probabilities"),
    [
        (("p_0", "p_1"), "p_*"),
        (("p_0.0", "p_1.0"), "p_*"),
        (("p_False", "p_True"), "p_*"),
        (("p_no", "p_Yes"), "p_*"),
        (("score_f", "score_t"), "score_*"),
        (("p_0", "p_1"), ["p_0", "p_1"]),
    ],
)
def test_two_classes_by_name_in_any_order_or_one_of_them(kind, names, probabilities):
    rng = np.random.default_rng(0)
    p = rng.random(50)
    y = rng.random(50) < p
    shares = dict(zip(names, (1 - p, p), strict=True))
    label = pl.Series(y).cast(kind)
    subsets = [names, names[::-1], names[:1], names[1:]]
    for some in subsets if "score_f" not in names else subsets[:2]:
        frame = pl.DataFrame({"label": label, **{name: shares[name] for name in some}})
        asked = probabilities if isinstance(probabilities, str) else list(some)
        found = tally_frame(frame, probabilities=asked)
        assert found.aucoc() == pytest.approx(el.aucoc_score(y, p), abs=1e-12)


@pytest.mark.parametrize("names", [["p_1", "p_2", "p_other"], ["p_0", "p_a", "p_b"]])
def test_numbers_among_other_names_are_refused(names):
    frame = predictions(TRUE, names)
    with pytest.raises(exceptions.LabelError, match=r"passed names no column.*labels="):
        tally_frame(frame, probabilities="p_*")
    table = tally_frame(frame, probabilities="p_*", labels=[0, 1, 2])
    assert table.aucoc() == pytest.approx(WANTED, abs=1e-12)


def test_a_lone_column_of_another_number_is_refused():
    frame = pl.DataFrame({"label": [0, 1], "p_2": [0.1, 0.9]})
    with pytest.raises(exceptions.LabelError, match="'p_2' passed .* it is not clear which class"):
        tally_frame(frame, probabilities="p_*")


def test_a_lone_column_in_single_precision():
    p = np.random.default_rng(0).beta(0.2, 0.2, 500).astype(np.float32)
    y = np.random.default_rng(1).random(500) < p
    frame = pl.DataFrame({"label": y, "p": p})
    table = tally_frame(frame, probabilities="p")
    assert table.aucoc() == pytest.approx(el.aucoc_score(y, p), abs=1e-12)
    assert table.confidence.tolist() == el.coc_curve(y, p).thresholds.tolist()


def test_one_column_of_two_names():
    frame = pl.DataFrame({"label": ["ill", "well"], "p": [0.9, 0.2], "p_sick": 0.5})
    assert tally_frame(frame, probabilities="p").accuracy == 0  # the second class's
    with pytest.raises(
        exceptions.LabelError, match="'p_sick' passed .* it is not clear which class"
    ):
        tally_frame(frame, probabilities="p_*")
    table = tally_frame(frame, probabilities="p", labels=["well", "ill"])
    assert table.accuracy == 1.0


def test_wide_predictions():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(300), 50)
    true = np.where(rng.random(50) < 0.5, proba.argmax(axis=1), 0)
    frame = pl.LazyFrame({"label": true, **{f"p_{i}": proba[:, i] for i in range(300)}})
    table = tally_frame(frame, probabilities="p_*")
    assert table.aucoc() == pytest.approx(el.aucoc_score(true, proba), abs=1e-12)


@pytest.mark.processes
def test_importing_the_module_loads_no_other_engine():
    code = "import sys, expertload.io; print(*sys.modules)"
    environment = {"PYTHONPATH": str(Path(el.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert not {"pandas", "polars", "pyspark"} & set(done.stdout.split())

"""Rows of results: collected from runs, kept in a file that anyone can read."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.synthetic_runs import PLAIN_ROW, make_config, write_run
from tests.strategies import examples

from expertload.exceptions import FileFormatError
from expertload.lab.results.rows import ResultRow, collect, read_rows, write_rows
from expertload.lab.results.tables import make_table
from expertload.lab.runs.folder import RunFolder


def row(**changes):
    return replace(PLAIN_ROW, **changes)


# ------------------------------------------------------------------ collecting


def test_collected_rows_hold_every_number_of_every_run(tmp_path):
    a = write_run(tmp_path / "deep" / "er", make_config("ce", seed=3))
    b = write_run(tmp_path, make_config("ce+aucoc", weight=2, options={"boundary": "reflect"}))
    unfinished = write_run(tmp_path, make_config("focal"))
    (unfinished / "results.json").unlink()
    rows = collect(tmp_path)
    for path, loss, seed, options in (
        (a, "ce", 3, {}),
        (b, "ce+aucoc", 0, {"weight": 2, "boundary": "reflect"}),
    ):
        own = {(r.split, r.metric): r for r in rows if r.loss == loss}
        results = RunFolder(path).read_json("results.json")
        wanted = {
            (split, metric): value
            for split in ("validation", "test", "test_calibrated")
            for metric, value in results[split].items()
        }
        assert {key: r.value for key, r in own.items() if key[0] != "training"} == wanted
        one = own["test", "aucoc"]
        assert (one.data, one.model, one.seed) == ("digits", "small-cnn", seed)
        assert json.loads(one.options) == options
        assert one.batch_size == 64
        assert json.loads(one.settings)["training.learning_rate"] == 0.1
        assert "torch" in one.versions
        assert "python 3" in one.versions
    assert {r.loss for r in rows} == {"ce", "ce+aucoc"}


def test_runs_without_a_record_of_their_environment_are_collected(tmp_path):
    path = write_run(tmp_path, make_config())
    (path / "environment.json").unlink()
    rows = collect(tmp_path)
    assert rows
    assert {row.versions for row in rows} == {""}


def test_outlier_results_are_collected_too(tmp_path):
    path = write_run(tmp_path, make_config())
    results = {"svhn": {"msp": {"auroc": 0.8}}, "folder:a/b": {"energy": {"fpr95": 0.4}}}
    usual = {"objective": "nll", "max_images": None}
    RunFolder(path).write_json(
        "outliers.json", {"evaluations": [{"results": results, "settings": usual}]}
    )
    found = {(r.split, r.metric): r.value for r in collect(tmp_path)}
    assert found["outliers:svhn", "msp/auroc"] == 0.8
    assert found["outliers:folder:a/b", "energy/fpr95"] == 0.4


def test_settings_of_the_evaluation_do_not_make_another_experiment(tmp_path):
    config = make_config()
    write_run(tmp_path, config)
    other = make_config(seed=1).model_copy(
        update={"evaluation": type(config.evaluation)(target_accuracies=(0.65,))}
    )
    write_run(tmp_path, other)
    assert len({r.settings for r in collect(tmp_path)}) == 1


def test_no_folder_and_no_runs(tmp_path):
    assert collect(tmp_path) == []
    assert make_table([]) == ""
    with pytest.raises(FileFormatError, match="no folder of runs"):
        collect(tmp_path / "nowhere")


# ------------------------------------------------------------------ CSV of rows

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], include_characters="\n"))
ROWS = st.builds(
    ResultRow,
    data=TEXT,
    model=TEXT,
    loss=TEXT,
    options=TEXT,
    batch_size=st.integers(1, 10**6),
    settings=TEXT,
    seed=st.integers(0, 2**40),
    split=TEXT.map(lambda text: text.replace("/", "|")),
    metric=TEXT,
    value=st.floats(allow_nan=False),
    versions=TEXT,
)


@examples(25)
@given(
    st.lists(ROWS, max_size=8),
    st.lists(st.tuples(st.sampled_from(["test", "validation"]), TEXT), unique=True, max_size=4),
)
def test_rows_survive_a_file(tmp_path_factory, rows, others):
    """Also where runs have several numbers, not the same ones, and where a run is there twice."""
    more = [
        replace(row, split=split, metric=metric) for row in rows[::2] for split, metric in others
    ]
    rows = rows + more + rows[:1]
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    write_rows(path, rows)
    assert sorted(read_rows(path), key=repr) == sorted(rows, key=repr)


def test_the_file_can_be_read_by_anyone(tmp_path):
    """A line is a run, a column a number, and what a run lacks is empty."""
    rows = [
        row(value=0.25, seed=7),
        row(value=0.5, seed=7, metric="ece"),
        row(value=0.75, seed=8, split="outliers:fashion-mnist", metric="msp/auroc"),
    ]
    write_rows(tmp_path / "rows.csv", rows)
    first, second = csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text()))
    assert (first["test/aucoc"], first["seed"], first["versions"]) == ("0.25", "7", "torch 2")
    assert (first["test/ece"], second["test/ece"]) == ("0.5", "")
    assert second["outliers:fashion-mnist/msp/auroc"] == "0.75"
    assert read_rows(tmp_path / "rows.csv") == rows


def test_runs_that_nothing_tells_apart_have_a_line_each(tmp_path):
    """The same settings in two folders: no number of either is lost."""
    rows = [row(value=v, metric=m) for v, m in ((1, "aucoc"), (2, "ece"), (3, "aucoc"), (4, "ece"))]
    write_rows(tmp_path / "rows.csv", rows)
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3
    assert read_rows(tmp_path / "rows.csv") == rows


def test_a_split_with_a_slash_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must not contain a slash"):
        write_rows(tmp_path / "rows.csv", [row(split="a/b")])
    assert not list(tmp_path.iterdir())


HEAD = "data,model,loss,options,batch_size,settings,seed,versions,n_runs"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "a,b\n1,2\n",
        f"{HEAD},aucoc\n",
        f"{HEAD},test/aucoc\nd,m,l,{{}},many,{{}},0,v,1,0.5\n",
        f"{HEAD},test/aucoc\nd,m,l,{{}},64,{{}},0,v,1,high\n",
        f"{HEAD},test/aucoc\nd,m\n",
        f"{HEAD},test/aucoc\nd,m,l,{{}},64,{{}},0,v,1,0.5,0.6\n",
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, content):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(FileFormatError, match="is not a file of results"):
        read_rows(tmp_path / "rows.csv")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileFormatError, match="no results at"):
        read_rows(tmp_path / "rows.csv")

"""The evidence on the paper's claim: choices by tuning seeds, judged on fresh ones alone."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import ttest_rel
from tools.evidence import files
from tools.evidence.claim import LAST_EPOCH, chosen, confirmed, gather_claim, tuning_seeds
from tools.evidence.pages import make

from expertload.exceptions import FileFormatError
from expertload.lab.results.rows import collect, read_rows, write_rows
from expertload.lab.runs.folder import RunFolder
from tests.lab.synthetic_runs import PLAIN_ROW, make_config, write_run

REGIME = "claim-dermamnist"
TUNING, FRESH = (0, 1), (10, 11, 12, 13)
SPLITS = ("validation", "test", "raw:test", "averaged:test", LAST_EPOCH)


def rows_of_runs(loss, options, seeds, rng, *, validation=0.9):
    """The numbers of a run for each seed, all of them by chance."""
    own = replace(PLAIN_ROW, loss=loss, options=json.dumps(options))
    for seed in seeds:
        for split in SPLITS:
            value = validation if split == "validation" else rng.uniform(0.8, 0.9)
            yield replace(own, seed=seed, split=split, value=value)
        for target in (90, 95):
            yield replace(own, seed=seed, metric=f"load@{target}", value=rng.uniform(0.3, 0.4))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two forms of the loss; of each, the weight 0.1 is best on validation data."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(files, "HERE", tmp_path)
    base = [*rows_of_runs("ce", {}, (*TUNING, *FRESH), rng)]
    base += rows_of_runs("focal", {"gamma": 1.0}, TUNING, rng)
    for form in ("", "-log-odds"):
        rows = [*base] if not form else []
        for weight, score in ((0.03, 0.91), (0.1, 0.95), (0.3, 0.93)):
            seeds = (*TUNING, *FRESH) if weight == 0.1 else TUNING
            rows += rows_of_runs("ce+aucoc", {"weight": weight}, seeds, rng, validation=score)
        write_rows(tmp_path / f"{REGIME}{form}.csv", rows)
    return tmp_path


def values(path, loss, weight, metric="aucoc", split="test", seeds=FRESH):
    found = {
        row.seed: row.value
        for row in read_rows(path)
        if (row.loss, row.metric, row.split) == (loss, metric, split)
        and json.loads(row.options).get("weight") == weight
    }
    return np.array([found[seed] for seed in seeds])


def test_the_weight_is_chosen_on_validation_data_of_the_tuning_seeds(runs):
    assert tuning_seeds(REGIME) == set(TUNING)
    best = chosen(REGIME)
    assert json.loads(best["the paper's kernel"][0]) == {"weight": 0.1}
    assert json.loads(best["in log odds"][0]) == {"weight": 0.1}
    # Better test numbers of another weight do not matter.
    rows = [
        replace(row, value=0.99) if '"weight": 0.3' in row.options and row.split == "test" else row
        for row in read_rows(runs / f"{REGIME}.csv")
    ]
    write_rows(runs / f"{REGIME}.csv", rows)
    assert json.loads(chosen(REGIME)["the paper's kernel"][0]) == {"weight": 0.1}


def test_the_judgement_is_of_fresh_seeds_alone(runs):
    for _, rows in confirmed(REGIME).values():
        assert {row.seed for row in rows} == set(FRESH)
    assert "focal loss" not in confirmed(REGIME)  # a control that was not trained again


def cells_of(what, start):
    (line,) = (line for line in make(what).splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


def in_points(first, second):
    interval = ttest_rel(first, second).confidence_interval(0.95)
    low, high = (f"{100 * end:+.2f}" for end in interval)
    return f"{100 * fmean(first - second):+.2f} ({low} to {high})"


def test_a_line_by_hand(runs):
    path, plain = runs / f"{REGIME}-log-odds.csv", runs / f"{REGIME}.csv"
    cells = cells_of(f"claim-fresh {REGIME}", "| in log odds")
    own, ce = values(path, "ce+aucoc", 0.1), values(plain, "ce", None)
    assert cells[1:3] == ["weight 0.1", "4"]
    assert cells[5] == in_points(own, ce)
    assert cells[6] == f"{ttest_rel(own, ce).pvalue:.3f}"
    for cell, split in zip(cells[7:10], ("raw:test", "averaged:test", LAST_EPOCH), strict=True):
        pair = values(path, "ce+aucoc", 0.1, split=split), values(plain, "ce", None, split=split)
        assert cell == in_points(*pair)
    loads = [values(*of, metric="load@90") for of in ((path, "ce+aucoc", 0.1), (plain, "ce", None))]
    assert cells[10] == in_points(*loads)
    assert cells_of("claim", "| DermaMNIST, augmented")[4] == f"{cells[5]}, 4 seeds"


def test_what_was_tried_is_shown_on_tuning_seeds(runs):
    cells = cells_of(f"claim-tuning {REGIME}", "| the paper's kernel | weight 0.3")
    path = runs / f"{REGIME}.csv"
    pair = (values(path, "ce+aucoc", 0.3, seeds=TUNING), values(path, "ce", None, seeds=TUNING))
    assert cells[2:] == ["2", "+3.00 (+3.00 to +3.00)", in_points(*pair), ""]
    assert cells_of(f"claim-tuning {REGIME}", "| in log odds | weight 0.1")[-1] == "yes"


def test_nothing_run_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HERE", tmp_path)
    for what in ("claim", f"claim-fresh {REGIME}", f"claim-tuning {REGIME}"):
        assert make(what) == "*Not run.*\n"


def test_runs_become_csv(tmp_path):
    runs, into = tmp_path / "runs", tmp_path / "csv"
    into.mkdir()
    run = write_run(runs / "claim-tiny", make_config("ce"))
    RunFolder(run).write_metrics([{"epoch": 1, "aucoc": 0.7}, {"epoch": 2, "aucoc": 0.6}])
    (runs / "claim-empty").mkdir()
    (runs / "other").mkdir()
    assert list(gather_claim(runs, into=into)) == ["claim-tiny: 1 runs"]
    rows = {(row.split, row.metric): row for row in read_rows(into / "claim-tiny.csv")}
    last = rows.pop((LAST_EPOCH, "aucoc"))
    assert (last.value, last.loss) == (0.6, "ce")
    assert sorted(map(str, rows.values())) == sorted(map(str, collect(run)))
    assert [path.name for path in into.iterdir()] == ["claim-tiny.csv"]


def test_runs_that_are_elsewhere_stay_in_the_csv(tmp_path):
    first, second, into = tmp_path / "first", tmp_path / "second", tmp_path / "csv"
    into.mkdir()
    for runs, seeds, score in ((first, (0, 1), 0.7), (second, (1, 2), 0.8)):
        for seed in seeds:
            run = write_run(runs / "claim-tiny", make_config("ce", seed=seed))
            RunFolder(run).write_metrics([{"epoch": 1, "aucoc": score}])
    assert list(gather_claim(first, into=into)) == ["claim-tiny: 2 runs"]
    assert list(gather_claim(second, into=into)) == ["claim-tiny: 2 runs"]
    rows = [row for row in read_rows(into / "claim-tiny.csv") if row.split == LAST_EPOCH]
    assert [(row.seed, row.value) for row in rows] == [(0, 0.7), (1, 0.8), (2, 0.8)]


def test_a_wrong_folder_is_said_in_words(tmp_path):
    with pytest.raises(FileFormatError, match="no folder claim-"):
        list(gather_claim(tmp_path))

"""The strong network's tables: the choice of a weight, complete seeds, and lines by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import ttest_rel
from tools.evidence import files, strong
from tools.evidence.files import write_records
from tools.evidence.pages import make

from expertload.lab.results.rows import write_rows
from tests.lab.synthetic_runs import PLAIN_ROW

SEEDS = (10, 11, 12)  # complete; of seed 13 only cross-entropy was trained


def rows_of_run(loss, options, seed, values):
    own = replace(PLAIN_ROW, loss=loss, options=json.dumps(options), seed=seed)
    for (split, metric), value in values.items():
        yield replace(own, split=split, metric=metric, value=value)


@pytest.fixture
def areas(tmp_path, monkeypatch):
    """Return the test AUCOC of each loss and seed of the usual arm."""
    monkeypatch.setattr(files, "HERE", tmp_path)
    monkeypatch.setattr(strong, "ON_TOP", tmp_path / "on-top.csv")
    tuning = [
        row
        for weight, score in ((0.04, 0.6), (0.1, 0.7), (0.3, 0.65))
        for row in rows_of_run("ce+aucoc", {"weight": weight}, 0, {("validation", "aucoc"): score})
    ]
    write_rows(tmp_path / "claim-resnet9-usual-tuning.csv", tuning)
    rng = np.random.default_rng(0)
    found, rows = {}, []
    for loss, options in (("ce", {}), ("ce+aucoc", {"weight": 0.1}), ("gce", {"q": 0.1})):
        for seed in (*SEEDS, *([13] if loss == "ce" else [])):
            found[loss, seed] = rng.uniform(0.8, 0.9)
            values = {("raw:test", "aucoc"): found[loss, seed], ("training", "clipped"): 0.25}
            values |= {("raw:test", name): 0.5 for name in ("accuracy", "load@90", "ece")}
            rows += rows_of_run(loss, options, seed, values)
    write_rows(tmp_path / "claim-resnet9-usual.csv", rows)
    return found


def cells_of(what, start):
    (line,) = (line for line in make(what).splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.strip("|").split("|")]


def in_points(first, second):
    interval = ttest_rel(first, second).confidence_interval(0.95)
    low, high = (f"{100 * end:+.2f}" for end in interval)
    return f"{100 * fmean(np.subtract(first, second)):+.2f} ({low} to {high})"


def test_the_weight_is_the_best_on_validation_data_of_the_tuning_seed(areas):
    assert json.loads(strong.chosen_weight("usual")) == {"weight": 0.1}
    assert cells_of("claim-strong-tuning", "| usual | weight 0.1")[-1] == "yes"
    assert cells_of("claim-strong-tuning", "| usual | weight 0.3")[-1] == ""
    assert strong.chosen_weight("authors") is None


def test_only_complete_seeds_are_judged(areas):
    for rows in strong.judged("usual").values():
        assert {row.seed for row in rows} == set(SEEDS)


def test_a_seed_after_a_missing_one_does_not_count(areas, tmp_path):
    rows = [
        row
        for loss, seed in areas
        if (loss, seed) != ("ce+aucoc", 11)
        for row in rows_of_run(loss, {}, seed, {("raw:test", "aucoc"): areas[loss, seed]})
    ]
    write_rows(tmp_path / "claim-resnet9-usual.csv", rows)
    assert {row.seed for row in strong.judged("usual")["ce"]} == {10}


def test_a_line_by_hand(areas):
    ce, own = ([areas[loss, seed] for seed in SEEDS] for loss in ("ce", "ce+aucoc"))
    cells = cells_of("claim-strong", "| usual | the paper's kernel, weight 0.1")
    assert cells[2:4] == ["3", "25%"]
    assert cells[5] == in_points(own, ce)
    assert cells_of("claim-strong", "| usual | cross-entropy |")[2] == "3"


def test_on_top_by_hand(areas):
    write_records(
        strong.ON_TOP,
        [
            {"arm": "usual", "loss": loss, "seed": s, "step": "raw", "aucoc": a, "load": 1 - a}
            for (loss, s), a in areas.items()
        ],
    )
    ce, own = (np.array([areas[loss, s] for s in SEEDS]) for loss in ("ce", "ce+aucoc"))
    cells = cells_of("claim-strong-on-top", "| usual | raw weights")
    assert cells[2:] == [
        "3",
        f"{100 * ce.mean():.2f}",
        f"{100 * own.mean():.2f}",
        in_points(own, ce),
        f"{100 * (1 - ce).mean():.2f}",
        f"{100 * (1 - own).mean():.2f}",
        in_points(1 - own, 1 - ce),
    ]


def test_nothing_run(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HERE", tmp_path)
    monkeypatch.setattr(strong, "ON_TOP", tmp_path / "on-top.csv")
    for what in ("claim-strong", "claim-strong-tuning", "claim-strong-on-top"):
        assert make(what) == "*Not run.*\n"

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
            values |= {("test", "aucoc"): found[loss, seed] + 0.01, ("test", "load@90"): 0.5}
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
    """Single networks are those of the runs; views and pairs were measured with the networks."""
    write_records(
        strong.ON_TOP,
        [
            {"arm": "usual", "loss": loss, "seed": s, "step": "views", "aucoc": a, "load": 1 - a}
            for (loss, s), a in areas.items()
        ],
    )
    ce, own = (np.array([areas[loss, s] for s in SEEDS]) for loss in ("ce", "ce+aucoc"))
    cells = cells_of("claim-strong-on-top", "| usual | and two views")
    assert cells[2:] == [
        "3",
        f"{100 * ce.mean():.2f}",
        f"{100 * own.mean():.2f}",
        in_points(own, ce),
        f"{100 * (1 - ce).mean():.2f}",
        f"{100 * (1 - own).mean():.2f}",
        in_points(1 - own, 1 - ce),
    ]
    cells = cells_of("claim-strong-on-top", "| usual | averaged weights")
    assert cells[2:6] == [
        "3",
        f"{100 * ce.mean() + 1:.2f}",
        f"{100 * own.mean() + 1:.2f}",
        in_points(own, ce),
    ]


def test_views_of_runs_that_are_elsewhere_stay(areas, tmp_path):
    old = {"arm": "usual", "loss": "ce", "seed": 10, "step": "views", "aucoc": 0.8, "load": 0.5}
    write_records(strong.ON_TOP, [old])
    assert list(strong.measure_on_top(tmp_path)) == []
    assert strong.read_records(strong.ON_TOP) == [{k: str(v) for k, v in old.items()}]


# ------------------------------------------------------------------ in words


def test_the_words_have_the_numbers_of_the_table(areas):
    ce, own = ([areas[loss, seed] for seed in SEEDS] for loss in ("ce", "ce+aucoc"))
    first, averaged, control = make("claim-strong-in-words").splitlines()
    assert "with 25 % of the steps clipped" in first
    assert f"changes by {in_points(own, ce)} points over 3 seeds" in first
    assert f"changes by {in_points(own, ce)} in the usual setting." in averaged
    gce = [areas["gce", seed] for seed in SEEDS]
    assert control.startswith("- **Generalised cross-entropy**")
    assert f"changes it by {in_points(gce, ce)} over 3 seeds" in control


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((0.01, 0.011, 0.012), "the loss helps, and a gain of three points is excluded"),
        ((0.04, 0.041, 0.042), "the loss helps, and a gain of three points is not excluded"),
        (
            (-0.04, -0.041, -0.042),
            "no gain but a fall is shown, and a gain of three points is excluded",
        ),
        ((-0.001, 0.0, 0.001), "no gain is shown, and a gain of three points is excluded"),
        ((-0.1, 0.0, 0.1), "no gain is shown, and a gain of three points is not excluded"),
    ],
)
def test_the_rule_judges(areas, tmp_path, changes, words):
    rows = []
    for seed, change in zip(SEEDS, changes, strict=True):
        for loss, area in (("ce", 0.8), ("ce+aucoc", 0.8 + change)):
            values = {(split, "aucoc"): area for split in ("raw:test", "test")}
            rows += rows_of_run(loss, {}, seed, values | {("raw:test", "load@90"): 0.5})
    write_rows(tmp_path / "claim-resnet9-usual.csv", rows)
    assert f"over 3 seeds: {words}." in make("claim-strong-in-words")


def test_what_is_due_to_the_schedule_and_what_to_clipping(areas, tmp_path):
    for arm, offset in (("steps", 0.01), ("authors", 0.03)):
        rows = []
        for loss, seed in areas:
            values = {("raw:test", "aucoc"): areas["ce", seed] - offset, ("test", "aucoc"): 0.8}
            rows += rows_of_run(loss, {}, seed, values | {("raw:test", "load@90"): 0.5})
        write_rows(tmp_path / f"claim-resnet9-{arm}.csv", rows)
    last = make("claim-strong-in-words").splitlines()[-1]
    assert "the usual schedule is worth +1.00 (+1.00 to +1.00) points" in last
    assert "at 2 +2.00 (+2.00 to +2.00)" in last


def test_what_is_left_of_the_rule(areas):
    left = make("claim-strong-open").splitlines()
    assert "- `claim-resnet9-usual`, focal loss: seed 10, 11, 12, 13" in left
    assert "- `claim-resnet9-authors`, cross-entropy: seed 10, 11, 12, 13" in left
    assert left[-1].startswith("- the paper's loss on top")


def test_nothing_run(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HERE", tmp_path)
    monkeypatch.setattr(strong, "ON_TOP", tmp_path / "on-top.csv")
    for what in (
        "claim-strong",
        "claim-strong-in-words",
        "claim-strong-on-top",
        "claim-strong-tuning",
    ):
        assert make(what) == "*Not run.*\n"

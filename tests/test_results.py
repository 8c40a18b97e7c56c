"""The evidence: pages say what the CSV says, and the CSV says what the runs gave."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from results.anatomy import LOSSES, _estimates, _push, examine
from results.figures import draw_figures
from results.gather import HERE, best_baseline, gather, read_comparisons
from results.pages import BLOCK, MAKERS, PAGES, SUMMARY, Difference, fill, paired
from scipy.stats import ttest_rel

from expertload import aucoc_score
from expertload.lab.compare import compare_runs
from expertload.lab.finished_run import FinishedRun
from expertload.lab.result_rows import collect, read_rows
from tests.lab.synthetic_runs import make_config, write_run

ROOT = Path(__file__).resolve().parents[1]
RESULTS = sorted(HERE.glob("*-cpu.csv"))


# ------------------------------------------------------------------ what is published


@pytest.mark.parametrize("page", PAGES)
def test_tables_on_the_page_are_those_of_the_csv(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert fill(text) == text, "run: python -m results write"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_known_and_ends(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    kinds = re.findall(r"<!-- results: (\S+)", text)
    assert set(kinds) <= set(MAKERS)
    assert len(kinds) == len(BLOCK.findall(text)) == text.count("<!-- end of results -->")


def test_a_changed_figure_is_noticed():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = BLOCK.search(text)["old"]
    figure = re.search(r"\d\d\.\d\d", block)[0]
    forged = text.replace(block, block.replace(figure, "99.99", 1))
    assert fill(forged) == text != forged


@pytest.mark.parametrize("name", SUMMARY)
def test_the_summary_by_hand(name):
    """The README's line of an experiment, from the CSV by nothing but the csv module."""
    path = HERE / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{name} has not been run")
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    single = [r for r in rows if r["n_runs"] == "1"]
    validation, test = ({} for _ in range(2))
    for r in single:
        for split, found in (("validation", validation), ("test", test)):
            if (r["split"], r["metric"]) == (split, "aucoc"):
                found.setdefault((r["loss"], r["options"]), {})[int(r["seed"])] = float(r["value"])
    candidates = {k: v for k, v in validation.items() if k[0] == "ce+aucoc"}
    shared = set.intersection(*(set(v) for v in candidates.values()))
    chosen = max(candidates, key=lambda k: fmean(candidates[k][s] for s in shared))
    ce, aucoc = list(test["ce", "{}"].values()), list(test[chosen].values())

    line = next(
        line
        for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| {SUMMARY[name][0]} |")
    )
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1] == str(len(ce))
    assert cells[2] == f"{100 * fmean(ce):.2f} ± {100 * stdev(ce):.2f}"
    assert cells[3] == f"{100 * fmean(aucoc):.2f} ± {100 * stdev(aucoc):.2f}"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_rows_say_where_they_come_from(path):
    rows = read_rows(path)
    assert rows
    for row in rows:
        assert row.settings != "{}"
        assert "torch" in row.versions
        assert "expertload" in row.versions
    assert (ROOT / "experiments" / f"{path.stem}.toml").exists()


def test_there_are_as_many_seeds_as_promised():
    seeds = {"retinamnist-cpu": 10, "dermamnist-cpu": 3, "cifar100-cpu": 2}
    for name, n in seeds.items():
        rows = read_rows(HERE / f"{name}.csv")
        for loss in {row.loss for row in rows}:
            assert len({row.seed for row in rows if row.loss == loss}) >= n
    assert {r.loss for r in read_rows(HERE / "retinamnist-cpu.csv")} == {
        r.loss for r in read_rows(HERE / "dermamnist-cpu.csv")
    }


# ------------------------------------------------------------------ how it is made


@pytest.fixture
def gathered(tmp_path):
    runs, into = tmp_path / "runs", tmp_path / "csv"
    into.mkdir()
    for seed in range(3):
        write_run(runs / "tiny", make_config("ce", seed=seed), skill=1.0)
        write_run(runs / "tiny", make_config("focal", seed=seed), skill=2.0)
        write_run(runs / "tiny", make_config("ce+aucoc", weight=1.0, seed=seed), skill=1.5)
    (runs / "empty").mkdir()
    assert list(gather(runs, into)) == ["tiny"]
    return runs / "tiny", into


def test_gathered_comparisons_are_those_of_the_lab(gathered):
    runs, into = gathered
    found = {(one.first, one.second): one for one in read_comparisons(into / "comparisons.csv")}
    assert best_baseline(collect(runs)) == "focal"
    assert {one.role for one in found.values()} == {"primary", "best baseline"}
    sides = [sorted(runs.glob(f"{loss}-*")) for loss in ("ce+aucoc", "ce")]
    expected = compare_runs(*sides, n_rounds=2000)
    one = found["ce+aucoc (weight 1)", "ce"]
    assert one.permutation_p == expected.permutation.p_value
    assert one.closed_form_p == expected.closed_form.p_value
    assert one.seeds_difference == expected.by_seed.mean.difference
    differences = [float(word) for word in one.seed_differences.split()]
    assert differences == pytest.approx(expected.by_seed.differences, abs=1e-6)


def test_gathered_rows_hold_runs_and_ensembles(gathered):
    runs, into = gathered
    rows = read_rows(into / "tiny.csv")
    assert [row for row in rows if row.n_runs == 1] == collect(runs)
    assert {row.n_runs for row in rows} == {1, 3}


def test_gathered_curves_start_at_the_accuracy_of_the_runs(gathered):
    runs, into = gathered
    with (into / "coc_curves.csv").open(newline="") as stream:
        points = [r for r in csv.DictReader(stream) if r["loss"] == "ce"]
    members = [FinishedRun(path) for path in sorted(runs.glob("ce-*"))]
    accuracy = np.mean([(m.test_proba.argmax(1) == m.test[1]).mean() for m in members])
    assert float(points[0]["accuracy"]) == pytest.approx(accuracy, abs=1e-6)
    # The area up to the last load, by steps, is near the exact one of all loads.
    area = np.mean([aucoc_score(m.test[1], m.test_proba) for m in members])
    assert np.mean([float(p["accuracy"]) for p in points]) == pytest.approx(area, abs=0.03)


def test_paired_differences_are_students():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7))
    found = paired(dict(enumerate(a)), dict(enumerate(b)))
    interval = ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.mean == pytest.approx(np.mean(a - b))


def test_seeds_that_only_one_side_has_do_not_count():
    assert paired({0: 1.0, 5: 9.0}, {0: 0.5, 1: 7.0})[::3] == (0.5, 1)
    assert str(paired({0: 0.51}, {0: 0.5})) == "+1.00"
    assert str(paired({0: 1.0}, {1: 1.0})) == "\N{EN DASH}"
    assert str(Difference(0.01, -0.01, 0.03, 3)) == "+1.00 (-1.00 to +3.00)"


# ------------------------------------------------------------------ looking into the loss


def random_cases(n=300, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, classes, (n,), generator=generator)


def test_the_push_of_cross_entropy_is_known():
    logits, labels = random_cases()
    confidence, guess = logits.softmax(1).max(1)
    expected = (guess == labels).double() - confidence
    torch.testing.assert_close(_push(LOSSES["cross-entropy"], logits, labels), expected)


def test_right_cases_that_are_confident_are_pushed_down_unless_kernels_are_reflected():
    """The claim of the page, on cases made for it: all right, confidences crowding below one."""
    logits = torch.zeros(128, 3, dtype=torch.float64)
    logits[:, 0] = torch.linspace(1, 8, 128)
    labels = torch.zeros(128, dtype=torch.int64)
    confident = slice(64, None)
    assert (_push(LOSSES["AUCOC"], logits, labels)[confident] < 0).all()
    assert (_push(LOSSES["AUCOC, reflected"], logits, labels)[confident] > 0).all()


def test_the_area_of_all_cases_is_the_exact_one():
    logits, labels = random_cases(n=32)
    found = [one for one in _estimates([logits], labels) if one["estimator"] == "rank"]
    assert [one["batch_size"] for one in found] == [32]  # larger batches than cases do not exist
    assert found[0]["bias"] == pytest.approx(0, abs=1e-6)
    assert found[0]["spread"] == pytest.approx(0, abs=1e-6)


def test_examined_runs(gathered):
    runs, into = gathered
    lessons, estimates = (
        list(csv.DictReader(path.read_text().splitlines())) for path in examine([runs], into)
    )
    shares = [float(r["share"]) for r in lessons if r["loss"] == "focal"]
    assert sum(shares) == pytest.approx(1, abs=1e-4)
    assert {r["experiment"] for r in lessons + estimates} == {"tiny"}


def test_figures_are_drawn(tmp_path):
    for path in draw_figures(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert (ROOT / "docs" / "images" / path.name).exists()

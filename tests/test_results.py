"""The evidence: pages say what the CSV says, and the CSV says what the runs gave."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ttest_rel
from tools.evidence.anatomy import LOSSES, _areas, _push, examine
from tools.evidence.experiments import (
    SUMMARY,
    Difference,
    by_seed,
    chosen_rows,
    paired,
    tuning_seeds,
)
from tools.evidence.figures import draw_figures, fingerprint
from tools.evidence.files import HERE
from tools.evidence.gather import best_baseline, gather, read_comparisons
from tools.evidence.ladder_tables import read_ladder
from tools.evidence.pages import BLOCK, MAKERS, PAGES, fill, make
from tools.evidence.settle import Queue

from expertload import aucoc_score
from expertload.exceptions import FileFormatError
from expertload.lab.results.compare import compare_runs
from expertload.lab.results.rows import collect, facts_of, read_rows, write_rows
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.recipe import load_recipe
from expertload.losses.build import LOSS_NAMES
from tests.lab.synthetic_runs import PLAIN_ROW, make_config, write_run

ROOT = Path(__file__).resolve().parents[1]
RESULTS = sorted([*HERE.glob("*-cpu.csv"), *HERE.glob("claim-*.csv")])


# ------------------------------------------------------------------ what is published


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_tables_on_the_page_are_those_of_the_csv(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert fill(text) == text, "run: python -m tools.evidence write"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_known_and_ends(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    kinds = re.findall(r"<!-- results: (\S+)", text)
    assert set(kinds) <= set(MAKERS)
    assert len(kinds) == len(BLOCK.findall(text)) == text.count("<!-- end of results -->")


@pytest.mark.slow
def test_a_changed_figure_is_noticed():
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    block = BLOCK.search(text)["old"]
    figure = re.search(r"\d\d\.\d\d", block)[0]
    forged = text.replace(block, block.replace(figure, "99.99", 1))
    assert fill(forged) == text != forged


def numbers_by_hand(name):
    """(loss, options) to split to metric to seed to value, by nothing but the csv module."""
    with (HERE / f"{name}.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    found = {}
    for line in lines:
        if line["n_runs"] == "1":
            splits = found.setdefault((line["loss"], line["options"]), {})
            for column in line:
                if "/" in column and line[column]:
                    split, metric = column.split("/", 1)
                    numbers = splits.setdefault(split, {}).setdefault(metric, {})
                    numbers[int(line["seed"])] = float(line[column])
    ensembles = {line["loss"]: float(line["test/aucoc"]) for line in lines if line["n_runs"] != "1"}
    return found, ensembles


def chosen_by_hand(found, loss):
    """The test numbers of the options with the best mean validation AUCOC over shared seeds."""
    scores = {k: v["validation"]["aucoc"] for k, v in found.items() if k[0] == loss}
    shared = set.intersection(*(set(v) for v in scores.values()))
    return found[max(scores, key=lambda k: fmean(scores[k][s] for s in shared))]


def mean_and_spread(values, decimals=2):
    return f"{100 * fmean(values):.{decimals}f} ± {100 * stdev(values):.{decimals}f}"


@pytest.mark.parametrize("name", SUMMARY)
def test_the_summary_by_hand(name):
    """Every cell of the summary's line of an experiment."""
    title, load = SUMMARY[name]
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith(f"| {title} |")]
    if not (HERE / f"{name}.csv").exists():
        assert not lines
        return
    found, ensembles = numbers_by_hand(name)
    ce, aucoc = (chosen_by_hand(found, loss)["test"] for loss in ("ce", "ce+aucoc"))
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert cells[1] == str(len(ce["aucoc"]))
    assert cells[2] == mean_and_spread(ce["aucoc"].values())
    assert cells[3] == mean_and_spread(aucoc["aucoc"].values())
    test = ttest_rel(*([side["aucoc"][s] for s in sorted(ce["aucoc"])] for side in (aucoc, ce)))
    low, high = test.confidence_interval(0.95)
    change = fmean(aucoc["aucoc"].values()) - fmean(ce["aucoc"].values())
    assert cells[4] == f"{100 * change:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"
    others = {k[0] for k in found} - {"ce", "ce+aucoc", "focal+aucoc"}
    if others:
        scores = {
            loss: fmean(chosen_by_hand(found, loss)["validation"]["aucoc"].values())
            for loss in others
        }
        best = max(scores, key=scores.get)
        values = chosen_by_hand(found, best)["test"]["aucoc"].values()
        assert cells[5] == f"{mean_and_spread(values)} ({best})"
    assert cells[6] == f"{100 * ensembles['ce']:.2f}"
    assert cells[7] == f"{mean_and_spread(ce[load].values(), 1)} at {load[5:]} %"
    assert cells[8] == mean_and_spread(aucoc[load].values(), 1)


def test_paired_comparisons_are_those_of_the_rows():
    """Two files, one truth: differences by seed from predictions, and from the numbers of runs."""
    for one in read_comparisons():
        sides = ((one.experiment, one.first_loss), (one.second_experiment, one.second_loss))
        first, second = (
            chosen_by_hand(numbers_by_hand(name)[0], loss)["test"]["aucoc"] for name, loss in sides
        )
        seeds = sorted(first.keys() & second.keys())
        written = [float(word) for word in one.seed_differences.split()]
        assert written == pytest.approx([first[s] - second[s] for s in seeds], abs=1e-8)
        ensembles = numbers_by_hand(one.experiment)[1]
        assert one.ensemble_first == pytest.approx(ensembles[one.first_loss], abs=1e-12)


@pytest.mark.parametrize("name", ["coc_curves", "differences", "push_by_confidence", "ladder"])
def test_figures_are_drawn_from_the_csv_that_is_there(name):
    with Image.open(ROOT / "docs" / "images" / f"{name}.png") as picture:
        assert picture.info["Source"] == fingerprint(name)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_rows_say_where_they_come_from(path):
    rows = read_rows(path)
    assert rows
    for row in rows:
        assert row.settings != "{}"
        assert "torch" in row.versions
        assert "expertload" in row.versions
    assert load_recipe(path.stem).name == path.stem


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_are_of_the_recipe_that_is_there(path):
    """Data, network, training and the options tried: a recipe that changed needs new runs."""
    recipe = load_recipe(path.stem)
    planned = [
        facts_of(recipe.run(c, 0)) for loss in recipe.losses for c in recipe.candidates(loss)
    ]
    for row in read_rows(path):
        facts = {name: getattr(row, name) for name in planned[0]}
        assert {**facts, "seed": 0} in planned


def numbers(text):
    """The numbers of ``0-2,5``."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_script_trains_all_that_is_published(path):
    """Seeds and losses of every experiment, as its commands have them."""
    if path.stem.startswith("claim-resnet9"):
        queue = {(run.parent.name, config.loss.name, config.seed) for run, config in Queue(path)}
        trained = {(path.stem, row.loss, row.seed) for row in read_rows(path)}
        assert trained <= queue  # it may have been stopped
        return
    script = (ROOT / "tools" / "evidence" / "evidence.sh").read_text()
    lines = re.findall(rf"^sweep {path.stem} (.*)$", script, re.MULTILINE)
    assert lines
    planned = {}
    for words in map(str.split, lines):
        losses = load_recipe(path.stem).losses
        if "--losses" in words:
            losses = words[words.index("--losses") + 1].split(",")
        planned |= dict.fromkeys(losses, frozenset(numbers(words[words.index("--seeds") + 1])))
    trained = {}
    for row in read_rows(path):
        trained.setdefault(row.loss, set()).add(row.seed)
    assert trained == planned


def test_there_are_as_many_seeds_as_promised():
    seeds = {"retinamnist-cpu": 10, "dermamnist-cpu": 3, "cifar100-cpu": 2}
    for name, n in seeds.items():
        for loss, rows in chosen_rows(name).items():
            assert len(by_seed(rows)) >= n, (name, loss)
    for name in ("retinamnist-cpu", "dermamnist-cpu"):
        assert set(chosen_rows(name)) == set(LOSS_NAMES)


LADDERS = ("retinamnist", "dermamnist", "fashion-mnist", "cifar100")


@pytest.mark.parametrize("data", LADDERS)
def test_the_ladder_has_ten_seeds_of_every_step(data):
    steps = read_ladder(f"ladder-{data}")
    for step in ("plain", "augmentation", "averaging", "views", "networks"):
        assert sorted(steps[step]) == list(range(10))


def test_the_summary_of_the_ladder_by_hand():
    """Load at 90 % on DermaMNIST: means, paired difference, Student's t."""
    with (HERE / "ladder.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["experiment"] == "ladder-dermamnist"]
    loads = {step: {} for step in ("plain", "top")}
    for row in rows:  # steps are in their order, so the last that counts stays
        if row["step"] != "aucoc_always":
            loads["top"][row["seed"]] = 100 * float(row["first_load"])
        if row["step"] == "plain":
            loads["plain"][row["seed"]] = 100 * float(row["first_load"])
    plain, top = (np.array([loads[step][str(seed)] for seed in range(10)]) for step in loads)
    interval = ttest_rel(top, plain).confidence_interval(0.95)
    (line,) = (
        line for line in make("ladder-in-brief").splitlines() if line.startswith("| DermaMNIST")
    )
    assert line == (
        f"| DermaMNIST at 90 % | {plain.mean():.1f} ± {plain.std(ddof=1):.1f} "
        f"| {top.mean():.1f} ± {top.std(ddof=1):.1f} "
        f"| {(top - plain).mean():+.1f} ({interval.low:+.1f} to {interval.high:+.1f}) "
        f"| {100 * (top - plain).mean() / plain.mean():+.0f} % |"
    )


# ------------------------------------------------------------------ how it is made


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("evidence")
    runs, into = tmp_path / "runs", tmp_path / "csv"
    into.mkdir()
    for seed in range(3):
        write_run(runs / "tiny", make_config("ce", seed=seed), skill=1.0)
        write_run(runs / "tiny", make_config("focal", seed=seed), skill=2.0)
        write_run(runs / "tiny", make_config("ce+aucoc", weight=1.0, seed=seed), skill=1.5)
    (runs / "empty").mkdir()
    assert gather(runs, into=into) == ["tiny"]
    return runs / "tiny", into


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_is_known_of_other_experiments_stays(gathered, tmp_path):
    _, into = gathered
    copy = tmp_path / "csv"
    shutil.copytree(into, copy)
    for seed in range(2):
        write_run(tmp_path / "runs" / "more", make_config("ce", seed=seed))
    write_run(tmp_path / "runs" / "more", make_config("ce+aucoc", weight=1.0, seed=0))
    write_run(tmp_path / "runs" / "more", make_config("ce+aucoc", weight=1.0, seed=1))
    write_run(tmp_path / "runs" / "more", make_config("ce+aucoc", weight=1.0, seed=2))
    assert gather(tmp_path / "runs", into=copy) == ["more"]
    before, after = (read_comparisons(place / "comparisons.csv") for place in (into, copy))
    new = [one for one in after if one not in before]
    assert len(after) == len(before) + 1
    assert [(one.experiment, one.role) for one in new] == [("more", "primary, best baseline")]
    assert new[0].n_seeds == 2  # those that both losses have


def test_tables_of_gathered_results(gathered, monkeypatch):
    """Tables that no other test computes by hand, from tools.evidence small enough to look at."""
    _, into = gathered
    shutil.copy(into / "tiny.csv", into / "a-cpu.csv")
    shutil.copy(into / "tiny.csv", into / "b-cpu.csv")
    monkeypatch.setattr("tools.evidence.files.HERE", into)
    rows = read_rows(into / "tiny.csv")
    lines = [line.split(" | ") for line in make("compute").splitlines()]
    assert [line[1:] for line in lines[2:4]] == [["9", "0.01 |"], ["0", "0.00 |"]]  # counted once
    found = make("differences tiny").splitlines()
    focal, ce = (by_seed([r for r in rows if r.loss == loss]) for loss in ("focal", "ce"))
    change = paired(focal, ce)
    assert found[2].startswith(f"| focal | {change} |")
    assert make("differences unheard-of") == "*Not run.*\n"


@pytest.mark.parametrize(("place", "words"), [("runs", "holds runs"), ("nowhere", "no folder")])
def test_a_wrong_folder_is_said_in_words_and_nothing_is_written(gathered, tmp_path, place, words):
    folder = gathered[0] if place == "runs" else tmp_path / place
    with pytest.raises(FileFormatError, match=words):
        gather(folder, into=tmp_path)
    assert not list(tmp_path.glob("*.csv"))


def test_seeds_that_chose_the_options_are_told_apart():
    def rows(options, seeds):
        return [replace(PLAIN_ROW, loss="ce+aucoc", options=options, seed=seed) for seed in seeds]

    assert tuning_seeds(rows("a", range(5))) == set()
    assert tuning_seeds(rows("a", range(5)) + rows("b", [0, 1])) == {0, 1}


def test_an_ablation_trained_otherwise_is_refused(gathered, monkeypatch):
    _, into = gathered
    base = [replace(PLAIN_ROW, seed=seed) for seed in range(2)]
    other = [replace(row, loss="ce+aucoc", options='{"weight": 1.0}') for row in base]
    write_rows(into / "retinamnist-cpu.csv", base)
    monkeypatch.setattr("tools.evidence.files.HERE", into)
    write_rows(into / "retinamnist-gradient-cpu.csv", other)
    assert "| gradient through one path | weight 1 | 2 |" in make("ablations retinamnist-cpu")
    changed = [replace(row, settings='{"training.epochs": 9}') for row in other]
    write_rows(into / "retinamnist-gradient-cpu.csv", changed)
    with pytest.raises(ValueError, match="retinamnist-gradient-cpu was trained otherwise"):
        make("ablations retinamnist-cpu")


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_area_of_all_cases_is_the_exact_one():
    logits, labels = random_cases(n=32)
    found = [one for one in _areas([logits], labels) if one["estimator"] == "exact"]
    assert [one["batch_size"] for one in found] == [32]  # larger batches than cases do not exist
    assert found[0]["bias"] == pytest.approx(0, abs=1e-6)
    assert found[0]["spread"] == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_examined_runs(gathered, monkeypatch):
    monkeypatch.setattr("tools.evidence.anatomy.N_BATCHES", 20)
    runs, into = gathered
    lessons, estimates = (
        list(csv.DictReader(path.read_text().splitlines())) for path in examine([runs], into=into)
    )
    shares = [float(r["share"]) for r in lessons if r["loss"] == "focal"]
    assert sum(shares) == pytest.approx(1, abs=1e-4)
    assert {r["experiment"] for r in lessons + estimates} == {"tiny"}


@pytest.mark.slow
def test_figures_are_drawn(tmp_path):
    for path in draw_figures(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert (ROOT / "docs" / "images" / path.name).exists()

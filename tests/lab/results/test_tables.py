"""Tables of results: what is chosen, what is marked, and how they are written."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.synthetic_runs import PLAIN_ROW, make_config, write_run

from expertload.calibrators import TemperatureScaling
from expertload.exceptions import ParameterError
from expertload.lab.results.compare import compare_runs
from expertload.lab.results.measures import (
    cases_of,
    find_measure,
    find_published,
    find_published_outliers,
)
from expertload.lab.results.rows import (
    choose_candidates,
    collect,
    read_rows,
    runs_of_loss,
    write_rows,
)
from expertload.lab.results.tables import (
    DASH,
    Cell,
    Line,
    Table,
    build_tables,
    make_table,
    markdown_of,
    marks_of,
)
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.losses.build import LOSS_NAMES


def row(**changes):
    return replace(PLAIN_ROW, **changes)


def grid(markdown):
    """The cells of the Markdown tables, heading first, the rule left out."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    cells = [[word.strip() for word in line.strip("|").split("|")] for line in lines]
    return [words for words in cells if words[0] != "---"]


# ------------------------------------------------------------------ candidates


def candidate(options, validation, test):
    return [
        row(loss="ce+aucoc", options=options, seed=seed, split=split, value=value)
        for split, values in (("validation", validation), ("test", test))
        for seed, value in enumerate(values)
    ]


def test_candidates_are_chosen_on_validation_never_on_test():
    rows = candidate('{"weight": 1}', [0.8, 0.7], [0.9, 0.9])
    rows += candidate('{"weight": 5}', [0.7, 0.9], [0.1, 0.1])
    chosen = choose_candidates(rows)
    assert {r.options for r in chosen} == {'{"weight": 5}'}
    assert grid(make_table(rows)) == [
        ["loss", "seeds", "AUCOC ↑"],
        ["ce+aucoc (weight 5)", "2", "**10.00 ± 0.00**"],
    ]


def test_candidates_are_compared_over_the_seeds_they_share():
    # The first has a second seed of great luck; on the shared one it is worse.
    rows = candidate('{"weight": 1}', [0.7, 0.99], [0.1, 0.1])
    rows += candidate('{"weight": 5}', [0.8], [0.2])
    assert {r.options for r in choose_candidates(rows)} == {'{"weight": 5}'}


def test_a_candidate_that_failed_with_a_seed_is_left_out():
    # As in a sweep that tunes with two seeds: the best by the first has none of the second.
    rows = candidate('{"weight": 1}', [0.7, 0.7, 0.7], [0.1, 0.1, 0.1])
    rows += candidate('{"weight": 3}', [0.6, 0.6], [0.2, 0.2])
    rows += candidate('{"weight": 5}', [0.9], [0.3])
    assert {r.options for r in choose_candidates(rows)} == {'{"weight": 1}'}


@pytest.mark.parametrize(("metric", "best"), [("accuracy", 5), ("ece", 1)])
def test_candidates_are_chosen_by_what_checkpoints_were(metric, best):
    rows = [
        replace(r, metric=metric, settings=json.dumps({"training.select_by": metric}))
        for weight, score in ((1, 0.1), (5, 0.2))
        for r in candidate(f'{{"weight": {weight}}}', [score], [0.5])
    ]
    assert {r.options for r in choose_candidates(rows)} == {f'{{"weight": {best}}}'}


def test_candidates_without_a_common_seed_are_compared_by_their_own():
    rows = candidate('{"weight": 1}', [0.7], [0.1])
    rows += [replace(r, seed=9) for r in candidate('{"weight": 5}', [0.8], [0.2])]
    assert {r.options for r in choose_candidates(rows)} == {'{"weight": 5}'}


def test_a_choice_without_validation_is_refused():
    rows = [row(options='{"weight": 1}'), row(options='{"weight": 2}')]
    with pytest.raises(ParameterError, match="have no validation AUCOC"):
        make_table(rows)


def test_one_candidate_needs_no_validation():
    assert choose_candidates([row()]) == [row()]


# ------------------------------------------------------------------ marks


def table_of(metric, values):
    lines = tuple(Line(str(i), 1, (Cell(v, None, None),)) for i, v in enumerate(values))
    return Table("", (find_measure(metric),), lines, None)


@pytest.mark.parametrize(
    ("metric", "values", "marks"),
    [
        ("aucoc", [1.0, 3.0, 2.0], ["", "best", "second"]),
        ("ece", [1.0, 3.0, 2.0], ["best", "", "second"]),
        ("load@90", [1.0, 3.0, 2.0], ["best", "", "second"]),
        ("fpr95", [1.0, 3.0], ["best", "second"]),
        # As printed: 2.001 and 2.004 are both 2.00.
        ("aucoc", [2.001, 2.004, 1.0, 1.001], ["best", "best", "second", "second"]),
        # With three digits they are not.
        ("cwece", [2.001, 2.004], ["best", "second"]),
        ("aucoc", [None, 2.0, None], ["", "best", ""]),
        ("aucoc", [None, None], ["", ""]),
    ],
)
def test_best_and_second(metric, values, marks):
    assert marks_of(table_of(metric, values), 0) == marks


@given(st.lists(st.one_of(st.none(), st.integers(0, 5).map(float)), min_size=1, max_size=8))
def test_marks_by_plain_counting(values):
    marks = marks_of(table_of("ece", values), 0)
    for value, mark in zip(values, marks, strict=True):
        below = {v for v in values if v is not None and value is not None and v < value}
        expected = "" if value is None else {0: "best", 1: "second"}.get(len(below), "")
        assert mark == expected


# ------------------------------------------------------------------ tables


def test_mean_and_spread_over_seeds():
    values = [0.9, 0.91, 0.95]
    rows = [row(seed=seed, value=value) for seed, value in enumerate(values)]
    cell = build_tables(rows)[0].lines[0].cells[0]
    assert cell.mean == pytest.approx(100 * mean(values))
    assert cell.spread == pytest.approx(100 * stdev(values))
    assert "**92.00 ± 2.65**" in make_table(rows)
    assert "**90.00**" in make_table(rows[:1])


def test_performance_is_of_the_test_split_and_calibration_after_calibrating():
    rows = [
        row(split="test", metric="ece", value=0.3),
        row(split="test_calibrated", metric="ece", value=0.1),
        row(split="test", metric="aucoc", value=0.8),
        row(split="test_calibrated", metric="aucoc", value=0.7),
        row(split="test", metric="load@95", value=0.6),
        row(split="test", metric="load@100", value=0.9),
        row(split="test", metric="load@90", value=0.5),
    ]
    assert grid(make_table(rows)) == [
        ["loss", "seeds", "AUCOC ↑", "load at 90 % ↓", "load at 95 % ↓", "load at 100 % ↓"],
        ["ce", "1", "**80.00**", "**50.00**", "**60.00**", "**90.00**"],
    ]
    assert grid(make_table(rows, kind="calibration"))[1] == ["ce", "1", "**10.00**"]


def test_losses_come_in_the_papers_order_and_missing_ones_have_a_dash():
    rows = [row(loss=loss) for loss in ("adafocal53+aucoc", "ce+aucoc", "ce")]
    names = [words[0] for words in grid(make_table(rows))[1:]]
    assert names == ["ce", "ce+aucoc", "adafocal53+aucoc"]
    asked = grid(make_table(rows, losses=["focal", "ce"]))
    assert asked[1:] == [["focal", DASH, DASH], ["ce", "1", "**50.00**"]]


def test_published_figures_stand_beside_ours():
    rows = [row(data="retinamnist", model="resnet50", loss="ce", value=0.7)]
    text = make_table(rows)
    table = grid(text)
    assert table[0] == ["loss", "seeds", "AUCOC ↑", "published"]
    assert [words[0] for words in table[1:]] == list(LOSS_NAMES)
    figures = find_published("retinamnist", "resnet50").figures
    assert table[1] == ["ce", "1", "**70.00**", f"{figures['ce']['aucoc']:.2f}"]
    assert table[-1] == ["focal+aucoc", DASH, DASH, f"{figures['focal+aucoc']['aucoc']:.2f}"]
    assert "published figures with resnet50" in text


def test_published_figures_by_network_and_batch_size():
    ours = find_published("dermamnist", "resnet50", batch_size=64)
    assert ours.figures["ce+aucoc"]["ece"] == 11.0
    assert find_published("dermamnist", "resnet50", batch_size=128).source == "resnet50"
    # Two networks were published for CIFAR-100; another is set beside that of the main table.
    assert find_published("cifar100", "resnet20").source == "wrn-28-10"
    assert find_published("cifar100", "resnet50").source == "resnet50"
    assert find_published("digits", "small-cnn") is None


def test_published_figures_are_plausible():
    # AUCOC is a mean of accuracies over falling loads, so it lies above accuracy.
    for data, model in (("tissuemnist", "resnet50"), ("cifar100-lt-50", "wide-resnet-28-10")):
        for figures in find_published(data, model).figures.values():
            assert figures["aucoc"] > figures["accuracy"]


def test_outliers_have_a_table_for_each_kind():
    rows = [
        row(data="cifar100", loss=loss, split=f"outliers:{name}", metric=metric, value=value)
        for loss, name, metric, value in [
            ("ce", "svhn", "msp/auroc", 0.8),
            ("ce", "svhn", "odin_perturbed/auroc", 0.85),
            ("ce", "svhn", "msp/fpr95", 0.3),
            ("ce+aucoc", "svhn", "msp/auroc", 0.9),
            ("ce", "fashion-mnist", "msp/auroc", 0.7),
        ]
    ]
    svhn, fashion = build_tables(rows, kind="ood", losses=["ce", "ce+aucoc"])
    assert svhn.caption == "cifar100, small-cnn: AUROC of outliers from svhn"
    published = find_published_outliers("cifar100", "svhn").figures
    table = grid(markdown_of(svhn))
    assert table[0] == ["loss", "seeds", "MSP ↑", "published", "ODIN perturbed ↑"]
    assert table[1][2:] == ["<u>80.00</u>", f"{published['ce']['msp']:.2f}", "**85.00**"]
    assert table[2][2:] == ["**90.00**", f"{published['ce+aucoc']['msp']:.2f}", DASH]
    assert fashion.source is None


def test_nothing_to_show_is_no_table():
    assert make_table([row()], kind="ood") == ""
    assert make_table([row()], kind="calibration") == ""


def test_experiments_that_differ_are_told_apart():
    rows = [
        row(),
        row(batch_size=32),
        row(settings='{"training.epochs": 5}'),
        row(data="elsewhere"),
    ]
    captions = [table.caption for table in build_tables(rows)]
    assert captions == [
        "nowhere, small-cnn, batch size 64, training.epochs default: performance",
        "nowhere, small-cnn, batch size 32, training.epochs default: performance",
        "nowhere, small-cnn, batch size 64, training.epochs 5: performance",
        "elsewhere, small-cnn: performance",
    ]


def test_from_runs_to_a_table(tmp_path):
    for loss, skill in (("ce", 1.0), ("ce+aucoc", 2.0)):
        for seed in (0, 1):
            write_run(tmp_path, make_config(loss, seed=seed), skill=skill)
    rows = collect(tmp_path)
    heading, ce, aucoc = grid(make_table(rows))
    assert heading[2:] == ["AUCOC ↑", "accuracy ↑", "load at 90 % ↓", "load at 95 % ↓"]
    assert all(word.startswith("**") for word in aucoc[2:])
    assert all(word.startswith("<u>") for word in ce[2:])
    values = [r.value for r in rows if (r.loss, r.split, r.metric) == ("ce", "test", "aucoc")]
    assert ce[2] == f"<u>{100 * mean(values):.2f} ± {100 * stdev(values):.2f}</u>"


# ------------------------------------------------------------------ formats


def test_markdown_keeps_bars_inside_their_cell():
    table = replace(table_of("aucoc", [1.0]), lines=(Line("a|b", 1, (Cell(1.0, None, None),)),))
    assert "| a\\|b | 1 |" in markdown_of(table)


def test_csv_holds_unrounded_figures():
    rows = [
        row(data="retinamnist", model="resnet50", seed=s, value=v) for s, v in ((0, 0.7), (1, 0.81))
    ]
    records = list(csv.DictReader(io.StringIO(make_table(rows, format="csv"))))
    first, second = records[0], records[1]
    assert float(first["mean"]) == pytest.approx(75.5)
    assert float(first["spread"]) == pytest.approx(100 * stdev([0.7, 0.81]))
    assert (first["mark"], first["n_seeds"], first["published_with"]) == ("best", "2", "resnet50")
    assert (second["loss"], second["mean"], second["mark"]) == ("focal", "", "")
    assert float(second["published"]) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "everything"}, "'kind' must be one of 'performance'"),
        ({"format": "html"}, "must be one of 'markdown', 'csv'"),
    ],
)
def test_unknown_options_are_refused_in_words(options, message):
    with pytest.raises(ParameterError, match=message):
        make_table([row()], **options)


@pytest.mark.parametrize("name", ["f1", "load@", "load@x", "load@0", "load@101", "toll@90"])
def test_unknown_numbers_are_refused(name):
    with pytest.raises(ParameterError, match=f"no number '{name}'"):
        find_measure(name)


# ------------------------------------------------------------------ settings that were changed


@pytest.fixture
def tried_and_swept(tmp_path):
    """A trial with few epochs, then a sweep of the recipe, in one folder, as the page has it."""
    trial = write_run(tmp_path, make_config(epochs=1))
    record = json.loads((trial / "environment.json").read_text())
    record["set"] = ["training.epochs=1"]
    (trial / "environment.json").write_text(json.dumps(record))
    for loss in ("ce", "ce+aucoc"):
        for seed in (0, 1):
            write_run(tmp_path, make_config(loss, seed=seed, epochs=40))
    return tmp_path


def test_a_table_of_runs_made_with_other_settings_says_so(tried_and_swept):
    captions = [table.caption for table in build_tables(collect(tried_and_swept))]
    assert [("(with --set training.epochs=1)" in caption) for caption in sorted(captions)] == [
        True,
        False,
    ]


def test_comparing_losses_leaves_out_what_was_made_with_other_settings(tried_and_swept):
    folders = runs_of_loss(tried_and_swept, "ce")
    assert sorted(RunFolder(path).config().seed for path in folders) == [0, 1]
    assert {RunFolder(path).config().training.epochs for path in folders} == {40}
    assert compare_runs(folders, runs_of_loss(tried_and_swept, "ce+aucoc")).n_runs == (2, 2)


def test_changes_are_in_the_rows_that_are_saved(tried_and_swept, tmp_path):
    rows = collect(tried_and_swept)
    assert {row.changed for row in rows} == {"", "training.epochs=1"}
    write_rows(tmp_path / "rows.csv", rows)
    assert read_rows(tmp_path / "rows.csv") == rows


def test_numbers_as_published_are_the_authors_definitions(tmp_path):
    run = FinishedRun(write_run(tmp_path, make_config(), n=200))
    found = {(r.split, r.metric): r.value for r in collect(tmp_path, as_published=True)}
    ours = {(r.split, r.metric): r.value for r in collect(tmp_path)}
    proba, labels = run.test_proba, run.test[1]
    confidence, right = proba.max(1), proba.argmax(1) == labels
    order = np.argsort(confidence)
    accuracy = [right[order[k:]].mean() for k in range(200)]
    nearest = int(np.abs(np.array(accuracy) - 0.9).argmin())
    assert found["test", "load@90"] == nearest / 200
    assert found["test", "ks"] == pytest.approx(np.abs(np.cumsum(right - confidence)).max() / 200)
    errors = []
    for k in range(proba.shape[1]):
        cell = np.minimum((proba[:, k] * 15).astype(int), 14)
        gaps = [((labels == k) - proba[:, k])[cell == one].sum() for one in range(15)]
        errors.append(np.abs(gaps).sum() / 200)
    assert found["test", "cwece"] == pytest.approx(np.mean(errors))
    for name in ("accuracy", "ece", "brier"):
        assert found["test", name] == ours["test", name]
    grid = TemperatureScaling(objective="ece").fit(*run.validation)
    expected = find_measure("ece").of(cases_of(labels, grid.transform(run.test[0])))
    assert found["test_calibrated", "ece"] == pytest.approx(expected)
    assert found["training", "seconds"] == ours["training", "seconds"]

"""Outliers and the ladder: CSV from trained networks, and tables from the CSV."""

from __future__ import annotations

import csv
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel
from sklearn.metrics import roc_auc_score
from tools.evidence import files
from tools.evidence.ladder import ALWAYS, arms_of_pair, read_arms
from tools.evidence.ladder_outliers import (
    CORRUPTED,
    CORRUPTIONS,
    SCORES,
    measure_outliers,
    step_scorers,
)
from tools.evidence.ladder_outliers import STEPS as MEASURED
from tools.evidence.pages import make

from expertload.ensembling import make_views
from expertload.exceptions import FileFormatError
from expertload.lab.data import corrupt
from expertload.lab.ladder.steps import STEPS, Climb, chosen_views
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.training.loop import train
from tests.lab.ladder.made_up import ARMS
from tests.lab.synthetic_runs import make_config

MOST = 60  # images of each side


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One pair of networks, trained for an epoch or two; beside them their CSV."""
    place = tmp_path_factory.mktemp("outliers") / "runs"
    for arm, seed in (("plain", 0), ("augmented", 0), ("augmented", 100)):
        config = make_config(seed=seed, learning_rate=0.05, **ARMS[arm])
        folder = place / ("digits-plain" if arm == "plain" else "digits")
        train(config, folder / config.run_name, accelerator="cpu")
    into = place / "ladder_outliers.csv"
    lines = measure_outliers(place, others=["digits", "digits-clean"], max_images=MOST, into=into)
    assert list(lines) == ["digits: 1 seeds"]
    return place


def read(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def probabilities(network, images, views="none"):
    """In the plainest way: one batch, normalised by hand, and the mean over views."""
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        each = [
            network(view((pixels - 0.5) / 0.5)).double().softmax(1) for view in make_views(views)
        ]
    return torch.stack(each).mean(0).numpy()


@pytest.mark.slow
def test_lines_are_rebuilt_by_plain_loops(trained):
    lines = {
        (line["step"], line["outliers"]): line for line in read(trained / "ladder_outliers.csv")
    }
    assert [*lines] == [(step, name) for step in MEASURED for name in (*CORRUPTED, "digits-clean")]
    plain, first, second = (
        FinishedRun(next((trained / folder).glob(f"ce-seed{seed}-*")))
        for folder, seed in (("digits-plain", 0), ("digits", 0), ("digits", 100))
    )
    data = plain.load_data()
    assert data.normalisation.mean == data.normalisation.std == (0.5,)
    rows = np.linspace(0, len(data.test) - 1, MOST).astype(int)
    clean = data.test.images[rows]
    views = [chosen_views(run).choice.views for run in (first, second)]
    both = [run.load_network(data) for run in (first, second)]

    def confidence(step, images):
        if step == "plain":
            return probabilities(plain.load_network(data, weights="raw"), images).max(1)
        if step == "augmentation":
            return probabilities(first.load_network(data, weights="raw"), images).max(1)
        each = [
            probabilities(network, images, view) for network, view in zip(both, views, strict=True)
        ]
        return np.mean(each, axis=0).max(1)

    truth = np.repeat([0, 1], MOST)
    for step in ("plain", "augmentation", "networks"):
        inside, areas = confidence(step, clean), []
        for kind in CORRUPTIONS.split("+"):
            outside = confidence(step, corrupt(clean, kind, 5))
            areas.append(roc_auc_score(truth, -np.concatenate([inside, outside])))
        line = lines[step, f"corrupted:{CORRUPTIONS}:5"]
        # Other batch sizes round otherwise, which may exchange two neighbours.
        assert float(line["msp_auroc"]) == pytest.approx(np.mean(areas), abs=2 / MOST**2)
        assert line["images"] == str(4 * MOST)
    for (step, _), line in lines.items():
        has_logits = step in ("plain", "augmentation", "averaging")
        assert (line["energy_fpr95"] != "") == has_logits


@pytest.mark.slow
def test_a_step_is_made_of_the_networks_of_the_ladder(trained):
    ladder = Climb(arms_of_pair(read_arms(trained, "digits"), 0), always=ALWAYS)
    data = FinishedRun(next((trained / "digits").glob("ce-seed0-*"))).load_data()
    scorers = step_scorers(ladder, data)
    for step in ladder.steps:
        for scorer, model in zip(scorers[step.name], step.models, strict=True):
            found = scorer.scores(data.test)["msp"]
            np.testing.assert_allclose(found, model.test.max(axis=1), atol=1e-6)


def test_a_folder_without_ladders_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match="no folder NAME-plain"):
        list(measure_outliers(tmp_path))


# ------------------------------------------------------------------ tables


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Four seeds of two steps, the last seed without the second."""
    rng = np.random.default_rng(0)
    lines = [
        {
            "experiment": "ladder-dermamnist",
            "seed": seed,
            "step": step,
            "outliers": outliers,
            **{f"{score}_{n}": rng.uniform() for score in SCORES for n in ("auroc", "fpr95")},
        }
        for seed in range(4)
        for step in ("plain", "averaging")
        if (seed, step) != (3, "averaging")
        for outliers in ("corrupted:fog+snow:3", "fashion-mnist")
    ]
    monkeypatch.setattr(files, "OUTLIERS", tmp_path / "ladder_outliers.csv")
    files.write_records(files.OUTLIERS, lines)
    return lines


def of_step(lines, step, name):
    return [
        line[name]
        for line in lines
        if (line["step"], line["outliers"]) == (step, "corrupted:fog+snow:3")
    ]


def cells(line):
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def percent(values):
    return f"{100 * fmean(values):.1f} ± {100 * stdev(values):.1f}"


def test_the_table_of_steps_by_hand(made_up):
    headings, _, line, other = map(cells, make("ladder-outliers").splitlines())
    assert headings[2:4] == [STEPS["plain"], STEPS["averaging"]]
    before, after = (of_step(made_up, step, "msp_auroc") for step in ("plain", "averaging"))
    test = ttest_rel(after, before[:3])
    low, high = test.confidence_interval(0.95)
    change = 100 * (fmean(after) - fmean(before[:3]))
    assert line == [
        "DermaMNIST, corrupted, severity 3",
        "3",
        percent(before),
        percent(after),
        f"{change:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})",
        f"{test.pvalue:.3f}",
        percent(of_step(made_up, "plain", "msp_fpr95")),
        percent(of_step(made_up, "averaging", "msp_fpr95")),
    ]
    assert other[0] == "DermaMNIST, Fashion-MNIST"


def test_the_table_of_scores_by_hand(made_up):
    line = cells(make("ladder-outlier-scores").splitlines()[2])
    each = [of_step(made_up, "averaging", f"{score}_auroc") for score in SCORES]
    assert line == ["DermaMNIST, corrupted, severity 3", "3", *map(percent, each)]


def test_without_results_the_tables_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "OUTLIERS", tmp_path / "none.csv")
    assert make("ladder-outliers") == make("ladder-outlier-scores") == "*Not run.*\n"

"""Outliers and the ladder: turns finished runs into results/ladder_outliers.csv.

Is a network less confident on images that it was not made for, and does a step of the ladder change
that? One line of the CSV is one step of one seed with one kind of outliers: the test images of the
ladder's other data sets, or the network's own test images under corruptions of growing strength. A
step uses the same networks as in results/ladder.csv. From test-time augmentation on, there are
probabilities and no logits, so MSP is the only score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import nn

from expertload._typing import IntArray
from expertload.calibrators import TemperatureScaling
from expertload.ensembling import Ensemble, ViewEnsemble
from expertload.lab.data import Dataset
from expertload.lab.ladder.steps import Answers, Climb, Step, chosen_views
from expertload.lab.results.outliers import (
    Numbers,
    Outliers,
    OutlierScorer,
    OutlierSets,
    mean_numbers,
    outlier_numbers,
)
from expertload.lab.runs.finished import FinishedRun
from tools.evidence.files import OUTLIERS, Record, update_records
from tools.evidence.ladder import ALWAYS, APART, arms_of_pair, ladder_names, read_arms

# One of each kind: noise, blur, weather, digital.
CORRUPTIONS = "gaussian_noise+defocus_blur+fog+pixelate"
CORRUPTED = {f"corrupted:{CORRUPTIONS}:{strength}": strength for strength in (1, 3, 5)}
OTHERS = ("retinamnist", "dermamnist", "cifar100", "fashion-mnist")
SCORES = ("msp", "odin", "maxlogit", "energy")
NUMBERS = ("auroc", "aupr", "fpr95")
MOST = 1000  # images of each side
STEPS = (
    "plain",
    "augmentation",
    "averaging",
    "views",
    "networks",
)  # the last step that all ladders have

Sets = Mapping[str, Sequence[Outliers]]


def measure_outliers(
    runs: Path,
    *,
    data_dir: Path | None = None,
    others: Sequence[str] = OTHERS,
    max_images: int = MOST,
    into: Path = OUTLIERS,
) -> Iterator[str]:
    """Measure every ladder whose runs are in a folder; yield a message when each is written.

    The lines of other data sets are kept.
    """
    for name in ladder_names(runs):
        records = list(_records(runs, name, data_dir, others, max_images))
        update_records(into, records, [name])
        yield f"{name}: {len({record['seed'] for record in records})} seeds"


def _records(
    runs: Path, name: str, data_dir: Path | None, others: Sequence[str], max_images: int
) -> Iterator[Record]:
    arms = read_arms(runs, name, data_dir)
    seeds = sorted(seed for seed in arms["plain"] if seed < APART)
    if not seeds:
        return
    first = arms["plain"][seeds[0]]
    data = first.load_data()
    sets = OutlierSets(first, data, max_images)
    names = [*CORRUPTED, *(other for other in others if other != data.name)]
    outliers = {name: list(sets.find(name)) for name in names}
    for seed in seeds:
        ladder = Climb(arms_of_pair(arms, seed), always=ALWAYS)
        for step, scorers in step_scorers(ladder, data).items():
            numbers = _measure(scorers, sets, outliers)
            for against, found in numbers.items():
                yield {
                    "experiment": name,
                    "model": first.config.model.name,
                    "seed": seed,
                    "step": step,
                    "outliers": against,
                    "images": sum(len(images) for images, _ in outliers[against]),
                    **_columns(found),
                }


def _measure(
    scorers: Sequence[OutlierScorer], sets: OutlierSets, outliers: Sets
) -> dict[str, Numbers]:
    """Return, for each name of outliers, the mean over the models of a step and its parts."""
    parts: dict[str, list[Numbers]] = {name: [] for name in outliers}
    for scorer in scorers:
        inside = scorer.scores(sets.inliers)
        for name, several in outliers.items():
            parts[name] += [outlier_numbers(inside, scorer.scores(images)) for images, _ in several]
    return {name: mean_numbers(own) for name, own in parts.items()}


def _columns(found: Numbers) -> dict[str, float | str]:
    return {
        f"{score}_{number}": found[score][number] if score in found else ""
        for score in SCORES
        for number in NUMBERS
    }


# ------------------------------------------------------------------ the networks of a step


def step_scorers(ladder: Climb, data: Dataset) -> dict[str, list[OutlierScorer]]:
    """Return the models of each step, ready for images; one for each answer of the step."""
    taken: dict[str, Step] = {}
    found = {}
    for step in (step for step in ladder.steps if step.name in STEPS):
        if step.is_taken:
            taken[step.name] = step
        made_by = list(taken)[-1]  # a step that is not taken changes no model
        networks = [_asked(run, made_by, data) for run in step.runs]
        if made_by == "networks":
            ask = "views" if "views" in taken else "averaging"
            networks = [Ensemble(_asked(run, ask, data) for run in step.runs)]
        names = SCORES[:1] if made_by in ("views", "networks") else SCORES
        found[step.name] = [
            OutlierScorer(network, data.normalisation, _temperature(model, ladder), names=names)
            for network, model in zip(networks, step.models, strict=True)
        ]
    return found


def _asked(run: FinishedRun, step: str, data: Dataset) -> nn.Module:
    """Return the network of a run with the weights of a step, and its views."""
    if step in ("plain", "augmentation"):
        return run.load_network(data, weights="raw")
    network = run.load_network(data)
    return ViewEnsemble(network, chosen_views(run).choice.views) if step == "views" else network


def _temperature(model: Answers, ladder: Climb) -> float:
    """Return the temperature fitted on validation data."""
    log_proba = np.log(np.maximum(model.validation, np.finfo(float).tiny))
    places: IntArray = np.arange(log_proba.shape[1])
    scaling = TemperatureScaling().fit(log_proba, ladder.validation_labels, labels=places)
    return scaling.temperature_

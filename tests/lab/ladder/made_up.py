"""Runs of a ladder that were never trained: every answer is made up and kept in their folders."""

from __future__ import annotations

import numpy as np
from tests.lab.synthetic_runs import make_config, write_run

from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder

N_CASES, N_CLASSES = 400, 4
ARMS = {  # how a run of each arm is told from others by its settings
    "plain": {"data": {"augment": False}},
    "augmented": {"data": {"augment": True}, "ema_epochs": 2},
    "aucoc": {
        "loss": "ce+aucoc",
        "weight": 0.3,
        "options": {"smoothing": "log_odds"},
        "data": {"augment": True},
        "ema_epochs": 2,
    },
}
SKILLS = {"plain": 0.6, "augmented": 1.2, "averaged": 2.0, "views": 3.0, "aucoc": 5.0}


def labels_of(split):
    return np.random.default_rng(["validation", "test"].index(split)).integers(
        0, N_CLASSES, N_CASES
    )


def write_answers(run, kind, *, skill, seed, note):
    """Write kept answers of a run that know the label as well as `skill` says."""
    folder = RunFolder(run / "answers" / kind)
    folder.path.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, int(100 * skill)])
    for split in ("validation", "test"):
        truth = labels_of(split)
        strength = rng.uniform(0, 2 * skill, (N_CASES, 1))
        logits = rng.normal(size=(N_CASES, N_CLASSES)) + strength * np.eye(N_CLASSES)[truth]
        folder.write_logits(split, logits.astype(np.float32), truth)
    folder.write_json("choice.json", note)
    return folder


def write_arm(place, arm, seed, skills=SKILLS, *, with_weights=True):
    """Write the run of one arm and one seed; return its folder."""
    averaged = arm != "plain"
    results = {"seconds": 10.0 + seed % 100, "best_epoch": 1, "clipped": 0.0}
    if averaged and with_weights:
        results["weights"] = "averaged"
    path = write_run(place, make_config(seed=seed, **ARMS[arm]), results=results)
    own = {"plain": "plain", "augmented": "averaged", "aucoc": "aucoc"}[arm]
    for kind, skill, note in (
        ("selected", skills[own], {}),
        ("raw", skills["augmented"] if averaged else skills["plain"], {}),
        (
            "views",
            skills["aucoc"] if arm == "aucoc" else skills["views"],
            {"views": "flip", "scores": {"none": 0.5, "flip": 0.6}, "passes": 2},
        ),
    ):
        folder = write_answers(path, kind, skill=skill, seed=seed, note=note)
        if kind == "selected":
            for split in ("validation", "test"):
                RunFolder(path).write_logits(split, *folder.read_logits(split))
    return path


def make_arms(place, seeds=(0, 100), arms=tuple(ARMS), skills=SKILLS):
    """Arms of networks whose runs are made up."""
    return {
        arm: [FinishedRun(write_arm(place / arm, arm, seed, skills)) for seed in seeds]
        for arm in arms
    }

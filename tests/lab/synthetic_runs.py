"""Folders of runs that were never trained, for what comes after training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from expertload.lab.results.evaluate import evaluate_logits
from expertload.lab.results.rows import ResultRow
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.recipe import RunConfig
from expertload.lab.training.loop import train

PLAIN_ROW = ResultRow(
    data="nowhere",
    model="small-cnn",
    loss="ce",
    options="{}",
    batch_size=64,
    settings="{}",
    seed=0,
    split="test",
    metric="aucoc",
    value=0.5,
    versions="torch 2",
)


def make_config(loss="ce", *, seed=0, weight=None, options=None, data=None, model=None, **training):
    return RunConfig.model_validate(
        {
            "data": {"name": "digits", **(data or {})},
            "model": {"name": "small-cnn", **(model or {})},
            "loss": {"name": loss, "weight": weight, "options": options or {}},
            "training": {"epochs": 2, "batch_size": 64, "learning_rate": 0.1, **training},
            "seed": seed,
        }
    )


def write_run(
    place, config, *, skill=1.5, n=300, n_classes=4, first=0, labels_seed=0, results=None
):
    """Write the folder of a run whose logits know the label as well as `skill` says."""
    shared = np.random.default_rng(labels_seed)
    labels = {split: shared.integers(first, n_classes, n) for split in ("validation", "test")}
    own = np.random.default_rng([config.seed, len(config.loss.name), int(100 * skill)])
    run = RunFolder(Path(place) / config.run_name)
    run.create(config)
    run.write_json("environment.json", {"python": "3.12.1", "versions": {"torch": "2.4.0"}})
    logits = {}
    for split, truth in labels.items():
        strength = own.uniform(0, 2 * skill, (n, 1))
        logits[split] = (
            own.normal(size=(n, n_classes)) + strength * np.eye(n_classes)[truth]
        ).astype(np.float32)
        run.write_logits(split, logits[split], labels[split])
    if results is None:
        both = [(logits[split], labels[split]) for split in ("validation", "test")]
        numbers = evaluate_logits(*both, config.evaluation.target_accuracies)
        results = {"seconds": 4.0, "best_epoch": 1, "clipped": 0.5, **numbers}
    run.write_json("results.json", results)
    return run.path


def train_once(place):
    """Return the folder of a small network really trained on the digits, for two epochs.

    Training a run that is done does nothing, so test modules that name the same place share it.
    """
    folder = Path(place) / "trained" / "run"
    train(make_config(), folder, accelerator="cpu")
    return folder

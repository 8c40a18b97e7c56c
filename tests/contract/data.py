"""The cases of the contract: small, from fixed seeds, and rounded, so that any machine has them."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

CLASSES = ("cat", "dog", "owl")
DATA = Path(__file__).parents[1] / "data"
# Flushing to a busy disk would be most of the time of a desk.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@cache
def predictions(n=300, seed=0, skill=1.8):
    """Cases of three classes. Labels, sites and patients depend on n alone.

    Probabilities are whole ten-thousandths, so that some of them are tied.
    """
    shared, own = np.random.default_rng(n), np.random.default_rng([seed, n])
    y = shared.integers(0, 3, n)
    logits = shared.normal(0, 1, (n, 3)) + own.normal(0, 0.4, (n, 3))
    logits[np.arange(n), y] += skill
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    parts = np.floor(proba * 10_000).astype(int)
    parts[:, 2] = 10_000 - parts[:, :2].sum(axis=1)
    return SimpleNamespace(
        y=y,
        label=np.array(CLASSES)[y],
        proba=parts / 10_000,
        logits=logits.round(3),
        site=np.array(["north", "south", "east"])[shared.choice(3, n, p=[0.5, 0.35, 0.15])],
        patient=np.arange(n) // 2,
        weight=shared.integers(1, 5, n) / 2,
    )


@cache
def answers(n=200, seed=0, target=0.9):
    """Right or wrong, confidences with ties, grades, weights and clusters."""
    rng = np.random.default_rng([seed, n])
    confidence = rng.integers(0, 1000, n) / 1000
    correct = (rng.random(n) < target - 0.3 + 0.4 * confidence).astype(float)
    return SimpleNamespace(
        correct=correct,
        confidence=confidence,
        grade=np.where(correct == 1, 1.0, rng.integers(0, 4, n) / 4),
        weight=rng.integers(1, 9, n) / 4,
        clusters=rng.integers(0, n // 3, n),
        groups=np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
    )


def overconfident(n):
    """Labels and logits; predictions of the last class are right less often than they say."""
    rng = np.random.default_rng(n)
    logits = (2 * rng.normal(size=(n, 3))).round(3)
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    predicted, top = proba.argmax(axis=1), proba.max(axis=1)
    right = rng.random(n) < np.where(predicted == 2, top**4, 1 - (1 - top) ** 2)
    return np.array(CLASSES)[np.where(right, predicted, (predicted + 1) % 3)], logits


def committed(name):
    return json.loads((DATA / name).read_text("utf-8"))


# ------------------------------------------------------------------ files


def columns(cases):
    """The columns of a file of predictions."""
    return {
        "id": np.arange(len(cases.y)),
        "label": cases.label,
        **{f"p_{name}": cases.proba[:, i] for i, name in enumerate(CLASSES)},
        "site": cases.site,
        "patient": cases.patient,
        "importance": cases.weight,
    }


def write_csv(path, table):
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(table)
        out.writerows(zip(*(np.asarray(column).tolist() for column in table.values()), strict=True))
    return path


MODEL = 150


def write_files(folder):
    """Files of predictions of every kind, and of audits."""
    model, other = columns(predictions(MODEL)), columns(predictions(MODEL, seed=1, skill=1.4))
    write_csv(folder / "model.csv", model)
    write_csv(folder / "other.csv", other)
    write_csv(folder / "new.csv", columns(predictions(12, seed=7)))
    second = {f"q_{name}": other[f"p_{name}"] for name in CLASSES}
    write_csv(folder / "two.csv", {**model, **second})
    write_csv(folder / "small.csv", columns(predictions(60)))
    write_csv(folder / "small_other.csv", columns(predictions(60, seed=1)))
    label, logits = overconfident(300)
    named = {f"logit_{name}": logits[:, i] for i, name in enumerate(CLASSES)}
    write_csv(folder / "logits.csv", {"label": label, **named})
    given = answers(100)
    judged = {"confidence": given.confidence, "correct": given.correct.astype(int)}
    write_csv(folder / "judged.csv", judged)
    write_csv(folder / "new_judged.csv", {"confidence": np.linspace(0, 1, 12).round(3)})
    return folder


def write_audits(folder):
    rng = np.random.default_rng(11)
    right = (rng.random(120) < 0.93).astype(int)
    keys = [f"case{i}" for i in range(120)]
    days = [f"2026-01-{1 + i // 6:02d}" for i in range(120)]
    said = ["cat" if i % 2 else "dog" for i in range(120)]
    truth = [label if good else "owl" for label, good in zip(said, right, strict=True)]
    write_csv(folder / "audits.csv", {"key": keys, "correct": right, "decided_at": days})
    write_csv(folder / "more_audits.csv", {"key": keys[:40], "correct": right[:40]})
    write_csv(folder / "labels.csv", {"prediction": said, "y_true": truth})
    write_csv(folder / "bad_audits.csv", {"correct": np.tile([1, 1, 0, 1], 40)})
    share = (rng.integers(1, 5, 120) / 4).tolist()
    write_csv(folder / "samples.csv", {"correct": right, "inclusion_probability": share})
    return folder

"""Plays the loop: experts read what a model delegates, and the model learns from their answers.

Every round brings new cases. The policy in force decides the confident ones; experts read the
others, and a twentieth of those decided. What was read is added to what the model learns from, a
new model is trained, and its promise is certified on cases set apart, which never teach. The five
arms differ only in what the model learns from:

learns
    Everything that was read.
never
    The first labels only: the model of the first round decides in all rounds.
random
    As many cases as were read, but drawn at random from the round. Nobody can have these labels
    without reading twice: the arm shows whether it matters which cases teach.
weighted
    Everything that was read, weighted by 1 / inclusion probability: one for delegated cases, twenty
    for audited ones.
aucoc
    As "learns", trained with AUCOC beside the cross-entropy.

The models are small on purpose, so that a round takes seconds on one core: one hidden layer, on
responses to patches of the images (Coates, Lee and Ng, 2011), pooled over quadrants and reduced to
their principal components. Neither uses labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from expertload import certify
from expertload._typing import AnyArray, BoolArray, FloatArray, IntArray
from expertload.lab.data import load_dataset
from expertload.losses import AUCOCLoss
from tools.evidence.files import LOOP, Record, read_records, write_records

ARMS = ("learns", "never", "random", "weighted", "aucoc")
AUDIT_RATE = 0.05
N_ROUNDS = 8
# The weight of AUCOC beside the cross-entropy; not tuned.
AUCOC_WEIGHT = 0.1
# The network and its training.
HIDDEN, BATCH, DROPOUT = 96, 128, 0.3
EPOCHS, LEAST_STEPS, MOST_STEPS = 15, 200, 400
LEARNING_RATE, WEIGHT_DECAY = 5e-3, 1e-3
# Patches: their side, how many, the response from which on they count, and how many principal
# components of all responses are kept.
SIDE, N_PATCHES, QUIET, N_COMPONENTS = 6, 100, 0.5, 128


@dataclass(frozen=True)
class Setting:
    """How the loop is played with one data set: the promise, and numbers of cases."""

    title: str
    target: float
    n_first: int
    n_round: int
    n_certify: int
    n_test: int

    @property
    def n_cases(self) -> int:
        """All cases of one run."""
        return self.n_first + N_ROUNDS * self.n_round + self.n_certify + self.n_test


SETTINGS = {
    "fashion-mnist": Setting("Fashion-MNIST", 0.95, 500, 2000, 2500, 8000),
    "dermamnist": Setting("DermaMNIST", 0.85, 500, 600, 2000, 2700),
    "tweets": Setting("Tweets", 0.95, 200, 1300, 2500, 11_000),
}


@dataclass(frozen=True)
class Labelled:
    """Cases with what is known of them: features, classes, and how much each counts."""

    features: Tensor
    target: IntArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: AnyArray) -> Labelled:
        """Return some of the cases."""
        return Labelled(self.features[rows], self.target[rows], self.weight[rows])

    def __add__(self, other: Labelled) -> Labelled:
        return Labelled(
            torch.cat([self.features, other.features]),
            np.concatenate([self.target, other.target]),
            np.concatenate([self.weight, other.weight]),
        )


def play_loops(
    names: list[str], seeds: list[int], *, data_dir: Path | None = None, into: Path = LOOP
) -> Iterator[str]:
    """Play every arm with every data set and seed, and write CSV; what is there is not repeated."""
    torch.set_num_threads(1)
    for name in names:
        done = {(r["experiment"], r["arm"], r["seed"]) for r in read_records(into)}
        wanted = [(seed, arm) for seed in seeds for arm in ARMS]
        missing = [(s, a) for s, a in wanted if (name, a, str(s)) not in done]
        if not missing:
            continue
        everything = load(name, data_dir)
        for seed, arm in missing:
            records = list(play(everything, SETTINGS[name], arm, seed))
            found = [{"experiment": name, "arm": arm, "seed": seed, **each} for each in records]
            write_records(into, [*read_records(into), *found])
            loads = " ".join(f"{100 * float(str(each['load'])):.0f}" for each in records)
            yield f"{name}, {arm}, seed {seed}: load {loads} %"


def play(everything: Labelled, setting: Setting, arm: str, seed: int) -> Iterator[Record]:
    """Play the rounds of one arm; every arm of a seed sees the same cases in the same order."""
    order = np.random.default_rng([seed, 0]).permutation(len(everything))[: setting.n_cases]
    sizes = [setting.n_certify, setting.n_test, setting.n_first]
    parts = np.split(order, np.cumsum([*sizes, *[setting.n_round] * (N_ROUNDS - 1)]))
    apart, test, known, *rounds = (everything.take(rows) for rows in parts)
    for number, new in enumerate(rounds):
        rng = np.random.default_rng([seed, 1, number])
        if number == 0 or arm != "never":
            model = train(known, arm=arm, seed=1000 * seed + number)
            point = certify(apart.target, predict(model, apart), target_accuracy=setting.target)
        decided, right = decide(model, new, point.threshold)
        audited = decided & (rng.random(len(new)) < AUDIT_RATE)
        read = ~decided | audited
        fresh, fresh_right = decide(model, test, point.threshold)
        yield {
            "round": number + 1,
            "target": setting.target,
            "labels": len(known),
            "load": float(np.mean(~decided)),
            "readings": int(read.sum()),
            "decided_accuracy": _share(right, decided),
            "test_load": float(np.mean(~fresh)),
            "test_decided_accuracy": _share(fresh_right, fresh),
            "test_accuracy": float(np.mean(fresh_right)),
        }
        if arm != "never":
            known = known + taught(new, decided, read, arm, rng)


def taught(
    new: Labelled, decided: BoolArray, read: BoolArray, arm: str, rng: np.random.Generator
) -> Labelled:
    """Return the cases of a round that the model learns from."""
    rows = np.flatnonzero(read)
    if arm == "random":
        rows = rng.choice(len(new), size=len(rows), replace=False)
    weight = np.where(decided[rows] & (arm == "weighted"), 1 / AUDIT_RATE, 1.0)
    return Labelled(new.features[rows], new.target[rows], weight)


def _share(right: BoolArray, decided: BoolArray) -> float | str:
    """Return the accuracy among decided cases, empty if none is decided."""
    return float(right[decided].mean()) if decided.any() else ""


# ------------------------------------------------------------------ the model


def train(known: Labelled, *, arm: str, seed: int) -> nn.Module:
    """Return a network trained from scratch on all that is known."""
    torch.manual_seed(seed)
    n_classes = int(known.target.max()) + 1
    width = known.features.shape[1]
    layers = (nn.Linear(width, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT))
    model = nn.Sequential(*layers, nn.Linear(HIDDEN, n_classes))
    steps = int(np.clip(EPOCHS * len(known) / BATCH, LEAST_STEPS, MOST_STEPS))
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    target = torch.from_numpy(known.target)
    weight = torch.from_numpy(known.weight / known.weight.mean()).float()
    second = AUCOCLoss() if arm == "aucoc" else None
    for _ in range(steps):
        rows = torch.randint(len(known), (BATCH,))
        logits = model(known.features[rows])
        loss = (
            weight[rows] * nn.functional.cross_entropy(logits, target[rows], reduction="none")
        ).mean()
        if second is not None:
            loss = loss + AUCOC_WEIGHT * second(logits, target[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def predict(model: nn.Module, cases: Labelled) -> FloatArray:
    """Return probabilities."""
    proba: FloatArray = model(cases.features).double().softmax(dim=1).numpy()
    return proba


def decide(model: nn.Module, cases: Labelled, threshold: float) -> tuple[BoolArray, BoolArray]:
    """Return which cases are decided, and in which the model is right."""
    proba = predict(model, cases)
    return proba.max(axis=1) >= threshold, proba.argmax(axis=1) == cases.target


# ------------------------------------------------------------------ the data


def load(name: str, data_dir: Path | None) -> Labelled:
    """Return all cases of a data set, with features that no label went into."""
    if name == "tweets":
        with np.load((data_dir or Path()) / "tweets.npz") as content:
            features = np.log(np.clip(content["probabilities"], 1e-6, 1)).astype(np.float32)
            target = content["label"].astype(np.int64)
        return _labelled(features, target)
    data = load_dataset(name, data_dir=data_dir)
    splits = (data.train, data.validation, data.test)
    images = np.concatenate([split.images for split in splits])
    target = np.concatenate([split.labels for split in splits]).astype(np.int64)
    most = SETTINGS[name].n_cases
    kept = np.random.default_rng(0).permutation(len(target))[: most + most // 10]
    return _labelled(_components(responses(images[kept])), target[kept])


def _components(features: AnyArray) -> AnyArray:
    """Return the first principal components."""
    centred = torch.from_numpy(features - features.mean(axis=0))
    _, vectors = torch.linalg.eigh(torch.cov(centred[:5000].T))
    kept: AnyArray = (centred @ vectors[:, -N_COMPONENTS:]).numpy()
    return kept


def _labelled(features: AnyArray, target: IntArray) -> Labelled:
    centred = features - features.mean(axis=0)
    scaled = centred / np.sqrt(np.mean(centred**2))  # one scale: small components stay small
    return Labelled(torch.from_numpy(scaled.astype(np.float32)), target, np.ones(len(target)))


@torch.no_grad()
def responses(images: AnyArray) -> AnyArray:
    """Return responses to whitened patches of the images, pooled over quadrants."""
    pixels = torch.from_numpy(images.transpose(0, 3, 1, 2)).float() / 255
    filters, mean, whiten = _patches(pixels)
    kernel = (filters @ whiten).reshape(len(filters), pixels.shape[1], SIDE, SIDE)
    shift = (filters @ whiten) @ mean
    pooled = []
    for first in range(0, len(pixels), 256):
        block = pixels[first : first + 256]
        spread = nn.functional.avg_pool2d(block.mean(1, keepdim=True) ** 2, SIDE, 1)
        spread = spread - nn.functional.avg_pool2d(block.mean(1, keepdim=True), SIDE, 1) ** 2
        answer = nn.functional.conv2d(block, kernel) - shift[:, None, None]
        answer = answer / (spread.clamp_min(0) + 0.01).sqrt()
        both = torch.cat([answer, -answer], dim=1).sub_(QUIET).clamp_min_(0)
        pooled.append(nn.functional.adaptive_avg_pool2d(both, 2).flatten(1))
    features: AnyArray = torch.cat(pooled).numpy()
    return features


def _patches(pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return filters of length one, the mean patch, and what whitens patches."""
    rng = np.random.default_rng(0)
    n, _, height, width = pixels.shape
    places = zip(
        rng.integers(n, size=4000),
        rng.integers(height - SIDE + 1, size=4000),
        rng.integers(width - SIDE + 1, size=4000),
        strict=True,
    )
    cut = torch.stack([pixels[i, :, y : y + SIDE, x : x + SIDE].flatten() for i, y, x in places])
    mean = cut.mean(dim=0)
    values, vectors = torch.linalg.eigh(torch.cov((cut - mean).T))
    whiten = vectors @ torch.diag((values.clamp_min(0) + 0.01).rsqrt()) @ vectors.T
    varied = cut[cut.std(dim=1) > 0.05][:N_PATCHES]
    filters = (varied - mean) @ whiten
    return filters / filters.norm(dim=1, keepdim=True), mean, whiten

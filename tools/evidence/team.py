"""Experts who err: what real people's answers say about teams, promises and readers, as CSV.

The answers themselves are not part of the project. `python -m tools.evidence team FOLDER` reads
``cifar10h_resnet110.npz``, ``cifar10h_weak.npz`` and ``tweets.npz`` (label, human_counts,
probabilities) and ``chest_xray_readers.csv.gz`` from a folder and writes ``results/team_*.csv``.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from expertload import Cases
from expertload.operating_point import CertifiedPoint
from expertload.team import (
    Combiner,
    Readings,
    certify_not_worse,
    certify_team,
    reader_evidence,
    team_curve,
)
from tools.evidence.files import TEAM, TEAM_CERTIFICATES, TEAM_READERS, TEAM_WEAK, write_records

DATA = ("cifar10h_resnet110", "cifar10h_weak", "tweets", "tweets_off_panel")
FINDINGS = ("Airspace_Opacity", "Nodule_Or_Mass", "Pneumothorax", "Fracture")
N_SPLITS, N_FIT = 10, 3000
SIZES = {500: 2000, 2000: 2000, 10_000: 2000}  # calibration cases: draws
MARGIN = 0.01
TARGETS = {
    "cifar10h_resnet110": 0.96,
    "cifar10h_weak": 0.955,
    "tweets": 0.92,
    "tweets_off_panel": 0.9,
}
WORSE, MOST_GOLDEN, N_STREAMS = 0.10, 600, 1000


class People(NamedTuple):
    """Cases without answers, and the share of people who give each answer to each case."""

    cases: Cases
    shares: np.ndarray

    def read(self, rows: np.ndarray, rng: np.random.Generator) -> Cases:
        """Return some cases, each with the answer of one person drawn at random."""
        shares = np.cumsum(self.shares[rows], axis=1)
        drawn = (rng.random(len(rows))[:, None] > shares).sum(axis=1)
        answers = np.minimum(drawn, shares.shape[1] - 1)
        return replace(self.cases.take(rows), expert_answers=answers)

    def right(self, rows: np.ndarray) -> np.ndarray:
        """Return how often a person is right on each case."""
        target = self.cases.take(rows).predictions.target
        return np.asarray(self.shares[rows, target])


def read_people(folder: Path, name: str) -> People:
    """Read one file of answers beside a model's probabilities.

    Tweets are labelled by the majority of the same people. "Off panel" takes one of them off the
    panel, by chance, and keeps the tweets on which the others have a majority.
    """
    stored = np.load(folder / f"{name.removesuffix('_off_panel')}.npz")
    counts, label = stored["human_counts"].astype(float), stored["label"].astype(int)
    proba = stored["probabilities"].astype(float)
    if name.endswith("_off_panel"):
        shares = counts / counts.sum(axis=1, keepdims=True)
        drawn = np.random.default_rng(0).random(len(counts))
        answer = (drawn[:, None] > np.cumsum(shares, axis=1)).sum(axis=1).clip(max=2)
        tested = np.eye(counts.shape[1])[answer]
        rest = np.sort(counts - tested, axis=1)
        clear = rest[:, -1] > rest[:, -2]
        label, counts, proba = (counts - tested).argmax(axis=1)[clear], tested[clear], proba[clear]
    proba /= proba.sum(axis=1, keepdims=True)
    cases = Cases.from_predictions(label, proba, labels=range(proba.shape[1]))
    return People(cases, counts / counts.sum(axis=1, keepdims=True))


# ------------------------------------------------------------------ teams


def measure_teams(folder: Path) -> Iterator[str]:
    """Write what teams reach on cases that neither combiner nor rivals have seen."""
    records = []
    for name in DATA:
        people = read_people(folder, name)
        records += [
            {"data": name, "split": split, **_split(people, split)} for split in range(N_SPLITS)
        ]
        yield f"{name}: {N_SPLITS} splits"
    write_records(TEAM, records)


def _split(people: People, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(people.cases))
    fit = people.read(order[:N_FIT], rng)
    rows = order[N_FIT:]
    new = people.read(rows, rng)
    expert, model = people.right(rows), new.correct.astype(float)
    combiner = Combiner().fit(fit)
    joint = _combined_right(combiner, people, rows)
    top = new.confidence
    curves = {
        "plain": along(-top, model, expert),
        "combined": along(-top, model, joint),
        "compare_confidences": along(compare_confidences(fit, new), model, expert),
        "codoc_like": along(codoc_like(fit, new), model, expert),
    }
    best = float(curves["plain"].max())
    found: dict[str, float] = {"experts": float(expert.mean()), "model": float(model.mean())}
    for name, curve in curves.items():
        reached = np.flatnonzero(curve >= best - 1e-12)
        found[f"{name}_best"] = float(curve.max())
        found[f"{name}_best_load"] = curve.argmax() / len(rows)
        found[f"{name}_load"] = reached[0] / len(rows) if len(reached) else 1.0
    return {**found, **_stated(fit, new, expert)}


def along(delegate_first: np.ndarray, model: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the team's accuracy with 0, 1, ... cases delegated, those of the best score first."""
    order = np.argsort(-delegate_first, kind="stable")
    gained = np.append(0.0, np.cumsum((other - model)[order]))
    return np.asarray(model.mean() + gained / len(model))


def _combined_right(combiner: Combiner, people: People, rows: np.ndarray) -> np.ndarray:
    """Return how often the combined answer is right, over all people who might be asked."""
    cases, shares = people.cases.take(rows), people.shares[rows]
    target, proba, _ = cases.predictions
    right = np.zeros(len(rows))
    for answer in range(proba.shape[1]):
        joint = combiner.transform(proba, np.full(len(rows), answer)).argmax(axis=1)
        right += shares[:, answer] * (joint == target)
    return right


def _stated(fit: Cases, new: Cases, expert: np.ndarray) -> dict[str, float]:
    """Return what the curve of 3,000 cases says about its best threshold, and what is true."""
    curve = team_curve(fit)
    row = curve.best
    accepted = new.confidence >= curve.thresholds[row]
    own = fit.confidence >= curve.thresholds[row]
    right = np.mean(fit.expert_answers == fit.target)
    constant = (fit.correct * own).mean() + right * (1 - own.mean())
    return {
        "stated": float(curve.accuracy[row]),
        "stated_constant": float(constant),
        "true": float(np.where(accepted, new.correct, expert).mean()),
    }


# ------------------------------------------------------------------ rivals, as oracles


def _features(cases: Cases) -> np.ndarray:
    """Return the log-odds of the top probability, and the logarithms of the next two."""
    proba = np.sort(np.clip(cases.predictions.proba, 1e-6, 1 - 1e-6), axis=1)[:, ::-1]
    top = np.log(proba[:, 0]) - np.log1p(-proba[:, 0])
    return np.column_stack([top, np.log(proba[:, 1:3])])


def compare_confidences(fit: Cases, new: Cases) -> np.ndarray:
    """Score of "compare confidences" (Raghu et al. 2019): the expected gain of a person's answer.

    Two regressions predict where the model errs and where a person errs; cases go to people in the
    order of the difference.
    """
    wrong = {"model": ~fit.correct.astype(bool), "person": fit.expert_answers != fit.target}
    chance = {}
    for who, errs in wrong.items():
        regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        regression.fit(_features(fit), errs)
        chance[who] = regression.predict_proba(_features(new))[:, 1]
    return np.asarray(chance["model"] - chance["person"])


def codoc_like(fit: Cases, new: Cases, bandwidth: float = 0.03) -> np.ndarray:
    """Score of a rule like CoDoC (Dvijotham et al. 2023): people's advantage, by confidence.

    The share of cases that a person gets right minus that of the model, smoothed over the rank of
    the model's confidence among the cases fitted.
    """
    gain = (fit.expert_answers == fit.target) - fit.correct.astype(float)
    ranks = np.sort(fit.confidence)
    own = np.searchsorted(ranks, fit.confidence) / len(fit)
    grid = np.linspace(0, 1, 401)
    weight = np.exp(-0.5 * ((grid[:, None] - own) / bandwidth) ** 2)
    advantage = weight @ gain / weight.sum(axis=1)
    return np.asarray(np.interp(np.searchsorted(ranks, new.confidence) / len(fit), grid, advantage))


# ------------------------------------------------------------------ certificates


def measure_certificates(folder: Path, sizes: dict[int, int] | None = None) -> Iterator[str]:
    """Write loads that are certified from draws of each file, and how often the promise breaks."""
    records = []
    for name in DATA[:3]:
        people = read_people(folder, name)
        rng = np.random.default_rng(0)
        for n, draws in (SIZES if sizes is None else sizes).items():
            for promise, measured in _certificates(people, TARGETS[name], n, draws, rng).items():
                loads, broken = np.array(measured).T
                records.append(
                    {
                        "data": name,
                        "promise": promise,
                        "n": n,
                        "draws": draws,
                        "certified": float((loads < 1).mean()),
                        "load": float(loads.mean()),
                        "broken": float(broken.mean()),
                    }
                )
            yield f"{name}, n = {n}: {draws} draws"
    write_records(TEAM_CERTIFICATES, records)


def _certificates(
    people: People, target: float, n: int, draws: int, rng: np.random.Generator
) -> dict[str, list[tuple[float, bool]]]:
    everything = np.arange(len(people.cases))
    expert, model = people.right(everything), people.cases.correct.astype(float)
    combiner = Combiner().fit(people.read(rng.choice(everything, 1000), rng))
    joint = _combined_right(combiner, people, everything)
    confidence = people.cases.confidence
    other = np.random.default_rng(1).choice(confidence, 500)

    def team(point: CertifiedPoint, others: np.ndarray) -> tuple[float, float]:
        accepted = confidence >= point.threshold
        return float(1 - accepted.mean()), float(np.where(accepted, model, others).mean())

    rules: dict[str, tuple[Callable[[Cases], CertifiedPoint], np.ndarray, float]] = {
        "not_worse": (certify_not_worse, expert, expert.mean()),
        "not_worse_margin": (
            lambda cases: certify_not_worse(cases, margin=MARGIN, other_confidence=other),
            expert,
            expert.mean() - MARGIN,
        ),
        "team": (
            lambda cases: certify_team(cases, target_accuracy=target, other_confidence=other),
            expert,
            target,
        ),
        "combined_team": (
            lambda cases: certify_team(
                cases, target_accuracy=target, combine=combiner, other_confidence=other
            ),
            joint,
            target,
        ),
    }
    found: dict[str, list[tuple[float, bool]]] = {promise: [] for promise in rules}
    for _ in range(draws):
        cases = people.read(rng.integers(0, len(everything), n), rng)
        for promise, (rule, others, promised) in rules.items():
            point = rule(cases)
            load, accuracy = team(point, others)
            found[promise].append((load, point.is_certified and accuracy < promised - 1e-9))
    return found


# ------------------------------------------------------------------ readers


def read_xrays(folder: Path, finding: str) -> tuple[Readings, dict[str, int]]:
    """Return the readings of one finding, and the adjudicated truth of each image."""
    with gzip.open(folder / "chest_xray_readers.csv.gz", "rt", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row[f"{finding}_Expert_Label"]]
    first = {(row["Image ID"], row["Reader ID"]): row for row in reversed(rows)}
    rows = list(first.values())  # one reading of an image by a reader
    frame = {
        "case": [row["Image ID"] for row in rows],
        "reader": [row["Reader ID"] for row in rows],
        "answer": [int(float(row[f"{finding}_Expert_Label"])) for row in rows],
    }
    truth = {row["Image ID"]: int(float(row[f"{finding}_GT_Label"])) for row in rows}
    return Readings.from_frame(frame), truth


def measure_readers(folder: Path) -> Iterator[str]:
    """Write the quality of each reader, the consensus, and how soon a weak reader is found."""
    quality, weak = [], []
    for finding in FINDINGS:
        readings, truth = read_xrays(folder, finding)
        readers = readings.quality(truth, fewest_readings=50)
        for reader in readers:
            specificity, sensitivity = np.diag(reader.confusion) / reader.confusion.sum(axis=1)
            quality.append(
                {
                    "finding": finding,
                    "reader": reader.name,
                    "readings": reader.n_readings,
                    "accuracy": reader.accuracy.estimate,
                    "low": reader.accuracy.low,
                    "high": reader.accuracy.high,
                    "sensitivity": sensitivity,
                    "specificity": specificity,
                    "evidence": min(reader.evidence, 1e6),
                }
            )
        quality += _agreements(readings, truth, finding)
        weak.append({"finding": finding, **_weak_reader([r.confusion for r in readers])})
        yield f"{finding}: {len(readers)} readers"
    write_records(TEAM_READERS, quality)
    write_records(TEAM_WEAK, weak)


def _agreements(
    readings: Readings, truth: dict[str, int], finding: str
) -> Iterator[dict[str, object]]:
    """Yield the accuracy of majority and consensus on images that are not golden."""
    names = np.array(readings.cases)
    golden = np.random.default_rng(0).random(len(names)) < 0.2
    known = {str(name): truth[str(name)] for name in names[golden]}
    rest = [str(name) for name in names[~golden]]
    true = np.array([truth[name] for name in rest])
    agreed = {
        "majority": readings.consensus(method="majority"),
        "consensus": readings.consensus(),
        "consensus, a fifth golden": readings.consensus(known=known),
    }
    for name, consensus in agreed.items():
        answers = readings.answers(rest, consensus).astype(int)
        right = answers == true
        yield {
            "finding": finding,
            "reader": name,
            "readings": len(rest),
            "accuracy": right.mean(),
            "low": "",
            "high": "",
            "sensitivity": right[true == 1].mean(),
            "specificity": right[true == 0].mean(),
            "evidence": "",
        }


def _weak_reader(confusions: list[np.ndarray]) -> dict[str, float]:
    """Simulate readers who err as often as the others, or ten points more, on golden images.

    The others' error rate is not known, but estimated from 20 readers of the same golden images.
    """
    pool = np.sum(confusions, axis=0)
    rate = 1 - np.trace(pool) / pool.sum()
    rng = np.random.default_rng(0)
    found: dict[float, list[int]] = {0.0: [], WORSE: []}
    for worse, stops in found.items():
        for _ in range(N_STREAMS):
            wrong = np.cumsum(rng.random(MOST_GOLDEN) < rate + worse)
            others = np.cumsum(rng.binomial(20, rate, MOST_GOLDEN))
            stops.append(_first_alarm(wrong, others))
    weak = np.array(found[WORSE])
    return {
        "others_error": float(rate),
        "median": float(np.median(weak)),
        "ninety_percent": float(np.quantile(weak, 0.9)),
        "within_150": float((weak <= 150).mean()),
        "falsely_found": float((np.array(found[0.0]) <= MOST_GOLDEN).mean()),
    }


def _first_alarm(wrong: np.ndarray, others: np.ndarray) -> int:
    """Return the golden reading after which the evidence reaches 20, looking after every tenth."""
    for n in range(10, MOST_GOLDEN + 1, 10):
        rate = (others[n - 1] + 1) / (20 * n + 2)
        if reader_evidence(int(wrong[n - 1]), n, others_error=rate) >= 20:
            return n
    return MOST_GOLDEN + 1

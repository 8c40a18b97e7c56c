"""Why the loss works as it does: which cases it learns from, and how well a batch shows the curve.

Both questions are answered on test cases, with networks trained by cross-entropy: which cases would
each loss change, and how far is the area of a batch from the area of all cases?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expertload import Cases
from expertload.lab.results.rows import runs_of_loss
from expertload.lab.runs.finished import FinishedRun
from expertload.losses import aucoc_loss, build_loss
from tools.evidence.files import AREAS, HERE, PUSHES, Record, update_records

LOSSES = {
    "cross-entropy": build_loss("ce"),
    "focal": build_loss("focal"),
    "AUCOC": build_loss("aucoc"),
    "AUCOC, reflected": build_loss("aucoc", boundary="reflect"),
    "AUCOC, ranking path": build_loss("aucoc", gradient="ranking"),
    "AUCOC, reflected, ranking path": build_loss("aucoc", gradient="ranking", boundary="reflect"),
}
BATCH_SIZES = (32, 64, 128, 512)
N_BATCHES, BATCH, TENTHS = 400, 128, 10


def examine(folders: Sequence[Path], *, into: Path = HERE) -> list[Path]:
    """Examine the runs of cross-entropy in folders of experiments; return the files written."""
    pushes: list[Record] = []
    areas: list[Record] = []
    names = [folder.name for folder in folders]
    for folder in folders:
        runs = [FinishedRun(path) for path in runs_of_loss(folder, "ce")]
        logits = [torch.as_tensor(run.test[0], dtype=torch.float64) for run in runs]
        labels = torch.as_tensor(runs[0].test[1])
        pushes += [{"experiment": folder.name, **one} for one in _pushes(logits, labels)]
        areas += [{"experiment": folder.name, **one} for one in _areas(logits, labels)]
    update_records(into / PUSHES.name, pushes, names)
    update_records(into / AREAS.name, areas, names)
    return [into / PUSHES.name, into / AREAS.name]


def _batches(n_cases: int, size: int, count: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        yield torch.randperm(n_cases, generator=generator)[:size]


# ------------------------------------------------------------------ who learns


def _pushes(networks: Sequence[Tensor], labels: Tensor) -> Iterator[Record]:
    """Return how each loss moves the logit of the predicted class, by tenth of confidence.

    A push is minus the gradient, times the batch size. Above zero, it makes the case more
    confident. For cross-entropy it is 1 - p if the case is right, and -p if it is wrong.
    """
    for name, loss in LOSSES.items():
        push = torch.zeros(2, TENTHS, dtype=torch.float64)
        count = torch.zeros(2, TENTHS, dtype=torch.float64)
        for logits in networks:
            confidence, guess = logits.softmax(1).max(1)
            tenth = confidence.argsort().argsort() * TENTHS // len(labels)
            right = (guess == labels).long()
            for rows in _batches(len(labels), BATCH, N_BATCHES):
                own = _push(loss, logits[rows], labels[rows])
                cell = right[rows], tenth[rows]
                push.index_put_(cell, own, accumulate=True)
                count.index_put_(cell, torch.ones_like(own), accumulate=True)
        for cases, kind in enumerate(("wrong", "right")):
            for place in range(TENTHS):
                if count[cases, place] > 0:
                    yield {
                        "loss": name,
                        "cases": kind,
                        "tenth": place + 1,
                        "share": round(float(count[cases, place] / count.sum()), 6),
                        "push": round(float(push[cases, place] / count[cases, place]), 6),
                    }


def _push(loss: torch.nn.Module, logits: Tensor, labels: Tensor) -> Tensor:
    logits = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits, labels), logits)
    top = logits.detach().argmax(1, keepdim=True)
    return -gradient.gather(1, top).squeeze(1) * len(labels)


# ------------------------------------------------------------------ what a batch shows


def _areas(networks: Sequence[Tensor], labels: Tensor) -> Iterator[Record]:
    """Return the area of batches by each estimator, and the area of all cases."""
    whole = [_exact(logits, labels) for logits in networks]
    for name, area in {**ESTIMATORS, "exact": _exact}.items():
        for size in BATCH_SIZES:
            if size > len(labels):
                continue
            errors = [
                area(logits[rows], labels[rows]) - exact
                for logits, exact in zip(networks, whole, strict=True)
                for rows in _batches(len(labels), size, N_BATCHES)
            ]
            yield {
                "estimator": name,
                "batch_size": size,
                "whole": round(float(np.mean(whole)), 6),
                "bias": round(float(np.mean(errors)), 6),
                "spread": round(float(np.std(errors, ddof=1)), 6),
            }


def _exact(logits: Tensor, labels: Tensor) -> float:
    """Return the exact area, with the probability of the true class as graded correctness."""
    proba = logits.softmax(1).numpy()
    every = np.arange(len(labels))
    return Cases.from_correctness(proba[every, labels.numpy()], proba.max(1)).aucoc()


def _estimated(logits: Tensor, labels: Tensor, **options: Any) -> float:
    return float(torch.exp(-aucoc_loss(logits, labels, smoothing="probability", **options)))


Area = Callable[[Tensor, Tensor], float]
ESTIMATORS: dict[str, Area] = {
    "kde": _estimated,
    "kde, reflected": partial(_estimated, boundary="reflect"),
}

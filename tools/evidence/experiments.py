"""Reads the rows of an experiment, and compares runs with the same seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from expertload.lab.results.compare import mean_difference
from expertload.lab.results.rows import ResultRow, choose_candidates, grouped, read_rows
from tools.evidence import files
from tools.evidence.markdown import DASH

# For each experiment: its name on the pages, and the accuracy at which its load is read.
SUMMARY = {
    "retinamnist-cpu": ("RetinaMNIST", "load@75"),
    "dermamnist-cpu": ("DermaMNIST", "load@90"),
    "cifar100-cpu": ("CIFAR-100", "load@90"),
    "cifar100-lt-100-cpu": ("CIFAR-100-LT", "load@90"),
}


def rows_of(name: str) -> list[ResultRow]:
    """Return the rows of an experiment; none if it was not run."""
    path = files.HERE / f"{name}.csv"
    return read_rows(path) if path.exists() else []


def chosen_rows(name: str) -> dict[str, list[ResultRow]]:
    """Return the rows of every loss of an experiment, with the options chosen on validation."""
    return grouped(choose_candidates(rows_of(name)), lambda row: row.loss)


def numbers_of(rows: Sequence[ResultRow], split: str, metric: str) -> list[float]:
    """Return the values of a number, one per run."""
    return [r.value for r in rows if (r.split, r.metric, r.n_runs) == (split, metric, 1)]


def by_seed(
    rows: Sequence[ResultRow], metric: str = "aucoc", *, split: str = "test"
) -> dict[int, float]:
    """Return a number for each seed, without ensembles."""
    return {r.seed: r.value for r in rows if (r.split, r.metric, r.n_runs) == (split, metric, 1)}


def tuning_seeds(rows: Sequence[ResultRow]) -> set[int]:
    """Return the seeds used to choose the options of a loss: those that all its options have."""
    candidates = grouped(rows, lambda row: row.options)
    if len(candidates) < 2:
        return set()
    return set.intersection(*({row.seed for row in own} for own in candidates.values()))


class Difference(NamedTuple):
    """The mean of paired differences over n seeds, with a 95 % interval if n is at least two."""

    mean: float
    low: float
    high: float
    n: int
    p_value: float = math.nan

    def __str__(self) -> str:
        """Write it in points, with its sign."""
        if self.n == 0:
            return DASH
        text = f"{100 * self.mean:+.2f}"
        return text if self.n == 1 else f"{text} ({100 * self.low:+.2f} to {100 * self.high:+.2f})"


def paired(first: dict[int, float], second: dict[int, float]) -> Difference:
    """Return first minus second over the seeds that both have."""
    differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    if len(differences) < 2:
        return Difference(sum(differences), math.nan, math.nan, len(differences))
    mean = mean_difference(differences)
    return Difference(mean.difference, mean.low, mean.high, len(differences), mean.p_value)

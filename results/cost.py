"""What each loss costs: the benchmark of the training loop, kept as CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.lab_training import Cost, measure

from results.gather import COST


def measure_cost(path: Path = COST) -> Path:
    """Measure every loss with the network of the experiments, and write what was found."""
    costs, _ = measure("resnet8", repeats=7)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["loss", *Cost._fields])
        writer.writerows(
            [loss, *(f"{number:.6g}" for number in cost)] for loss, cost in costs.items()
        )
    return path

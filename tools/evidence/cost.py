"""What each loss costs: runs the benchmark of the training loop and writes CSV."""

from __future__ import annotations

from pathlib import Path

from benchmarks.lab_training import measure

from tools.evidence.files import COST, write_records


def measure_cost(*, path: Path = COST) -> Path:
    """Measure every loss as the experiments were run, ResNet-8 on one thread; write the file."""
    costs, _ = measure("resnet8", threads=1, repeats=7)
    write_records(path, [{"loss": loss, **cost._asdict()} for loss, cost in costs.items()])
    return path

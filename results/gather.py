"""From folders of runs to CSV: every number of every run, paired tests, and mean curves.

Tables need the numbers alone. Paired tests and curves need predictions, which are too large to
keep, so they are computed here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean

import numpy as np

from expertload import coc_curve
from expertload.lab.candidates import choose_candidates, grouped, runs_of_loss
from expertload.lab.compare import compare_runs
from expertload.lab.ensembles import collect_ensembles
from expertload.lab.finished_run import FinishedRun
from expertload.lab.result_rows import ResultRow, collect, write_rows

HERE = Path(__file__).resolve().parent
COMPARISONS, CURVES = HERE / "comparisons.csv", HERE / "coc_curves.csv"
COST = HERE / "training_cost.csv"
LOADS = np.linspace(0, 0.95, 96)
PERMUTATIONS = 2000


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One line of comparisons.csv: first minus second, of AUCOC as a share of one."""

    experiment: str
    first: str
    second: str
    role: str
    n_cases: int
    n_seeds: int
    ensemble_first: float
    ensemble_second: float
    permutation_p: float
    closed_form_low: float
    closed_form_high: float
    closed_form_p: float
    seeds_difference: float
    seeds_low: float
    seeds_high: float
    seeds_p: float
    seed_differences: str


def gather(runs: Path, into: Path = HERE) -> Iterator[str]:
    """Read every folder in `runs` that has finished runs; yield their names."""
    comparisons: list[Compared] = []
    curves: list[dict[str, object]] = []
    for folder in sorted(path for path in runs.iterdir() if path.is_dir()):
        rows = collect(folder)
        if not rows:
            continue
        write_rows(into / f"{folder.name}.csv", rows + collect_ensembles(folder))
        comparisons += _compare(folder, rows)
        curves += _curves(folder, rows)
        yield folder.name
    _write(into / COMPARISONS.name, [asdict(one) for one in comparisons])
    _write(into / CURVES.name, curves)


def _write(path: Path, records: list[dict[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(records[0]) if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def read_comparisons(path: Path = COMPARISONS) -> list[Compared]:
    """Read comparisons.csv."""
    kinds = {
        field.name: {"int": int, "float": float}.get(str(field.type), str)
        for field in fields(Compared)
    }
    with path.open(newline="", encoding="utf-8") as stream:
        return [
            Compared(**{name: kinds[name](text) for name, text in record.items()})
            for record in csv.DictReader(stream)
        ]


# ------------------------------------------------------------------ paired tests


def best_baseline(rows: list[ResultRow]) -> str | None:
    """The loss without AUCOC whose chosen options have the best mean validation AUCOC."""
    own = [r for r in choose_candidates(rows) if (r.split, r.metric) == ("validation", "aucoc")]
    scores = {
        loss: fmean(row.value for row in values)
        for loss, values in grouped(own, lambda r: r.loss).items()
        if "aucoc" not in loss
    }
    return max(scores, key=scores.__getitem__, default=None)


def _pairs(rows: list[ResultRow]) -> dict[tuple[str, str], str]:
    """Which losses to compare, and why; each pair once."""
    losses = {row.loss for row in rows}
    best = best_baseline(rows)
    wanted = {("ce+aucoc", "ce"): "primary", ("focal+aucoc", "focal"): "primary"}
    for loss in ("ce+aucoc", "focal+aucoc"):
        if best is not None:
            wanted[loss, best] = "best baseline"
    return {pair: why for pair, why in wanted.items() if losses.issuperset(pair)}


def _compare(folder: Path, rows: list[ResultRow]) -> Iterator[Compared]:
    for (first, second), role in _pairs(rows).items():
        sides = [runs_of_loss(folder, loss) for loss in (first, second)]
        result = compare_runs(*sides, n_rounds=PERMUTATIONS)
        closed, seeds = result.closed_form, result.by_seed
        if closed is None or seeds is None:
            continue
        yield Compared(
            experiment=folder.name,
            first=result.names[0],
            second=result.names[1],
            role=role,
            n_cases=result.n_cases,
            n_seeds=len(seeds.seeds),
            ensemble_first=result.values[0],
            ensemble_second=result.values[1],
            permutation_p=result.permutation.p_value,
            closed_form_low=closed.low,
            closed_form_high=closed.high,
            closed_form_p=closed.p_value,
            seeds_difference=seeds.mean.difference,
            seeds_low=seeds.mean.low,
            seeds_high=seeds.mean.high,
            seeds_p=seeds.mean.p_value,
            seed_differences=" ".join(f"{value:.6f}" for value in seeds.differences),
        )


# ------------------------------------------------------------------ curves


def _curves(folder: Path, rows: list[ResultRow]) -> Iterator[dict[str, object]]:
    """Accuracy at each load, mean over the seeds of a loss."""
    for loss in dict.fromkeys(row.loss for row in rows):
        runs = [FinishedRun(path) for path in runs_of_loss(folder, loss)]
        accuracies = [_accuracy_at_loads(run) for run in runs]
        for load, values in zip(LOADS, np.transpose(accuracies), strict=True):
            yield {
                "experiment": folder.name,
                "loss": loss,
                "n_seeds": len(runs),
                "expert_load": round(float(load), 4),
                "accuracy": round(float(np.mean(values)), 6),
            }


def _accuracy_at_loads(run: FinishedRun) -> np.ndarray:
    """The accuracy of the last point of the curve that delegates no more than each load."""
    curve = coc_curve(run.test[1], run.test_proba)
    position = np.searchsorted(curve.expert_load, LOADS + 1e-12, side="right") - 1
    return curve.accuracy[position]

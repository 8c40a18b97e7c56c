"""Turns folders of runs into CSV: every number of every run, paired tests, and mean curves.

Tables need only the numbers. Paired tests and curves need predictions, which are too large to keep,
so they are computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean

import numpy as np

from expertload import coc_curve
from expertload.exceptions import FileFormatError
from expertload.lab.results.compare import RunComparison, compare_runs
from expertload.lab.results.ensembles import collect_ensembles
from expertload.lab.results.rows import (
    ResultRow,
    choose_candidates,
    collect,
    grouped,
    runs_of_loss,
    write_rows,
)
from expertload.lab.runs.finished import FinishedRun
from tools.evidence.files import (
    COMPARISONS,
    CURVES,
    HERE,
    Record,
    read_records,
    update_records,
)

# In pairs of losses, focal loss has the paper's gamma. If another gamma was chosen for focal loss
# alone, these experiments have focal loss with the paper's gamma, to show what a second loss adds.
FOCAL_OF_PAIRS = {
    "retinamnist-cpu": "retinamnist-focal-cpu",
    "dermamnist-cpu": "dermamnist-focal-cpu",
}
LOADS = np.linspace(0, 0.95, 96)
PERMUTATIONS = 2000


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One line of comparisons.csv: first minus second, in AUCOC between 0 and 1."""

    experiment: str
    first_loss: str
    second_loss: str
    second_experiment: str
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


def gather(runs: Path, *, into: Path = HERE) -> list[str]:
    """Read every folder in `runs` that has finished runs; return their names.

    The records of other experiments are kept.
    """
    comparisons: list[Compared] = []
    curves: list[Record] = []
    names = []
    for folder in _experiments(runs):
        rows = collect(folder)
        if not rows:
            continue
        write_rows(into / f"{folder.name}.csv", rows + collect_ensembles(folder))
        comparisons += _compare(folder, rows)
        curves += _curves(folder, rows)
        names.append(folder.name)
    update_records(into / COMPARISONS.name, [asdict(one) for one in comparisons], names)
    update_records(into / CURVES.name, curves, names)
    return names


def _experiments(runs: Path) -> list[Path]:
    """Return the folders of experiments in a folder, which must not itself have runs."""
    if not runs.is_dir():
        raise FileFormatError(f"There is no folder of runs at {runs}.")
    folders = sorted(path for path in runs.iterdir() if path.is_dir())
    if any((folder / "config.json").exists() for folder in folders):
        raise FileFormatError(
            f"{runs} holds runs, not experiments. Hint: name the folder above it, {runs.parent}."
        )
    return folders


def read_comparisons(path: Path = COMPARISONS) -> list[Compared]:
    """Read comparisons.csv."""
    kinds = {"int": int, "float": float, "str": str}
    parse = {field.name: kinds[str(field.type)] for field in fields(Compared)}
    return [
        Compared(**{name: parse[name](text) for name, text in record.items()})
        for record in read_records(path)
    ]


# ------------------------------------------------------------------ paired tests


def best_baseline(rows: Sequence[ResultRow]) -> str | None:
    """Return the loss without AUCOC whose chosen options have the best mean validation AUCOC.

    Losses are compared over the seeds that all of them have.
    """
    own = [r for r in choose_candidates(rows) if (r.split, r.metric) == ("validation", "aucoc")]
    by_loss = {
        loss: {row.seed: row.value for row in values}
        for loss, values in grouped(own, lambda r: r.loss).items()
        if "aucoc" not in loss
    }
    if not by_loss:
        return None
    shared = set.intersection(*(set(values) for values in by_loss.values()))
    return max(by_loss, key=lambda loss: fmean(by_loss[loss][seed] for seed in shared))


def _pairs(folder: Path, rows: Sequence[ResultRow]) -> dict[tuple[str, str, Path], str]:
    """Return each pair of losses to compare, where the second one's runs are, and why."""
    apart = folder.parent / FOCAL_OF_PAIRS.get(folder.name, folder.name)
    pairs = {
        ("ce+aucoc", "ce", folder): "primary",
        ("focal+aucoc", "focal", apart if apart.exists() else folder): "primary",
    }
    best = best_baseline(rows)
    for loss in ("ce+aucoc", "focal+aucoc"):
        if best is not None:
            known = pairs.get((loss, best, folder))
            pairs[loss, best, folder] = f"{known}, best baseline" if known else "best baseline"
    losses = {row.loss for row in rows}
    return {pair: role for pair, role in pairs.items() if losses.issuperset(pair[:2])}


def _compare(folder: Path, rows: Sequence[ResultRow]) -> Iterator[Compared]:
    """Compare losses over the seeds that both have."""
    for (first, second, place), role in _pairs(folder, rows).items():
        sides = [
            {FinishedRun(path).config.seed: path for path in runs_of_loss(where, loss)}
            for loss, where in ((first, folder), (second, place))
        ]
        shared = sorted(sides[0].keys() & sides[1].keys())
        if len(shared) > 1:
            result = compare_runs(
                *([side[seed] for seed in shared] for side in sides), n_rounds=PERMUTATIONS
            )
            yield _compared((folder.name, place.name), role, (first, second), result)


def _compared(
    experiments: tuple[str, str], role: str, losses: tuple[str, str], result: RunComparison
) -> Compared:
    if result.closed_form is None or result.by_seed is None:
        raise ValueError(f"{experiments}: {losses} are not compared by AUCOC over several seeds.")
    cases, seeds = result.closed_form, result.by_seed
    return Compared(
        experiment=experiments[0],
        first_loss=losses[0],
        second_loss=losses[1],
        second_experiment=experiments[1],
        first=result.names[0],
        second=result.names[1],
        role=role,
        n_cases=result.n_cases,
        n_seeds=len(seeds.seeds),
        ensemble_first=result.values[0],
        ensemble_second=result.values[1],
        permutation_p=result.permutation.p_value,
        closed_form_low=cases.low,
        closed_form_high=cases.high,
        closed_form_p=cases.p_value,
        seeds_difference=seeds.mean.difference,
        seeds_low=seeds.mean.low,
        seeds_high=seeds.mean.high,
        seeds_p=seeds.mean.p_value,
        seed_differences=" ".join(f"{value:.9f}" for value in seeds.differences),
    )


# ------------------------------------------------------------------ curves


def _curves(folder: Path, rows: Sequence[ResultRow]) -> Iterator[Record]:
    """Return the accuracy at each load, as the mean over the seeds of a loss."""
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


def _accuracy_at_loads(run: FinishedRun) -> list[float]:
    curve = coc_curve(run.test[1], run.test_proba)
    return [float(curve.accuracy[curve.row_at_load(load)]) for load in LOADS]

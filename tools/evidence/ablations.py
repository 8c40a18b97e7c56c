"""The tables of the ablations: variants of the loss, and batch sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from expertload.lab.results.rows import ResultRow, grouped
from expertload.lab.runs.finished import options_in_words
from tools.evidence.experiments import by_seed, chosen_rows, numbers_of, paired, rows_of
from tools.evidence.markdown import DASH, spread, table

# For each experiment whose cross-entropy is the reference: recipes, and what each varies.
VARIANTS = {
    "retinamnist-cpu": {
        "retinamnist-weights-cpu": "the paper's loss",
        "retinamnist-reflection-cpu": "reflected kernels",
        "retinamnist-gradient-cpu": "gradient through one path",
        "retinamnist-warm-up-cpu": "warm-up",
    },
    "dermamnist-cpu": {
        "dermamnist-cpu": "the paper's loss",
        "dermamnist-reflection-cpu": "reflected kernels",
        "dermamnist-gradient-cpu": "gradient through one path",
    },
}
BATCH_SIZES = ("dermamnist-batch-size-32-cpu", "dermamnist-batch-size-64-cpu", "dermamnist-cpu")


def ablations(base: str) -> str:
    """Compare every variant and weight of AUCOC with cross-entropy, over the seeds of both."""
    ce = [row for row in rows_of(base) if row.loss == "ce"]
    lines = []
    for name, title in VARIANTS[base].items():
        own = [row for row in rows_of(name) if row.loss == "ce+aucoc"]
        candidates = grouped(own, lambda row: row.options)
        for options in sorted(candidates, key=_order):
            _check_same_training(name, ce[0], candidates[options][0])
            lines.append([title, *_variant(options, candidates[options], ce)])
    headings = [
        "variant",
        "options",
        "seeds",
        "test AUCOC",
        "validation, against ce",
        "test, against ce",
        "steps clipped",
    ]
    return table(headings, lines)


def _order(options: str) -> tuple[str, str, float]:
    given = json.loads(options)
    return given.get("gradient", ""), str(given.get("bandwidth", "")), given["weight"]


def _check_same_training(name: str, ce: ResultRow, other: ResultRow) -> None:
    """Raise an error unless two runs differ only in their loss and its warm-up."""
    if _training(ce) != _training(other):
        raise ValueError(f"{name} was trained otherwise: {other.settings}, not {ce.settings}.")


def _training(row: ResultRow) -> tuple[str, str, int, dict[str, Any]]:
    settings = json.loads(row.settings)
    settings.pop("training.warm_up", None)
    return row.data, row.model, row.batch_size, settings


def _variant(options: str, rows: Sequence[ResultRow], ce: Sequence[ResultRow]) -> list[str]:
    given = json.loads(options)
    shown = {key: given[key] for key in ("weight", "gradient", "bandwidth") if key in given}
    if warm_up := json.loads(rows[0].settings).get("training.warm_up"):
        shown["epochs"] = warm_up
    clipped = numbers_of(rows, "training", "clipped")
    test = by_seed(rows)
    validation = paired(*(by_seed(side, split="validation") for side in (rows, ce)))
    return [
        options_in_words(shown),
        str(len(test)),
        spread(list(test.values())),
        f"{100 * validation.mean:+.2f}",
        str(paired(test, by_seed(ce))),
        # The first runs did not record it; the mean of some seeds is not that of the line.
        f"{fmean(clipped):.0%}" if len(clipped) == len(test) else DASH,
    ]


def batch_sizes() -> str:
    """Compare cross-entropy with and without AUCOC on DermaMNIST, by batch size."""
    lines = [_batch_size(name) for name in BATCH_SIZES if rows_of(name)]
    headings = ["batch size", "seeds", "ce", "chosen", "ce+aucoc", "change (95 % interval)"]
    return table(headings, lines)


def _batch_size(name: str) -> list[str]:
    own = chosen_rows(name)
    ce, aucoc = by_seed(own["ce"]), by_seed(own["ce+aucoc"])
    seeds = sorted(ce.keys() & aucoc.keys())
    return [
        str(own["ce"][0].batch_size),
        str(len(seeds)),
        spread([ce[seed] for seed in seeds]),
        options_in_words(json.loads(own["ce+aucoc"][0].options)),
        spread([aucoc[seed] for seed in seeds]),
        str(paired(aucoc, ce)),
    ]

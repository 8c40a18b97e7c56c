"""Tables on the pages, made from the CSV beside this file.

A page marks the place of a table by a comment, ``<!-- results: performance retinamnist-cpu -->``,
and its end by ``<!-- end of results -->``. What stands between is replaced; a test makes sure that
it is what the CSV says.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from scipy.stats import t as student

from expertload.lab.candidates import choose_candidates, grouped
from expertload.lab.finished_run import describe_options
from expertload.lab.result_rows import ResultRow, read_rows
from expertload.lab.tables import make_table
from expertload.losses.build import LOSS_NAMES
from results.anatomy import ESTIMATES
from results.gather import COST, HERE, best_baseline, read_comparisons

PAGES = ("README.md", "docs/reproduction.md")
BLOCK = re.compile(
    r"(<!-- results: (?P<what>[^>]*?) -->\n)(?P<old>.*?)(<!-- end of results -->)", re.DOTALL
)
# The experiments of the summary, with the accuracy at which their load is read.
SUMMARY = {
    "retinamnist-cpu": ("RetinaMNIST", "load@75"),
    "dermamnist-cpu": ("DermaMNIST", "load@90"),
    "cifar100-cpu": ("CIFAR-100", "load@90"),
    "cifar100-lt-100-cpu": ("CIFAR-100-LT, ratio 100", "load@90"),
}
ABLATIONS = {
    "retinamnist-weights-cpu": "the paper's loss",
    "retinamnist-rank-cpu": "rank estimator",
    "retinamnist-reflection-cpu": "reflection at 0 and 1",
    "retinamnist-gradient-cpu": "gradient through one path",
    "retinamnist-memory-cpu": "memory of 1024 samples",
    "retinamnist-warm-up-cpu": "warm-up of 12 epochs",
}
NOTHING = "*Not run.*\n"


def fill(page: str) -> str:
    """Replace what stands in the blocks of a page."""
    return BLOCK.sub(lambda m: f"{m[1]}{make(m['what'])}{m[4]}", page)


def make(what: str) -> str:
    """Make the text of one block."""
    kind, *arguments = what.split()
    return MAKERS[kind](*arguments)


def rows_of(name: str) -> list[ResultRow]:
    """The rows of an experiment; none if it was not run."""
    path = HERE / f"{name}.csv"
    return read_rows(path) if path.exists() else []


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Write a table whose first column is words and whose others are figures."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "".join("| " + " | ".join(words) + " |\n" for words in (headings, rule, *lines))


# ------------------------------------------------------------------ the lab's own tables


def _lab_table(kind: str) -> Callable[[str], str]:
    def table(name: str) -> str:
        return make_table(rows_of(name), kind=kind) or NOTHING  # type: ignore[arg-type]

    return table


# ------------------------------------------------------------------ seeds in pairs


class Difference(NamedTuple):
    """A mean of paired differences, with its interval at 95 %; NaN where one seed gives none."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        """Write it in points, with its sign."""
        if self.n == 0:
            return "\N{EN DASH}"
        text = f"{100 * self.mean:+.2f}"
        return text if self.n == 1 else f"{text} ({100 * self.low:+.2f} to {100 * self.high:+.2f})"


def by_seed(rows: Sequence[ResultRow], metric: str = "aucoc") -> dict[int, float]:
    """A number of the test split by seed, ensembles left out."""
    return {r.seed: r.value for r in rows if (r.split, r.metric, r.n_runs) == ("test", metric, 1)}


def paired(first: dict[int, float], second: dict[int, float]) -> Difference:
    """First minus second over the seeds that both have, by Student's t."""
    differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    n = len(differences)
    if n == 0:
        return Difference(math.nan, math.nan, math.nan, 0)
    mean = fmean(differences)
    if n == 1:
        return Difference(mean, math.nan, math.nan, 1)
    reach = float(student.ppf(0.975, n - 1)) * stdev(differences) / math.sqrt(n)
    return Difference(mean, mean - reach, mean + reach, n)


def spread(values: Sequence[float], decimals: int = 2) -> str:
    """Mean and spread in per cent."""
    if not values:
        return "\N{EN DASH}"
    text = f"{100 * fmean(values):.{decimals}f}"
    return text if len(values) == 1 else f"{text} ± {100 * stdev(values):.{decimals}f}"


# ------------------------------------------------------------------ summary


def _summary() -> str:
    headings = [
        "test AUCOC (%)",
        "seeds",
        "ce",
        "ce+aucoc",
        "change (95 % interval)",
        "best other loss",
        "ensemble of ce",
        "load: ce",
        "load: ce+aucoc",
    ]
    lines = [
        _summary_line(title, load, rows)
        for name, (title, load) in SUMMARY.items()
        if (rows := rows_of(name))
    ]
    return markdown(headings, lines) if lines else NOTHING


def _summary_line(title: str, load: str, rows: list[ResultRow]) -> list[str]:
    own = grouped(choose_candidates(rows), lambda r: r.loss)
    ce, aucoc = by_seed(own["ce"]), by_seed(own["ce+aucoc"])
    best = best_baseline([row for row in rows if row.loss != "ce"])
    ensemble = [
        row.value
        for row in own["ce"]
        if row.n_runs > 1 and (row.split, row.metric) == ("test", "aucoc")
    ]
    return [
        title,
        str(len(ce)),
        spread(list(ce.values())),
        spread(list(aucoc.values())),
        str(paired(aucoc, ce)),
        "\N{EN DASH}" if best is None else f"{spread(list(by_seed(own[best]).values()))} ({best})",
        spread(ensemble),
        f"{spread(list(by_seed(own['ce'], load).values()), 1)} at {load[5:]} %",
        spread(list(by_seed(own["ce+aucoc"], load).values()), 1),
    ]


# ------------------------------------------------------------------ differences and tests


def _differences(name: str) -> str:
    """Every loss against cross-entropy, seed by seed."""
    rows = rows_of(name)
    if not rows:
        return NOTHING
    own = grouped(choose_candidates(rows), lambda r: r.loss)
    loads = sorted({r.metric for r in rows if r.metric.startswith("load@")})
    lines = [
        [
            describe_options(loss, json.loads(own[loss][0].options)),
            *(
                str(paired(by_seed(own[loss], metric), by_seed(own["ce"], metric)))
                for metric in ("aucoc", "accuracy", *loads)
            ),
        ]
        for loss in LOSS_NAMES
        if loss in own and loss != "ce"
    ]
    loads = [f"load at {load[5:]} % ↓" for load in loads]
    return markdown(["against ce, in points", "AUCOC ↑", "accuracy ↑", *loads], lines)


def _tests(name: str) -> str:
    """The paired tests of AUCOC."""
    lines = [
        [
            f"{one.first} against {one.second}{' (best baseline)' * (one.role != 'primary')}",
            str(Difference(one.seeds_difference, one.seeds_low, one.seeds_high, one.n_seeds)),
            _p(one.seeds_p),
            f"{100 * one.ensemble_first:.2f} / {100 * one.ensemble_second:.2f}",
            f"{100 * one.closed_form_low:+.2f} to {100 * one.closed_form_high:+.2f}",
            _p(one.closed_form_p),
            _p(one.permutation_p),
        ]
        for one in read_comparisons()
        if one.experiment == name
    ]
    headings = [
        "AUCOC",
        "change over seeds",
        "p",
        "ensembles (%)",
        "change, closed form",
        "p",
        "p, permutation",
    ]
    return markdown(headings, lines) if lines else NOTHING


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


# ------------------------------------------------------------------ ablations


def _ablations() -> str:
    """Every variant and weight of AUCOC against cross-entropy, over the seeds that both have."""
    ce = by_seed([row for row in rows_of("retinamnist-cpu") if row.loss == "ce"])
    lines = [
        [title, *_candidate_line(options, own, ce)]
        for name, title in ABLATIONS.items()
        for options, own in _sorted_candidates(rows_of(name))
    ]
    headings = [
        "variant",
        "options",
        "seeds",
        "validation AUCOC",
        "test AUCOC",
        "against ce",
        "steps clipped",
    ]
    return markdown(headings, lines) if lines else NOTHING


def _sorted_candidates(rows: Sequence[ResultRow]) -> list[tuple[str, list[ResultRow]]]:
    own = [row for row in rows if row.loss == "ce+aucoc"]
    candidates = grouped(own, lambda r: r.options)
    return sorted(
        candidates.items(),
        key=lambda item: _order(json.loads(item[0])),
    )


def _order(options: dict[str, Any]) -> tuple[str, str, float]:
    return options.get("gradient", ""), str(options.get("bandwidth", "")), options["weight"]


def _candidate_line(options: str, rows: Sequence[ResultRow], ce: dict[int, float]) -> list[str]:
    given = json.loads(options)
    shown = {key: given[key] for key in ("weight", "gradient", "bandwidth") if key in given}
    validation = [r.value for r in rows if (r.split, r.metric) == ("validation", "aucoc")]
    clipped = [r.value for r in rows if (r.split, r.metric) == ("training", "clipped")]
    test = by_seed(rows)
    return [
        describe_options("", shown).strip(" ()"),
        str(len(test)),
        spread(validation),
        spread(list(test.values())),
        str(paired(test, ce)),
        f"{fmean(clipped):.0%}" if clipped else "\N{EN DASH}",
    ]


def _batch_sizes() -> str:
    names = {
        32: "dermamnist-batch-size-32-cpu",
        64: "dermamnist-batch-size-64-cpu",
        128: "dermamnist-cpu",
    }
    lines = []
    for size, name in names.items():
        own = grouped(choose_candidates(rows_of(name)), lambda r: r.loss)
        if not own:
            continue
        ce, aucoc = by_seed(own["ce"]), by_seed(own["ce+aucoc"])
        shared = sorted(ce.keys() & aucoc.keys())
        lines.append(
            [
                str(size),
                str(len(shared)),
                spread([ce[seed] for seed in shared]),
                describe_options("ce+aucoc", json.loads(own["ce+aucoc"][0].options)),
                spread([aucoc[seed] for seed in shared]),
                str(paired(aucoc, ce)),
            ]
        )
    headings = ["batch size", "seeds", "ce", "chosen", "ce+aucoc", "change (95 % interval)"]
    return markdown(headings, lines) if lines else NOTHING


# ------------------------------------------------------------------ cost


def _cost() -> str:
    """What a loss adds to a step, and how long its runs took."""
    if not COST.exists():
        return NOTHING
    with COST.open(newline="", encoding="utf-8") as stream:
        measured = {record["loss"]: record for record in csv.DictReader(stream)}
    experiments = {name: _seconds(rows_of(name)) for name in ("retinamnist-cpu", "dermamnist-cpu")}
    headings = ["loss", "alone adds to a step", "loop, images/s"]
    headings += [f"seconds a run, {SUMMARY[name][0]}" for name in experiments]
    lines = [
        [
            loss,
            f"{float(record['loss_adds']):+.2%}",
            f"{float(record['images_per_second']):.0f}",
            *(
                f"{median(seconds[loss]):.0f}" if seconds.get(loss) else "\N{EN DASH}"
                for seconds in experiments.values()
            ),
        ]
        for loss, record in measured.items()
    ]
    return markdown(headings, lines)


def _seconds(rows: Sequence[ResultRow]) -> dict[str, list[float]]:
    own = [row for row in rows if (row.split, row.metric) == ("training", "seconds")]
    return {
        loss: [row.value for row in values]
        for loss, values in grouped(own, lambda r: r.loss).items()
    }


def _compute() -> str:
    """Hours of one core that the runs of each experiment took; a shared run counts once."""
    lines, total, seen = [], 0.0, set()
    for path in sorted(HERE.glob("*-cpu.csv")):
        own = [row for row in read_rows(path) if (row.split, row.metric) == ("training", "seconds")]
        new = {replace(row, value=0.0): row.value for row in own}
        seconds = [value for run, value in new.items() if run not in seen]
        seen |= new.keys()
        total += sum(seconds)
        lines.append([path.stem, str(len(seconds)), f"{sum(seconds) / 3600:.2f}"])
    lines.append(["**all**", "", f"**{total / 3600:.2f}**"])
    return markdown(["recipe", "runs", "core hours"], lines)


# ------------------------------------------------------------------ what a batch shows


def _area_of_batches() -> str:
    """How far the area of a batch is from that of all cases, by estimator and batch size."""
    if not ESTIMATES.exists():
        return NOTHING
    with ESTIMATES.open(newline="", encoding="utf-8") as stream:
        records = list(csv.DictReader(stream))
    sizes = sorted({int(record["batch_size"]) for record in records})
    lines = []
    for name, estimator in dict.fromkeys((r["experiment"], r["estimator"]) for r in records):
        own = {
            int(r["batch_size"]): r
            for r in records
            if (r["experiment"], r["estimator"]) == (name, estimator)
        }
        whole = next(iter(own.values()))["whole"]
        lines.append(
            [
                f"{SUMMARY[name][0]}, {estimator}",
                f"{100 * float(whole):.1f}",
                *(_error(own[size]) if size in own else "\N{EN DASH}" for size in sizes),
            ]
        )
    return markdown(["area of the batch", "all cases", *(f"n = {n}" for n in sizes)], lines)


def _error(record: dict[str, str]) -> str:
    return f"{100 * float(record['bias']):+.1f} ± {100 * float(record['spread']):.1f}"


MAKERS: dict[str, Callable[..., str]] = {
    "summary": _summary,
    "performance": _lab_table("performance"),
    "calibration": _lab_table("calibration"),
    "ood": _lab_table("ood"),
    "differences": _differences,
    "tests": _tests,
    "ablations": _ablations,
    "batch-sizes": _batch_sizes,
    "cost": _cost,
    "compute": _compute,
    "area-of-batches": _area_of_batches,
}

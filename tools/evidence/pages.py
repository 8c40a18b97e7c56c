"""Makes the tables of the pages from the CSV in `results/`.

A page marks the start of a table with a comment, ``<!-- results: performance retinamnist-cpu -->``,
and its end with ``<!-- end of results -->``. The text between them is replaced. A test checks that
it agrees with the CSV.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from expertload.lab import TableKind
from expertload.lab.results.rows import ResultRow, read_rows
from expertload.lab.results.tables import make_table
from tools.evidence import files
from tools.evidence.ablations import ablations, batch_sizes
from tools.evidence.claim import claim_fresh, claim_summary, claim_tuning
from tools.evidence.comparisons import differences, paired_tests, summary
from tools.evidence.experiments import SUMMARY, numbers_of, rows_of
from tools.evidence.files import AREAS, COST, read_records
from tools.evidence.ladder_tables import (
    ladder,
    ladder_calibration,
    ladder_in_brief,
    ladder_summary,
    ladder_unclipped,
)
from tools.evidence.loop_tables import loop, loop_rounds
from tools.evidence.markdown import DASH, NOTHING, table
from tools.evidence.outlier_tables import ladder_outlier_scores, ladder_outliers
from tools.evidence.strong import (
    strong,
    strong_in_words,
    strong_on_top,
    strong_open,
    strong_tuning,
)
from tools.evidence.team_tables import (
    team_certificates,
    team_readers,
    team_rules,
    team_stated,
    team_summary,
    team_weak_reader,
)

PAGES = (
    "README.md",
    "docs/claim.md",
    "docs/learn/lowering_the_load.md",
    "docs/loop.md",
    "docs/lower_load.md",
    "docs/reproduction.md",
    "docs/team.md",
)
BLOCK = re.compile(
    r"(<!-- results: (?P<what>[^>]*?) -->\n)(?P<old>.*?)(<!-- end of results -->)", re.DOTALL
)


def fill(page: str) -> str:
    """Replace the text in the blocks of a page."""
    return BLOCK.sub(lambda m: f"{m[1]}{make(m['what'])}{m[4]}", page)


def make(what: str) -> str:
    """Make the text of one block."""
    kind, *arguments = what.split()
    return MAKERS[kind](*arguments)


def _lab_table(kind: TableKind) -> Callable[..., str]:
    """Return the lab's table of an experiment, with some losses or all."""

    def of_experiment(name: str, *losses: str) -> str:
        return make_table(rows_of(name), kind=kind, losses=losses or None) or NOTHING

    return of_experiment


# ------------------------------------------------------------------ cost


def _cost() -> str:
    """Return a table of what each loss adds to a step, and how long its runs took."""
    experiments = ("retinamnist-cpu", "dermamnist-cpu")
    seconds = {name: _seconds(rows_of(name)) for name in experiments}
    headings = ["loss", "alone adds to a step", "loop, images/s"]
    headings += [f"seconds a run, {SUMMARY[name][0]}" for name in experiments]
    lines = [
        [
            record["loss"],
            f"{float(record['loss_adds']):+.2%}",
            f"{float(record['images_per_second']):.0f}",
            *(
                f"{median(own):.0f}" if (own := seconds[name].get(record["loss"])) else DASH
                for name in experiments
            ),
        ]
        for record in read_records(COST)
    ]
    return table(headings, lines)


def _seconds(rows: list[ResultRow]) -> dict[str, list[float]]:
    losses = dict.fromkeys(row.loss for row in rows)
    return {
        loss: numbers_of([row for row in rows if row.loss == loss], "training", "seconds")
        for loss in losses
    }


def _compute() -> str:
    """Return a table of core hours for each experiment; a shared run counts once."""
    lines, total = [], 0.0
    seen: set[ResultRow] = set()
    for path in sorted(files.HERE.glob("*-cpu.csv")):
        own = [row for row in read_rows(path) if (row.split, row.metric) == ("training", "seconds")]
        runs = {replace(row, value=0.0, versions=""): row.value for row in own}
        seconds = [value for run, value in runs.items() if run not in seen]
        seen |= runs.keys()
        total += sum(seconds)
        lines.append([path.stem, str(len(seconds)), f"{sum(seconds) / 3600:.2f}"])
    lines.append(["**all**", f"**{len(seen)}**", f"**{total / 3600:.2f}**"])
    return table(["recipe", "runs of its own", "core hours"], lines)


# ------------------------------------------------------------------ what a batch shows


def _area_of_batches() -> str:
    """Return a table of the difference between the area of a batch and that of all cases."""
    records = read_records(AREAS)
    sizes = sorted({int(record["batch_size"]) for record in records})
    found = {(r["experiment"], r["estimator"], int(r["batch_size"])): r for r in records}
    lines = []
    for name, estimator in dict.fromkeys((r["experiment"], r["estimator"]) for r in records):
        own = [found.get((name, estimator, size)) for size in sizes]
        whole = next(record["whole"] for record in own if record)
        lines.append(
            [
                f"{SUMMARY[name][0]}, {estimator}",
                f"{100 * float(whole):.1f}",
                *(_error(record) if record else DASH for record in own),
            ]
        )
    return table(["area of the batch", "all cases", *(f"n = {n}" for n in sizes)], lines)


def _error(record: dict[str, str]) -> str:
    return f"{100 * float(record['bias']):+.1f} ± {100 * float(record['spread']):.1f}"


MAKERS: dict[str, Callable[..., str]] = {
    "summary": summary,
    "performance": _lab_table("performance"),
    "calibration": _lab_table("calibration"),
    "ood": _lab_table("ood"),
    "differences": differences,
    "tests": paired_tests,
    "ablations": ablations,
    "batch-sizes": batch_sizes,
    "cost": _cost,
    "compute": _compute,
    "area-of-batches": _area_of_batches,
    "claim": claim_summary,
    "claim-fresh": claim_fresh,
    "claim-tuning": claim_tuning,
    "claim-strong": strong,
    "claim-strong-tuning": strong_tuning,
    "claim-strong-in-words": strong_in_words,
    "claim-strong-on-top": strong_on_top,
    "claim-strong-open": strong_open,
    "ladder": ladder,
    "ladder-calibration": ladder_calibration,
    "ladder-outliers": ladder_outliers,
    "ladder-outlier-scores": ladder_outlier_scores,
    "ladder-summary": ladder_summary,
    "ladder-unclipped": ladder_unclipped,
    "ladder-in-brief": ladder_in_brief,
    "team": team_summary,
    "team-rules": team_rules,
    "team-stated": team_stated,
    "team-certificates": team_certificates,
    "team-readers": team_readers,
    "team-weak-reader": team_weak_reader,
    "loop": loop,
    "loop-rounds": loop_rounds,
}

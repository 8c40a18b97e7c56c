"""The paper's claim: cross-entropy with AUCOC against cross-entropy alone, by form of the loss.

A regime is a recipe of experiments/claim. The forms of the loss are its recipes NAME, NAME-
reflected and NAME-log-odds, which differ in nothing else. The weight of each form is chosen on
validation data of the tuning seeds. It is then judged on fresh seeds, which influenced no choice,
so the difference is what a new user should expect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from expertload.exceptions import FileFormatError
from expertload.lab.results.rows import (
    ResultRow,
    best_options,
    finished_runs,
    grouped,
    read_rows,
    write_rows,
)
from expertload.lab.results.rows import rows_of as rows_of_run
from expertload.lab.runs.finished import FinishedRun
from tools.evidence import files
from tools.evidence.experiments import by_seed, paired, rows_of
from tools.evidence.markdown import DASH, p_value, spread, table

REGIMES = {
    "claim-cifar100-unclipped": "CIFAR-100, augmented, no step clipped",
    "claim-cifar100": "CIFAR-100, augmented: many classes, not saturated",
    "claim-cifar100-lt": "CIFAR-100 with a long tail, augmented: many classes, few images",
    "claim-tiny-imagenet": "Tiny-ImageNet, 30 images of each of 200 classes, augmented",
    "claim-dermamnist": "DermaMNIST, augmented: in between",
    "claim-dermamnist-interpolating": "DermaMNIST, images as they are: learned by heart",
}
FORMS = {
    "": "the paper's kernel",
    "-reflected": "reflected kernels",
    "-log-odds": "in log odds",
}
LAST_EPOCH = "last epoch:validation"
CONTROLS = {
    "focal": "focal loss",
    "torch.nn:CrossEntropyLoss": "label smoothing",
    "gce": "generalised cross-entropy",
}

Rows = list[ResultRow]


def gather_claim(runs: Path, *, into: Path | None = None) -> Iterator[str]:
    """Read the folders claim-* and *-unclipped into CSV; yield a message when each is written.

    Runs that are only in the CSV are kept, so seeds can be added later.
    """
    named = {*runs.glob("claim-*"), *runs.glob("*-unclipped")}
    folders = sorted(path for path in named if path.is_dir())
    if not folders:
        raise FileFormatError(
            f"There is no folder claim-* in {runs}. Hint: name the folder that `lab sweep` writes "
            "the runs of experiments/claim to."
        )
    for folder in folders:
        if rows := [row for run in finished_runs(folder) for row in _rows(run)]:
            path = (into or files.HERE) / f"{folder.name}.csv"
            read = {_run_of(row) for row in rows}
            kept = (
                [row for row in read_rows(path) if _run_of(row) not in read]
                if path.exists()
                else []
            )
            write_rows(path, sorted([*kept, *rows], key=_run_of))
            yield f"{folder.name}: {len(read)} runs"


def _run_of(row: ResultRow) -> tuple[str, str, int]:
    return row.loss, row.options, row.seed


def _rows(run: FinishedRun) -> Iterator[ResultRow]:
    """Return the numbers of a run, and validation AUCOC after its last epoch, not a chosen one."""
    own = [*rows_of_run(run)]
    yield from own
    *_, last = (run.folder.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    yield replace(own[0], split=LAST_EPOCH, metric="aucoc", value=json.loads(last)["aucoc"])


# ------------------------------------------------------------------ who is compared


def candidates(regime: str) -> dict[tuple[str, str], Rows]:
    """Return the rows of everything that was tried in a regime, by loss, form and options."""
    found: dict[tuple[str, str], Rows] = {}
    for form, title in FORMS.items():
        for row in rows_of(f"{regime}{form}"):
            name = {"ce": "cross-entropy", "ce+aucoc": title, **CONTROLS}[row.loss]
            found.setdefault((name, row.options), []).append(row)
    order = ["cross-entropy", *FORMS.values(), *CONTROLS.values()]
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def tuning_seeds(regime: str) -> set[int]:
    """Return the seeds used for choices: those that every candidate of the regime has."""
    seeds = [set(by_seed(rows)) for rows in candidates(regime).values()]
    return set.intersection(*seeds) if seeds else set()


def chosen(regime: str) -> dict[str, tuple[str, Rows]]:
    """Return the options of each loss and form with the best mean validation AUCOC."""
    seeds = tuning_seeds(regime)
    found: dict[str, tuple[str, Rows]] = {}
    for name, items in grouped(candidates(regime).items(), lambda item: item[0][0]).items():
        tried = {options: rows for (_, options), rows in items}
        scores = {options: by_seed(rows, split="validation") for options, rows in tried.items()}
        best = best_options(scores, measure="aucoc", seeds=seeds)
        if best is not None:
            found[name] = (best, tried[best])
    return found


def confirmed(regime: str) -> dict[str, tuple[str, Rows]]:
    """Return the chosen options that were trained with fresh seeds, and only those rows."""
    tuned = tuning_seeds(regime)
    return {
        name: (options, fresh)
        for name, (options, rows) in chosen(regime).items()
        if (fresh := [row for row in rows if row.seed not in tuned])
    }


# ------------------------------------------------------------------ the tables


def claim_fresh(regime: str) -> str:
    """Return a table of what each form of the loss adds to cross-entropy, on fresh seeds."""
    best = confirmed(regime)
    if not best:
        return table([], [])
    ce = best["cross-entropy"][1]
    load = first_load(ce)
    headings = [
        "loss, on fresh seeds",
        "chosen",
        "seeds",
        "steps clipped",
        "test AUCOC (%)",
        "AUCOC, against cross-entropy",
        "p",
        "raw weights",
        "averaged weights",
        "last epoch, validation",
        f"load at {load.partition('@')[2]} %, against cross-entropy",
    ]
    lines = [
        [name, describe(options), *_against(rows, ce, load)]
        for name, (options, rows) in best.items()
    ]
    return table(headings, lines)


def first_load(rows: Rows) -> str:
    """Return the name of the load at the first target accuracy of a recipe."""
    return min(
        {row.metric for row in rows if row.metric.startswith("load@")},
        key=lambda metric: float(metric.partition("@")[2]),
    )


def describe(options: str) -> str:
    """Describe the chosen option: a weight, a gamma, a strength of smoothing or a q."""
    given = json.loads(options)
    for key in ("weight", "gamma", "label_smoothing", "q"):
        if key in given:
            return f"{key.replace('_', ' ')} {given[key]:g}"
    return DASH


def clipped(rows: Rows) -> str:
    """Return the share of training steps whose gradient was clipped, as a mean over the runs."""
    shares = by_seed(rows, "clipped", split="training")
    return f"{fmean(shares.values()):.0%}" if shares else DASH


def _against(own: Rows, ce: Rows, load: str) -> list[str]:
    found = [str(len(by_seed(own))), clipped(own), spread([*by_seed(own).values()])]
    if own == ce:
        return [*found, *[DASH] * 6]
    change = paired(by_seed(own), by_seed(ce))
    by_split = [
        str(paired(by_seed(own, split=split), by_seed(ce, split=split)))
        for split in ("raw:test", "averaged:test", LAST_EPOCH)
    ]
    moved = paired(by_seed(own, load), by_seed(ce, load))
    p = DASH if change.n < 2 else p_value(change.p_value)
    return [*found, str(change), p, *by_split, str(moved)]


def claim_tuning(regime: str) -> str:
    """Return a table of everything that was tried on the tuning seeds, for the choices."""
    seeds = tuning_seeds(regime)
    tried = {
        key: [row for row in rows if row.seed in seeds] for key, rows in candidates(regime).items()
    }
    best = {(name, options) for name, (options, _) in chosen(regime).items()}
    ce = next((rows for (name, _), rows in tried.items() if name == "cross-entropy"), [])
    headings = [
        "loss, on tuning seeds",
        "options",
        "seeds",
        "validation, against cross-entropy",
        "test, against cross-entropy",
        "chosen",
    ]
    lines = [
        [
            key[0],
            describe(key[1]),
            str(len(seeds)),
            *(
                str(paired(by_seed(rows, split=split), by_seed(ce, split=split)))
                for split in ("validation", "test")
            ),
            "yes" if key in best else "",
        ]
        for key, rows in tried.items()
        if key[0] != "cross-entropy"
    ]
    return table(headings, lines)


def claim_summary() -> str:
    """Return one line per regime: what each form and control adds to AUCOC, on fresh seeds."""
    compared = [*FORMS.values(), *CONTROLS.values()]
    lines = [
        [title, clipped(best["cross-entropy"][1]), *(_change(best, loss) for loss in compared)]
        for regime, title in REGIMES.items()
        if (best := confirmed(regime))
    ]
    headings = ["AUCOC, against cross-entropy", "steps clipped with cross-entropy", *compared]
    return table(headings, lines)


def _change(best: dict[str, tuple[str, Rows]], loss: str) -> str:
    if loss not in best:
        return DASH
    change = paired(by_seed(best[loss][1]), by_seed(best["cross-entropy"][1]))
    return f"{change}, {change.n} seeds"

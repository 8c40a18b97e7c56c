"""The paper's claim on a strong network: the tables of the recipes claim-resnet9-*.

The rule that the runs follow is in experiments/claim/claim-resnet9-usual-tuning.toml, and
`tools.evidence.settle` trains them. "On top" measures what is left of the loss when averaged
weights, two views of an image and a second network are used as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from expertload.curve import aucoc_score, load_at_accuracy
from expertload.lab.ladder.steps import (
    Answers,
    mean_answers,
    raw_answers,
    selected_answers,
    viewed_answers,
)
from expertload.lab.results.rows import best_options, finished_runs, grouped
from expertload.lab.runs.finished import FinishedRun
from tools.evidence.claim import CONTROLS, FORMS, Rows, clipped, describe
from tools.evidence.experiments import by_seed, paired, rows_of
from tools.evidence.files import ON_TOP, Record, read_records, write_records
from tools.evidence.markdown import DASH, spread, table
from tools.evidence.settle import ARMS, FRESH_SEEDS, TUNING_SEED

NAMES = {"ce": "cross-entropy", "ce+aucoc": FORMS[""], **CONTROLS}
TITLES = {"usual": "usual", "authors": "authors'"}
RAW = "raw:test"
PAIRS = tuple(zip(FRESH_SEEDS[::2], FRESH_SEEDS[1::2], strict=True))  # no network in two pairs
STEPS = {
    "raw": "raw weights",
    "averaged": "averaged weights",
    "views": "and two views",
    "networks": "and two networks",
}


# ------------------------------------------------------------------ the weight, and the judgement


def chosen_weight(arm: str) -> str | None:
    """Return the options of the paper's loss that tuning favours: best on validation data."""
    own = [row for row in rows_of(f"claim-resnet9-{arm}-tuning") if row.loss == "ce+aucoc"]
    scores = {
        options: by_seed(rows, split="validation")
        for options, rows in grouped(own, lambda row: row.options).items()
    }
    return best_options(scores, measure="aucoc", seeds={TUNING_SEED})


def judged(arm: str) -> dict[str, Rows]:
    """Return the rows of fresh seeds by loss: those of complete seeds, in their order.

    A seed counts if it was trained with cross-entropy and with the chosen weight.
    """
    found = grouped(rows_of(f"claim-resnet9-{arm}"), lambda row: row.loss)
    both = set(FRESH_SEEDS).intersection(
        *(by_seed(found.get(loss, []), split=RAW) for loss in ("ce", "ce+aucoc"))
    )
    complete = FRESH_SEEDS[: next((i for i, s in enumerate(FRESH_SEEDS) if s not in both), None)]
    kept = {loss: [row for row in found.get(loss, []) if row.seed in complete] for loss in NAMES}
    return {loss: rows for loss, rows in kept.items() if rows}


def strong_tuning() -> str:
    """Return a table of the weights that were tried on the tuning seed."""
    lines = []
    for arm in ARMS:
        rows = rows_of(f"claim-resnet9-{arm}-tuning")
        ce = [row for row in rows if row.loss == "ce"]
        own = grouped([r for r in rows if r.loss == "ce+aucoc"], lambda row: row.options)
        for options, tried in sorted(own.items(), key=lambda item: describe(item[0])):
            validation = [*by_seed(tried, split="validation").values()]
            against = paired(by_seed(tried, split="validation"), by_seed(ce, split="validation"))
            is_best = "yes" if options == chosen_weight(arm) else ""
            lines.append(
                [TITLES[arm], describe(options), spread(validation), str(against), is_best]
            )
    headings = ["arm", "weight", "validation AUCOC (%)", "against cross-entropy", "chosen"]
    return table(headings, lines)


def strong() -> str:
    """Return a table of what the paper's loss adds on fresh seeds, in both arms."""
    lines = []
    for arm in ARMS:
        rows = judged(arm)
        lines += [_line(arm, loss, own, rows["ce"]) for loss, own in rows.items()]
    headings = [
        "arm",
        "loss",
        "seeds",
        "steps clipped",
        "test AUCOC (%)",
        "against cross-entropy",
        "accuracy (%)",
        "load at 90 %",
        "load at 90 %, against cross-entropy",
        "ECE (%)",
    ]
    return table(headings, lines)


def _line(arm: str, loss: str, own: Rows, ce: Rows) -> list[str]:
    area, accuracy, load, error = (
        by_seed(own, metric, split=RAW) for metric in ("aucoc", "accuracy", "load@90", "ece")
    )
    is_ce = loss == "ce"
    return [
        TITLES[arm],
        NAMES[loss] + ("" if is_ce else f", {describe(own[0].options)}"),
        str(len(area)),
        clipped(own),
        spread([*area.values()]),
        DASH if is_ce else str(paired(area, by_seed(ce, split=RAW))),
        *(spread([*numbers.values()], decimals=1) for numbers in (accuracy, load)),
        DASH if is_ce else str(paired(load, by_seed(ce, "load@90", split=RAW))),
        spread([*error.values()], decimals=1),
    ]


# ------------------------------------------------------------------ on top of other methods


def measure_on_top(runs: Path, *, data_dir: Path | None = None) -> Iterator[str]:
    """Measure the networks of fresh seeds with averaged weights, views and in pairs, as CSV."""
    records: list[Record] = []
    for arm in ARMS:
        found = [
            FinishedRun(run.folder.path, data_dir=data_dir)
            for run in finished_runs(runs / f"claim-resnet9-{arm}")
        ]
        for loss, own in grouped(found, lambda run: run.config.loss.name).items():
            seeds = {run.config.seed: run for run in own}
            records += [
                _record(arm, loss, seed, step, seeds[min(seeds)], answers)
                for step, seed, answers in _answers(seeds)
            ]
            yield f"{arm}, {loss}: {len(seeds)} seeds"
    write_records(ON_TOP, records)


def _answers(runs: dict[int, FinishedRun]) -> Iterator[tuple[str, int, Answers]]:
    viewed = {seed: viewed_answers(run, max_passes=2) for seed, run in runs.items()}
    for seed, run in runs.items():
        yield "raw", seed, raw_answers(run)
        yield "averaged", seed, selected_answers(run)
        yield "views", seed, viewed[seed]
    for first, second in PAIRS:
        if first in viewed and second in viewed:
            yield "networks", first, mean_answers([viewed[first], viewed[second]])


def _record(
    arm: str, loss: str, seed: int, step: str, run: FinishedRun, answers: Answers
) -> Record:
    _, labels = run.test
    return {
        "arm": arm,
        "loss": loss,
        "seed": seed,
        "step": step,
        "aucoc": aucoc_score(labels, answers.test),
        "load": load_at_accuracy(labels, answers.test, target_accuracy=0.9),
    }


def strong_on_top() -> str:
    """Return a table of the paper's loss beside cross-entropy, with other methods on top."""
    records = read_records(ON_TOP)
    lines = []
    for arm in ARMS:
        for step, title in STEPS.items():
            ce, aucoc = (
                {
                    int(r["seed"]): (float(r["aucoc"]), float(r["load"]))
                    for r in records
                    if (r["arm"], r["step"], r["loss"]) == (arm, step, loss)
                }
                for loss in ("ce", "ce+aucoc")
            )
            if shared := sorted(ce.keys() & aucoc.keys()):
                lines.append([TITLES[arm], title, str(len(shared)), *_change(ce, aucoc, shared)])
    headings = [
        "arm",
        "with",
        "pairs",
        "AUCOC, cross-entropy (%)",
        "with the paper's loss",
        "difference",
        "load at 90 %, cross-entropy",
        "with the paper's loss",
        "difference",
    ]
    return table(headings, lines)


def _change(
    ce: dict[int, tuple[float, float]], aucoc: dict[int, tuple[float, float]], seeds: list[int]
) -> Iterator[str]:
    for place in (0, 1):
        before, after = ({s: side[s][place] for s in seeds} for side in (ce, aucoc))
        yield f"{100 * fmean(before.values()):.2f}"
        yield f"{100 * fmean(after.values()):.2f}"
        yield str(paired(after, before))

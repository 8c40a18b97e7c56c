"""The paper's claim on a strong network: the tables of the recipes claim-resnet9-*.

The rule that the runs follow is in experiments/claim/claim-resnet9-usual-tuning.toml, and
`tools.evidence.settle` trains them. "On top" shows what is left of the loss when averaged weights,
two views of an image and a second network are used as well. What the tables show is also written in
words here, so that a sentence changes with its numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from expertload.curve import aucoc_score, load_at_accuracy
from expertload.lab.ladder.steps import Answers, mean_answers, viewed_answers
from expertload.lab.results.rows import best_options, finished_runs, grouped
from expertload.lab.runs.finished import FinishedRun
from tools.evidence.claim import CONTROLS, FORMS, Rows, clipped, describe
from tools.evidence.experiments import Difference, by_seed, paired, rows_of
from tools.evidence.files import ON_TOP, Record, read_records, write_records
from tools.evidence.markdown import DASH, NOTHING, spread, table
from tools.evidence.settle import ARMS, FRESH_SEEDS, TUNING_SEED, Queue

NAMES = {"ce": "cross-entropy", "ce+aucoc": FORMS[""], **CONTROLS}
TITLES = {"usual": "usual", "authors": "authors'", "steps": "usual, but the authors' schedule"}
PLACES = {"usual": "In the usual setting", "authors": "In the authors' settings"}
RAW = "raw:test"
THE_PAPERS_GAIN = 0.03
PAIRS = tuple(zip(FRESH_SEEDS[::2], FRESH_SEEDS[1::2], strict=True))  # no network in two pairs
STEPS = {
    RAW: "raw weights",
    "test": "averaged weights, where validation data prefer them",
    "views": "and two views",
    "networks": "and two networks",
}

Numbers = dict[int, tuple[float, float]]  # AUCOC and load at 90 %, by seed


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
        for options, tried in sorted(own.items(), key=lambda item: json.loads(item[0])["weight"]):
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
    if steps := rows_of("claim-resnet9-steps"):
        lines.append(_line("steps", "ce", steps, steps))
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
        DASH if is_ce else str(_change(own, ce)),
        *(spread([*numbers.values()], decimals=1) for numbers in (accuracy, load)),
        DASH if is_ce else str(_change(own, ce, "load@90")),
        spread([*error.values()], decimals=1),
    ]


def _change(own: Rows, ce: Rows, metric: str = "aucoc", *, split: str = RAW) -> Difference:
    return paired(by_seed(own, metric, split=split), by_seed(ce, metric, split=split))


# ------------------------------------------------------------------ the same in words


def strong_in_words() -> str:
    """Return what the runs show by the rule of the recipe, as a list."""
    return "".join(f"- {line}\n" for line in _in_words()) or NOTHING


def _in_words() -> Iterator[str]:
    found = {arm: rows for arm in ARMS if "ce+aucoc" in (rows := judged(arm))}
    for arm, rows in found.items():
        area, load = (_change(rows["ce+aucoc"], rows["ce"], m) for m in ("aucoc", "load@90"))
        share = clipped(rows["ce"]).replace("%", " %")
        yield (
            f"**{PLACES[arm]}**, with {share} of the steps clipped, "
            f"AUCOC changes by {area} points over {area.n} seeds: {_judgement(area)}. The load at "
            f"90 % accuracy changes by {load}."
        )
    averaged = [
        f"{_change(rows['ce+aucoc'], rows['ce'], split='test')} {PLACES[arm].lower()}"
        for arm, rows in found.items()
    ]
    if averaged:
        yield f"**With averaged weights** on top, AUCOC changes by {' and '.join(averaged)}."
    for loss in CONTROLS:
        if own := found.get("usual", {}).get(loss):
            change = _change(own, found["usual"]["ce"])
            name = NAMES[loss].capitalize()
            yield f"**{name}**, not tuned here, changes it by {change} over {change.n} seeds."
    if (steps := rows_of("claim-resnet9-steps")) and len(found) == len(ARMS):
        schedule = _change(found["usual"]["ce"], steps)
        clipping = _change(steps, found["authors"]["ce"])
        yield (
            "**What sets the arms apart**, with cross-entropy: the usual schedule is worth "
            f"{schedule} points, and not clipping a sum at 2 {clipping} ({schedule.n} seeds)."
        )


def _judgement(change: Difference) -> str:
    """Say what the rule concludes from an interval."""
    if change.n < 2:
        return "one seed decides nothing"
    effect = "no gain is shown"
    if change.low > 0:
        effect = "the loss helps"
    elif change.high < 0:
        effect = "no gain but a fall is shown"
    excluded = "is excluded" if change.high < THE_PAPERS_GAIN else "is not excluded"
    return f"{effect}, and a gain of three points {excluded}"


def strong_open() -> str:
    """Return which runs of the rule are in no CSV, as a list."""
    queue = Queue(Path("no-runs-but-those-in-csv"))
    left: dict[str, set[int]] = {}
    for folder, config in filter(queue.is_open, queue):
        what = f"`{folder.parent.name}`, {NAMES[config.loss.name]}"
        left.setdefault(what, set()).add(config.seed)
    lines = [f"{what}: seed {', '.join(map(str, sorted(seeds)))}" for what, seeds in left.items()]
    if not read_records(ON_TOP):
        lines.append("the paper's loss on top of two views and of a second network")
    return "".join(f"- {line}\n" for line in lines) or "*Nothing is left.*\n"


# ------------------------------------------------------------------ on top of other methods


def measure_on_top(runs: Path, *, data_dir: Path | None = None) -> Iterator[str]:
    """Measure the networks of fresh seeds over two views and in pairs, as CSV.

    What is in the CSV of seeds that are not in the folder stays there.
    """
    records: dict[tuple[str, ...], Record] = {_key(r): r for r in read_records(ON_TOP)}
    for arm in ARMS:
        folder = runs / f"claim-resnet9-{arm}"
        found = [
            FinishedRun(run.folder.path, data_dir=data_dir)
            for run in (finished_runs(folder) if folder.is_dir() else ())
        ]
        for loss, own in grouped(found, lambda run: run.config.loss.name).items():
            if loss in CONTROLS:
                continue
            seeds = {run.config.seed: run for run in own}
            for step, seed, answers in _answers(seeds):
                record = _record(arm, loss, seed, step, seeds[seed], answers)
                records[_key(record)] = record
            yield f"{arm}, {loss}: {len(seeds)} seeds"
    write_records(ON_TOP, [records[key] for key in sorted(records)])


def _key(record: Record) -> tuple[str, ...]:
    return tuple(str(record[name]) for name in ("arm", "loss", "seed", "step"))


def _answers(runs: dict[int, FinishedRun]) -> Iterator[tuple[str, int, Answers]]:
    viewed = {seed: viewed_answers(run, max_passes=2) for seed, run in runs.items()}
    for seed, answers in viewed.items():
        yield "views", seed, answers
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
    lines = []
    for arm in ARMS:
        for step, title in STEPS.items():
            ce, aucoc = (_measured(arm, step, loss) for loss in ("ce", "ce+aucoc"))
            if shared := sorted(ce.keys() & aucoc.keys()):
                lines.append([TITLES[arm], title, str(len(shared)), *_sides(ce, aucoc, shared)])
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


def _measured(arm: str, step: str, loss: str) -> Numbers:
    """Return AUCOC and load of each seed: of single networks from the CSV of the runs."""
    if step in {RAW, "test"}:
        rows = judged(arm).get(loss, [])
        area, load = (by_seed(rows, metric, split=step) for metric in ("aucoc", "load@90"))
        return {seed: (area[seed], load[seed]) for seed in area}
    return {
        int(r["seed"]): (float(r["aucoc"]), float(r["load"]))
        for r in read_records(ON_TOP)
        if (r["arm"], r["step"], r["loss"]) == (arm, step, loss)
    }


def _sides(ce: Numbers, aucoc: Numbers, seeds: list[int]) -> Iterator[str]:
    for place in (0, 1):
        before, after = ({s: side[s][place] for s in seeds} for side in (ce, aucoc))
        yield f"{100 * fmean(before.values()):.2f}"
        yield f"{100 * fmean(after.values()):.2f}"
        yield str(paired(after, before))

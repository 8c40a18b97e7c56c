"""Writes the results of a ladder: a table, a plot, a certified policy and a report."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.cases import Cases
from expertload.evaluation import Evaluation, evaluate
from expertload.exceptions import InsufficientDataError
from expertload.lab.data import Dataset
from expertload.lab.ladder.numbers import (
    CertifiedLoad,
    LadderRow,
    certified_load,
    halves,
    measure_step,
)
from expertload.lab.ladder.steps import STEPS, Climb
from expertload.lab.results.evaluate import save_policy, write_report
from expertload.lab.results.measures import load_name
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import write_json, write_whole

TOP = "top of the ladder"
HALVES = (
    "Test images were not used for any choice. The policy is certified on one half of them, drawn "
    "at random; the other half shows what it does."
)


@dataclass(frozen=True, kw_only=True)
class LowerLoad:
    """The results of `lower_load`, and their paths.

    Attributes
    ----------
    data : str
    rows : tuple of LadderRow
    target_accuracies : tuple of float
    augmentation : str
        The augmentation in words.
    notes : tuple of str
        Remarks about the data.
    promise : str
        The promise of the policy, or why there is none.
    certified : CertifiedLoad
        The effect of the policy on the half of the test images that was not used to certify it.
    model : Path
        The folder of the model at the top: a run like any other.
    policy : Path or None
        None if nothing could be certified.
    report, picture, table : Path
    """

    data: str
    rows: tuple[LadderRow, ...]
    target_accuracies: tuple[float, ...]
    augmentation: str
    notes: tuple[str, ...]
    promise: str
    certified: CertifiedLoad
    model: Path
    policy: Path | None
    report: Path
    picture: Path
    table: Path


def write_outcome(
    ladder: Climb,
    model: FinishedRun,
    data: Dataset,
    folder: Path,
    *,
    target_accuracies: Sequence[float],
    augmentation: str,
    notes: Sequence[str],
) -> LowerLoad:
    """Measure a ladder, certify its top, and write all results."""
    first, before = target_accuracies[0], [None, *ladder.steps[:-1]]
    rows = tuple(
        measure_step(step, ladder.test_labels, target_accuracies, before=earlier)
        for step, earlier in zip(ladder.steps, before, strict=True)
    )
    labels, top, plain = ladder.test_labels, model.test_proba, ladder.steps[0].models[0].test
    certified = certified_load(labels, top, target_accuracy=first)
    # The report is about the first model, so the policy must belong to it too.
    models = {
        TOP: _evaluate_half(labels, top, data, first),
        STEPS["plain"]: _evaluate_half(labels, plain, data, first),
    }
    policy, promise = _save_policy(models[TOP], folder / "policy.json")
    found = LowerLoad(
        data=data.name,
        rows=rows,
        target_accuracies=tuple(target_accuracies),
        augmentation=augmentation,
        notes=tuple(notes),
        promise=promise,
        certified=certified,
        model=model.folder.path,
        policy=policy,
        report=folder / "report.html",
        picture=folder / "coc.png",
        table=folder / "ladder.csv",
    )
    write_report(models, found.report, title=f"Lower load on {data.name}", note=_note(found))
    _draw(labels, {STEPS["plain"]: plain, TOP: top}, found.picture)
    _write_tables(found)
    return found


def _evaluate_half(
    labels: IntArray, proba: FloatArray, data: Dataset, target_accuracy: float
) -> Evaluation:
    """Evaluate the half of the test cases that certifies, under the names of the classes."""
    half, _ = halves(len(labels))
    names = np.array(data.class_names)
    cases = Cases.from_predictions(names[labels[half]], proba[half], labels=names)
    return evaluate(cases, target_accuracy=target_accuracy)


def _save_policy(found: Evaluation, path: Path) -> tuple[Path | None, str]:
    """Save the certified policy, if any; return its path, and the promise or the reason."""
    try:
        save_policy({TOP: found}, path)
    except InsufficientDataError as error:
        path.unlink(missing_ok=True)  # it was made for another model
        return None, str(error)
    return path, found.guarantee


def _note(found: LowerLoad) -> str:
    second = (
        f"There it delegates {found.certified.load:.1%} and is right in "
        f"{found.certified.accuracy:.1%} of the rest."
        if found.policy
        else "Nothing could be certified."
    )
    return f"{HALVES} {second} This page uses the half on which the policy is certified."


# ------------------------------------------------------------------ files


def _draw(labels: IntArray, models: dict[str, FloatArray], path: Path) -> None:
    """Draw the curves of the first and the last step on all test cases."""
    from matplotlib import pyplot

    from expertload.display import COCComparisonDisplay

    places = np.arange(next(iter(models.values())).shape[1])
    display = COCComparisonDisplay.from_predictions(labels, models, labels=places)
    picture = io.BytesIO()
    display.figure_.savefig(picture, dpi=150, metadata={"Software": None})
    pyplot.close(display.figure_)
    write_whole(path, picture.getvalue())


def _write_tables(found: LowerLoad) -> None:
    lines = [_line(row) for row in found.rows]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(lines[-1]), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    write_whole(found.table, text.getvalue().encode())
    write_json(found.table.with_suffix(".json"), _facts(found, lines))


def _line(row: LadderRow) -> dict[str, Any]:
    """Return one row of the CSV; the first step has no changes."""
    line = vars(row) | {load_name(target): load for target, load in row.loads.items()}
    for name in ("loads", "aucoc_change", "load_change"):
        del line[name]
    for name, change in (("aucoc", row.aucoc_change), ("load", row.load_change)):
        if change is not None:
            line[f"{name}_change"] = change.estimate
            line |= {f"{name}_change_low": change.low, f"{name}_change_high": change.high}
    return line


def _facts(found: LowerLoad, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    point = found.certified
    return {
        "data": found.data,
        "augmentation": found.augmentation,
        "target_accuracies": list(found.target_accuracies),
        "notes": [*found.notes, HALVES],
        "steps": [_without_nan(line) for line in lines],
        "model": str(found.model),
        "policy": None if found.policy is None else str(found.policy),
        "promise": found.promise,
        "certified": _without_nan({"load": point.load, "accuracy": point.accuracy}),
    }


def _without_nan(line: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value != value else value for key, value in line.items()}

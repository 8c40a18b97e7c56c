"""The outcome of a ladder: the numbers of its steps, a plot, a certified policy and a report.

The numbers of a step are means over its models on all test cases. The certified load comes from a
threshold that is certified on one half of the test cases and measured on the other. No step of the
ladder is chosen on test cases, so a threshold certified on some of them keeps its guarantee, and
its load is measured on cases that did not certify it.

The intervals of changes cover the chance in the test cases: other cases would give other numbers
for the same networks. They do not cover that other seeds would train other networks; that needs
experiments over many seeds.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.cases import Cases
from expertload.evaluation import Evaluation, evaluate
from expertload.exceptions import InsufficientDataError
from expertload.lab.data import Dataset
from expertload.lab.ladder.steps import STEPS, Answers, Climb, Step
from expertload.lab.results.evaluate import evaluate_probabilities, save_policy, write_report
from expertload.lab.results.measures import cases_of, load_name
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import write_json, write_table, write_whole
from expertload.operating_point import CertifiedPoint, certify
from expertload.significance import Interval, load_difference
from expertload.significance.interval import influence_of_cases, linearise

TOP = "top of the ladder"
HALVES = (
    "Test images were not used for any choice. The policy is certified on one half of them, drawn "
    "at random; the other half shows what it does."
)


@dataclass(frozen=True, kw_only=True)
class LadderRow:
    """The results and the cost of a step.

    Attributes
    ----------
    step : str
    is_taken : bool
    choice : str
    validation_aucoc : float
        The validation AUCOC of the models that the step proposes.
    aucoc, accuracy, ece, nll, brier : float
        Measured on all test cases.
    loads : dict from float to float
        The expert load at each target accuracy, on all test cases.
    certified_load, certified_accuracy : float
        For the first target: see `certified_load`.
    certified : float
        The share of models for which a threshold could be certified.
    seconds : float
        Training time of the networks of one model.
    passes : float
        Passes through a network for each image.
    aucoc_change, load_change : Interval or None
        Relative to the step before, for the load at the first target; None for the first step. The
        intervals are over test cases, for these networks.
    """

    step: str
    is_taken: bool
    choice: str
    validation_aucoc: float
    aucoc: float
    accuracy: float
    ece: float
    nll: float
    brier: float
    loads: dict[float, float]
    certified: float
    certified_load: float
    certified_accuracy: float
    seconds: float
    passes: float
    aucoc_change: Interval | None = None
    load_change: Interval | None = None

    @property
    def title(self) -> str:
        """The title for display."""
        return STEPS[self.step]


def measure_step(
    step: Step, labels: IntArray, target_accuracies: Sequence[float], *, before: Step | None = None
) -> LadderRow:
    """Measure the models of a step on the test cases.

    Parameters
    ----------
    step : Step
    labels : ndarray of int64
        The labels of the test cases.
    target_accuracies : sequence of float
        The accuracies at which to read the load; a threshold is certified for the first.
    before : Step, optional
        The step before, to measure the changes.
    """
    measured = [_measure(model, labels, target_accuracies) for model in step.models]
    mean = {name: _mean([numbers[name] for numbers in measured]) for name in measured[0]}
    known = (field.name for field in fields(LadderRow))
    numbers: dict[str, Any] = {name: mean[name] for name in known if name in mean}
    if before is not None:
        sides = [[cases_of(labels, model.test) for model in one.models] for one in (step, before)]
        numbers |= {
            "aucoc_change": aucoc_change(*sides),
            "load_change": load_difference(*sides, target_accuracy=target_accuracies[0]),
        }
    return LadderRow(
        step=step.name,
        is_taken=step.is_taken,
        choice=step.choice,
        validation_aucoc=step.validation_aucoc,
        loads={target: mean[load_name(target)] for target in target_accuracies},
        **numbers,
    )


def _mean(values: Sequence[float]) -> float:
    """Return the mean without NaN: if nothing is certified, there is no accuracy."""
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else math.nan


def _measure(
    model: Answers, labels: IntArray, target_accuracies: Sequence[float]
) -> dict[str, float]:
    certified = certified_load(labels, model.test, target_accuracy=target_accuracies[0])
    return {
        **evaluate_probabilities(labels, model.test, target_accuracies),
        "certified": float(certified.point.is_certified),
        "certified_load": certified.load,
        "certified_accuracy": certified.accuracy,
        "seconds": model.seconds,
        "passes": model.passes,
    }


# ------------------------------------------------------------------ the certified load


def halves(n: int) -> tuple[IntArray, IntArray]:
    """Split n cases into two random halves; if n is odd, the second half has one more.

    Each half is a simple random sample, so independent cases stay independent.

    Examples
    --------
    >>> from expertload.lab.ladder.outcome import halves
    >>> [len(half) for half in halves(7)]
    [3, 4]
    """
    # The raw stream of a seeded generator is the same in every version of numpy.
    order = np.argsort(np.random.default_rng(0).random(n), kind="stable")
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


class CertifiedLoad(NamedTuple):
    """The effect of a threshold on one half of the test cases, certified on the other half.

    Attributes
    ----------
    point : CertifiedPoint
        The point certified on the first half.
    load : float
        The share of the second half that is delegated; 1 if nothing was certified.
    accuracy : float
        The accuracy of the automatic decisions there; NaN if there are none.
    """

    point: CertifiedPoint
    load: float
    accuracy: float


def certified_load(labels: IntArray, proba: FloatArray, *, target_accuracy: float) -> CertifiedLoad:
    """Certify a threshold on one half of the test cases, and measure it on the other.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        Column numbers.
    proba : ndarray, shape (n, classes)
    target_accuracy : float

    Returns
    -------
    CertifiedLoad

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.ladder.outcome import certified_load
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.full(3, 0.2), size=2000)
    >>> labels = (proba.cumsum(axis=1) > rng.random((2000, 1))).argmax(axis=1)
    >>> certified = certified_load(labels, proba, target_accuracy=0.9)
    >>> print(f"load {certified.load:.2f}, accuracy {certified.accuracy:.2f}")
    load 0.34, accuracy 0.92
    """
    first, second = (cases_of(labels[half], proba[half]) for half in halves(len(labels)))
    point = certify(first, target_accuracy=target_accuracy)
    accepted = point.accepts(second.confidence)
    accuracy = float(second.correct[accepted].mean()) if accepted.any() else float("nan")
    return CertifiedLoad(point, float(1 - accepted.mean()), accuracy)


# ------------------------------------------------------------------ changes


def aucoc_change(after: Sequence[Cases], before: Sequence[Cases]) -> Interval:
    """Compute the change of mean AUCOC between two groups of models, with its interval.

    Parameters
    ----------
    after, before : sequence of Cases
        The same cases, with the predictions of each model of a group.

    Returns
    -------
    Interval
        In closed form: the influence of each case is the mean over the models.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.lab.ladder.outcome import aucoc_change
    >>> rng = np.random.default_rng(0)
    >>> good = rng.dirichlet(np.full(3, 0.2), size=1000)
    >>> labels = (good.cumsum(axis=1) > rng.random((1000, 1))).argmax(axis=1)
    >>> worse = 0.6 * good + 0.4 * rng.dirichlet(np.ones(3), size=1000)
    >>> after, before = (Cases.from_predictions(labels, proba) for proba in (good, worse))
    >>> print(aucoc_change([after], [before]))
    0.0471 (95 % interval 0.0323 to 0.0618)
    """
    sides = [[influence_of_cases(cases) for cases in side] for side in (after, before)]
    areas = [fmean(area for area, _ in side) for side in sides]
    influences = [np.mean([influence for _, influence in side], axis=0) for side in sides]
    return linearise(areas[0] - areas[1], influences[0] - influences[1]).interval(0.95)


# ------------------------------------------------------------------ the outcome


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
    outcome = LowerLoad(
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
    write_report(models, outcome.report, title=f"Lower load on {data.name}", note=_note(outcome))
    _draw(labels, {STEPS["plain"]: plain, TOP: top}, outcome.picture)
    lines = [_line(row) for row in outcome.rows]
    write_table(outcome.table, lines[-1], lines)
    write_json(outcome.table.with_suffix(".json"), _facts(outcome, lines))
    return outcome


def _evaluate_half(
    labels: IntArray, proba: FloatArray, data: Dataset, target_accuracy: float
) -> Evaluation:
    """Evaluate the half of the test cases that certifies, under the names of the classes."""
    half, _ = halves(len(labels))
    names = np.array(data.class_names)
    cases = Cases.from_predictions(names[labels[half]], proba[half], labels=names)
    return evaluate(cases, target_accuracy=target_accuracy)


def _save_policy(evaluation: Evaluation, path: Path) -> tuple[Path | None, str]:
    """Save the certified policy, if any; return its path, and the promise or the reason."""
    try:
        save_policy({TOP: evaluation}, path)
    except InsufficientDataError as error:
        path.unlink(missing_ok=True)  # it was made for another model
        return None, str(error)
    return path, evaluation.guarantee


def _note(outcome: LowerLoad) -> str:
    second = (
        f"There it delegates {outcome.certified.load:.1%} and is right in "
        f"{outcome.certified.accuracy:.1%} of the rest."
        if outcome.policy
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


def _facts(outcome: LowerLoad, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    point = outcome.certified
    return {
        "data": outcome.data,
        "augmentation": outcome.augmentation,
        "target_accuracies": list(outcome.target_accuracies),
        "notes": [*outcome.notes, HALVES],
        "steps": [_without_nan(line) for line in lines],
        "model": str(outcome.model),
        "policy": None if outcome.policy is None else str(outcome.policy),
        "promise": outcome.promise,
        "certified": _without_nan({"load": point.load, "accuracy": point.accuracy}),
    }


def _without_nan(line: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value != value else value for key, value in line.items()}

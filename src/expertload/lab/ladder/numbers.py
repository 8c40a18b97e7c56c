"""The numbers of a step: means over its models, on all test cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from expertload._typing import IntArray
from expertload.lab.ladder.answers import Answers
from expertload.lab.ladder.certified import certified_load
from expertload.lab.ladder.steps import Step
from expertload.lab.results.evaluate import evaluate_probabilities
from expertload.lab.results.measures import load_name

__all__ = ["StepNumbers", "measure_step"]


@dataclass(frozen=True, kw_only=True)
class StepNumbers:
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


def measure_step(step: Step, labels: IntArray, target_accuracies: Sequence[float]) -> StepNumbers:
    """Measure the models of a step on the test cases.

    Parameters
    ----------
    step : Step
    labels : ndarray of int64
        The labels of the test cases.
    target_accuracies : sequence of float
        The accuracies at which to read the load; a threshold is certified for the first.
    """
    each = [_measure(model, labels, target_accuracies) for model in step.models]
    mean = {name: _mean([numbers[name] for numbers in each]) for name in each[0]}
    return StepNumbers(
        step=step.name,
        is_taken=step.is_taken,
        choice=step.choice,
        validation_aucoc=step.validation_aucoc,
        loads={target: mean[load_name(target)] for target in target_accuracies},
        **{name: mean[name] for name in NAMES},
    )


def _mean(values: Sequence[float]) -> float:
    """Return the mean without NaN: if nothing is certified, there is no accuracy."""
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else math.nan


NAMES = (
    *("aucoc", "accuracy", "ece", "nll", "brier"),
    *("certified", "certified_load", "certified_accuracy", "seconds", "passes"),
)


def _measure(
    model: Answers, labels: IntArray, target_accuracies: Sequence[float]
) -> dict[str, float]:
    found = certified_load(labels, model.test, target_accuracy=target_accuracies[0])
    return {
        **evaluate_probabilities(labels, model.test, target_accuracies),
        "certified": float(found.point.is_certified),
        "certified_load": found.load,
        "certified_accuracy": found.accuracy,
        "seconds": model.seconds,
        "passes": model.passes,
    }

"""The numbers in tables: their names, how they are computed, and their direction.

Names are those of the published results: ``aucoc``, ``accuracy``, ``load@90`` (the expert load at
90 % accuracy), ``ece``, ``ks``, ``brier``, ``cwece``, ``nll``; and ``auroc``, ``aupr`` and
``fpr95`` for outliers, which need other input and so have no function here.

The figures published in the paper come with the package, in percent, by experiment, loss and
number. The paper's table for TissueMNIST has AUCOC and accuracy exchanged; here they are corrected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.cases import Cases
from expertload.curve import aucoc_score, load_at_accuracy
from expertload.exceptions import ParameterError
from expertload.metrics import (
    brier_loss,
    classwise_calibration_error,
    expected_calibration_error,
    kolmogorov_smirnov_error,
    log_loss,
)

Metric = Callable[[Cases], float]


@dataclass(frozen=True)
class Measure:
    """One column of a table.

    Attributes
    ----------
    name : str
        As in files and on the command line.
    heading : str
        As in tables.
    higher_is_better : bool
    metric : callable or None
        From cases to the number.
    decimals : int
        Digits after the point, as printed.
    percent : bool
        Whether it is printed in percent.
    """

    name: str
    heading: str
    higher_is_better: bool
    metric: Metric | None = None
    decimals: int = 2
    percent: bool = True

    def of(self, cases: Cases) -> float:
        """Return the number of some cases."""
        if self.metric is None:
            raise ParameterError(
                f"Runs have no {self.heading} of their own, which needs outliers. Hint: aucoc, "
                "accuracy, load@95 and the calibration errors are computed from a run alone."
            )
        return self.metric(cases)

    def show(self, value: float) -> str:
        """Return a value as printed in tables, without the percent sign."""
        return f"{100 * value if self.percent else value:.{self.decimals}f}"


def cases_of(y_true: IntArray, y_proba: FloatArray) -> Cases:
    """Return cases whose labels are column numbers, even if some do not occur."""
    return Cases.from_predictions(y_true, y_proba, labels=np.arange(y_proba.shape[1]))


_MEASURES = {
    number.name: number
    for number in (
        Measure("aucoc", "AUCOC", True, aucoc_score),
        Measure("accuracy", "accuracy", True, attrgetter("accuracy")),
        Measure("ece", "ECE", False, expected_calibration_error),
        Measure("ks", "KS", False, kolmogorov_smirnov_error),
        Measure("brier", "Brier", False, brier_loss),
        Measure("cwece", "cwECE", False, classwise_calibration_error, decimals=3),
        Measure("nll", "NLL", False, log_loss, decimals=3, percent=False),
        Measure("auroc", "AUROC", True),
        Measure("aupr", "AUPR", True),
        Measure("fpr95", "FPR95", False),
    )
}
MEASURE_NAMES = tuple(n for n, number in _MEASURES.items() if number.metric)


def load_name(target_accuracy: float) -> str:
    """Name the expert load at an accuracy.

    Examples
    --------
    >>> from expertload.lab.results.measures import load_name
    >>> load_name(0.95)
    'load@95'
    """
    return f"load@{100 * target_accuracy:g}"


def find_measure(name: str) -> Measure:
    """Return a number by name.

    Examples
    --------
    >>> from expertload.lab.results.measures import find_measure
    >>> find_measure("load@90").heading
    'load at 90 %'
    """
    if name in _MEASURES:
        return _MEASURES[name]
    kind, _, text = name.partition("@")
    try:
        percent = float(text)
    except ValueError:
        percent = 0.0
    if kind != "load" or not 0 < percent <= 100:
        raise ParameterError(
            f"There is no number {name!r}. Hint: use one of {', '.join(_MEASURES)}, or load@90 for "
            "the expert load at 90 % accuracy."
        )
    metric = partial(load_at_accuracy, target_accuracy=percent / 100)
    return Measure(name, f"load at {percent:g} %", False, metric)


# ------------------------------------------------------------------ as the authors measured

# The published figures come from other definitions than ours, so they should stand beside these.


def nearest_load(cases: Cases, target: float) -> float:
    """Return the load of the point of the curve whose accuracy is nearest to a target.

    Ours is the smallest load at which the accuracy reaches the target.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.lab.results.measures import nearest_load
    >>> nearest_load(Cases.from_correctness([1, 1, 0], [0.9, 0.8, 0.6]), target=0.7)
    0.0
    """
    curve = cases.curve()
    return float(curve.expert_load[np.abs(curve.accuracy - target).argmin()])


def unsorted_ks(cases: Cases) -> float:
    """Return the KS error of the top label with cases in the order of the data, not sorted."""
    return float(np.abs(np.cumsum(cases.correct - cases.confidence)).max() / len(cases))


def find_authors_measure(name: str) -> Measure:
    """Return a number by name, as the authors' code computes it.

    Examples
    --------
    >>> from expertload.lab.results.measures import find_authors_measure
    >>> find_authors_measure("load@90").heading
    'load at 90 %'
    """
    ours = find_measure(name)
    kind, _, percent = name.partition("@")
    theirs: dict[str, Metric] = {
        "aucoc": partial(aucoc_score, convention="authors"),
        "cwece": partial(classwise_calibration_error, strategy="width"),
        "ks": unsorted_ks,
        "load": lambda cases: nearest_load(cases, float(percent) / 100),
    }
    return replace(ours, metric=theirs.get(kind, ours.metric))


# ------------------------------------------------------------------ published

# The names of networks in the published figures, if they differ from ours.
NETWORKS = {"wide-resnet-28-10": "wrn-28-10"}
OUTLIERS = {
    "cifar100-c:gaussian_noise": "cifar100-vs-cifar100c-gaussian",
    "cifar100-c:all": "cifar100-vs-cifar100c-all",
    "svhn": "cifar100-vs-svhn",
}


class Published(NamedTuple):
    """Figures of one experiment.

    Attributes
    ----------
    source : str
        The network, and the batch size if it was varied.
    figures : mapping
        By loss, then number; per cent.
    """

    source: str
    figures: Mapping[str, Mapping[str, float]]


@cache
def _all_figures() -> dict[str, dict[str, dict[str, float]]]:
    text = (files("expertload.lab.results") / "published_results.json").read_text("utf-8")
    figures: dict[str, dict[str, dict[str, float]]] = json.loads(text)
    return figures


def published_losses() -> tuple[str, ...]:
    """Return the losses of the paper's tables, in their order.

    Examples
    --------
    >>> from expertload.lab.results.measures import published_losses
    >>> published_losses()[:3]
    ('ce', 'focal', 'adafocal53')
    """
    return tuple(next(iter(_all_figures().values())))


def find_published(data: str, model: str, *, batch_size: int | None = None) -> Published | None:
    """Return the paper's figures for a data set, with the network nearest to ours.

    Parameters
    ----------
    data, model : str
        As in a recipe. If the paper has no figures for this network, those of its main table are
        used, and `source` names their network.
    batch_size : int, optional
        If the paper has figures for this batch size, they are used.

    Examples
    --------
    >>> from expertload.lab.results.measures import find_published
    >>> find_published("cifar100", "wide-resnet-28-10").figures["ce+aucoc"]["aucoc"]
    94.49
    >>> find_published("retinamnist", "small-cnn").source
    'resnet50'
    """
    figures = _all_figures()
    network = NETWORKS.get(model, model)
    varied = f"{data}/{network}/batch-{batch_size}"
    if varied in figures:
        return Published(f"{network}, batch size {batch_size}", figures[varied])
    if f"{data}/{network}" in figures:
        return Published(network, figures[f"{data}/{network}"])
    # The main tables come before those of the appendix.
    others = [name for name in figures if name.startswith(f"{data}/") and name.count("/") == 1]
    if not others:
        return None
    return Published(others[0].partition("/")[2], figures[others[0]])


def find_published_outliers(data: str, against: str) -> Published | None:
    """Return the paper's AUROC by loss and score for a network trained on CIFAR-100.

    Examples
    --------
    >>> from expertload.lab.results.measures import find_published_outliers
    >>> find_published_outliers("cifar100", "svhn").figures["ce+aucoc"]["odin"]
    83.5
    """
    if data != "cifar100" or against not in OUTLIERS:
        return None
    return Published("wrn-28-10", _all_figures()[OUTLIERS[against]])

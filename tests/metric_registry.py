"""Every metric of the library, and what it promises: the contract tests run over this list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps

import expertload as el
from expertload import metrics


@dataclass(frozen=True)
class Metric:
    """A metric, the kind of input it takes, and the range it stays in."""

    name: str
    function: Callable[..., float]
    kind: str  # "predictions", "correctness" or "outlier"
    bounds: tuple[float, float] = (0.0, 1.0)
    weights: str = "any"  # "any" or "whole"
    ranks_only: bool = field(default=False)  # depends on the order of confidences alone

    def __str__(self) -> str:
        return self.name


def _area_family(name, function, kind):
    return [
        Metric(f"{name}[exact]", partial(function, convention="exact"), kind, ranks_only=True),
        Metric(
            f"{name}[thresholds]",
            partial(function, convention="thresholds"),
            kind,
            weights="whole",
            ranks_only=True,
        ),
    ]


def of_correctness(function, **options):
    """The same metric for a correctness and a confidence, which make up `Cases`."""

    @wraps(function)
    def call(correct, confidence, *, sample_weight=None):
        cases = el.Cases.from_correctness(correct, confidence, sample_weight=sample_weight)
        return function(cases, **options)

    return call


METRICS = [
    *_area_family("aucoc_score", el.aucoc_score, "predictions"),
    Metric("aucoc_score[authors]", partial(el.aucoc_score, convention="authors"), "predictions"),
    *_area_family("aurc_loss", metrics.aurc_loss, "predictions"),
    *_area_family("excess_aurc_loss", metrics.excess_aurc_loss, "predictions"),
    Metric("augrc_loss", metrics.augrc_loss, "predictions", bounds=(0, 0.5), ranks_only=True),
    Metric("auarc_score", metrics.auarc_score, "predictions", weights="whole", ranks_only=True),
    Metric("load_at_accuracy", partial(el.load_at_accuracy, target_accuracy=0.7), "predictions"),
    Metric("accuracy_at_load", partial(el.accuracy_at_load, expert_load=0.4), "predictions"),
    *[
        Metric(f"{name}[{strategy}]", partial(function, strategy=strategy, n_bins=5), "predictions")
        for strategy in ("mass", "width")
        for name, function in (
            ("expected_calibration_error", metrics.expected_calibration_error),
            ("maximum_calibration_error", metrics.maximum_calibration_error),
            ("classwise_calibration_error", metrics.classwise_calibration_error),
        )
    ],
    Metric("kolmogorov_smirnov_error", metrics.kolmogorov_smirnov_error, "predictions"),
    Metric("brier_loss", metrics.brier_loss, "predictions", bounds=(0, 2)),
    Metric("log_loss", metrics.log_loss, "predictions", bounds=(0, 709)),
    *[
        Metric(
            f"{name}_of_correctness[{convention}]",
            of_correctness(function, convention=convention),
            "correctness",
            weights=weights,
            ranks_only=True,
        )
        for name, function in (
            ("aucoc", el.aucoc_score),
            ("aurc", metrics.aurc_loss),
            ("excess_aurc", metrics.excess_aurc_loss),
        )
        for convention, weights in (("exact", "any"), ("thresholds", "whole"))
    ],
    Metric(
        "aucoc_of_correctness[authors]",
        of_correctness(el.aucoc_score, convention="authors"),
        "correctness",
    ),
    Metric(
        "augrc_of_correctness",
        of_correctness(metrics.augrc_loss),
        "correctness",
        bounds=(0, 0.5),
        ranks_only=True,
    ),
    Metric(
        "load_at_accuracy_of_correctness",
        of_correctness(el.load_at_accuracy, target_accuracy=0.7),
        "correctness",
    ),
    Metric(
        "accuracy_at_load_of_correctness",
        of_correctness(el.accuracy_at_load, expert_load=0.4),
        "correctness",
    ),
    *[
        Metric(
            f"ece_of_correctness[{strategy}]",
            of_correctness(metrics.expected_calibration_error, strategy=strategy, n_bins=5),
            "correctness",
        )
        for strategy in ("mass", "width")
    ],
    Metric("ks_of_correctness", of_correctness(metrics.kolmogorov_smirnov_error), "correctness"),
    Metric("outlier_auroc_score", metrics.outlier_auroc_score, "outlier", ranks_only=True),
    *[
        Metric(
            f"{name}[{positive}]", partial(function, positive=positive), "outlier", ranks_only=True
        )
        for positive in ("outlier", "inlier")
        for name, function in (
            ("outlier_aupr_score", metrics.outlier_aupr_score),
            ("fpr_at_tpr_error", metrics.fpr_at_tpr_error),
        )
    ],
]

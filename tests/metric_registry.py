"""Every metric of the library, and what it promises: the contract tests run over this list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

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
    *_area_family("aucoc_from_correctness", el.aucoc_score_from_correctness, "correctness"),
    Metric(
        "aucoc_from_correctness[authors]",
        partial(el.aucoc_score_from_correctness, convention="authors"),
        "correctness",
    ),
    *_area_family("aurc_from_correctness", metrics.aurc_loss_from_correctness, "correctness"),
    *_area_family(
        "excess_aurc_from_correctness", metrics.excess_aurc_loss_from_correctness, "correctness"
    ),
    Metric(
        "augrc_from_correctness",
        metrics.augrc_loss_from_correctness,
        "correctness",
        bounds=(0, 0.5),
        ranks_only=True,
    ),
    Metric(
        "load_at_accuracy_from_correctness",
        partial(el.load_at_accuracy_from_correctness, target_accuracy=0.7),
        "correctness",
    ),
    Metric(
        "accuracy_at_load_from_correctness",
        partial(el.accuracy_at_load_from_correctness, expert_load=0.4),
        "correctness",
    ),
    *[
        Metric(
            f"ece_from_correctness[{strategy}]",
            partial(
                metrics.expected_calibration_error_from_correctness, strategy=strategy, n_bins=5
            ),
            "correctness",
        )
        for strategy in ("mass", "width")
    ],
    Metric("ks_from_correctness", metrics.kolmogorov_smirnov_error_from_correctness, "correctness"),
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

"""Operate classifiers at high accuracy and low expert load.

The curve and its area are here; around them are `expertload.operating_point`,
`expertload.significance`, `expertload.metrics`, `expertload.scores`, `expertload.calibrators` and
`expertload.display`. Imported by name, because they need more than numpy and scipy:
`expertload.losses` and `expertload.torch_metrics`, `expertload.frames`, `expertload.report`,
`expertload.delegating_classifier` and `expertload.lab`.
"""

from expertload import (
    calibrators,
    display,
    exceptions,
    metrics,
    operating_point,
    scores,
    significance,
)
from expertload.curve import (
    COCCurve,
    accuracy_at_load,
    accuracy_at_load_from_correctness,
    aucoc_score,
    aucoc_score_from_correctness,
    coc_curve,
    coc_curve_from_correctness,
    load_at_accuracy,
    load_at_accuracy_from_correctness,
)
from expertload.operating_point import OperatingPoint

__version__ = "0.1.0"

__all__ = [
    "COCCurve",
    "OperatingPoint",
    "accuracy_at_load",
    "accuracy_at_load_from_correctness",
    "aucoc_score",
    "aucoc_score_from_correctness",
    "calibrators",
    "coc_curve",
    "coc_curve_from_correctness",
    "display",
    "exceptions",
    "load_at_accuracy",
    "load_at_accuracy_from_correctness",
    "metrics",
    "operating_point",
    "scores",
    "significance",
]

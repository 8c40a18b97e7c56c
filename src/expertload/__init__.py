"""Operate classifiers at high accuracy and low expert load.

The curve and its area are here; around them are `expertload.operating_point`,
`expertload.monitoring`, `expertload.significance`, `expertload.metrics`, `expertload.scores`,
`expertload.calibrators`, `expertload.display` and `expertload.scorers`. Imported by name, because
they need more than numpy and scipy: `expertload.losses`, `expertload.ensembling` and
`expertload.torch_metrics`, `expertload.frames`, `expertload.report` and `expertload.lab`.
`DelegatingClassifier` is imported when it is asked for by name.
"""

import importlib as _importlib
import typing as _t

from expertload import (
    calibrators,
    display,
    exceptions,
    metrics,
    monitoring,
    operating_point,
    scorers,
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
from expertload.operating_point import OperatingPoint, certify

if _t.TYPE_CHECKING:
    from expertload.delegating_classifier import DelegatingClassifier as DelegatingClassifier

__version__ = "0.1.0"

__all__ = [
    "COCCurve",
    "OperatingPoint",
    "accuracy_at_load",
    "accuracy_at_load_from_correctness",
    "aucoc_score",
    "aucoc_score_from_correctness",
    "calibrators",
    "certify",
    "coc_curve",
    "coc_curve_from_correctness",
    "display",
    "exceptions",
    "load_at_accuracy",
    "load_at_accuracy_from_correctness",
    "metrics",
    "monitoring",
    "operating_point",
    "scorers",
    "scores",
    "significance",
]

# What needs scikit-learn, and the module it is imported from when it is first asked for. Not in
# __all__: a star would ask for it, and fail where scikit-learn is not installed.
_LAZY = {"DelegatingClassifier": "expertload.delegating_classifier"}


def __getattr__(name: str) -> _t.Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'expertload' has no attribute {name!r}")
    return getattr(_importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

"""Operate classifiers at high accuracy and low expert load.

The curve and its area are here; around them are `expertload.operating_point`,
`expertload.monitoring`, `expertload.significance`, `expertload.metrics`, `expertload.scores`,
`expertload.calibrators`, `expertload.team` and `expertload.display`. Imported by name, because they
need more than numpy and scipy: `expertload.sklearn`, `expertload.losses`, `expertload.ensembling`,
`expertload.torch_metrics`, `expertload.io`, `expertload.report` and `expertload.lab`.

Everything is imported on first use. So the package itself loads in a millisecond, and scikit-learn
is needed only for `DelegatingClassifier`.
"""

import importlib as _importlib

__version__ = "0.1.0"

__all__ = [
    "COCCurve",
    "Cases",
    "OperatingPoint",
    "accuracy_at_load",
    "aucoc_score",
    "calibrators",
    "certify",
    "coc_curve",
    "display",
    "exceptions",
    "load_at_accuracy",
    "metrics",
    "monitoring",
    "operating_point",
    "scores",
    "significance",
    "team",
]

# The modules of names that are not modules. DelegatingClassifier is not in __all__, because a star
# import would fail if scikit-learn is not installed.
_HOMES = {
    **dict.fromkeys(("COCCurve", "accuracy_at_load", "aucoc_score", "coc_curve"), "curve"),
    "load_at_accuracy": "curve",
    "Cases": "cases",
    "OperatingPoint": "operating_point",
    "certify": "operating_point.certify",
    "DelegatingClassifier": "sklearn",
}
# The modules that need nothing but numpy and scipy.
_MODULES = {*__all__, "cases", "curve", "tally"} - {*_HOMES}

TYPE_CHECKING = False  # typing's constant, without the time it takes to import typing
if TYPE_CHECKING:
    from expertload import (
        calibrators,
        display,
        exceptions,
        metrics,
        monitoring,
        operating_point,
        scores,
        significance,
        team,
    )
    from expertload.cases import Cases
    from expertload.curve import (
        COCCurve,
        accuracy_at_load,
        aucoc_score,
        coc_curve,
        load_at_accuracy,
    )
    from expertload.operating_point import OperatingPoint
    from expertload.operating_point.certify import certify
    from expertload.sklearn import DelegatingClassifier as DelegatingClassifier
else:  # hidden from type checkers, which would otherwise accept any misspelt name

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return _importlib.import_module(f"{__name__}.{name}")
        if name in _HOMES:
            return getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


del TYPE_CHECKING


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_HOMES})

"""Operate classifiers at high accuracy and low expert load."""

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

__version__ = "0.1.0"

__all__ = [
    "COCCurve",
    "accuracy_at_load",
    "accuracy_at_load_from_correctness",
    "aucoc_score",
    "aucoc_score_from_correctness",
    "coc_curve",
    "coc_curve_from_correctness",
    "load_at_accuracy",
    "load_at_accuracy_from_correctness",
]

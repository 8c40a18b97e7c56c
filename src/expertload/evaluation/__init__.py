"""Evaluates one model on one set of cases, and collects every number in one object."""

from expertload.evaluation.choose_confidence import ConfidenceChoice, choose_confidence, split_cases
from expertload.evaluation.comparison import Compared, compare_evaluations, compare_with_first
from expertload.evaluation.evaluate import evaluate
from expertload.evaluation.evaluation import Calibration, ConfidenceHistogram, Evaluation
from expertload.evaluation.groups import (
    ClassAnswers,
    ClassEvaluation,
    Confusion,
    GroupEvaluation,
    Members,
)

__all__ = [
    "Calibration",
    "ClassAnswers",
    "ClassEvaluation",
    "Compared",
    "ConfidenceChoice",
    "ConfidenceHistogram",
    "Confusion",
    "Evaluation",
    "GroupEvaluation",
    "Members",
    "choose_confidence",
    "compare_evaluations",
    "compare_with_first",
    "evaluate",
    "split_cases",
]

"""Evaluates one model on one set of cases, and collects every number in one object."""

from expertload.evaluation.choose_confidence import ConfidenceChoice, choose_confidence, split_cases
from expertload.evaluation.evaluate import evaluate
from expertload.evaluation.evaluation import (
    Calibration,
    ConfidenceHistogram,
    Evaluation,
    compare_evaluations,
)
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
    "ConfidenceChoice",
    "ConfidenceHistogram",
    "Confusion",
    "Evaluation",
    "GroupEvaluation",
    "Members",
    "choose_confidence",
    "compare_evaluations",
    "evaluate",
    "split_cases",
]

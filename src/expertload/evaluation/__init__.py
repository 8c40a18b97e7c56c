"""Evaluates one model on one set of cases, and collects every number in one object."""

from expertload.evaluation.choose_confidence import ConfidenceChoice, choose_confidence, split_cases
from expertload.evaluation.classes import ClassAnswers, ClassEvaluation, Confusion
from expertload.evaluation.evaluate import evaluate_from_correctness, evaluate_predictions
from expertload.evaluation.evaluation import Evaluation, compare_evaluations
from expertload.evaluation.groups import GroupEvaluation, Members
from expertload.evaluation.parts import Calibration, ConfidenceHistogram

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
    "evaluate_from_correctness",
    "evaluate_predictions",
    "split_cases",
]

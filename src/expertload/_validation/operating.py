"""Operating points: one criterion, a promise that can be kept, a point that fits the data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import Any

import numpy as np

from expertload._typing import AnyArray, ArrayLike, FloatArray
from expertload._validation.arrays import as_floats
from expertload._validation.options import check_fraction, check_option
from expertload._validation.wording import message
from expertload.exceptions import (
    NotFittedError,
    ParameterError,
)


def check_one_criterion(
    caller: str,
    target_accuracy: float | None,
    load_budget: float | None,
    error_cost: float | None,
    review_cost: float | None,
) -> None:
    """Raise unless exactly one way to choose an operating point is given, in full."""
    costs = error_cost is not None or review_cost is not None
    given = (target_accuracy is not None) + (load_budget is not None) + costs
    if given != 1:
        raise ParameterError(
            f"{caller} takes one criterion: target_accuracy, load_budget, or error_cost with "
            f"review_cost. Got {given or 'none'}. Hint: target_accuracy=0.95, for instance."
        )
    if costs and (error_cost is None or review_cost is None):
        raise ParameterError(
            f"{caller} weighs errors against reviews and needs both prices. Got only "
            f"{'review_cost' if error_cost is None else 'error_cost'}."
        )


def check_certification(
    target_accuracy: Any, confidence_level: Any, method: Any, risk: Any, caller: str
) -> tuple[float, float]:
    """Return target and level, if they can be certified by this method."""
    check_option(method, ("fixed_sequence", "bonferroni", "sgr"), "method", caller)
    check_option(risk, ("selective", "joint"), "risk", caller)
    if risk == "joint" and method != "fixed_sequence":
        hint = "joint risk only grows down the ladder, so no other method can do better"
        wanted = "must be 'fixed_sequence' for risk='joint'"
        raise ParameterError(message("method", caller, wanted, repr(method), hint))
    if target_accuracy == 1:
        raise ParameterError(
            message(
                "target_accuracy",
                caller,
                "must be in (0, 1): no number of cases shows that there is never an error",
                target_accuracy,
                "0.99 needs 299 cases without an error at a confidence level of 0.95",
            )
        )
    target = check_fraction(target_accuracy, "target_accuracy", caller, inclusive=False)
    return target, check_fraction(confidence_level, "confidence_level", caller, inclusive=False)


def check_ladder_source(
    thresholds: ArrayLike | None, ladder_scores: ArrayLike | None, method: str, caller: str
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return given thresholds or scores as float64; at most one of them may be given."""
    if thresholds is not None and ladder_scores is not None:
        raise ParameterError(f"{caller} takes thresholds or ladder_scores, not both.")
    if method == "sgr" and (thresholds is not None or ladder_scores is not None):
        raise ParameterError(
            f"{caller} with method='sgr' searches the thresholds itself. Got "
            f"{'thresholds' if thresholds is not None else 'ladder_scores'}. "
            "Hint: method='fixed_sequence' takes them."
        )
    fixed = None if thresholds is None else as_floats(thresholds, "thresholds", caller)
    scores = None if ladder_scores is None else as_floats(ladder_scores, "ladder_scores", caller)
    return (
        None if fixed is None else fixed.astype(np.float64),
        None if scores is None else scores.astype(np.float64),
    )


def check_confidence_matches(needed: bool, given: bool, caller: str) -> None:
    """Raise unless decisions rank cases by what the threshold is a threshold of."""
    if needed and not given:
        raise ParameterError(
            f"This operating point is a threshold of a confidence of your own, so {caller} needs "
            "the 'confidence' of the new cases. Got none. Hint: pass confidence=..., or use "
            "accepts(confidence)."
        )
    if given and not needed:
        raise ParameterError(
            f"This operating point is a threshold of the largest probability, so {caller} takes "
            "no other 'confidence'. Hint: leave it out, or make the point with confidence=..."
        )


def check_delegate_label(label: Any, classes: AnyArray, caller: str) -> Any:
    """Return what stands for delegated cases: no class, and of the same kind as the classes."""
    named = classes.dtype.kind in "OUT" and all(isinstance(each, str) for each in classes)
    if isinstance(label, str) and label == "auto":
        return _free_label(classes, named)
    if classes.dtype.kind != "O" and isinstance(label, str) != named:
        wanted = "must be a string" if named else "must be a number, as the classes are"
        raise ParameterError(message("delegate_label", caller, wanted, f"{label!r}"))
    if (classes == label).any():
        raise ParameterError(
            message(
                "delegate_label",
                caller,
                "must not be one of the classes",
                f"{label!r}",
                "pass delegate_label=... that no case can have",
            )
        )
    return label


def _free_label(classes: AnyArray, named: bool) -> str | int:
    """Return "delegate" or -1, or the next of their kind that is no class."""
    taken = set(classes.tolist())
    choices: Iterator[str | int] = count(-1, -1)
    if named:
        choices = chain(["delegate"], (f"delegate_{i}" for i in count(2)))
    return next(label for label in choices if label not in taken)


def check_groups_match(needed: bool, given: bool, caller: str) -> None:
    """Raise unless groups are given if and only if thresholds were certified by group."""
    if needed and not given:
        raise ParameterError(
            f"This {caller} was calibrated by group, so it needs the groups of new cases. "
            "Got none. Hint: pass groups=..."
        )
    if given and not needed:
        raise ParameterError(
            f"This {caller} has one threshold for all cases. Got groups. Hint: pass groups=... to "
            "calibrate, or to fit, as well."
        )


def check_calibrated(is_calibrated: bool, caller: str) -> None:
    """Raise unless a fitted classifier has a threshold."""
    if not is_calibrated:
        raise NotFittedError(
            f"This {caller} is fitted but not calibrated. Hint: call calibrate(X, y) with cases "
            "the model was not fitted on, or leave calibration_size as it is by default."
        )

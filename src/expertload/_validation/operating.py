"""Operating points: one criterion, a promise that can be kept, a point that fits the data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from expertload._typing import AnyArray
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
    """Return "delegate" or -1, or the next free label of that kind."""
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

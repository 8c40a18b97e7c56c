"""The promise to certify, and the method that tests it."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from expertload._names import METHODS, Method
from expertload._typing import ArrayLike, FloatArray
from expertload._validation import as_floats, check_fraction, check_option, message
from expertload.exceptions import ParameterError

__all__ = ["METHODS", "RISKS", "Method", "Promise", "Risk"]

Risk = Literal["selective", "joint", "cost"]

RISKS: tuple[Risk, ...] = get_args(Risk)
# "cost" is only for `certify_mean_cost`, which has the costs.
RISKS_OF_CERTIFY: tuple[Risk, ...] = ("selective", "joint")
# Joint risk only grows down the ladder: these methods test it in one sequence at the whole level.
SEQUENTIAL: tuple[Method, ...] = ("spending", "fixed_sequence")


class Promise(NamedTuple):
    """The target, the levels and the method of a certification."""

    target: float
    error_level: float
    method: Method = "spending"
    risk: Risk = "selective"
    thresholds: FloatArray | None = None
    ladder_scores: FloatArray | None = None

    @property
    def counts_all_cases(self) -> bool:
        """Whether delegated cases also count, as cases without an error."""
        return self.risk != "selective"

    @property
    def has_own_ladder(self) -> bool:
        """Whether thresholds were given, instead of testing all."""
        return self.thresholds is not None or self.ladder_scores is not None


def read_promise(
    target_accuracy: Any,
    confidence_level: Any,
    method: Any,
    risk: Any,
    thresholds: ArrayLike | None,
    ladder_scores: ArrayLike | None,
) -> Promise:
    """Validate the options and return the promise."""
    check_option(method, tuple(METHODS), "method")
    check_option(risk, RISKS_OF_CERTIFY, "risk")
    if risk == "joint" and method not in SEQUENTIAL:
        wanted = f"must be {' or '.join(map(repr, SEQUENTIAL))} for risk='joint'"
        hint = "joint risk only grows down the ladder, so no other method can do better"
        raise ParameterError(message("method", wanted, repr(method), hint))
    target = check_target(target_accuracy)
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    fixed, scores = check_ladder_source(thresholds, ladder_scores, method)
    return Promise(target, 1 - level, method, risk, fixed, scores)


def check_target(target_accuracy: Any) -> float:
    """Return the target; refuse 0 and 1, which no finite number of cases can show."""
    if isinstance(target_accuracy, Real) and target_accuracy == 1:
        raise ParameterError(
            message(
                "target_accuracy",
                "must be in (0, 1): no number of cases shows that there is never an error",
                target_accuracy,
                "0.99 needs 299 cases without an error at a confidence level of 0.95",
            )
        )
    return check_fraction(target_accuracy, "target_accuracy", inclusive=False)


def check_ladder_source(
    thresholds: ArrayLike | None, ladder_scores: ArrayLike | None, method: str
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return given thresholds or scores as float64; at most one of them may be given."""
    if thresholds is not None and ladder_scores is not None:
        raise ParameterError("Give either thresholds or ladder_scores. Got both.")
    if method == "sgr" and (thresholds is not None or ladder_scores is not None):
        raise ParameterError(
            f"method='sgr' searches the thresholds itself. Got "
            f"{'thresholds' if thresholds is not None else 'ladder_scores'}. "
            "Hint: use method='spending' for these."
        )
    fixed = None if thresholds is None else as_floats(thresholds, "thresholds")
    scores = None if ladder_scores is None else as_floats(ladder_scores, "ladder_scores")
    return (
        None if fixed is None else fixed.astype(np.float64),
        None if scores is None else scores.astype(np.float64),
    )

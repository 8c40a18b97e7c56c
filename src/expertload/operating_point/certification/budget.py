"""At most B automatic errors among the next N cases: exact, for any distribution.

Why this holds
--------------
Calibration cases and the next ones are drawn alike, so which of them are the next ones is pure
chance. Line up the errors of all of them from the most confident down. The threshold lies just
above the (c + 1)-th calibration error. More than B of the next cases are accepted and wrong only
if, of the first B + 1 + c errors in the line, at least B + 1 are of next cases. How many of them
are is hypergeometric: B + 1 + c draws from all cases, of which N are next ones. So c is the largest
number for which that has a probability of at most one minus the confidence level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._cases import Cases, check_correctness_cases, check_named_cases, check_unweighted
from expertload._typing import ArrayLike
from expertload._validation import check_count, check_fraction, message
from expertload.exceptions import CorrectnessError
from expertload.operating_point.certification.certified_point import CONDITIONS
from expertload.operating_point.choose import point_at_threshold
from expertload.operating_point.origin import Label, RankedBy, origin_of, ranked_by
from expertload.operating_point.point import OperatingPoint, at_least, digits
from expertload.tally import Tally

# Tolerance for rounding of a probability that equals the level.
ROUNDING = 1 + 1e-11

__all__ = ["ErrorBudget", "certify_error_budget", "certify_error_budget_from_correctness"]


@dataclass(frozen=True, kw_only=True)
class ErrorBudget(OperatingPoint):
    """An operating point with a limit on the errors among the next cases.

    Has everything of `OperatingPoint`. If nothing can be promised, ``threshold`` is infinite.

    Attributes
    ----------
    max_errors, next_cases : int
        The limit on automatic errors, and the number of next cases it covers.
    confidence_level : float
        The probability that the limit is kept.
    sufficient_cases : int or None
        How many calibration cases would be enough, if there are too few; otherwise None.
    """

    max_errors: int
    next_cases: int
    confidence_level: float
    sufficient_cases: int | None = None

    @property
    def is_certified(self) -> bool:
        """Whether a threshold carries the guarantee."""
        return self.threshold < math.inf

    @property
    def guarantee(self) -> str:
        """The promise in words; or that there is none, and what would be enough."""
        budget = f"at most {self.max_errors} automatic error(s) among the next {self.next_cases}"
        if self.is_certified:
            return (
                f"With {at_least(self.confidence_level)} confidence, there will be {budget} cases "
                f"if those of confidence >= {digits(self.threshold)} are decided automatically. "
                f"{CONDITIONS}"
            )
        why = "too many of the most confident calibration cases are wrong"
        if self.sufficient_cases is not None:
            why = (
                f"{self.n_cases:.0f} calibration cases are too few; "
                f"{self.sufficient_cases} would be enough"
            )
        return f"{budget.capitalize()} cases cannot be promised: {why}."

    def __str__(self) -> str:
        return f"{super().__str__()} {self.guarantee}"


def certify_error_budget(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    max_errors: int,
    next_cases: int,
    confidence_level: float = 0.95,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    model_name: str | None = None,
) -> ErrorBudget:
    """Certify a threshold by the number of errors it makes among the next cases.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels, model_name
        As in `certify`.
    max_errors : int
        The largest allowed number of wrong automatic decisions among the next cases.
    next_cases : int
        The number of next cases, delegated ones included.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases and the next ones, that the limit
        holds.

    Returns
    -------
    ErrorBudget
        An `OperatingPoint` with its guarantee, or with the reason why there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.operating_point import certify_error_budget
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> point = certify_error_budget(y_true, y_proba, max_errors=10, next_cases=1000)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}, errors {point.n_errors:.0f}")
    0.968, load 0.687, errors 9
    """
    check_unweighted(sample_weight)
    cases, names = check_named_cases(y_true, y_proba, confidence, None, labels)
    options = max_errors, next_cases, confidence_level
    return _certify(cases, *options, ranked_by(confidence), names, model_name)


def certify_error_budget_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    max_errors: int,
    next_cases: int,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    model_name: str | None = None,
) -> ErrorBudget:
    """Certify an error budget from the correctness and the confidence of each case.

    Parameters
    ----------
    correct, confidence, sample_weight, model_name
        As in `certify_from_correctness`; cases are right or wrong, not graded.
    max_errors, next_cases, confidence_level
        As in `certify_error_budget`.

    Returns
    -------
    ErrorBudget
        An `OperatingPoint` with its guarantee, or with the reason why there is none.

    Examples
    --------
    >>> from expertload.operating_point import certify_error_budget_from_correctness
    >>> point = certify_error_budget_from_correctness(
    ...     [1] * 10, range(10), max_errors=1, next_cases=100
    ... )
    >>> point.is_certified, point.sufficient_cases
    (False, 346)
    """
    check_unweighted(sample_weight)
    cases = check_correctness_cases(correct, confidence, None)
    options = max_errors, next_cases, confidence_level
    return _certify(cases, *options, "given_confidence", None, model_name)


def _certify(
    cases: Cases,
    max_errors: int,
    next_cases: int,
    confidence_level: float,
    ranked: RankedBy,
    labels: tuple[Label, ...] | None,
    model_name: str | None,
) -> ErrorBudget:
    check_right_or_wrong(cases)
    budget = check_count(max_errors, "max_errors", minimum=0)
    coming = check_count(next_cases, "next_cases")
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    table = Tally.from_cases(cases)
    origin = origin_of(cases, table, ranked_by=ranked, labels=labels, model_name=model_name)
    allowed = allowed_calibration_errors(len(cases.correct), coming, budget, 1 - level)
    point = point_at_threshold(table, _above(table, allowed), origin)
    enough = sufficient_calibration_cases(coming, budget, 1 - level) if allowed < 0 else None
    return ErrorBudget(
        **_fields(point),
        max_errors=budget,
        next_cases=coming,
        confidence_level=level,
        sufficient_cases=enough,
    )


def _fields(point: OperatingPoint) -> dict[str, Any]:
    return {name: getattr(point, name) for name in OperatingPoint.__dataclass_fields__}


def _above(table: Tally, n_errors: int) -> float:
    """Return the loosest threshold that accepts at most this many errors, or infinity."""
    accepted = table.accepted_errors
    rows = np.flatnonzero(accepted <= n_errors) if n_errors >= 0 else np.zeros(0, np.int64)
    return float(table.confidence[rows[0]]) if len(rows) else math.inf


def allowed_calibration_errors(n_cases: int, next_cases: int, max_errors: int, level: float) -> int:
    """Return the largest number of accepted calibration errors, -1 if even zero is too many."""
    if max_errors >= next_cases:
        return n_cases
    fewest, most = -1, n_cases + 1  # `fewest` may be accepted, `most` may not
    while most - fewest > 1:
        middle = (fewest + most) // 2
        kept = too_many_probability(n_cases, next_cases, max_errors, middle) <= level * ROUNDING
        fewest, most = (middle, most) if kept else (fewest, middle)
    return fewest


def too_many_probability(n_cases: int, next_cases: int, max_errors: int, allowed: int) -> float:
    """Return the chance of more than `max_errors` among the next, before `allowed` + 1 of these.

    At most `allowed` of the first ``max_errors + 1 + allowed`` errors are of calibration cases: a
    hypergeometric tail, from its first term by ratios of neighbours.
    """
    draws = max_errors + 1 + allowed
    x = np.arange(max(draws - next_cases, 0), min(allowed, n_cases) + 1)
    if not len(x):
        return 0.0
    first = _log_chance(int(x[0]), draws, n_cases, next_cases)
    ratio = np.log((n_cases - x[:-1]) / (x[:-1] + 1.0))
    ratio += np.log((draws - x[:-1]) / (next_cases - draws + x[:-1] + 1.0))
    return float(np.exp(first + np.concatenate(([0.0], np.cumsum(ratio)))).sum())


def _log_chance(x: int, draws: int, n_cases: int, next_cases: int) -> float:
    """Log of the chance that `x` of the draws are of calibration cases, as a sum of logs."""
    steps = np.arange(draws)
    own, other = np.arange(x), np.arange(draws - x)
    drawn = np.log(n_cases - own).sum() + np.log(next_cases - other).sum()
    total = np.log(n_cases + next_cases - steps).sum()
    return math.log(math.comb(draws, x)) + float(drawn - total)


def sufficient_calibration_cases(next_cases: int, max_errors: int, level: float) -> int:
    """Return the fewest calibration cases for which a threshold above all errors is enough."""
    short, enough = 0, 1
    while too_many_probability(enough, next_cases, max_errors, 0) > level:
        short, enough = enough, 2 * enough
    while enough - short > 1:
        middle = (short + enough) // 2
        kept = too_many_probability(middle, next_cases, max_errors, 0) <= level
        short, enough = (short, middle) if kept else (middle, enough)
    return enough


def check_right_or_wrong(cases: Cases) -> None:
    """Raise if cases are graded, because errors are counted."""
    if cases.is_graded:
        raise CorrectnessError(
            message(
                "correct",
                "must be right or wrong, since errors are counted",
                "grades between",
                "certify accepts grades",
            )
        )

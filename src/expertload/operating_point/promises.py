"""Other promises: a number of errors, a mean cost, and the accuracy at every threshold at once.

At most B automatic errors among the next N cases: exact, for any distribution
-------------------------------------------------------------------------------
Calibration cases and the next ones are drawn alike, so which of them are the next ones is pure
chance. Line up the errors of all of them from the most confident down. The threshold lies just
above the (c + 1)-th calibration error. More than B of the next cases are accepted and wrong only
if, of the first B + 1 + c errors in the line, at least B + 1 are of next cases. How many of them
are is hypergeometric: B + 1 + c draws from all cases, of which N are next ones. So c is the largest
number for which that has a probability of at most one minus the confidence level.

A mean cost, where some errors cost more than others
----------------------------------------------------
The cost of a case is 0 if it is delegated or right; otherwise it is a given number from 0 to 1. The
mean over all cases can only grow as the threshold is lowered, so thresholds are tested in one
sequence from strict to loose, at the whole level, by betting (`graded`). If all costs are 1, this
is joint risk.

A lower bound for the accuracy at every threshold at once
---------------------------------------------------------
Let E(t) be the probability that a case has confidence t or more and is wrong, P(t) that it has it
at all, so that the accuracy above t is 1 - E(t) / P(t). Put each wrong case at its place on the
axis of E: these are points of a uniform sample of n, and e(t), the number of errors accepted,
counts those up to E(t). So E(t) lies below the (e(t) + 1)-th smallest of n uniform numbers, and
P(t) above the k(t)-th, k(t) being the number accepted. Both are bounded at once for all t by
quantiles of the beta distributions that these order statistics have, at one small level each,
chosen so that the probability that any of them fails is a given one (`simultaneous_level`). The
accuracy above t is then at least 1 - U / L for every t at once. This holds for any distribution,
with ties; nothing is simulated.

Bounds are set at some ranks, all of the first ones and then about 2 % apart, and ranks between take
the bound of a neighbour on the safe side. The probability that the bounds at these ranks hold is
computed exactly: the counts up to each bound are a Markov chain.
All of U_(g) >= a_g, for some ranks g, is the same as: fewer than g numbers lie below each a_g. The
counts below a_1 < a_2 < ... are those of a Poisson process, given that it has n points in all
(Moscovich and Nadler 2016): its law is carried from bound to bound, and loses what is too many.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import betaincinv, gammaln, xlogy

from expertload._check import (
    as_floats,
    check_count,
    check_fraction,
    check_level,
    check_same_length,
    check_same_order,
    message,
)
from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload.cases import Cases
from expertload.exceptions import CorrectnessError, ParameterError
from expertload.operating_point.certified import CONDITIONS, CertifiedPoint
from expertload.operating_point.certify import certify_promises, check_unweighted
from expertload.operating_point.ladder import Promise
from expertload.operating_point.point import OperatingPoint, described, digits, sure_that
from expertload.operating_point.spending import DEVIATIONS, MORE, convolve
from expertload.tally import COMPARISON_SLACK

# Tolerance for rounding of a probability that equals the level.
ROUNDING = 1 + 1e-11
# The part of the error probability spent on the errors; the rest is spent on the number of accepted
# cases, which is known much better.
SHARE_OF_ERRORS = 0.8
# Ranks with their own bound: the first ones, then ranks about this far apart.
N_DENSE, RATIO = 60, 1.02


# ------------------------------------------------------------------ a number of errors


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
                f"{sure_that(self.confidence_level)} there will be {budget} cases "
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
    cases: Cases,
    *,
    max_errors: int,
    next_cases: int,
    confidence_level: float = 0.95,
    model_name: str | None = None,
) -> ErrorBudget:
    """Certify a threshold by the number of errors it makes among the next cases.

    Parameters
    ----------
    cases : Cases
        Calibration cases as in `certify`, right or wrong, not graded, without clusters.
    max_errors : int
        The largest allowed number of wrong automatic decisions among the next cases.
    next_cases : int
        The number of next cases, delegated ones included.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases and the next ones, that the limit
        holds.
    model_name : str, optional
        Saved with the point.

    Returns
    -------
    ErrorBudget
        An `OperatingPoint` with its guarantee, or with the reason why there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.operating_point import certify_error_budget
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> cases = Cases.from_predictions(y_true, y_proba)
    >>> point = certify_error_budget(cases, max_errors=10, next_cases=1000)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}, errors {point.n_errors:.0f}")
    0.968, load 0.687, errors 9
    """
    _check_independent(cases)
    _check_right_or_wrong(cases)
    budget = check_count(max_errors, "max_errors", minimum=0)
    coming = check_count(next_cases, "next_cases")
    level = check_level(confidence_level)
    allowed = allowed_calibration_errors(len(cases), coming, budget, 1 - level)
    enough = sufficient_calibration_cases(coming, budget, 1 - level) if allowed < 0 else None
    return ErrorBudget(
        **described(cases, _above(cases, allowed), model_name),
        max_errors=budget,
        next_cases=coming,
        confidence_level=level,
        sufficient_cases=enough,
    )


def _above(cases: Cases, n_errors: int) -> float:
    """Return the loosest threshold that accepts at most this many errors, or infinity."""
    rows = np.flatnonzero(cases.tally.accepted_errors <= n_errors)
    return float(cases.tally.confidence[rows[0]]) if n_errors >= 0 and len(rows) else math.inf


def allowed_calibration_errors(n_cases: int, next_cases: int, max_errors: int, level: float) -> int:
    """Return the largest number of accepted calibration errors, -1 if even zero is too many."""
    if max_errors >= next_cases:
        return n_cases
    chance = partial(too_many_probability, n_cases, next_cases, max_errors)
    return bisect_right(range(n_cases + 1), level * ROUNDING, key=chance) - 1


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

    def kept(n_cases: int) -> bool:
        return too_many_probability(n_cases, next_cases, max_errors, 0) <= level

    enough = 1
    while not kept(enough):
        enough *= 2
    return bisect_left(range(enough), True, lo=1, key=kept)


def _check_independent(cases: Cases) -> None:
    """Raise unless cases were drawn one by one: there are no such promises about clusters."""
    check_unweighted(cases.weight)
    if cases.clusters is not None:
        hint = "certify(cases, ...) promises an accuracy for clusters"
        wanted = "must be independent for this promise"
        raise ParameterError(message("cases", wanted, "cases in clusters", hint))


def _check_right_or_wrong(cases: Cases) -> None:
    """Raise if cases are graded, because errors are counted."""
    if cases.is_graded:
        wanted = "must be right or wrong, since errors are counted"
        raise CorrectnessError(
            message("correct", wanted, "grades between", "certify accepts grades")
        )


# ------------------------------------------------------------------ a mean cost


def certify_mean_cost(
    cases: Cases,
    *,
    error_costs: ArrayLike,
    max_mean_cost: float,
    confidence_level: float = 0.95,
    model_name: str | None = None,
) -> CertifiedPoint:
    """Certify a threshold by the mean cost of its wrong automatic decisions.

    Parameters
    ----------
    cases : Cases
        Calibration cases as in `certify`, without clusters; the missing part of a grade is
        multiplied by the cost.
    error_costs : array-like of shape (n_cases,)
        The cost of a wrong automatic decision for each case, from 0 to 1: the most expensive error
        is 1.
    max_mean_cost : float
        The limit on the mean cost over all cases; delegated and right cases cost 0.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.
    model_name : str, optional
        Saved with the point.

    Returns
    -------
    CertifiedPoint
        With ``risk="cost"``; its ``n_errors`` is the total cost of accepted errors.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.operating_point import certify_mean_cost
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> costs = np.where(y_true, 1.0, 0.2)  # to miss a case is worse than a false alarm
    >>> cases = Cases.from_predictions(y_true, y_proba)
    >>> point = certify_mean_cost(cases, error_costs=costs, max_mean_cost=0.03)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}")
    0.841, load 0.406
    """
    _check_independent(cases)
    check_same_order(cases=cases, error_costs=error_costs)
    costs = as_floats(error_costs, "error_costs")
    check_same_length(error_costs=costs, confidence=cases.confidence)
    if costs.min() < 0 or costs.max() > 1:
        got = f"values from {costs.min():g} to {costs.max():g}"
        hint = "divide all costs, and max_mean_cost, by the largest cost"
        raise ParameterError(message("error_costs", "must be in [0, 1]", got, hint))
    level = check_level(confidence_level)
    most = check_fraction(max_mean_cost, "max_mean_cost", inclusive=False)
    grades = 1.0 - costs * (1.0 - cases.correct.astype(np.float64))
    whole = ((grades == 0) | (grades == 1)).all()  # then errors can be counted
    priced = replace(cases, correct=grades == 1 if whole else grades)
    promise = Promise(1 - most, 1 - level, risk="cost")
    return certify_promises(priced, [promise], model_name=model_name)[promise.target]


# ------------------------------------------------------------------ every threshold at once


@dataclass(frozen=True, eq=False)
class CertifiedCurve:
    """A COC curve with a lower bound for the accuracy that holds at every threshold at once.

    Attributes
    ----------
    expert_load, accuracy, thresholds : ndarray of shape (n_points,)
        As in `expertload.COCCurve`.
    lower : ndarray of shape (n_points,)
        A lower bound on the accuracy of new accepted cases, at all thresholds at once.
    confidence_level : float
        The probability that the promise holds.
    """

    expert_load: FloatArray
    accuracy: FloatArray
    thresholds: FloatArray
    lower: FloatArray
    confidence_level: float

    def load_at_accuracy(self, target_accuracy: float) -> float:
        """Return the smallest load whose bound reaches a target, 1 if none does.

        The target may be chosen after the curve was seen.
        """
        return float(np.append(self.expert_load, 1.0)[self._first_to_reach(target_accuracy)])

    def threshold_at_accuracy(self, target_accuracy: float) -> float:
        """Return the loosest threshold whose bound reaches a target, infinity if none does."""
        return float(np.append(self.thresholds, math.inf)[self._first_to_reach(target_accuracy)])

    def _first_to_reach(self, target_accuracy: float) -> int:
        """Return the first row whose bound reaches a target; the number of rows if none does."""
        target = check_fraction(target_accuracy, "target_accuracy")
        return int(np.append(self.lower >= target - COMPARISON_SLACK, True).argmax())

    @property
    def guarantee(self) -> str:
        """The promise as a sentence."""
        return (
            f"{sure_that(self.confidence_level)} the accuracy among cases accepted "
            f"is at least the lower curve at every threshold at once. {CONDITIONS}"
        )


def certified_curve(cases: Cases, *, confidence_level: float = 0.95) -> CertifiedCurve:
    """Bound the accuracy from below at every threshold, and for every target, at once.

    Parameters
    ----------
    cases : Cases
        Calibration cases as in `certify`, right or wrong, not graded, without clusters.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the whole bound holds.

    Returns
    -------
    CertifiedCurve
        The curve and its lower bound. For one target, `certify` reaches a smaller load.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.operating_point import certified_curve
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> curve = certified_curve(Cases.from_predictions(y_true, y_proba))
    >>> print(f"{curve.accuracy[0]:.3f}, at least {curve.lower[0]:.3f}")
    0.849, at least 0.820
    >>> print(f"load for 0.9: {curve.load_at_accuracy(0.9):.3f}")
    load for 0.9: 0.335
    """
    _check_independent(cases)
    _check_right_or_wrong(cases)
    level = check_level(confidence_level)
    table = cases.tally
    lower = lower_bounds(table.accepted, table.accepted_errors, 1 - level)
    return CertifiedCurve(*table.curve(), lower, level)


def lower_bounds(n_accepted: FloatArray, n_errors: FloatArray, error_level: float) -> FloatArray:
    """Return lower bounds of the accuracy, from the counts at thresholds from loose to strict."""
    n_cases = round(float(n_accepted[0]))
    ranks = bounded_ranks(n_cases)
    for_errors = simultaneous_level(n_cases, SHARE_OF_ERRORS * error_level)
    for_cases = simultaneous_level(n_cases, (1 - SHARE_OF_ERRORS) * error_level)
    # Errors: the rank after the last error, or the next larger that has a bound; 1 after the last.
    largest = np.append(_quantiles(ranks, n_cases, 1 - for_errors), 1.0)
    most = largest[np.searchsorted(ranks, n_errors + 1)]
    smallest = np.append(0.0, _quantiles(ranks, n_cases, for_cases))
    least = smallest[np.searchsorted(ranks, n_accepted, side="right")]
    share = np.divide(most, least, out=np.ones_like(most), where=least > 0)
    return np.asarray(np.maximum(1 - share, 0.0))


def bounded_ranks(n_cases: int) -> IntArray:
    """Return the ranks with their own bound, always including the last one."""
    dense = np.arange(1, min(N_DENSE, n_cases) + 1)
    n_more = int(np.log(max(n_cases / N_DENSE, 1)) / np.log(RATIO)) + 1
    sparse = np.geomspace(min(N_DENSE, n_cases), n_cases, n_more + 1).astype(np.int64)
    return np.unique(np.concatenate([dense, sparse, [n_cases]]))


def _quantiles(ranks: IntArray, n_cases: int, level: float) -> FloatArray:
    """Quantiles of the order statistics of n uniform numbers."""
    return np.asarray(betaincinv(ranks, n_cases - ranks + 1.0, level))


@lru_cache(maxsize=64)
def simultaneous_level(n_cases: int, error_level: float) -> float:
    """Return the level of each bound at which all of them hold with 1 - `error_level`.

    The same for bounds from below and from above: uniform numbers look alike from both ends, and
    the set of ranks that is worse of the two is taken. Found by bisection, on the safe side.
    """
    ranks = bounded_ranks(n_cases)
    mirrored = np.unique(n_cases + 1 - ranks)
    low, high = error_level / (2 * len(ranks)), error_level
    for _ in range(12):
        middle = float(np.sqrt(low * high))
        holds = min(
            probability_of_staying_above(_quantiles(some, n_cases, middle), some, n_cases)
            for some in (ranks, mirrored)
        )
        low, high = (middle, high) if holds >= 1 - error_level else (low, middle)
    return low


def probability_of_staying_above(bounds: FloatArray, ranks: IntArray, n_cases: int) -> float:
    """Return the probability that each of the order statistics is at least its bound.

    Parameters
    ----------
    bounds : ndarray of shape (n_ranks,)
        Ascending numbers from 0 to 1.
    ranks : ndarray of int, shape (n_ranks,)
        Which order statistics, ascending: 1 is the smallest of the numbers.
    n_cases : int
        How many uniform numbers there are.

    Examples
    --------
    The smaller of two numbers is above a half with probability a quarter:

    >>> import numpy as np
    >>> from expertload.operating_point.promises import probability_of_staying_above
    >>> print(f"{probability_of_staying_above(np.array([0.5]), np.array([1]), 2):.6f}")
    0.250000
    """
    law: FloatArray = np.ones(1)
    fewest, at = 0, 0.0
    for bound, rank in zip(bounds.tolist(), ranks.tolist(), strict=True):
        more, least = _poisson_mass(n_cases * (bound - at))
        law, fewest, at = convolve(law, more), fewest + least, bound
        law = law[: max(rank - fewest, 0)]  # fewer than `rank` numbers may lie below
        first = int(np.searchsorted(np.cumsum(law), 1e-18))  # a tail that no longer matters
        law, fewest = law[first:], fewest + first
    count = fewest + np.arange(len(law))
    rest = _log_poisson(n_cases - count, n_cases * (1 - at))
    return float((law * np.exp(rest - _log_poisson(np.array([n_cases]), float(n_cases)))).sum())


def _poisson_mass(mean: float) -> tuple[FloatArray, int]:
    """Return Poisson probabilities of an interval of counts, and the first count."""
    reach = DEVIATIONS * math.sqrt(mean) + MORE
    low = max(0, int(mean - reach))
    logs = _log_poisson(np.arange(low, int(mean + reach) + 1), mean)
    mass = np.exp(logs)
    return mass / mass.sum() if low == 0 or mean > MORE else mass, low


def _log_poisson(count: IntArray, mean: float) -> FloatArray:
    """Log of Poisson probabilities."""
    return np.asarray(xlogy(count, mean) - mean - gammaln(count + 1.0))

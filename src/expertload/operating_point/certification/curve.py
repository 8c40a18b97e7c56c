"""A lower bound for the accuracy at every threshold at once.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from expertload._cases import Cases, check_correctness_cases, check_named_cases, check_unweighted
from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload._validation import check_fraction
from expertload.operating_point.certification.budget import check_right_or_wrong
from expertload.operating_point.certification.certified_point import CONDITIONS
from expertload.operating_point.certification.crossing import probability_of_staying_above
from expertload.operating_point.point import at_least
from expertload.tally import COMPARISON_SLACK, Tally

__all__ = ["CertifiedCurve", "certified_curve", "certified_curve_from_correctness"]

# The part of the error probability spent on the errors; the rest is spent on the number of accepted
# cases, which is known much better.
SHARE_OF_ERRORS = 0.8
# Ranks with their own bound: the first ones, then ranks about this far apart.
N_DENSE, RATIO = 60, 1.02


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
        target = check_fraction(target_accuracy, "target_accuracy")
        reached = self.lower >= target - COMPARISON_SLACK
        return float(self.expert_load[reached.argmax()]) if reached.any() else 1.0

    def threshold_at_accuracy(self, target_accuracy: float) -> float:
        """Return the loosest threshold whose bound reaches a target, infinity if none does."""
        target = check_fraction(target_accuracy, "target_accuracy")
        reached = self.lower >= target - COMPARISON_SLACK
        return float(self.thresholds[reached.argmax()]) if reached.any() else np.inf

    @property
    def guarantee(self) -> str:
        """The promise as a sentence."""
        return (
            f"With {at_least(self.confidence_level)} confidence, the accuracy among cases accepted "
            f"is at least the lower curve at every threshold at once. {CONDITIONS}"
        )


def certified_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> CertifiedCurve:
    """Bound the accuracy from below at every threshold, and for every target, at once.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `certify`.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the whole bound holds.

    Returns
    -------
    CertifiedCurve
        The curve and its lower bound. For one target, `certify` reaches a smaller load.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.operating_point import certified_curve
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> curve = certified_curve(y_true, y_proba)
    >>> print(f"{curve.accuracy[0]:.3f}, at least {curve.lower[0]:.3f}")
    0.849, at least 0.820
    >>> print(f"load for 0.9: {curve.load_at_accuracy(0.9):.3f}")
    load for 0.9: 0.335
    """
    check_unweighted(sample_weight)
    cases = check_named_cases(y_true, y_proba, confidence, None, labels)[0]
    return _curve(cases, confidence_level)


def certified_curve_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> CertifiedCurve:
    """Bound the accuracy at every threshold from the correctness and confidence of each case.

    Parameters
    ----------
    correct, confidence, sample_weight
        As in `certify_from_correctness`; cases are right or wrong, not graded.
    confidence_level : float, default=0.95
        As in `certified_curve`.

    Returns
    -------
    CertifiedCurve
        The curve and its lower bound.

    Examples
    --------
    >>> from expertload.operating_point import certified_curve_from_correctness
    >>> curve = certified_curve_from_correctness([1] * 200, range(200))
    >>> print(f"{curve.lower[0]:.3f}")
    0.967
    """
    check_unweighted(sample_weight)
    cases = check_correctness_cases(correct, confidence, None)
    return _curve(cases, confidence_level)


def _curve(cases: Cases, confidence_level: float) -> CertifiedCurve:
    check_right_or_wrong(cases)
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    return curve_of_tally(Tally.from_cases(cases), level)


def curve_of_tally(table: Tally, confidence_level: float) -> CertifiedCurve:
    """Return the certified curve of right-or-wrong cases."""
    curve = table.curve()
    lower = lower_bounds(table.accepted, table.accepted_errors, 1 - confidence_level)
    return CertifiedCurve(
        curve.expert_load, curve.accuracy, curve.thresholds, lower, confidence_level
    )


# ------------------------------------------------------------------ the bounds


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
    bounds: FloatArray = np.maximum(1 - share, 0.0)
    return bounds


def bounded_ranks(n_cases: int) -> IntArray:
    """Return the ranks with their own bound, always including the last one."""
    dense = np.arange(1, min(N_DENSE, n_cases) + 1)
    n_more = int(np.log(max(n_cases / N_DENSE, 1)) / np.log(RATIO)) + 1
    sparse = np.geomspace(min(N_DENSE, n_cases), n_cases, n_more + 1).astype(np.int64)
    return np.unique(np.concatenate([dense, sparse, [n_cases]]))


def _quantiles(ranks: IntArray, n_cases: int, level: float) -> FloatArray:
    """Quantiles of the order statistics of n uniform numbers."""
    values: FloatArray = betaincinv(ranks, n_cases - ranks + 1.0, level)
    return values


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

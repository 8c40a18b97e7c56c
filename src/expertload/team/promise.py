"""Promises about the team: not worse than the experts alone, or a target accuracy of its own.

Not worse than the experts
--------------------------
The team differs from the experts alone only on cases that the model decides, and of these only
where one of model and expert is right and the other wrong. Of these *discordant* cases, call one
good if the expert alone is wrong. A threshold harms if fewer than half of the discordant cases it
accepts are good. Given their number they are
independent, so the tests of `expertload.operating_point.spending` apply unchanged, with a target of
one half. Concordant cases change nothing: the threshold moves down to the next discordant case.

A margin, or a target for the team
----------------------------------
With a margin, or a target, all cases count, and the risk may rise and fall with the threshold.
Sixty thresholds are fixed by confidences other than those tested, and tested from strict to loose.
Parts of the level are granted where thresholds accept 10, 35 and 65 % of cases; what has not failed
is handed on (Wiens 2003), which is valid for any tests of fixed thresholds. The test is

- for a target r on the team's error rate, binomial: P(Bin(n, r) <= errors);
- for a margin d, with N+ cases harmed and N- helped among n: the largest probability of so small a
  difference N+ - N-, over all discordance rates in a 99.9 % interval, plus 0.001 (Berger and Boos
  1994);
- for clusters, or cases read with different probabilities, a bet: with D the sum over a cluster of
  w (x - r), x what the team does wrong more than allowed to be r on average and w = least / pi, the
  product of 1 - l D does not grow on average if the promise does not hold.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr

from expertload._check import as_floats, check_fraction, check_level, insufficient, message
from expertload._typing import ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases, check_are_cases, reaches
from expertload.exceptions import ParameterError
from expertload.operating_point import CertifiedPoint, certify
from expertload.operating_point.certified import Reason
from expertload.operating_point.certify import check_unweighted
from expertload.operating_point.graded import (
    cluster_log_capital,
    descend_from,
    drawn_apart,
    granted_at,
    quantile_thresholds,
)
from expertload.operating_point.ladder import Risk
from expertload.operating_point.point import described
from expertload.operating_point.spending import binomial_mass
from expertload.significance.interval import clopper_pearson
from expertload.team.combine import Combiner, combined_answers, experts_of

# The loosest threshold that passed, or infinity and the reason why none did.
Verdict = tuple[float, Reason | None]
# Shares of accepted cases, and the part of the level that is granted at each.
GRANTS = ((0.10, 0.25), (0.35, 0.50), (0.65, 0.25))
N_THRESHOLDS = 60
# Discordance rates that are tried at a time, and the probability that the true one lies outside.
N_RATES, OUTSIDE = 9, 0.001


class Tested(NamedTuple):
    """The cases that were read, and who is wrong."""

    cases: Cases
    model: BoolArray
    expert: BoolArray
    weight: FloatArray | None  # least / pi; None if all cases were read with the same probability
    to_experts: bool  # whether the team is compared with its experts, or with the truth

    @classmethod
    def read(
        cls, cases: Cases, combine: Combiner | None = None, *, to_experts: bool = False
    ) -> Tested:
        """Return the cases that an expert has answered."""
        check_are_cases(cases)
        check_unweighted(cases.weight)
        read = cases.take(experts_of(cases) >= 0)
        answers = experts_of(read) if combine is None else combined_answers(combine, read)
        chance, target = read.inclusion_probability, read.predictions.target
        least = None if chance is None or chance.min() == chance.max() else chance.min() / chance
        return cls(read, ~read.correct.astype(np.bool_), answers != target, least, to_experts)

    def take(self, rows: BoolArray) -> Tested:
        """Return some of the cases."""
        weight = None if self.weight is None else self.weight[rows]
        taken = self.cases.take(rows), self.model[rows], self.expert[rows], weight
        return Tested(*taken, self.to_experts)


def certify_not_worse(
    cases: Cases,
    *,
    margin: float = 0.0,
    confidence_level: float = 0.95,
    other_confidence: ArrayLike | None = None,
    model_name: str | None = None,
) -> CertifiedPoint:
    """Certify a threshold at which the team is at least as accurate as its experts alone.

    Parameters
    ----------
    cases : Cases
        Calibration cases with `expert_answers`: what people answered alone. Those nobody read are
        left out. Where expert and model agree, the truth does not matter; an arbiter of the others
        must not know whose answer is whose.
    margin : float, default=0.0
        How much less accurate than the experts the team may be: 0.01 for a point.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.
    other_confidence : array-like, optional
        Confidences of other cases, which need no labels; they fix the thresholds to test where
        there is a margin. By default a tenth of the cases is set apart for this.
    model_name : str, optional
        Saved with the point.

    Returns
    -------
    CertifiedPoint
        With ``risk="not_worse"``; its ``target_accuracy`` is one minus the margin.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.team import certify_not_worse
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> answers = y_true ^ (rng.random(2000) < 0.1)
    >>> cases = Cases.from_predictions(y_true, y_proba, expert_answers=answers)
    >>> point = certify_not_worse(cases)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}")
    0.784, load 0.320
    """
    level = check_level(confidence_level)
    allowed = check_fraction(margin, "margin")
    if allowed == 1:
        raise ParameterError(message("margin", "must be in [0, 1)", margin, "0.01 is one point"))
    tested = Tested.read(cases, to_experts=True)
    if allowed == 0 and tested.weight is None:
        verdict = _walk_discordant(tested, level)
    else:
        verdict = _descend(tested, cases, allowed, 1 - level, other_confidence)
    return _certified(cases, verdict, "not_worse", 1 - allowed, level, model_name)


def certify_team(
    cases: Cases,
    *,
    target_accuracy: float,
    confidence_level: float = 0.95,
    combine: Combiner | None = None,
    other_confidence: ArrayLike | None = None,
    model_name: str | None = None,
) -> CertifiedPoint:
    """Certify a threshold at which model and experts together reach a target accuracy.

    Parameters
    ----------
    cases, confidence_level, other_confidence, model_name
        As in `certify_not_worse`.
    target_accuracy : float
        The accuracy over all cases to promise, between 0 and 1, fixed before the data are seen.
    combine : Combiner, optional
        Combine each expert's answer with the model's probabilities; fitted to other cases.

    Returns
    -------
    CertifiedPoint
        With ``risk="team"``, or "combined_team".

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.team import certify_team
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> answers = y_true ^ (rng.random(2000) < 0.1)
    >>> cases = Cases.from_predictions(y_true, y_proba, expert_answers=answers)
    >>> point = certify_team(cases, target_accuracy=0.9)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}")
    0.739, load 0.261
    """
    level = check_level(confidence_level)
    target = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
    if combine is not None and not combine.is_fitted:
        hint = "Combiner().fit(other_cases)"
        raise ParameterError(message("combine", "must be fitted to other cases", "none", hint))
    tested = Tested.read(cases, combine)
    verdict = _descend(tested, cases, 1 - target, 1 - level, other_confidence)
    risk: Risk = "team" if combine is None else "combined_team"
    return _certified(cases, verdict, risk, target, level, model_name)


# ------------------------------------------------------------------ margin 0: the walk


def _walk_discordant(tested: Tested, level: float) -> Verdict:
    """Test the discordant cases by `certify`; concordant ones let the threshold down further."""
    differ = tested.model != tested.expert
    if not differ.any():
        return math.inf, "not_enough_evidence"
    confidence = tested.cases.confidence
    discordant = Cases(
        tested.expert[differ],
        confidence[differ],
        clusters=None if tested.cases.clusters is None else tested.cases.clusters[differ],
    )
    point = certify(discordant, target_accuracy=0.5, confidence_level=level)
    if not point.is_certified:
        is_bad = point.reason == "accuracy_too_low"
        return math.inf, "accuracy_too_low" if is_bad else "not_enough_evidence"
    below = confidence[differ & ~reaches(confidence, point.threshold)]
    free = confidence > below.max() if len(below) else np.ones(len(confidence), np.bool_)
    return float(confidence[free].min()), None


# ------------------------------------------------------------------ a margin, or a target


def _descend(
    tested: Tested, cases: Cases, allowed: float, level: float, other_confidence: ArrayLike | None
) -> Verdict:
    """Test thresholds from strict to loose; levels that do not fail are handed on."""
    scores, tested = _scores_apart(tested, cases, other_confidence)
    thresholds, shares = quantile_thresholds(scores, N_THRESHOLDS)
    granted = granted_at(shares, GRANTS)
    excess = [_excess(tested, t) for t in thresholds]
    p_values = [_p_value(tested, losses, allowed) for losses in excess]
    runs = descend_from(np.array(p_values), level * granted)
    passed = [run.begin + run.n_passed - 1 for run in runs if run.n_passed]
    if passed:
        return float(thresholds[max(passed)]), None
    seems_good = any(np.average(losses, weights=tested.weight) < allowed for losses in excess)
    return math.inf, "not_enough_evidence" if seems_good else "accuracy_too_low"


def _scores_apart(
    tested: Tested, cases: Cases, other_confidence: ArrayLike | None
) -> tuple[FloatArray, Tested]:
    """Return confidences that fix the thresholds, and the cases that are tested."""
    if other_confidence is not None:
        return as_floats(other_confidence, "other_confidence"), tested
    unread = cases.confidence[experts_of(cases) < 0]
    if len(unread) >= N_THRESHOLDS and cases.clusters is None:
        return unread, tested
    apart = drawn_apart(np.unique(tested.cases.unit, return_inverse=True)[1])
    if apart.all():
        raise insufficient("at least 2 cases or clusters that were read", "1", "read more cases")
    return tested.cases.confidence[apart], tested.take(~apart)


def _excess(tested: Tested, threshold: float) -> FloatArray:
    """Return whether the team is wrong on each case, or how much more than its experts."""
    accepted = reaches(tested.cases.confidence, threshold)
    model, expert = tested.model.astype(np.float64), tested.expert.astype(np.float64)
    if tested.to_experts:
        return np.where(accepted, model - expert, 0.0)
    return np.where(accepted, model, expert)


def _p_value(tested: Tested, excess: FloatArray, allowed: float) -> float:
    """P-value of the hypothesis that the mean excess is more than allowed."""
    if tested.weight is not None or tested.cases.clusters is not None:
        return _bet(tested, excess - allowed, 1 - allowed)
    n = len(excess)
    if tested.to_experts:
        harms, benefits = int(np.sum(excess > 0)), int(np.sum(excess < 0))
        return margin_p_value(harms, benefits, n, allowed)
    return float(bdtr(excess.sum(), n, allowed))


def _bet(tested: Tested, loss: FloatArray, most: float) -> float:
    """Bet on each cluster that the mean loss is below 0; `most` is the largest loss of a case."""
    weight = np.ones(len(loss)) if tested.weight is None else tested.weight
    unit = tested.cases.unit
    total = np.bincount(unit, weights=weight * loss)
    largest = np.bincount(unit, weights=weight).max()
    return math.exp(min(0.0, -cluster_log_capital(total, most * largest)))


def margin_p_value(harms: int, benefits: int, n: int, margin: float) -> float:
    """Bound the chance of so small a difference if its mean is the margin (Berger and Boos).

    Parameters
    ----------
    harms, benefits : int
        Cases in which the team is wrong and the expert right, and the reverse.
    n : int
        All cases.
    margin : float
        The mean of harms minus benefits, per case, if the promise is just broken.
    """
    discordant, difference = harms + benefits, harms - benefits
    low, high = clopper_pearson(discordant, n, OUTSIDE)
    low = min(max(low, margin * (1 + 1e-6), 1e-12), 1.0)
    worst = 0.0
    for _ in range(2):  # once over the interval, then between the neighbours of the worst rate
        rates = np.linspace(low, max(high, low), N_RATES)
        tails = [_difference_tail(difference, n, rate, margin) for rate in rates.tolist()]
        at = int(np.argmax(tails))
        worst = max(worst, tails[at])
        low, high = rates[max(at - 1, 0)], rates[min(at + 1, N_RATES - 1)]
    return worst + OUTSIDE


def _difference_tail(difference: int, n: int, rate: float, margin: float) -> float:
    """P(N+ - N- <= difference), if a share `rate` of n cases is discordant."""
    mass, fewest = (np.ones(1), n) if rate >= 1 else binomial_mass(n, rate)
    discordant = fewest + np.arange(len(mass))
    harms = np.floor((discordant + difference) / 2)
    tail = bdtr(np.clip(harms, 0, discordant), discordant, (rate + margin) / (2 * rate))
    return float(mass @ np.where(harms < 0, 0.0, tail))


# ------------------------------------------------------------------ the point


def _certified(
    cases: Cases, verdict: Verdict, risk: Risk, target: float, level: float, model_name: str | None
) -> CertifiedPoint:
    return CertifiedPoint(
        **described(cases, verdict[0], model_name),
        target_accuracy=target,
        confidence_level=level,
        method="spending" if risk == "not_worse" and target == 1 else "fixed_sequence",
        risk=risk,
        reason=verdict[1],
        clusters=None if cases.clusters is None else "all_cases",
    )

"""A cascade: a small model, a large model and a person, with one promise over the whole.

The small model decides a case if its confidence is at least ``t1``. Else the large model is asked,
and decides if its own confidence is at least ``t2``. Else a person does. Promised is the accuracy
among all cases that either model decides.

Why this keeps the promise
--------------------------
Fix a number ``h``, the handover, without looking at the calibration labels. Call a case *kept* if
the small model's confidence is at least h, and give every case one answer (the small model's if the
case is kept, else the large model's) and one place in an order: kept cases come first, by the small
model's confidence, then the others by the large model's. Answer and place depend on the case alone,
so this is one classifier with one confidence, and `certify` applies to it at the full level.
Whatever threshold it certifies is a pair of thresholds in sequence. If it lies among the kept
cases, only the small model decides, at t1 >= h and with t2 infinite; else t1 = h, and t2 is where
it lies among the others. A case has the same answer under all these pairs. That is why h is fixed:
if t1 could fall while t2 is tested, cases would change from the large model's answer to the small
one's, and what was tested would no longer be what decides.

With several handovers, each is certified at its share of the level. All promises then hold together
(the union bound), so one of them may be chosen by its costs on the same cases. To choose both
thresholds on the calibration labels without sharing out the level breaks the promise
(``tests/operating_point/test_cascade.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from expertload._check import (
    as_floats,
    check_fraction,
    check_level,
    check_positive,
    check_same_length,
    parameter_error,
    percent_hint,
)
from expertload._typing import ArrayLike, BoolArray
from expertload.cases import Cases, check_are_cases, reaches
from expertload.operating_point.certified import CertifiedPoint
from expertload.operating_point.certify import certify, check_unweighted
from expertload.operating_point.point import (
    Decisions,
    OperatingPoint,
    at_least,
    digits,
    origin_of,
    sure_that,
)


@dataclass(frozen=True)
class CertifiedCascade:
    """Two thresholds in sequence, and one promise over both.

    Attributes
    ----------
    small, large : OperatingPoint
        The threshold of each model, and its counts: of the small one on all cases, of the large one
        on those that the small one does not decide. Each is saved and applied like any other.
    point : CertifiedPoint
        The counts and the tests of the cascade as one model; its ``threshold`` is a place in the
        order of cases, not a confidence.
    confidence_level : float
        The confidence of the promise.
    costs : tuple of float
        The prices of asking the small model, the large model and an expert about one case.
    """

    small: OperatingPoint
    large: OperatingPoint
    point: CertifiedPoint
    confidence_level: float
    costs: tuple[float, ...]

    @property
    def is_certified(self) -> bool:
        """Whether the thresholds carry the guarantee."""
        return self.point.is_certified

    @property
    def expert_load(self) -> float:
        """The share of cases that go to experts."""
        return self.point.expert_load

    @property
    def large_share(self) -> float:
        """The share of cases about which the large model is asked."""
        is_needed = self.large.threshold < math.inf
        return self.large.n_cases / self.point.n_cases if is_needed else 0.0

    @property
    def mean_cost(self) -> float:
        """The mean cost of a case: every model that is asked, and the expert."""
        small, large, expert = self.costs
        return small + large * self.large_share + expert * self.expert_load

    @property
    def guarantee(self) -> str:
        """The promise in words, or why there is none."""
        if not self.is_certified:
            return self.point.guarantee
        return (
            f"{sure_that(self.confidence_level)} the accuracy among cases decided by either model "
            f"is at least {at_least(self.point.target_accuracy)}. {self.point.conditions} The "
            "handover, too, must have been fixed without looking at the calibration labels."
        )

    def decide(self, small_proba: ArrayLike, large_proba: ArrayLike) -> Decisions:
        """Decide new cases about which both models were asked.

        To ask the large model only where it is needed, call ``small.decide`` first, and
        ``large.decide`` on the cases that it does not accept: the decisions are the same.

        Parameters
        ----------
        small_proba, large_proba : array-like of shape (n_cases, n_classes) or (n_cases,)
            The probabilities of each model, as in `OperatingPoint.decide`.

        Returns
        -------
        Decisions
            As of one model.
        """
        first, then = self.small.decide(small_proba), self.large.decide(large_proba)
        check_same_length(small_proba=first.accepted, large_proba=then.accepted)
        labels = np.where(first.accepted, first.labels, then.labels)
        return Decisions(first.accepted | then.accepted, labels)

    def __str__(self) -> str:
        if not self.is_certified:
            return self.guarantee
        total = self.point.n_cases
        parts = [
            f"small model decides at confidence >= {digits(self.small.threshold)}: "
            f"{self.small.n_accepted / total:.1%} of cases",
            f"large model is asked about {self.large_share:.1%} and decides at confidence >= "
            f"{digits(self.large.threshold)}: {self.large.n_accepted / total:.1%}",
            f"experts: {self.expert_load:.1%}",
            f"{1 - self.point.n_errors / self.point.n_accepted:.1%} of automatic decisions right",
            f"mean cost of a case {self.mean_cost:.6g}, of an expert alone {self.costs[2]:.6g}",
        ]
        return "\n".join([*parts, self.guarantee])


def certify_cascade(
    small: Cases,
    large: Cases,
    *,
    handover: float | Sequence[float],
    target_accuracy: float,
    confidence_level: float = 0.95,
    costs: Sequence[float] = (0.0, 0.0, 1.0),
) -> CertifiedCascade:
    """Certify the thresholds of two models in sequence, before a person.

    Parameters
    ----------
    small, large : Cases
        The same calibration cases, in the same order, answered by each model; as in `certify`.
    handover : float or sequence of float
        Below this confidence the small model hands a case over to the large one. Fixed without
        looking at the calibration labels: a number that seems right, or one chosen on other
        cases. If there are several, each is tested at its share of the level, and the cheapest
        that is certified is taken.
    target_accuracy : float
        The accuracy to promise among cases that either model decides, between 0 and 1.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.
    costs : sequence of three floats, default=(0, 0, 1)
        The prices of asking the small model, the large model and an expert about one case. By
        default only experts cost: the mean cost is the load.

    Returns
    -------
    CertifiedCascade
        Both thresholds, the shares of cases, the mean cost and the ``guarantee`` as a sentence.

    Notes
    -----
    The proof is in `expertload.operating_point.cascade`.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.operating_point import certify_cascade
    >>> rng = np.random.default_rng(0)
    >>> easy, truth = rng.random(2000), rng.integers(2, size=2000)
    >>> def asked(skill):
    ...     chance = np.clip(easy + skill, 0.5, 0.999)
    ...     answer = np.where(rng.random(2000) < chance, truth, 1 - truth)
    ...     return Cases.from_predictions(truth, np.where(answer == 1, chance, 1 - chance))
    >>> cascade = certify_cascade(
    ...     asked(0.1), asked(0.4), handover=[0.9, 0.95], target_accuracy=0.95, costs=(0.01, 0.2, 3)
    ... )
    >>> print(f"cost {cascade.mean_cost:.2f}, load {cascade.expert_load:.3f}")
    cost 1.36, load 0.394
    """
    target = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
    handovers = as_floats(np.atleast_1d(np.asarray(handover)), "handover").tolist()
    highest = max(handovers)
    if highest > 1 >= small.confidence.max():
        wanted = "must be a confidence of the small model, in [0, 1]"
        raise parameter_error("handover", wanted, highest, percent_hint(highest))
    _check_same_cases(small, large)
    if len(costs) != 3:
        wanted = "must be the prices of the small model, the large model and an expert"
        raise parameter_error("costs", wanted, costs, "pass (0.01, 0.2, 3.0), for example")
    prices = tuple(check_positive(price, "costs", zero=True) for price in costs)
    level = check_level(confidence_level)
    share = 1 - (1 - level) / len(handovers)
    cascades = []
    for one in handovers:
        point, (first, then) = _certify_one(small, large, one, target, share)
        handed = ~reaches(small.confidence, first)
        stages = _stage(small, np.ones_like(handed), first), _stage(large, handed, then)
        cascades.append(CertifiedCascade(*stages, point, level, prices))
    return min(cascades, key=lambda c: (not c.is_certified, c.mean_cost, c.large_share))


def _certify_one(
    small: Cases, large: Cases, handover: float, target: float, level: float
) -> tuple[CertifiedPoint, tuple[float, float]]:
    """Certify the cascade as one model, whose confidence is a place in the order of cases."""
    kept = reaches(small.confidence, handover)
    above, place = np.unique(small.confidence[kept], return_inverse=True)
    below, other = np.unique(large.confidence[~kept], return_inverse=True)
    confidence = np.empty(len(kept))
    confidence[kept], confidence[~kept] = place + len(below), other
    clusters = large.clusters if small.clusters is None else small.clusters
    cases = Cases(np.where(kept, small.correct, large.correct), confidence, clusters=clusters)
    point = certify(cases, target_accuracy=target, confidence_level=level)
    if point.threshold == math.inf:
        return point, (math.inf, math.inf)
    row = int(point.threshold)
    if row >= len(below):
        return point, (float(above[row - len(below)]), math.inf)
    return point, (handover, float(below[row]))


def _stage(cases: Cases, asked: BoolArray, threshold: float) -> OperatingPoint:
    """Return what a model does with the cases it is asked about."""
    accepted = asked & reaches(cases.confidence, threshold)
    wrong = 1 - cases.correct.astype(np.float64)
    return OperatingPoint(
        threshold=threshold,
        n_accepted=float(accepted.sum()),
        n_delegated=float((asked & ~accepted).sum()),
        n_errors=float(wrong[accepted].sum()),
        n_errors_spared=float(wrong[asked & ~accepted].sum()),
        origin=origin_of(cases),
    )


def _check_same_cases(small: Cases, large: Cases) -> None:
    for name, cases in (("small", small), ("large", large)):
        check_are_cases(cases, name)
        check_unweighted(cases.weight)
    check_same_length(small=small.correct, large=large.correct)
    if small.target is None or large.target is None or small.labels != large.labels:
        return
    differ = small.target != large.target
    if differ.any():
        wanted, got = "must have the same true labels as 'small'", f"{differ.sum()} others"
        raise parameter_error("large", wanted, got, "put both in the same order")

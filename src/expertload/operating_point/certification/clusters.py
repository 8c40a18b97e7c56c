"""Cases that come in clusters: several images of a patient, several records of a visit.

The errors of one patient's cases resemble each other, so they count for less than the same number
of independent cases, and tests for independent cases break their promise. Two promises are kept.

*All cases* (``cluster_promise="all_cases"``): the accuracy over all accepted cases of new clusters.
Let D be the sum over the accepted cases of one cluster of (wrong - r), with r the error rate that
the target allows. If the threshold is bad, D is 0 or more on average, whatever the cases of a
cluster have to do with each other. Clusters are independent, so that a gambler who stakes the share
l of his capital on each, which multiplies it by 1 - l D, does not gain on average: one over the
capital is a p-value (`betting`). No stake may lose more than all: l < 1 / ((1 - r) M), M the most
cases of a cluster. Thresholds are fixed by clusters set aside, whose labels are not used, and
tested from strict to loose; levels that come down without a failure are handed on (Wiens 2003),
which is valid for any tests of fixed thresholds.

*One case each* (``cluster_promise="one_case_each"``): one case of each cluster is drawn at random.
These are independent, and certified as such. The promise is then about a case drawn at random from
a new cluster, in which large clusters count no more than small ones. It is the more powerful one
where the cases of a cluster are much alike.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np

from expertload._cases import Cases, reaches
from expertload._typing import FloatArray, IntArray
from expertload._validation import check_count, check_option, message
from expertload.exceptions import ParameterError
from expertload.operating_point.certification.betting import stakes
from expertload.operating_point.certification.certified_point import (
    CertifiedPoint,
    ClusterPromise,
    Reason,
)
from expertload.operating_point.certification.certified_thresholds import passed_thresholds
from expertload.operating_point.certification.ladder import Ladder, Steps, at_thresholds
from expertload.operating_point.certification.methods import CalibrationCases, descend_from
from expertload.operating_point.certification.promise import Promise
from expertload.operating_point.certification.verdict import certify_calibration

__all__ = ["Clustering"]

# The share of clusters whose confidences, without their labels, become the thresholds.
LADDER_SHARE = 0.1
# The number of these thresholds, evenly spaced in the number of cases they accept.
N_STEPS = 20
# The part of the level granted at the first threshold that can pass; each later grant takes half
# of the rest.
FIRST_SHARE = 0.75


class Clustering(NamedTuple):
    """Cases in clusters, what is promised about them, and the random seed."""

    cases: Cases
    what: ClusterPromise
    seed: int


def read_clustering(cases: Cases, what: Any, risk: Any, seed: Any) -> Clustering | None:
    """Return what is promised about cases in clusters; None if there are no clusters."""
    check_option(what, get_args(ClusterPromise), "cluster_promise")
    number = check_count(seed, "random_state", minimum=0)
    if cases.cluster is None:
        return None
    if what == "all_cases" and risk != "selective":
        wanted = "must be 'selective' for clusters with cluster_promise='all_cases'"
        hint = "cluster_promise='one_case_each' supports any risk"
        raise ParameterError(message("risk", wanted, repr(risk), hint))
    return Clustering(cases, what, number)


def certify_clusters(
    cases: Cases, what: ClusterPromise, seed: int, promise: Promise
) -> CertifiedPoint:
    """Certify cases that come in clusters."""
    rng = np.random.default_rng(seed)
    if what == "one_case_each":
        drawn = cases.take(_one_each(cases.unit, rng))
        return replace(
            certify_calibration(CalibrationCases.from_cases(drawn), promise), clusters=what
        )
    ladder = _test_all_cases(cases, promise, rng)
    return _point(cases, promise, ladder)


def _one_each(cluster: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the row of one case of each cluster, drawn at random."""
    order = rng.permutation(len(cluster))
    first = np.unique(cluster[order], return_index=True)[1]
    return np.sort(order[first])


# ------------------------------------------------------------------ all cases


def _test_all_cases(cases: Cases, promise: Promise, rng: np.random.Generator) -> Ladder:
    largest = int(np.bincount(cases.unit).max())
    thresholds, shares, tested = _thresholds(cases, promise, rng)
    wrong = 1.0 - tested.correct.astype(np.float64)
    capital = [_log_capital(tested, wrong, t, promise.target, largest) for t in thresholds]
    counts = CalibrationCases.from_cases(tested).counts
    steps = at_thresholds(counts, thresholds)._replace(log_capital=np.array(capital))
    expected = shares * len(wrong)
    granted = _grants(expected, promise, largest)
    return Ladder(steps, descend_from(steps.p_values(promise.target), granted), promise.target)


def _thresholds(
    cases: Cases, promise: Promise, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, Cases]:
    """Return thresholds, strict to loose, the share each is expected to accept, and other cases."""
    if promise.thresholds is not None:
        given = np.unique(promise.thresholds)[::-1]
        return given, np.linspace(1 / len(given), 1, len(given)), cases
    if promise.ladder_scores is not None:
        scores, tested = promise.ladder_scores, cases
    else:
        n_clusters = int(cases.unit.max()) + 1
        n_ladder = max(1, math.ceil(LADDER_SHARE * n_clusters))
        aside = (rng.permutation(n_clusters) < n_ladder)[cases.unit]
        if aside.all():  # a single cluster is not enough for any test
            aside = ~aside
        scores, tested = cases.confidence[aside], cases.take(~aside)
        scores = scores if len(scores) else tested.confidence[:1]
    wanted = 1 - np.arange(1, N_STEPS + 1) / N_STEPS
    thresholds = np.unique(np.quantile(scores, wanted, method="lower"))[::-1]
    shares = (scores >= thresholds[:, None]).mean(axis=1)
    return thresholds.astype(np.float64), shares, tested


def _log_capital(
    tested: Cases, wrong: FloatArray, threshold: float, target: float, largest: int
) -> float:
    """Return the logarithm of the capital after all clusters, the mean over the stakes."""
    accepted = reaches(tested.confidence, threshold)
    excess = np.bincount(tested.unit[accepted], weights=(wrong - (1 - target))[accepted])
    logs = np.log1p(-np.outer(stakes(target) / largest, excess)).sum(axis=1)
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)))


def _grants(expected: FloatArray, promise: Promise, largest: int) -> FloatArray:
    """Return the level granted at each threshold: the first that can pass, and some later ones."""
    needed = 1.5 * least_clustered_cases(promise, largest)
    granted = np.zeros(len(expected))
    left = promise.error_level
    rows = [int(np.searchsorted(expected, needed * 2**i)) for i in range(N_STEPS)]
    rows = sorted({row for row in rows if row < len(expected)}) or [len(expected) - 1]
    for row in rows[:-1]:
        share = FIRST_SHARE if row == rows[0] else 0.5
        granted[row], left = share * left, (1 - share) * left
    granted[rows[-1]] += left
    return granted


def least_clustered_cases(promise: Promise, largest: int) -> int:
    """The fewest cases that can pass, all right and in clusters of the largest size."""
    growth = float(np.log1p(stakes(promise.target).max() * (1 - promise.target)))
    wanted = math.log(len(stakes(promise.target)) / promise.error_level)
    return math.ceil(wanted / growth) * largest


# ------------------------------------------------------------------ the verdict


def _point(cases: Cases, promise: Promise, ladder: Ladder) -> CertifiedPoint:
    """Return the point, described on all cases, those set aside for the thresholds included."""
    row = ladder.loosest
    threshold = math.inf if row is None else float(ladder.steps.threshold[row])
    wrong = 1.0 - cases.correct.astype(np.float64)
    accepted = reaches(cases.confidence, threshold)
    return CertifiedPoint(
        threshold=threshold,
        n_accepted=float(accepted.sum()),
        n_delegated=float((~accepted).sum()),
        n_errors=float(wrong[accepted].sum()),
        n_errors_spared=float(wrong[~accepted].sum()),
        target_accuracy=promise.target,
        confidence_level=1 - promise.error_level,
        method="fixed_sequence",
        reason=_reason(ladder, promise) if row is None else None,
        clusters="all_cases",
        passed=passed_thresholds(_on_all_cases(ladder, cases)),
        ladder=ladder,
    )


def _on_all_cases(ladder: Ladder, cases: Cases) -> Ladder:
    """Return the same tests with the counts of all cases, for moving to another threshold."""
    counts = CalibrationCases.from_cases(cases).counts
    return replace(ladder, steps=at_thresholds(counts, ladder.steps.threshold))


def _reason(ladder: Ladder, promise: Promise) -> Reason:
    steps: Steps = ladder.steps
    reached = steps.n_errors < steps.n_accepted * (1 - promise.target)
    return "not_enough_evidence" if reached.any() else "accuracy_too_low"

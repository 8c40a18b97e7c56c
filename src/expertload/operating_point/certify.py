"""Certified thresholds: tested so that chance rarely certifies a bad one.

`choose` returns the threshold that looks best on the given data, and on new data misses its target
about every other time. `certify` tests thresholds, and promises: over draws of the calibration
cases, the probability that the certified threshold misses the target is at most
1 - ``confidence_level``, whatever the distribution, for any number of cases.

`run_tests` chooses the procedure: `spending` with its proof is the default, `graded` has the tests
of graded cases and of clusters. The tests become a `CertifiedPoint`; where nothing passes, it says
why, and `Advice` what would have been enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any, get_args, overload

import numpy as np

from expertload._check import as_floats, check_fraction, check_level, check_option, message
from expertload._names import METHODS, Method
from expertload._typing import ArrayLike
from expertload.cases import Cases, as_cases
from expertload.exceptions import ParameterError, WeightError
from expertload.operating_point.certified import (
    CertifiedPoint,
    CertifiedTargets,
    ClusterPromise,
    Reason,
)
from expertload.operating_point.graded import (
    Grades,
    bet_on_clusters,
    descend_from,
    fixed_sequence,
    largest_cluster,
    least_clustered_cases,
    least_graded_cases,
    one_case_each,
)
from expertload.operating_point.ladder import (
    Ladder,
    Promise,
    Risk,
    Run,
    Steps,
    any_passes,
    first_failure,
    least_cases,
)
from expertload.operating_point.point import origin_of
from expertload.operating_point.spending import descend, plan

TARGETS_PER_UNIT = 1000
# Advice to bring more than this many times the given cases (or the fewest that can pass) is of no
# use: what so few good cases at the top suggest may well be luck.
MOST_TIMES = 20
# Steps that advice tests again; more would change the answer by less than its rounding.
MOST_STEPS = 100_000
# Cases in repeated clusters that advice tests; more would take too long.
MOST_REPEATED = 1_000_000


@overload
def certify(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    target_accuracy: float,
    confidence_level: float = ...,
    method: Method = ...,
    risk: Risk = ...,
    thresholds: ArrayLike | None = ...,
    clusters: ArrayLike | None = ...,
    cluster_promise: ClusterPromise = ...,
    confidence: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
    labels: ArrayLike | None = ...,
    model_name: str | None = ...,
) -> CertifiedPoint: ...


@overload
def certify(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    target_accuracy: Sequence[float],
    confidence_level: float = ...,
    method: Method = ...,
    risk: Risk = ...,
    thresholds: ArrayLike | None = ...,
    clusters: ArrayLike | None = ...,
    cluster_promise: ClusterPromise = ...,
    confidence: ArrayLike | None = ...,
    sample_weight: ArrayLike | None = ...,
    labels: ArrayLike | None = ...,
    model_name: str | None = ...,
) -> CertifiedTargets: ...


def certify(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    target_accuracy: float | Sequence[float],
    confidence_level: float = 0.95,
    method: Method = "spending",
    risk: Risk = "selective",
    thresholds: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    cluster_promise: ClusterPromise = "all_cases",
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    model_name: str | None = None,
) -> CertifiedPoint | CertifiedTargets:
    """Certify an operating point: a threshold that reaches a target accuracy on new cases.

    Parameters
    ----------
    y_true, y_proba, confidence, labels
        As in `expertload.coc_curve`: calibration cases, drawn as the new ones will be, on which
        the model was neither fitted nor tuned. Or one `Cases`, or a table of
        `expertload.io.tally_frame`, which knows no clusters, in place of all of them.
    target_accuracy : float or sequence of float
        The accuracy to promise, between 0 and 1, fixed before the data are seen. If there are
        several, each is tested at its share of the level, and all promises hold together.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.
    method : {"spending", "fixed_sequence"}, default="spending"
        - "spending" tests from strict to loose in one pass; the most powerful. Graded cases are
          tested by "fixed_sequence" instead.
        - "fixed_sequence" tests from strict to loose until one fails, from several starts.
    risk : {"selective", "joint"}, default="selective"
        - "selective": accuracy among the accepted cases is at least the target.
        - "joint": the share of *all* cases that are accepted and wrong is at most one minus the
          target: with perfect experts, the accuracy of the team reaches it.
    thresholds : array-like, optional
        Thresholds to test, fixed without looking at the calibration labels. By default every
        threshold is tested, which costs no power.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, for example its patient: integers or strings. Without it, cases
        must be independent.
    cluster_promise : {"all_cases", "one_case_each"}, default="all_cases"
        What is promised about clusters. "all_cases": the accuracy over all their accepted cases.
        "one_case_each": the accuracy of one case drawn at random from each cluster; easier to show
        if the cases of a cluster are much alike.
    sample_weight : None
        Not supported: the tests count cases, and weights raise an error.
    model_name : str, optional
        Saved with the point.

    Returns
    -------
    CertifiedPoint or CertifiedTargets
        An `OperatingPoint` with its ``guarantee`` as a sentence and the ``ladder`` of tests. If
        nothing can be certified, everything is delegated, and ``guarantee`` gives the reason and
        what would be enough. For a sequence of targets, a mapping from each to its point.

    Notes
    -----
    The procedure and its proof are in `expertload.operating_point.spending`. Graded correctness and
    clusters are tested by betting (`expertload.operating_point.graded`).

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases, certify
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> point = certify(y_true, y_proba, target_accuracy=0.95)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}, accuracy {point.accuracy:.3f}")
    0.916, load 0.538, accuracy 0.963

    Sixty cases, all right, show 95 %; fifty do not:

    >>> certify(Cases.from_correctness([1] * 60, range(60)), target_accuracy=0.95).is_certified
    True
    >>> point = certify(Cases.from_correctness([1] * 50, range(50)), target_accuracy=0.95)
    >>> print(point.guarantee)
    Nothing is certified at a target of 0.95: 50 case(s) are too few, even if all were right.
    At the accuracy observed, it takes at least 59 cases. A target of 0.941 is within reach of
    these data; certify it on fresh cases.
    """
    check_unweighted(sample_weight)
    cases = as_cases(y_true, y_proba, confidence=confidence, labels=labels, clusters=clusters)
    check_unweighted(cases.weight)
    targets = list(target_accuracy) if _is_many(target_accuracy) else [target_accuracy]  # type: ignore[arg-type]
    promises = [read_promise(t, confidence_level, method, risk, thresholds) for t in targets]
    if not promises or len({promise.target for promise in promises}) < len(promises):
        raise ParameterError(
            f"The targets must be distinct, and at least one. Got {targets}. "
            "Hint: pass, for example, target_accuracy=[0.9, 0.95]."
        )
    points = certify_promises(cases, promises, cluster_promise, model_name)
    return points if _is_many(target_accuracy) else points[promises[0].target]


def certify_promises(
    cases: Cases,
    promises: Sequence[Promise],
    cluster_promise: ClusterPromise = "all_cases",
    model_name: str | None = None,
) -> CertifiedTargets:
    """Certify each promise at its share of the level."""
    check_option(cluster_promise, get_args(ClusterPromise), "cluster_promise")
    origin, level = origin_of(cases, model_name), promises[0].error_level
    drawn = cluster_promise == "one_case_each" and cases.clusters is not None
    calibration = Calibration(one_case_each(cases) if drawn else cases)
    points = {}
    for promise in sorted(promises, key=lambda promise: promise.target):
        shared = promise._replace(error_level=level / len(promises))
        if cases.clusters is None or drawn:
            point = certify_independent(calibration, shared)
        else:
            point = _certify_clusters(cases, calibration, shared)
        points[promise.target] = replace(
            point, origin=origin, clusters=None if cases.clusters is None else cluster_promise
        )
    return CertifiedTargets(points=points, confidence_level=1 - level, origin=origin)


# ------------------------------------------------------------------ what is promised


def read_promise(
    target_accuracy: Any,
    confidence_level: Any,
    method: Any,
    risk: Any = "selective",
    thresholds: ArrayLike | None = None,
) -> Promise:
    """Validate the options and return the promise."""
    check_option(method, tuple(METHODS), "method")
    check_option(risk, ("selective", "joint"), "risk")  # "cost" is for `certify_mean_cost` alone
    if isinstance(target_accuracy, Real) and target_accuracy == 1:
        wanted = "must be in (0, 1): no number of cases shows that there is never an error"
        hint = "0.99 needs 299 cases without an error at a confidence level of 0.95"
        raise ParameterError(message("target_accuracy", wanted, target_accuracy, hint))
    target = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
    level = check_level(confidence_level)
    given = None if thresholds is None else as_floats(thresholds, "thresholds").astype(np.float64)
    return Promise(target, 1 - level, method, risk, given)


def _is_many(target_accuracy: Any) -> bool:
    is_row = isinstance(target_accuracy, np.ndarray) and target_accuracy.ndim == 1
    return is_row or isinstance(target_accuracy, list | tuple)


# ------------------------------------------------------------------ the tests


class Calibration:
    """Calibration cases: their counts at every distinct confidence, and their grades if any."""

    def __init__(self, cases: Cases) -> None:
        self.n_cases = len(cases)
        self.counts = Steps.every(cases.tally)
        self.grades = Grades.from_cases(cases) if cases.is_graded else None

    def steps(self, promise: Promise) -> Steps:
        """Return the counts, strict to loose, with the evidence of grades."""
        if self.grades is None:
            return self.counts
        all_cases = promise.counts_all_cases
        capital = self.grades.log_capital(promise.target, all_cases=all_cases)
        return self.counts._replace(log_capital=capital)


def run_tests(steps: Steps, n_cases: int, promise: Promise) -> Ladder:
    """Test the given thresholds, or all of them, by the requested method."""
    target, level = promise.target, promise.error_level
    if promise.thresholds is not None:
        steps = steps.at(promise.thresholds)
    if promise.counts_all_cases:
        runs = _test_one_by_one(steps, n_cases, promise)
    elif _is_single(steps, promise):
        runs = descend_from(steps.p_values(target), np.array([level]))
    elif promise.method == "spending" and steps.log_capital is None:
        planned = plan(n_cases, target, level, tied=len(steps.threshold) < n_cases)
        runs = descend(steps.n_accepted, steps.n_errors, planned)
    else:
        runs = fixed_sequence(steps, n_cases, target, level)
    return Ladder(steps, runs, target, is_whole=promise.thresholds is None)


def _test_one_by_one(steps: Steps, n_cases: int, promise: Promise) -> tuple[Run, ...]:
    """Test the share of all cases that are accepted and wrong, which can only grow."""
    n_steps = len(steps.threshold)
    if steps.log_capital is None:
        all_cases = np.full(n_steps, float(n_cases))
        n_passed = first_failure(all_cases, steps.n_errors, 1 - promise.target, promise.error_level)
    else:
        failed = steps.p_values(promise.target) > promise.error_level
        n_passed = int(failed.argmax()) if failed.any() else n_steps
    return (Run(0, min(n_passed + 1, n_steps), n_passed),)


def _is_single(steps: Steps, promise: Promise) -> bool:
    """Whether there is only one threshold, which needs no sequence."""
    return promise.thresholds is not None and len(steps.threshold) == 1


def fewest_testable(steps: Steps, n_cases: int, promise: Promise) -> int:
    """Return the fewest accepted cases that can pass any of the tests."""
    target, level = promise.target, promise.error_level
    if steps.log_capital is not None:
        return least_graded_cases(target, level)
    in_sequence = not promise.counts_all_cases and not _is_single(steps, promise)
    if in_sequence and promise.method == "spending":
        looks = plan(n_cases, target, level, tied=len(steps.threshold) < n_cases).looks
        # Of targets next to one, no number of cases may be enough within rounding.
        return looks[0].n_cases if looks else least_cases(target, level)
    return least_cases(target, level)


# ------------------------------------------------------------------ the verdict


def certify_independent(calibration: Calibration, promise: Promise) -> CertifiedPoint:
    """Test independent cases and return the point."""
    ladder = run_tests(calibration.steps(promise), calibration.n_cases, promise)
    point = _point(calibration, ladder, promise)
    if point.threshold < math.inf:
        return replace(point, passed=ladder.certified())
    least = fewest_testable(ladder.steps, calibration.n_cases, promise)
    advice = Advice(calibration, promise, least)
    return replace(
        point, reason=_reason(ladder, calibration.n_cases, promise, least, advice), advice=advice
    )


def _certify_clusters(cases: Cases, calibration: Calibration, promise: Promise) -> CertifiedPoint:
    """Test clusters; describe the point on all cases, those that set the thresholds included."""
    ladder = bet_on_clusters(cases, promise)
    point = _point(calibration, ladder, promise._replace(method="fixed_sequence"))
    steps = ladder.steps
    if point.threshold == math.inf:
        largest = max(promise.largest, largest_cluster(cases))
        least = least_clustered_cases(promise, largest)
        advice = ClusterAdvice(cases, calibration, promise, least)
        counted = steps.n_accepted
        if promise.counts_all_cases:
            counted = np.full(len(counted), float(calibration.n_cases))
        reached = steps.n_errors < counted * (1 - promise.target)
        reason: Reason = "accuracy_too_low"
        if counted.max() < least:
            reason = "too_few_cases"
        elif (reached & (counted >= least)).any() or advice.sufficient_cases is not None:
            reason = "not_enough_evidence"
        return replace(point, reason=reason, advice=advice)
    on_all_cases = replace(ladder, steps=calibration.counts.at(steps.threshold))
    return replace(point, passed=on_all_cases.certified())


def _point(calibration: Calibration, ladder: Ladder, promise: Promise) -> CertifiedPoint:
    """Return the point of the loosest threshold that passed, with its counts on all cases."""
    row = ladder.loosest
    threshold = math.inf if row is None else float(ladder.steps.threshold[row])
    return CertifiedPoint(
        **calibration.counts.counts_at(threshold),
        target_accuracy=promise.target,
        confidence_level=1 - promise.error_level,
        method=promise.method,
        risk=promise.risk,
        ladder=ladder,
    )


def _reason(ladder: Ladder, n_cases: int, promise: Promise, least: int, advice: Advice) -> Reason:
    """Return the reason why no threshold passed."""
    steps = ladder.steps
    if n_cases < least:
        return "too_few_cases"
    if promise.counts_all_cases:  # only the first step matters, and all cases count
        steps = steps.take(slice(1))._replace(n_accepted=np.array([float(n_cases)]))
    if steps.n_accepted[-1] < least:
        return "too_few_accepted"
    if _passes_further_down(steps, promise, ladder):
        return "over_confident_top"
    testable = steps.n_accepted >= least
    reached = steps.n_errors < steps.n_accepted * (1 - promise.target)
    if (testable & reached).any() or advice.sufficient_cases is not None:
        return "not_enough_evidence"
    return "accuracy_too_low"


def _passes_further_down(steps: Steps, promise: Promise, ladder: Ladder) -> bool:
    """Return whether a threshold looser than the first one would pass a separate test."""
    after = len(steps.threshold) if ladder.first is None else ladder.first + 1
    below = steps.take(slice(after, None))
    if below.log_capital is not None:
        return bool((below.p_values(promise.target) <= promise.error_level).any())
    return any_passes(below.n_accepted, below.n_errors, 1 - promise.target, promise.error_level)


class Advice:
    """What would have been enough if nothing could be certified. Computed only when it is read.

    Both answers are rough, because they come from the same data as the failure: the number of cases
    that would be enough if the observed accuracy is the true one, and a lower target that these
    data would have certified. Both run the tests again, on a thinned ladder if it is very long.
    """

    def __init__(self, calibration: Calibration, promise: Promise, fewest: int) -> None:
        self._calibration, self._promise, self._fewest = calibration, promise, fewest
        # A few right answers at the top are usually luck, so advice uses at least as many cases
        # as a test needs, or half of the given ones.
        share = min(fewest / calibration.n_cases, 0.5)
        self._solid = 0.0 if promise.counts_all_cases else share

    @cached_property
    def sufficient_cases(self) -> int | None:
        """About how many cases would be enough; None if even very many are not."""
        n_cases, fewest = self._calibration.n_cases, self._fewest
        short, enough = n_cases, max(n_cases + 1, fewest)
        while not self._suffices(enough):
            short, enough = enough, 2 * enough
            if enough > MOST_TIMES * max(n_cases, fewest):
                return None
        while enough - short > max(1, enough // 100):
            middle = (short + enough) // 2
            short, enough = (short, middle) if self._suffices(middle) else (middle, enough)
        return enough

    @cached_property
    def target_within_reach(self) -> float | None:
        """A lower target, in thousandths, that the same data certify; None if none does."""
        low, high = 0, math.ceil(self._promise.target * TARGETS_PER_UNIT)
        while high - low > 1:
            middle = (low + high) // 2
            reached = self._reaches(middle / TARGETS_PER_UNIT)
            low, high = (middle, high) if reached else (low, middle)
        return low / TARGETS_PER_UNIT if low else None

    def _reaches(self, target: float) -> bool:
        promise = self._promise._replace(target=target)
        steps = self._calibration.steps(promise).take(self._kept)
        return run_tests(steps, self._calibration.n_cases, promise).loosest is not None

    def _suffices(self, n_cases: int) -> bool:
        ladder = run_tests(self._enlarged(n_cases), n_cases, self._promise)
        if ladder.loosest is None:
            return False
        return bool(ladder.steps.n_accepted[ladder.loosest] >= self._solid * n_cases)

    def _enlarged(self, n_cases: int) -> Steps:
        """Return the counts for a larger number of similar cases, with errors rounded up."""
        times = n_cases / self._calibration.n_cases
        threshold, accepted, errors, _ = self._calibration.counts.take(self._kept)
        accepted, errors = np.rint(accepted * times), errors * times
        if self._calibration.grades is not None:
            capital = self._calibration.grades.log_capital(
                self._promise.target, times=times, all_cases=self._promise.counts_all_cases
            )
            return Steps(threshold, accepted, errors, capital[self._kept])
        whole = np.ceil(errors - 1e-9 * np.maximum(errors, 1))
        return Steps(threshold, accepted, np.minimum(whole, accepted))

    @cached_property
    def _kept(self) -> slice | np.ndarray:
        """The steps to test again: all, or evenly spaced with the first ones closer together."""
        n_steps = len(self._calibration.counts.threshold)
        if n_steps <= MOST_STEPS:
            return slice(None)
        dense, even = np.arange(MOST_STEPS // 2), np.linspace(0, n_steps - 1, MOST_STEPS // 2)
        return np.union1d(dense, even.astype(np.int64))


class ClusterAdvice(Advice):
    """What would have been enough of clusters like the given ones, which are repeated."""

    def __init__(
        self, cases: Cases, calibration: Calibration, promise: Promise, fewest: int
    ) -> None:
        super().__init__(calibration, promise, fewest)
        _, unit = np.unique(cases.unit, return_inverse=True)
        mixed = np.random.default_rng(0).permutation(int(unit.max()) + 1)[unit]
        rows = np.argsort(mixed, kind="stable")  # clusters stay together
        self._cases, self._unit = cases.take(rows), mixed[rows]

    def _reaches(self, target: float) -> bool:
        promise = self._promise._replace(target=target)
        return bet_on_clusters(self._cases, promise).loosest is not None

    def _suffices(self, n_cases: int) -> bool:
        if n_cases > MOST_REPEATED:
            return False
        rounds, rows = np.divmod(np.arange(n_cases), len(self._cases))
        clusters = self._unit[rows] + rounds * len(self._cases)
        enlarged = replace(self._cases.take(rows), clusters=clusters)
        return bet_on_clusters(enlarged, self._promise).loosest is not None


def check_unweighted(sample_weight: Any) -> None:
    """Raise if cases are weighted, because they must be counted."""
    if sample_weight is not None:
        wanted = "must be None: the tests count cases drawn one by one"
        hint = (
            "certify each group of cases separately with certify_groups, or draw cases as "
            "new ones will come"
        )
        raise WeightError(message("sample_weight", wanted, "weights", hint))

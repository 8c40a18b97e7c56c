"""Certified thresholds: tested so that chance rarely certifies a bad one.

`choose` returns the threshold that looks best on the given data, and on new data misses its target
about every other time. `certify` tests thresholds, and promises: over draws of the
calibration cases, the probability that the certified threshold misses the target is at most
1 - ``confidence_level``, whatever the distribution, for any number of cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from expertload._cases import Cases, check_correctness_cases, check_named_cases, check_unweighted
from expertload._typing import ArrayLike
from expertload._validation import check_same_order
from expertload.exceptions import ParameterError
from expertload.operating_point.certification.certified_point import CertifiedPoint, ClusterPromise
from expertload.operating_point.certification.clusters import (
    Clustering,
    certify_clusters,
    read_clustering,
)
from expertload.operating_point.certification.methods import CalibrationCases
from expertload.operating_point.certification.promise import Method, Promise, Risk, read_promise
from expertload.operating_point.certification.targets import CertifiedTargets
from expertload.operating_point.certification.verdict import certify_calibration
from expertload.operating_point.origin import Label, Origin, RankedBy, origin_of, ranked_by

__all__ = ["certify", "certify_from_correctness"]


class _Options(TypedDict, total=False):
    """The options of both functions."""

    confidence_level: float
    method: Method
    risk: Risk
    thresholds: ArrayLike | None
    ladder_scores: ArrayLike | None
    clusters: ArrayLike | None
    cluster_promise: ClusterPromise
    random_state: int
    sample_weight: ArrayLike | None
    model_name: str | None


class _OptionsOfPredictions(_Options, total=False):
    confidence: ArrayLike | None
    labels: ArrayLike | None


@overload
def certify(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    target_accuracy: float,
    **options: Unpack[_OptionsOfPredictions],
) -> CertifiedPoint: ...


@overload
def certify(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    target_accuracy: Sequence[float],
    **options: Unpack[_OptionsOfPredictions],
) -> CertifiedTargets: ...


def certify(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    target_accuracy: float | Sequence[float],
    confidence_level: float = 0.95,
    method: Method = "spending",
    risk: Risk = "selective",
    thresholds: ArrayLike | None = None,
    ladder_scores: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    cluster_promise: ClusterPromise = "all_cases",
    random_state: int = 0,
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
        the model was neither fitted nor tuned.
    target_accuracy : float or sequence of float
        The accuracy to promise, between 0 and 1, fixed before the data are seen. If there are
        several, each is tested at its share of the level, and all promises hold together.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.
    method : {"spending", "fixed_sequence", "bonferroni", "sgr"}, default="spending"
        - "spending" tests from strict to loose in one pass; the most powerful. Graded cases are
          tested by "fixed_sequence" instead.
        - "fixed_sequence" tests from strict to loose until one fails, from several starts.
        - "bonferroni" tests a few thresholds separately, each at a share of the level. It still
          works if the most confident cases have too many errors.
        - "sgr" (Geifman and El-Yaniv 2017) bisects the ranks and shares the level among its rounds.
          Its proof needs accuracy to rise with confidence; offered for comparison.
    risk : {"selective", "joint"}, default="selective"
        - "selective": accuracy among the accepted cases is at least the target.
        - "joint": the share of *all* cases that are accepted and wrong is at most one minus the
          target: with perfect experts, the accuracy of the team reaches it.
    thresholds : array-like, optional
        Thresholds to test, fixed without looking at the calibration labels. By default every
        threshold is tested, which costs no power.
    ladder_scores : array-like, optional
        Confidences of other, unlabelled cases; their values become the thresholds.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, for example its patient: integers or strings. Without it, cases
        must be independent.
    cluster_promise : {"all_cases", "one_case_each"}, default="all_cases"
        What is promised about clusters. "all_cases": the accuracy over all their accepted cases.
        "one_case_each": the accuracy of one case drawn at random from each cluster; easier to show
        if the cases of a cluster are much alike.
    random_state : int, default=0
        The seed that decides which clusters set the thresholds, or which case of each is drawn.
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
    The procedure and its proof are in `expertload.operating_point.certification.spending`. Graded
    correctness is tested by betting (``certification.betting``).

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import operating_point
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> point = operating_point.certify(y_true, y_proba, target_accuracy=0.95)
    >>> print(f"{point.threshold:.3f}, load {point.expert_load:.3f}, accuracy {point.accuracy:.3f}")
    0.916, load 0.538, accuracy 0.963
    """
    check_unweighted(sample_weight)
    check_same_order(y_true=y_true, y_proba=y_proba, confidence=confidence, clusters=clusters)
    cases, names = check_named_cases(y_true, y_proba, confidence, None, labels)
    options = confidence_level, method, risk, thresholds, ladder_scores
    promises = read_promises(target_accuracy, *options)
    cases = cases.in_clusters(clusters)
    clustering = read_clustering(cases, cluster_promise, risk, random_state)
    points = certify_cases(cases, promises, clustering, ranked_by(confidence), names, model_name)
    return points if _is_many(target_accuracy) else points[promises[0].target]


@overload
def certify_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    target_accuracy: float,
    **options: Unpack[_Options],
) -> CertifiedPoint: ...


@overload
def certify_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    target_accuracy: Sequence[float],
    **options: Unpack[_Options],
) -> CertifiedTargets: ...


def certify_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    target_accuracy: float | Sequence[float],
    confidence_level: float = 0.95,
    method: Method = "spending",
    risk: Risk = "selective",
    thresholds: ArrayLike | None = None,
    ladder_scores: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    cluster_promise: ClusterPromise = "all_cases",
    random_state: int = 0,
    sample_weight: ArrayLike | None = None,
    model_name: str | None = None,
) -> CertifiedPoint | CertifiedTargets:
    """Certify an operating point from the correctness and the confidence of each case.

    Parameters
    ----------
    correct, confidence
        As in `expertload.Cases.from_correctness`.
    target_accuracy, confidence_level, method, risk, thresholds, ladder_scores, sample_weight
        As in `certify`.
    clusters, cluster_promise, random_state
        As in `certify`.
    model_name : str, optional
        As in `certify`.

    Returns
    -------
    CertifiedPoint
        An `OperatingPoint` with its guarantee, or with the reason why there is none.

    Examples
    --------
    Sixty cases, all right, show 95 %; fifty do not:

    >>> from expertload.operating_point import certify_from_correctness
    >>> certify_from_correctness([1] * 60, range(60), target_accuracy=0.95).is_certified
    True
    >>> point = certify_from_correctness([1] * 50, range(50), target_accuracy=0.95)
    >>> print(point.guarantee)
    Nothing is certified at a target of 0.95: 50 case(s) are too few, even if all were right.
    At the accuracy observed, it takes at least 59 cases. A target of 0.941 is within reach of
    these data; certify it on fresh cases.
    """
    check_unweighted(sample_weight)
    check_same_order(correct=correct, confidence=confidence, clusters=clusters)
    cases = check_correctness_cases(correct, confidence, None)
    options = confidence_level, method, risk, thresholds, ladder_scores
    promises = read_promises(target_accuracy, *options)
    cases = cases.in_clusters(clusters)
    clustering = read_clustering(cases, cluster_promise, risk, random_state)
    points = certify_cases(cases, promises, clustering, "given_confidence", None, model_name)
    return points if _is_many(target_accuracy) else points[promises[0].target]


def certify_cases(
    cases: Cases,
    promises: list[Promise],
    clustering: Clustering | None,
    ranked: RankedBy,
    labels: tuple[Label, ...] | None,
    model_name: str | None,
) -> CertifiedTargets:
    """Certify validated cases, and store the origin in the points."""
    calibration = CalibrationCases.from_cases(cases)
    origin = origin_of(
        cases, calibration.table, ranked_by=ranked, labels=labels, model_name=model_name
    )
    return certify_targets(calibration, promises, clustering, origin)


def certify_targets(
    calibration: CalibrationCases,
    promises: list[Promise],
    clustering: Clustering | None,
    origin: Origin,
) -> CertifiedTargets:
    """Certify each promise at its share of the level."""
    points = {}
    for promise in sorted(promises, key=attrgetter("target")):
        shared = promise._replace(error_level=promise.error_level / len(promises))
        if clustering is None:
            point = certify_calibration(calibration, shared)
        else:
            point = certify_clusters(*clustering, shared)
        points[promise.target] = replace(point, origin=origin)
    return CertifiedTargets(
        points=points, confidence_level=1 - promises[0].error_level, origin=origin
    )


def read_promises(target_accuracy: float | Sequence[float], *options: Any) -> list[Promise]:
    """Return the promise of each requested target."""
    targets = list(target_accuracy) if _is_many(target_accuracy) else [target_accuracy]  # type: ignore[arg-type]
    promises = [read_promise(target, *options) for target in targets]
    if not promises or len({promise.target for promise in promises}) < len(promises):
        raise ParameterError(
            f"The targets must be distinct, and at least one. Got {targets}. "
            "Hint: pass, for example, target_accuracy=[0.9, 0.95]."
        )
    return promises


def _is_many(target_accuracy: Any) -> bool:
    is_row = isinstance(target_accuracy, np.ndarray) and target_accuracy.ndim == 1
    return is_row or isinstance(target_accuracy, list | tuple)

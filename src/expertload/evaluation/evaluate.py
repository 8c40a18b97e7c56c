"""Turns predictions into an `Evaluation`; they are validated, tallied and hashed only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from expertload._check import (
    check_fraction,
    check_same_length,
    check_same_order,
    check_targets,
    parameter_error,
)
from expertload._label_arrays import check_groups
from expertload._labels import ClassName
from expertload._typing import ArrayLike
from expertload.cases import Cases, Predictions, check_named_predictions, check_several
from expertload.evaluation.classes import ClassAnswers, answers_by_class
from expertload.evaluation.evaluation import Evaluation
from expertload.evaluation.groups import Members, evaluate_members, name_members
from expertload.evaluation.parts import Calibration, histogram, rate_interval
from expertload.evaluation.point import settle_point
from expertload.metrics import ReliabilityCurve
from expertload.metrics.calibration import bins_of_tally, expected_error, largest_drift
from expertload.metrics.proper import ProperScores
from expertload.operating_point import (
    CertifiedGroups,
    ClusterPromise,
    Method,
    Origin,
)
from expertload.operating_point import certify_groups as certify_each_group
from expertload.significance import aucoc_interval
from expertload.significance.interval import effective_size_of_rate
from expertload.tally import Tally

__all__ = ["evaluate_from_correctness", "evaluate_predictions"]

# Shown in addition to the requested targets, for comparison with stricter and laxer ones.
USUAL_TARGETS = (0.9, 0.95, 0.99)


def evaluate_predictions(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    target_accuracy: float | Sequence[float] = 0.95,
    confidence_level: float = 0.95,
    method: Method = "spending",
    certify_groups: bool = False,
    clusters: ArrayLike | None = None,
    cluster_promise: ClusterPromise = "all_cases",
) -> Evaluation:
    """Evaluate a classifier that works beside experts.

    Parameters
    ----------
    y_true, y_proba, sample_weight, confidence, labels
        As in `expertload.coc_curve`.
    groups : array-like of shape (n_cases,), optional
        The site, age band or device of each case. Missing values form a group of their own.
    target_accuracy : float or sequence of float, default=0.95
        The accuracy that automatic decisions must reach. The first is the target of the operating
        point. Several are certified together, each at its share of the level.
    confidence_level : float, default=0.95
        The confidence level of the intervals and of the guarantee.
    method : str, default="spending"
        How thresholds are tested, one of `expertload.operating_point.METHODS`.
    certify_groups : bool, default=False
        Whether to certify a threshold for each group as well. All of them hold together; see
        `expertload.operating_point.certify_groups`.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, for example its patient.
    cluster_promise : {"all_cases", "one_case_each"}, default="all_cases"
        What is promised about clusters; see `expertload.operating_point.certify`.

    Returns
    -------
    Evaluation
        Accuracy, AUCOC, curve, loads, calibration, operating point and groups.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.evaluation import evaluate_predictions
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=1000)
    >>> y_true = rng.random(1000) < y_proba
    >>> evaluation = evaluate_predictions(y_true, y_proba, target_accuracy=0.9)
    >>> print(evaluation.aucoc)
    0.9634 (95 % interval 0.9533 to 0.9714)
    """
    options = _read_options(
        target_accuracy, confidence_level, method, groups, certify_groups, clusters, cluster_promise
    )
    given = {"y_true": y_true, "y_proba": y_proba, "groups": groups, "clusters": clusters}
    check_same_order(**given, confidence=confidence, sample_weight=sample_weight)
    predictions, names = check_named_predictions(y_true, y_proba, sample_weight, labels)
    return _evaluate_predictions(predictions, names, confidence, options)


def evaluate_matched(
    predictions: Predictions,
    names: tuple[ClassName, ...],
    *,
    confidence: ArrayLike | None,
    groups: ArrayLike | Members | None,
    target_accuracy: float | Sequence[float] = 0.95,
    confidence_level: float = 0.95,
    method: Method = "spending",
    certify_groups: bool = False,
    clusters: ArrayLike | None = None,
    cluster_promise: ClusterPromise = "all_cases",
) -> Evaluation:
    """Evaluate predictions whose labels and probabilities were validated where they were read."""
    options = _read_options(
        target_accuracy, confidence_level, method, groups, certify_groups, clusters, cluster_promise
    )
    return _evaluate_predictions(predictions, names, confidence, options)


def _evaluate_predictions(
    predictions: Predictions,
    names: tuple[ClassName, ...],
    confidence: ArrayLike | None,
    options: _Options,
) -> Evaluation:
    target, proba, weight = predictions
    cases = Cases.from_matched(target, proba, names, confidence=confidence, weight=weight)
    cases = _with_members(cases, options)
    top = cases.by_probability
    diagram = _diagram(top.tally, predictions)
    return _evaluate(cases, options, diagram, answers_by_class(predictions, top.correct, names))


def evaluate_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    target_accuracy: float | Sequence[float] = 0.95,
    confidence_level: float = 0.95,
    method: Method = "spending",
    certify_groups: bool = False,
    clusters: ArrayLike | None = None,
    cluster_promise: ClusterPromise = "all_cases",
) -> Evaluation:
    """Evaluate anything that has a correctness and a confidence for each case.

    Parameters
    ----------
    correct, confidence, sample_weight
        As in `expertload.Cases.from_correctness`.
    groups, target_accuracy, confidence_level, method, certify_groups, clusters, cluster_promise
        As in `evaluate_predictions`.

    Returns
    -------
    Evaluation
        As from `evaluate_predictions`; without calibration if confidences are not in [0, 1].

    Examples
    --------
    >>> from expertload.evaluation import evaluate_from_correctness
    >>> evaluation = evaluate_from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])
    >>> evaluation.loads[0.95], evaluation.accuracy.estimate
    (0.25, 0.75)
    """
    options = _read_options(
        target_accuracy, confidence_level, method, groups, certify_groups, clusters, cluster_promise
    )
    check_same_order(correct=correct, confidence=confidence, groups=groups, clusters=clusters)
    cases = Cases.from_correctness(correct, confidence, sample_weight=sample_weight)
    cases = _with_members(cases, options)
    is_share = cases.confidence.min() >= 0 and cases.confidence.max() <= 1
    diagram = _diagram(cases.tally, None) if is_share else (None, None)
    return _evaluate(cases, options, diagram, None)


# ------------------------------------------------------------------ from what is validated


class _Options(NamedTuple):
    """Validated options."""

    targets: Sequence[float]
    level: float
    method: Method
    groups: ArrayLike | Members | None
    certify_groups: bool
    clusters: ArrayLike | None
    cluster_promise: ClusterPromise


def _read_options(
    target_accuracy: float | Sequence[float],
    confidence_level: float,
    method: Method,
    groups: ArrayLike | Members | None,
    certify_groups: bool,
    clusters: ArrayLike | None,
    cluster_promise: ClusterPromise,
) -> _Options:
    if certify_groups and groups is None:
        raise parameter_error(
            "certify_groups", "needs groups", "none", "pass groups= (--group COLUMN)"
        )
    targets = check_targets(target_accuracy)
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    if certify_groups and clusters is not None:
        raise parameter_error(
            "certify_groups", "takes independent cases", "clusters", "certify all together"
        )
    return _Options(targets, level, method, groups, certify_groups, clusters, cluster_promise)


def _evaluate(
    cases: Cases,
    options: _Options,
    diagram: tuple[ReliabilityCurve | None, Calibration | None],
    answers: ClassAnswers | None,
) -> Evaluation:
    check_several(cases)
    targets, level, table = options.targets, options.level, cases.tally
    reliability, calibration = diagram
    members = name_members(options.groups, len(cases))
    settled = settle_point(
        cases,
        targets=targets,
        confidence_level=level,
        method=options.method,
        cluster_promise=options.cluster_promise,
    )
    rate = float(table.correct.sum() / table.total)
    aucoc, curve = aucoc_interval(cases, confidence_level=level), table.curve()
    return Evaluation(
        n_cases=len(cases.correct) if cases.weight is None else int(np.count_nonzero(cases.weight)),
        accuracy=rate_interval(rate, effective_size_of_rate(cases), level),
        aucoc=aucoc,
        curve=curve,
        loads={t: curve.load_at_accuracy(t) for t in sorted({*targets, *USUAL_TARGETS})},
        calibration=calibration,
        reliability=reliability,
        histogram=histogram(table),
        operating_point=settled.point,
        target_accuracy=targets[0],
        certification=settled.certification,
        target_certification=settled.targets,
        guarantee=settled.guarantee,
        conditions=settled.conditions,
        groups=evaluate_members(cases, members, settled.point.threshold, level),
        group_certification=_certify_groups(cases, settled.point.origin, options),
        is_weighted=cases.weight is not None,
        confidence_level=level,
        cases=cases,
        table=table,
        target=cases.target,
        members=members,
        answers=answers,
    )


def _certify_groups(cases: Cases, origin: Origin, options: _Options) -> CertifiedGroups | None:
    if not options.certify_groups:
        return None
    points = certify_each_group(
        cases,
        target_accuracy=options.targets[0],
        confidence_level=options.level,
        method=options.method,
    )
    return points.with_origin(origin)


def _with_members(cases: Cases, options: _Options) -> Cases:
    """Return cases with their clusters and, if groups are certified, with their groups."""
    cases, groups = cases.in_clusters(options.clusters), options.groups
    if groups is None or isinstance(groups, Members) or not options.certify_groups:
        return cases
    named = check_groups(groups)
    check_same_length(confidence=cases.confidence, groups=named)
    return replace(cases, groups=named)


def _diagram(table: Tally, predictions: Predictions | None) -> tuple[ReliabilityCurve, Calibration]:
    """Return the reliability diagram and the errors; proper scores if predictions are known."""
    bins = bins_of_tally(table)
    scores = ProperScores() if predictions is None else ProperScores.of(predictions)
    return bins, Calibration(
        expected_error=expected_error(bins),
        kolmogorov_smirnov_error=largest_drift(table),
        **scores._asdict(),
    )

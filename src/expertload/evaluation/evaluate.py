"""Evaluates one model on one set of cases: every number, the operating point and its guarantee.

The operating point is a certified one if there is one. Otherwise it is the point that reaches the
target on these cases, and the text states that nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from expertload._check import check_level, check_targets, parameter_error
from expertload._format import percent, promised, shares
from expertload.cases import Cases, check_are_cases, counted
from expertload.evaluation.evaluation import Calibration, Evaluation
from expertload.evaluation.groups import Members, evaluate_members
from expertload.metrics import ReliabilityCurve, kolmogorov_smirnov_error, reliability_curve
from expertload.metrics.proper import proper_scores
from expertload.operating_point import (
    CertifiedGroupClasses,
    CertifiedGroups,
    CertifiedPoint,
    ClusterPromise,
    Method,
    OperatingPoint,
    certify,
    certify_classes,
    certify_group_classes,
    choose,
)
from expertload.operating_point import certify_groups as certify_each_group
from expertload.operating_point.point import digits, quantity
from expertload.significance import aucoc_interval
from expertload.significance.interval import (
    check_several,
    effective_size_of_rate,
    rate_interval,
)
from expertload.team import evaluate_team

# Shown in addition to the requested targets, for comparison with stricter and laxer ones.
USUAL_TARGETS = (0.9, 0.95, 0.99)
NOT_COUNTED = "Weighted cases cannot be certified: the tests count cases drawn one by one."
NO_TARGET = "No finite number of cases certifies a target of 0 or 1."


def evaluate(
    cases: Cases,
    *,
    target_accuracy: float | Sequence[float] = 0.95,
    confidence_level: float = 0.95,
    method: Method = "spending",
    certify_groups: bool = False,
    promises: Sequence[str] = (),
    cluster_promise: ClusterPromise = "all_cases",
    members: Members | None = None,
) -> Evaluation:
    """Evaluate a classifier that works beside experts.

    Parameters
    ----------
    cases : Cases
        The cases, with their weights, clusters and groups; or a table of `tally_frame`. Missing
        groups form a group of their own. Without probabilities, calibration is computed if
        confidences are in [0, 1].
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
    promises : sequence of str, optional
        Promises about classes to certify, such as ``"missed:malignant=0.02"``; see
        `expertload.operating_point.certify_classes`. With `certify_groups`, they are made to each
        group.
    cluster_promise : {"all_cases", "one_case_each"}, default="all_cases"
        What is promised about clusters; see `expertload.operating_point.certify`.
    members : Members, optional
        The groups as numbers, if they are known already; by default from the groups of the cases.

    Returns
    -------
    Evaluation
        Accuracy, AUCOC, curve, loads, calibration, operating point and groups; the team, if cases
        have experts' answers.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.evaluation import evaluate
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=1000)
    >>> y_true = rng.random(1000) < y_proba
    >>> evaluation = evaluate(Cases.from_predictions(y_true, y_proba), target_accuracy=0.9)
    >>> print(evaluation.aucoc)
    0.9634 (95 % interval 0.9533 to 0.9714)

    Of anything that has a correctness and a confidence for each case:

    >>> evaluation = evaluate(Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]))
    >>> evaluation.loads[0.95], evaluation.accuracy.estimate
    (0.25, 0.75)
    """
    cases = counted(cases)
    check_are_cases(cases)
    if certify_groups and cases.groups is None:
        hint = "pass groups= to Cases (--group COLUMN)"
        raise parameter_error("certify_groups", "needs groups", "none", hint)
    targets = check_targets(target_accuracy)
    level = check_level(confidence_level)
    check_several(cases)
    if members is None and cases.groups is not None:
        members = Members.from_names(cases.groups)
    reliability, calibration = _calibration(cases)
    sure: dict[str, Any] = {"confidence_level": level, "cluster_promise": cluster_promise}
    points = None
    if cases.weight is None and 0 < targets[0] < 1:
        certifiable = [target for target in targets if 0 < target < 1]
        points = certify(cases, target_accuracy=certifiable, method=method, **sure)
    certification = None if points is None else points[targets[0]]
    point = _operating_point(cases, targets[0], certification)
    guarantee, conditions = _in_words(cases, targets[0], point, certification)
    each_group: CertifiedGroups | CertifiedGroupClasses | None = None
    each_class = None
    if certify_groups and promises:
        each_group = certify_group_classes(cases, promises=promises, **sure)
    elif certify_groups:
        each_group = certify_each_group(cases, target_accuracy=targets[0], method=method, **sure)
        each_group = each_group.with_origin(point.origin)
    elif promises:
        each_class = certify_classes(cases, promises=promises, **sure)
    table, curve, team = cases.tally, cases.curve(), None
    if cases.expert_answers is not None:
        team = evaluate_team(cases, threshold=point.threshold, confidence_level=level)
    rate = float(table.correct.sum() / table.total)
    return Evaluation(
        accuracy=rate_interval(rate, effective_size_of_rate(cases), level),
        aucoc=aucoc_interval(cases, confidence_level=level),
        curve=curve,
        loads={t: curve.load_at_accuracy(t) for t in sorted({*targets, *USUAL_TARGETS})},
        calibration=calibration,
        reliability=reliability,
        operating_point=point,
        target_accuracy=targets[0],
        certification=certification,
        target_certification=points if points is not None and len(points) > 1 else None,
        guarantee=guarantee,
        conditions=conditions,
        groups=evaluate_members(cases, members, point.threshold, level),
        group_certification=each_group,
        class_certification=each_class,
        confidence_level=level,
        cases=cases,
        members=members,
        team=team,
    )


def _calibration(cases: Cases) -> tuple[ReliabilityCurve | None, Calibration | None]:
    """Return the reliability diagram and the errors; None if confidences are not in [0, 1]."""
    is_share = cases.confidence.min() >= 0 and cases.confidence.max() <= 1
    if cases.proba is None and not is_share:
        return None, None
    diagram = reliability_curve(cases)
    brier, log, n_impossible = (None, None, 0) if cases.proba is None else proper_scores(cases)
    return diagram, Calibration(
        expected_error=diagram.expected_error,
        kolmogorov_smirnov_error=kolmogorov_smirnov_error(cases),
        brier_loss=brier,
        log_loss=log,
        n_impossible=n_impossible,
    )


# ------------------------------------------------------------------ the operating point


def _operating_point(
    cases: Cases, target: float, certification: CertifiedPoint | None
) -> OperatingPoint:
    """Return the certified point, or the one that reaches the target on these cases."""
    if certification is not None and certification.is_certified:
        return certification
    point = choose(cases, target_accuracy=target)
    return point if certification is None else replace(point, origin=certification.origin)


def _in_words(
    cases: Cases, target: float, point: OperatingPoint, certification: CertifiedPoint | None
) -> tuple[str, str]:
    """Return the guarantee in one sentence, and its conditions or why there is none."""
    if certification is None:
        why = NO_TARGET if cases.weight is None else NOT_COUNTED
    elif certification.is_certified:
        return _promise(certification), certification.conditions
    else:
        why = certification.guarantee
    refusal = f"No threshold can be promised to reach {promised(target)} accuracy on new cases"
    if point.accuracy is None:
        return f"{refusal}, and none does on these.", why
    return (
        f"{refusal}; on these, deciding at a confidence of at least {digits(point.threshold)} was "
        f"right in {percent(point.accuracy)} of decisions, with "
        f"{shares(point.expert_load)[0]} of all cases automated and "
        f"{_seen(point, is_weighted=cases.weight is not None)} left to experts."
    ), why


def _promise(point: CertifiedPoint) -> str:
    return (
        f"If the model decides only the cases in which its confidence is at least "
        f"{digits(point.threshold)}, at least {promised(point.target_accuracy)} of its decisions "
        f"will be right (one can be {promised(point.confidence_level)} sure of that). That "
        f"automates {shares(point.expert_load)[0]} of all cases, and experts see {_seen(point)}."
    )


def _seen(point: OperatingPoint, *, is_weighted: bool = False) -> str:
    delegated, total = quantity(point.n_delegated), quantity(point.n_cases)
    counted = f"{delegated} of the {total} examined"
    if is_weighted:
        counted = f"{delegated} of a sum of weights of {total}"
    return f"{percent(point.expert_load)} ({counted})"

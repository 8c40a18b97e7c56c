"""The result of `evaluate`: numbers to read, compare, report, or write as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from expertload._format import Row, percent, promised, shares, small_table
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.cases import Cases
from expertload.curve import COCCurve
from expertload.evaluation.groups import (
    ClassAnswers,
    ClassEvaluation,
    GroupEvaluation,
    Members,
    answers_by_class,
    evaluate_classes,
)
from expertload.exceptions import ShapeError
from expertload.metrics import ReliabilityCurve
from expertload.operating_point import (
    CertifiedClasses,
    CertifiedGroupClasses,
    CertifiedGroups,
    CertifiedPoint,
    CertifiedTargets,
    OperatingPoint,
)
from expertload.operating_point.certified import ONE_OF_EACH
from expertload.significance import COCBand, Comparison, Interval, aucoc_paired_test, coc_band
from expertload.significance.compare import check_same_cases
from expertload.tally import cumulative_from_bottom
from expertload.team import TeamEvaluation

N_BINS = 20
N_EXPLAINED = 5  # groups without a promise that are explained


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How far confidence is from accuracy, and how good the probabilities are.

    Attributes
    ----------
    expected_error : float
        Expected calibration error of the top label, 15 bins of equal mass.
    kolmogorov_smirnov_error : float
        The largest summed gap between confidence and correctness.
    brier_loss, log_loss : float or None
        Proper scores of the probabilities; None if only confidences are known.
    n_impossible : int
        The number of cases whose true class has a probability of zero. The log loss would be
        infinite and uses the smallest positive number instead; see `expertload.metrics.log_loss`.
    """

    expected_error: float
    kolmogorov_smirnov_error: float
    brier_loss: float | None = None
    log_loss: float | None = None
    n_impossible: int = 0


class ConfidenceHistogram(NamedTuple):
    """The numbers of right and wrong cases by confidence.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Edges of the bins; each bin includes its left edge, the last one both.
    right, wrong : ndarray of shape (n_bins,)
        Cases (or weight, or grades) in each bin.
    """

    edges: FloatArray
    right: FloatArray
    wrong: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """One model on one set of cases.

    Attributes
    ----------
    accuracy : Interval
        The accuracy over all cases, as if none were delegated.
    aucoc : Interval
        Area under the COC curve, exact convention.
    curve : COCCurve
        The curve.
    loads : dict from float to float
        The smallest load that reaches each target accuracy on these cases.
    calibration : Calibration or None
        None if confidences are not probabilities.
    reliability : ReliabilityCurve or None
        The points of the reliability diagram.
    operating_point : OperatingPoint
        The threshold for `target_accuracy` and its counts on these cases.
    target_accuracy : float
        The target that the operating point is for.
    certification : CertifiedPoint or None
        The result of the tests: the operating point, or why nothing is certified. None if no test
        applies (weighted cases).
    guarantee : str
        What is promised about the operating point, in one sentence.
    conditions : str
        When the guarantee holds; or why there is none, and what would be enough.
    groups : tuple of GroupEvaluation
        Worst first; empty if no groups were given.
    group_certification : CertifiedGroups, CertifiedGroupClasses or None
        A threshold for each group, or for each answer in each group if there are promises about
        classes, certified for all groups at once; None unless requested.
    class_certification : CertifiedClasses or None
        A threshold for each answer, with promises about classes; None unless requested.
    target_certification : CertifiedTargets or None
        A threshold for each target, certified for all of them at once; None if there is one target.
    confidence_level : float
        The confidence level of every interval here.
    team : TeamEvaluation or None
        Experts, model and both together at the operating point; None without experts' answers.
    identified_by : str or None
        The column that identifies cases. None if there is none; models are then compared as if
        their cases were in the same order.
    """

    accuracy: Interval
    aucoc: Interval
    curve: COCCurve = field(repr=False)
    loads: Mapping[float, float]
    calibration: Calibration | None
    reliability: ReliabilityCurve | None = field(repr=False)
    operating_point: OperatingPoint
    target_accuracy: float
    certification: CertifiedPoint | None = field(repr=False)
    guarantee: str
    conditions: str
    groups: tuple[GroupEvaluation, ...] = field(repr=False)
    group_certification: CertifiedGroups | CertifiedGroupClasses | None = field(
        default=None, repr=False
    )
    class_certification: CertifiedClasses | None = field(default=None, repr=False)
    target_certification: CertifiedTargets | None = field(default=None, repr=False)
    confidence_level: float
    cases: Cases = field(repr=False)
    target: IntArray | None = field(default=None, repr=False)
    members: Members | None = field(default=None, repr=False)
    team: TeamEvaluation | None = field(default=None, repr=False)
    identifiers: AnyArray | None = field(default=None, repr=False)
    identified_by: str | None = None

    @property
    def n_cases(self) -> int:
        """The number of cases, without those of weight zero."""
        weight = self.cases.weight
        return len(self.cases) if weight is None else int(np.count_nonzero(weight))

    @property
    def is_weighted(self) -> bool:
        """Whether cases have weights; counts are then sums of weights."""
        return self.cases.weight is not None

    @cached_property
    def histogram(self) -> ConfidenceHistogram:
        """The numbers of right and wrong cases by confidence."""
        table = self.cases.tally
        edges = _edges(float(table.confidence[0]), float(table.confidence[-1]))
        # The rows of a tally are sorted, so each bin is a contiguous range of rows.
        ends = np.searchsorted(table.confidence, edges[1:-1])
        marks = np.array([0, *ends, len(table.confidence)])
        counts = (cumulative_from_bottom(values)[marks] for values in (table.correct, table.errors))
        return ConfidenceHistogram(edges, *map(np.diff, counts))

    @cached_property
    def answers(self) -> ClassAnswers | None:
        """The true and the predicted class of each case; None if labels are unknown."""
        return answers_by_class(self.cases)

    @cached_property
    def band(self) -> COCBand:
        """An interval around every point of the curve."""
        return coc_band(self.cases, confidence_level=self.confidence_level)

    @cached_property
    def classes(self) -> tuple[ClassEvaluation, ...]:
        """The cases of each true class, clearly bad classes first; empty if labels are unknown."""
        if self.answers is None:
            return ()
        threshold = self.operating_point.threshold
        return evaluate_classes(self.cases, self.answers, threshold, self.confidence_level)

    @property
    def is_certified(self) -> bool:
        """Whether the operating point comes with a guarantee."""
        return self.certification is not None and self.certification.is_certified

    @property
    def policy(
        self,
    ) -> CertifiedPoint | CertifiedGroups | CertifiedClasses | CertifiedGroupClasses | None:
        """What is saved as a policy: the thresholds of classes, of groups, or the only one."""
        return self.class_certification or self.group_certification or self.certification

    @property
    def goal(self) -> str:
        """What the policy is for, in short: an accuracy, or promises about classes."""
        classes, groups = self.class_certification, self.group_certification
        if classes is not None:
            return ", ".join(map(str, classes.promises))
        if isinstance(groups, CertifiedGroupClasses):
            wanted = dict.fromkeys(str(p) for own in groups.values() for p in own.promises)
            return f"{', '.join(wanted)} in each group"
        return f"{promised(self.target_accuracy)} accuracy"

    @property
    def thresholds(self) -> tuple[str, dict[str, OperatingPoint]] | None:
        """What has a threshold of its own, and the points by name; None if there is only one."""
        policy = self.policy
        if isinstance(policy, CertifiedGroupClasses):
            return "group, answer", {
                f"{g}, {name}": point for g, own in policy.items() for name, point in own.items()
            }
        if policy is None or isinstance(policy, CertifiedPoint):
            return None
        what = "group" if isinstance(policy, CertifiedGroups) else "answer"
        return what, {str(name): point for name, point in policy.items()}

    @property
    def lead(self) -> tuple[str, str]:
        """What the policy does and promises, in words, and its conditions."""
        policy = self.policy
        if policy is None or isinstance(policy, CertifiedPoint):
            return self.guarantee, self.conditions
        kinds = {CertifiedGroups: "group", CertifiedClasses: "answer"}
        what = kinds.get(type(policy), "answer of each group")
        automated, load = shares(policy.expert_load)
        return (
            f"Each {what} has its own threshold. Together they decide {automated} of all cases "
            f"automatically and leave {load} to experts."
        ), " ".join([policy.guarantee, *_missing(policy)])

    def compare(self, other: Evaluation) -> Comparison:
        """Test whether another model differs in AUCOC on the same cases, in the same order.

        Parameters
        ----------
        other : Evaluation
            The model to compare with.

        Returns
        -------
        Comparison
            This AUCOC minus the other's, as a paired test; see `aucoc_paired_test`.

        Examples
        --------
        >>> from expertload import Cases
        >>> from expertload.evaluation import evaluate
        >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
        >>> a = evaluate(Cases.from_correctness([0, 1, 0, 1, 1], confidence))
        >>> b = evaluate(Cases.from_correctness([1, 0, 1, 1, 0], confidence))
        >>> print(f"{a.compare(b).difference:.3f}")
        0.432
        """
        self.check_same_cases(other)
        return aucoc_paired_test(self.cases, other.cases, confidence_level=self.confidence_level)

    def check_same_cases(self, other: Evaluation) -> None:
        """Raise unless another model was evaluated on the same cases, as far as is known.

        Examples
        --------
        >>> from expertload import Cases
        >>> from expertload.evaluation import evaluate
        >>> a = evaluate(Cases.from_correctness([0, 1, 0], [0.4, 0.5, 0.6]))
        >>> a.check_same_cases(evaluate(Cases.from_correctness([0, 1], [0.4, 0.5])))
        Traceback (most recent call last):
        expertload.exceptions.ShapeError: ... Got 3 cases of one and 2 of the other. ...
        """
        check_same_cases(self.cases, other.cases, self.target, other.target)
        if self.identifiers is None or other.identifiers is None:
            return
        if not np.array_equal(self.identifiers, other.identifiers):
            raise ShapeError(
                "The models must be evaluated on the same cases in the same order. Got identifiers "
                "that differ. Hint: use expertload.io.match_cases first."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return every number except the curve, ready for JSON.

        Examples
        --------
        >>> from expertload import Cases
        >>> from expertload.evaluation import evaluate
        >>> numbers = evaluate(Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])).to_dict()
        >>> numbers["aucoc"]["estimate"], numbers["loads"]["0.95"]
        (0.9657..., 0.25)
        """
        return {
            "n_cases": self.n_cases,
            "is_weighted": self.is_weighted,
            "confidence_level": self.confidence_level,
            "accuracy": asdict(self.accuracy),
            "aucoc": asdict(self.aucoc),
            "loads": {f"{target:g}": load for target, load in self.loads.items()},
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "operating_point": {
                "target_accuracy": self.target_accuracy,
                "is_certified": self.is_certified,
                "guarantee": self.guarantee,
                "conditions": self.conditions,
                **_point_to_dict(self.operating_point),
            },
            "groups": [{**asdict(group), "is_small": group.is_small} for group in self.groups],
            "group_certification": _groups_to_dict(self.group_certification),
            **_classes_to_dict(self.class_certification),
            "target_certification": [
                {"target_accuracy": target, "guarantee": point.guarantee, **_point_to_dict(point)}
                for target, point in (self.target_certification or {}).items()
            ],
            **({} if self.team is None else {"team": self.team.to_dict()}),
        }

    @property
    def rows(self) -> list[Row]:
        """The numbers as text, for screens, pages and notebooks: a name, a value and a remark."""
        rows = [
            ("AUCOC", f"{self.aucoc.estimate:.4f}", _ends(self.aucoc, "{:.4f}".format)),
            ("accuracy", percent(self.accuracy.estimate), _ends(self.accuracy)),
        ]
        for target, load in self.loads.items():
            automated, left = shares(load)
            reached = (left, f"{automated} automated, on these cases")
            lacking = ("not reached", "on these cases")
            rows.append((f"load at {promised(target)}", *(lacking if load == 1 else reached)))
        errors = self.calibration
        if errors is None:
            return rows
        drift = f"ECE, 15 bins; largest drift {percent(errors.kolmogorov_smirnov_error)}"
        rows.append(("calibration error", percent(errors.expected_error), drift))
        if errors.brier_loss is not None:
            log_loss = f"log loss {errors.log_loss:.4f}"
            rows.append(("Brier score", f"{errors.brier_loss:.4f}", log_loss))
        if errors.n_impossible:
            zeros = "true classes of probability 0; log loss uses the smallest positive number"
            rows.append(("impossible", str(errors.n_impossible), zeros))
        return rows

    @property
    def team_rows(self) -> list[Row]:
        """Experts alone, the model alone and both together, as `rows`; empty without experts."""
        team = self.team
        if team is None:
            return []
        sides = {
            "experts alone": team.experts,
            "model alone": team.model,
            "together at the threshold": team.team,
            "answers combined": team.combined,
        }
        rows = [(name, percent(i.estimate), _ends(i)) for name, i in sides.items() if i is not None]
        if team.delegated_experts is not None:
            share = percent(team.delegated_experts)
            rows.append(("experts on what they get", share, f"{team.n_read} cases were read"))
        best = f"{percent(team.best_accuracy)} right on these cases"
        return [*rows, ("most accurate at a load of", percent(team.best_load), best)]

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return small_table(f"{self.n_cases} cases", [*self.rows, *self.team_rows], self.lead)

    def __str__(self) -> str:
        rows = (f"{name} {value} ({remark})" for name, value, remark in self.rows)
        team = [] if self.team is None else [str(self.team)]
        return "\n".join([f"{self.n_cases} cases", *rows, *self.lead, *team])


def _missing(policy: CertifiedGroups | CertifiedClasses | CertifiedGroupClasses) -> list[str]:
    """Return why nothing is certified in some groups, and what would be enough."""
    if not isinstance(policy, CertifiedGroups):
        return []
    missing = {group: point for group, point in policy.items() if not point.is_certified}
    reasons = [f"{group}: {point.why}" for group, point in list(missing.items())[:N_EXPLAINED]]
    in_clusters = any(point.clusters == "all_cases" for point in missing.values())
    return [*reasons, *([ONE_OF_EACH] if in_clusters else [])]


def _ends(interval: Interval, show: Callable[[float], str] = percent) -> str:
    level = promised(interval.confidence_level)
    return f"{show(interval.low)} to {show(interval.high)}, {level} interval"


def _groups_to_dict(
    groups: CertifiedGroups | CertifiedGroupClasses | None,
) -> dict[str, Any] | None:
    if groups is None:
        return None
    nested = groups if isinstance(groups, CertifiedGroupClasses) else None
    return {
        "guarantee": groups.guarantee,
        "expert_load": groups.expert_load,
        **({} if nested is None else {"promises": _promises_to_dict(nested)}),
        "points": [
            {"group": group, **point} for group, own in groups.items() for point in _points_of(own)
        ],
    }


def _points_of(own: CertifiedPoint | CertifiedClasses) -> list[dict[str, Any]]:
    """Return the point of a group, or those of its answers."""
    if isinstance(own, CertifiedPoint):
        return [{"is_certified": own.is_certified, **_point_to_dict(own)}]
    return [{"answer": answer, **_point_to_dict(point)} for answer, point in own.items()]


def _promises_to_dict(policy: CertifiedClasses | CertifiedGroupClasses) -> list[dict[str, Any]]:
    return [
        {"promise": str(promise), "is_certified": point.is_certified}
        for promise, point in policy.promises.items()
    ]


def _classes_to_dict(classes: CertifiedClasses | None) -> dict[str, Any]:
    """Return promises about classes for JSON; nothing unless they were asked for."""
    if classes is None:
        return {}
    return {
        "class_certification": {
            "confidence_level": classes.confidence_level,
            "expert_load": classes.expert_load,
            "guarantee": classes.guarantee,
            "promises": _promises_to_dict(classes),
            "points": _points_of(classes),
        }
    }


def _point_to_dict(point: OperatingPoint) -> dict[str, Any]:
    """Return a point for JSON, which has no infinity: without a threshold, it is None."""
    counts = ("n_accepted", "n_delegated", "n_errors", "n_errors_spared")
    return {
        "threshold": point.threshold if math.isfinite(point.threshold) else None,
        **{name: getattr(point, name) for name in ("expert_load", "accuracy", *counts)},
    }


def _edges(low: float, high: float) -> FloatArray:
    """Return round edges for probabilities; for other confidences, edges over their range."""
    if low >= 0 and high <= 1:
        start = min(math.floor(low * 10), 9) / 10
        return np.linspace(start, 1.0, N_BINS + 1)
    if high == low:
        margin = max(0.5, abs(low) * 1e-9)
        low, high = low - margin, high + margin
    return 2 * np.linspace(
        low / 2, high / 2, N_BINS + 1
    )  # halved first, because the range may overflow

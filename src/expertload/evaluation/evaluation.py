"""The result of `evaluate_predictions`: numbers to read, compare, report, or write as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from expertload._html import small_table
from expertload._typing import AnyArray, IntArray
from expertload.cases import Cases, check_same_cases
from expertload.curve import COCCurve
from expertload.evaluation.classes import ClassAnswers, ClassEvaluation, evaluate_classes
from expertload.evaluation.groups import GroupEvaluation, Members
from expertload.evaluation.parts import Calibration, ConfidenceHistogram
from expertload.exceptions import ShapeError
from expertload.metrics import ReliabilityCurve
from expertload.operating_point import (
    CertifiedGroups,
    CertifiedPoint,
    CertifiedTargets,
    OperatingPoint,
)
from expertload.significance import (
    COCBand,
    Comparison,
    Interval,
    coc_band,
    compare_models,
)
from expertload.significance.compare import Pair, Pairs
from expertload.tally import Tally

__all__ = ["Evaluation", "compare_evaluations"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """One model on one set of cases.

    Attributes
    ----------
    n_cases : int
        The number of cases.
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
    histogram : ConfidenceHistogram
        Right and wrong cases by confidence.
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
    group_certification : CertifiedGroups or None
        A threshold for each group, certified for all of them at once; None unless requested.
    target_certification : CertifiedTargets or None
        A threshold for each target, certified for all of them at once; None if there is one target.
    is_weighted : bool
        Whether cases have weights; counts are then sums of weights.
    confidence_level : float
        The confidence level of every interval here.
    identified_by : str or None
        The column that identifies cases. None if there is none; models are then compared as if
        their cases were in the same order.
    """

    n_cases: int
    accuracy: Interval
    aucoc: Interval
    curve: COCCurve = field(repr=False)
    loads: Mapping[float, float]
    calibration: Calibration | None
    reliability: ReliabilityCurve | None = field(repr=False)
    histogram: ConfidenceHistogram = field(repr=False)
    operating_point: OperatingPoint
    target_accuracy: float
    certification: CertifiedPoint | None = field(repr=False)
    guarantee: str
    conditions: str
    groups: tuple[GroupEvaluation, ...] = field(repr=False)
    group_certification: CertifiedGroups | None = field(default=None, repr=False)
    target_certification: CertifiedTargets | None = field(default=None, repr=False)
    is_weighted: bool
    confidence_level: float
    cases: Cases = field(repr=False)
    table: Tally = field(repr=False)
    target: IntArray | None = field(repr=False)
    members: Members | None = field(default=None, repr=False)
    answers: ClassAnswers | None = field(default=None, repr=False)
    identifiers: AnyArray | None = field(default=None, repr=False)
    identified_by: str | None = None

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
        >>> from expertload.evaluation import evaluate_from_correctness
        >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
        >>> a = evaluate_from_correctness([0, 1, 0, 1, 1], confidence)
        >>> b = evaluate_from_correctness([1, 0, 1, 1, 0], confidence)
        >>> print(f"{a.compare(b).difference:.3f}")
        0.432
        """
        (found,) = compare_evaluations({"this": self, "other": other}, pairs="all").values()
        return found

    def saw_same_cases(self, other: Evaluation) -> bool:
        """Whether another model was evaluated on the same cases, as far as is known.

        Examples
        --------
        >>> from expertload.evaluation import evaluate_from_correctness
        >>> a = evaluate_from_correctness([0, 1, 0], [0.4, 0.5, 0.6])
        >>> a.saw_same_cases(evaluate_from_correctness([0, 1], [0.4, 0.5]))
        False
        """
        try:
            _check_same_cases(self, other)
        except ShapeError:
            return False
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return every number except the curve, ready for JSON.

        Examples
        --------
        >>> from expertload.evaluation import evaluate_from_correctness
        >>> numbers = evaluate_from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]).to_dict()
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
            "target_certification": [
                {"target_accuracy": target, "guarantee": point.guarantee, **_point_to_dict(point)}
                for target, point in (self.target_certification or {}).items()
            ],
        }

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        level = f"{100 * self.confidence_level:g} % interval"
        rows = [
            ("AUCOC", f"{self.aucoc.estimate:.4f}", _ends(self.aucoc, ".4f", level)),
            ("accuracy", f"{self.accuracy.estimate:.1%}", _ends(self.accuracy, ".1%", level)),
            *(
                (f"load at {target:g} accuracy", _load(load), "on these cases")
                for target, load in self.loads.items()
            ),
        ]
        return small_table(f"{self.n_cases} cases", rows, (self.guarantee, self.conditions))

    def __str__(self) -> str:
        level = f"{100 * self.confidence_level:g} %"
        lines = [
            f"{self.n_cases} cases, {self.accuracy.estimate:.1%} right ({level} interval "
            f"{self.accuracy.low:.1%} to {self.accuracy.high:.1%})",
            f"AUCOC {self.aucoc}",
            *(f"load at {t:g} accuracy: {_load(load)}" for t, load in self.loads.items()),
            self.guarantee,
            self.conditions,
        ]
        return "\n".join(lines)


def compare_evaluations(
    models: Mapping[str, Evaluation], *, pairs: Pairs = "first"
) -> dict[Pair, Comparison]:
    """Test which models differ in AUCOC, evaluated on the same cases in the same order.

    Parameters
    ----------
    models : mapping from str to Evaluation
        The evaluations by the names of the models.
    pairs : {"first", "all"}, default="first"
        Compare each other model with the first, or every pair.

    Returns
    -------
    dict from (str, str) to Comparison
        For the pair ``(a, b)``, the AUCOC of a minus that of b, with a raw p-value and one adjusted
        for the number of pairs; see `expertload.significance.compare_models`.

    Examples
    --------
    >>> from expertload.evaluation import compare_evaluations, evaluate_from_correctness
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> models = {
    ...     "old": evaluate_from_correctness([1, 0, 1, 1, 0], confidence),
    ...     "new": evaluate_from_correctness([0, 1, 0, 1, 1], confidence),
    ... }
    >>> print(f"{compare_evaluations(models)['new', 'old'].difference:.3f}")
    0.432
    """
    first, *others = models.values()
    for other in others:
        _check_same_cases(first, other)
    return compare_models(
        {name: evaluation.cases for name, evaluation in models.items()},
        pairs=pairs,
        confidence_level=first.confidence_level,
    )


def _check_same_cases(a: Evaluation, b: Evaluation) -> None:
    check_same_cases(a.cases, b.cases, a.target, b.target)
    if a.identifiers is None or b.identifiers is None:
        return
    if not np.array_equal(a.identifiers, b.identifiers):
        raise ShapeError(
            "The models must be evaluated on the same cases in the same order. Got identifiers "
            "that differ. Hint: use expertload.io.match_cases first."
        )


def _ends(interval: Interval, form: str, level: str) -> str:
    return f"{interval.low:{form}} to {interval.high:{form}} ({level})"


def _load(load: float) -> str:
    return "not reached" if load == 1 else f"{load:.1%}"


def _groups_to_dict(groups: CertifiedGroups | None) -> dict[str, Any] | None:
    if groups is None:
        return None
    return {
        "guarantee": groups.guarantee,
        "expert_load": groups.expert_load,
        "points": [
            {"group": group, "is_certified": point.is_certified, **_point_to_dict(point)}
            for group, point in groups.items()
        ],
    }


def _point_to_dict(point: OperatingPoint) -> dict[str, Any]:
    """Return a point for JSON, which has no infinity: without a threshold, it is None."""
    return {
        "threshold": point.threshold if math.isfinite(point.threshold) else None,
        "expert_load": point.expert_load,
        "accuracy": point.accuracy,
        "n_accepted": point.n_accepted,
        "n_delegated": point.n_delegated,
        "n_errors": point.n_errors,
        "n_errors_spared": point.n_errors_spared,
    }

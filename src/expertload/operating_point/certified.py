"""Operating points with a guarantee, or with the reason why there is none.

`CertifiedPoint` is one of them; `CertifiedTargets` are several, whose promises hold together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeVar

import numpy as np

from expertload._check import check_fraction, check_threshold
from expertload._names import Method
from expertload._typing import BoolArray
from expertload.exceptions import ParameterError
from expertload.operating_point.ladder import CertifiedThresholds, Ladder, Risk, Steps
from expertload.operating_point.point import (
    OperatingPoint,
    Origin,
    at_least,
    digits,
    quantity,
    sure_that,
)

if TYPE_CHECKING:
    from expertload.operating_point.certify import Advice


Reason = Literal[
    "too_few_cases",
    "too_few_accepted",
    "over_confident_top",
    "not_enough_evidence",
    "accuracy_too_low",
]
ClusterPromise = Literal["all_cases", "one_case_each"]

ALWAYS = (
    "if their labels are true and model and target were fixed on other data; it ends when the data "
    "drift."
)
CONDITIONS = f"This holds for independent new cases drawn as the calibration cases were, {ALWAYS}"
CLUSTER_CONDITIONS: dict[ClusterPromise, str] = {
    "one_case_each": (
        "This is about one case drawn at random from each new cluster (a patient, say), as was "
        "done with the calibration cases. It holds for independent clusters drawn as those of the "
        f"calibration were, {ALWAYS}"
    ),
    "all_cases": (
        "This is about all cases of new clusters (patients, say) together. It holds for "
        "independent clusters, none with more cases than the largest of the calibration, drawn as "
        f"those were, {ALWAYS}"
    ),
}

ONE_OF_EACH = (
    "Hint: with cluster_promise='one_case_each' (--cluster-promise one_case_each), the promise is "
    "about one case of each cluster, and fewer clusters are enough."
)

# Promises about experts who err; see `expertload.team`.
TEAM_RISKS = ("team", "combined_team", "not_worse")
TEAM_CONDITIONS = (
    "It is about experts of the same pool, who answer as they did here, without help; the truth "
    "must have been settled without the experts whose answers were counted."
)
TEAM_RIGHT = (
    "model and experts together, whose answers are taken{combined}, are right in at least {target} "
    "of all cases if the model decides at confidence >= {at}"
)
# What each risk promises; `rest` is one minus the target.
PROMISES: dict[Risk, str] = {
    "selective": "the accuracy among cases accepted at confidence >= {at} is at least {target}",
    "joint": (
        "at most a share of {rest} of all cases is accepted at confidence >= {at} and wrong, so "
        "that with perfect experts the team's accuracy is at least {target}"
    ),
    "missed": "at most a share of {rest} is accepted at confidence >= {at} as something else",
    "cost": (
        "wrong decisions on cases accepted at confidence >= {at} cost at most {rest} on average "
        "over all cases"
    ),
    "team": TEAM_RIGHT,
    "combined_team": TEAM_RIGHT,
    "not_worse": (
        "model and experts together are {compared} the experts alone if the model decides at "
        "confidence >= {at}"
    ),
}


class SavedAdvice(NamedTuple):
    """What would have been enough, as a saved policy keeps it."""

    sufficient_cases: int | None
    target_within_reach: float | None


# Confident answers of which most are wrong, before the order of columns is suspected.
ENOUGH_TO_SUSPECT = 20
MOSTLY_WRONG = (
    "No lower target makes sense: most of the confident answers are wrong. Hint: the columns of "
    "probabilities may be in another order than the classes; name their classes, in order "
    "(labels=..., or --classes)."
)


@dataclass(frozen=True, kw_only=True)
class CertifiedPoint(OperatingPoint):
    """An operating point with a guarantee, or with the reason why there is none.

    Has everything of `OperatingPoint`. If nothing could be certified, ``threshold`` is infinite:
    everything is delegated.

    Attributes
    ----------
    target_accuracy, confidence_level : float
        The promised accuracy, and the confidence of the promise.
    method : str
        How the thresholds were tested: one of `expertload.operating_point.METHODS`, or "stream" for
        `expertload.monitoring.certify_stream`.
    risk : {"selective", "joint", "missed", "cost", "team", "combined_team", "not_worse"}
        Whether the target is for the accepted cases, for model and perfect experts together, one
        minus the share of a class that is missed (`certify_classes`), one minus the mean cost of
        wrong automatic decisions (`certify_mean_cost`), or for model and real experts together
        (`expertload.team`).
    reason : str or None
        Why nothing was certified: "too_few_cases", "too_few_accepted", "over_confident_top",
        "not_enough_evidence" or "accuracy_too_low"; None if something was certified.
    clusters : {"all_cases", "one_case_each"} or None
        What the promise is about if cases come in clusters; None if they are independent.
    passed : CertifiedThresholds
        All thresholds that were certified. They hold together: any of them may be used, see `at`.
        A saved file keeps only some of them.
    ladder : Ladder or None
        All tests; not stored in saved files.
    """

    target_accuracy: float
    confidence_level: float
    method: Method | Literal["stream"] = "spending"
    risk: Risk = "selective"
    reason: Reason | None = None
    clusters: ClusterPromise | None = None
    passed: CertifiedThresholds = field(
        default_factory=CertifiedThresholds, compare=False, repr=False
    )
    advice: Advice | SavedAdvice | None = field(default=None, compare=False, repr=False)
    ladder: Ladder | None = field(default=None, compare=False, repr=False)

    @property
    def is_certified(self) -> bool:
        """Whether a threshold carries the guarantee."""
        return self.reason is None

    @property
    def sufficient_cases(self) -> int | None:
        """About how many cases would be enough if the observed accuracy is the true one.

        None if something was certified, or if not even very many cases are enough. Computed
        when it is read.
        """
        return None if self.advice is None else self.advice.sufficient_cases

    @property
    def target_within_reach(self) -> float | None:
        """A lower target that these data would have certified; test it on other cases.

        None if something was certified, or if no lower target would be. Computed when it is read.
        """
        return None if self.advice is None else self.advice.target_within_reach

    # -------------------------------------------------------------- other certified thresholds

    def at(
        self,
        *,
        threshold: float | None = None,
        expert_load: float | None = None,
        accuracy: float | None = None,
    ) -> CertifiedPoint:
        """Move to another threshold that carries the same guarantee.

        All thresholds that passed hold together, so you may choose among them after seeing the
        data. Give one of the three parameters.

        Parameters
        ----------
        threshold : float, optional
            A threshold inside the certified set.
        expert_load : float, optional
            Take the loosest certified threshold that delegates at least this share of the cases.
        accuracy : float, optional
            Take the loosest certified threshold with at least this accuracy on the calibration
            cases. The guarantee stays that of ``target_accuracy``.

        Returns
        -------
        CertifiedPoint
            The point there, with the same promise.

        Examples
        --------
        >>> import numpy as np
        >>> from expertload import Cases, certify
        >>> rng = np.random.default_rng(0)
        >>> confidence = rng.random(2000)
        >>> correct = rng.random(2000) < 0.8 + 0.2 * confidence
        >>> point = certify(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
        >>> stricter = point.at(expert_load=0.5)
        >>> print(f"load {point.expert_load:.3f} or {stricter.expert_load:.3f}, both certified")
        load 0.000 or 0.500, both certified
        """
        n_given = sum(value is not None for value in (threshold, expert_load, accuracy))
        if n_given != 1:
            needed = "at needs exactly one of threshold, expert_load and accuracy"
            raise ParameterError(f"{needed}. Got {n_given or 'none'}.")
        if not self.is_certified:
            raise ParameterError(f"There is no certified threshold to move to. {self.guarantee}")
        here = Steps(*np.array([[self.threshold], [self.n_accepted], [self.n_errors]]))
        steps = self.passed.steps if len(self.passed) else here
        if threshold is not None:
            wanted = check_threshold(threshold)
            if wanted != self.threshold and wanted not in self.passed:
                raise ParameterError(
                    f"A threshold of {digits(wanted)} is not certified. {self._certified_set} "
                    "Hint: move with expert_load=... or accuracy=..., which stay inside."
                )
            # It accepts what the next stricter listed step accepts; slightly more if a file kept
            # only some of the steps.
            return replace(self._at_loosest(steps, steps.threshold >= wanted), threshold=wanted)
        if expert_load is not None:
            load = check_fraction(expert_load, "expert_load")
            reached = steps.n_accepted <= (1 - load) * self.n_cases + 1e-9
            return self._at_loosest(steps, reached, f"delegates a share of {load:.6g} or more")
        least = check_fraction(accuracy, "accuracy")
        reached = steps.n_errors <= (1 - least) * steps.n_accepted + 1e-9
        return self._at_loosest(steps, reached, f"was right in {least:.6g} or more")

    def _at_loosest(self, steps: Steps, reached: BoolArray, what: str = "") -> CertifiedPoint:
        if not reached.any():
            raise ParameterError(f"No certified threshold {what}. {self._certified_set}")
        threshold, accepted, errors = (float(column[reached][-1]) for column in steps[:3])
        return replace(
            self,
            threshold=threshold,
            n_accepted=accepted,
            n_delegated=self.n_cases - accepted,
            n_errors=errors,
            n_errors_spared=self.n_errors + self.n_errors_spared - errors,
        )

    @property
    def _certified_set(self) -> str:
        """The certified thresholds, in words."""
        ranges = self.passed.ranges or ((self.threshold, self.threshold),)
        parts = [
            digits(low) if low == high else f"{digits(low)} to {digits(high)}"
            for low, high in ranges[-5:]
        ]
        return f"Certified: {', '.join(reversed(parts))}."

    # -------------------------------------------------------------- in words

    @property
    def conditions(self) -> str:
        """The conditions of the guarantee."""
        usual = CONDITIONS if self.clusters is None else CLUSTER_CONDITIONS[self.clusters]
        return f"{usual} {TEAM_CONDITIONS}" if self.risk in TEAM_RISKS else usual

    @property
    def guarantee(self) -> str:
        """The promise in words; or why there is none, and what would be enough."""
        if self.is_certified:
            return f"{sure_that(self.confidence_level)} {self._promise}. {self.conditions}"
        target = f"at {self._goal(self.target_accuracy)}"
        if self.risk == "not_worse":
            target = f"against experts alone with a margin of {1 - self.target_accuracy:.6g}"
        hint = f" {ONE_OF_EACH}" if self.clusters == "all_cases" else ""
        return f"Nothing is certified {target}: {self.why}{hint}"

    @property
    def why(self) -> str:
        """Why nothing is certified, and what would be enough; empty if something is."""
        parts = () if self.is_certified else (self._cause, self._more_cases, self._lower_target)
        return " ".join(filter(None, parts))

    @property
    def _promise(self) -> str:
        rest = f"{1 - self.target_accuracy:.6g}"
        is_combined = self.risk == "combined_team"
        return PROMISES[self.risk].format(
            at=digits(self.threshold),
            target=at_least(self.target_accuracy),
            rest=rest,
            compared=f"at most {rest} less accurate than" if rest != "0" else "as accurate as",
            combined=" and combined with the model's" if is_combined else "",
        )

    @property
    def _cause(self) -> str:
        if self.risk in TEAM_RISKS:
            is_low = self.reason == "accuracy_too_low"
            return "the team is too often wrong." if is_low else "what speaks for it could be luck."
        first = ""  # the result of the first test, in brackets, if the tests were kept
        if self._first_test is not None:
            errors, accepted = map(quantity, self._first_test)
            first = f" ({errors} of the {accepted} most confident wrong)"
        kind = {None: "", "one_case_each": " that count", "all_cases": " in these clusters"}
        if self.reason == "too_few_cases":
            some = f"{quantity(self.n_cases)} case(s){kind[self.clusters]}"
            return f"{some} are too few, even if all were right."
        if self.reason == "too_few_accepted":
            return "the thresholds to test accept too few of the cases, even if all were right."
        if self.reason == "over_confident_top":
            return (
                f"too many of the most confident cases are wrong{first}, so the sequence of tests "
                "ended there, although a looser threshold would pass on its own. Hint: recalibrate "
                "the model if it is over-confident, or certify fresh cases with thresholds=... "
                "that begin below those cases."
            )
        if self.reason == "accuracy_too_low":
            return f"the accuracy is too low{first}."
        wrong, most = self._first_test or (0.0, 0.0)
        if wrong > (1 - self.target_accuracy) * most:
            return (
                f"the first threshold tested accepts too many wrong cases{first}; another may be "
                "good enough, but this could be luck."
            )
        return f"the accuracy may be high enough, but this could be luck{first}."

    @property
    def _first_test(self) -> tuple[float, float] | None:
        """The errors and the accepted cases of the first test; None if tests were not kept."""
        if self.ladder is None or self.ladder.first is None:
            return None
        steps, row = self.ladder.steps, self.ladder.first
        return float(steps.n_errors[row]), float(steps.n_accepted[row])

    @property
    def _more_cases(self) -> str:
        if self.sufficient_cases is None:
            return ""
        # Of each cluster one case was drawn, and only these were counted.
        of = {None: "cases", "one_case_each": "clusters", "all_cases": "cases in such clusters"}
        needed = f"{quantity(self.sufficient_cases)} {of[self.clusters]}"
        if self.reason == "too_few_cases":  # 59 of 59 right are enough, 58 of 59 are not
            return f"At the accuracy observed, it takes at least {needed}."
        return f"About {needed} would be enough at the accuracy observed."

    @property
    def _lower_target(self) -> str:
        if self.advice is None:
            return ""
        errors, accepted = self._first_test or (0.0, 0.0)
        if 2 * errors > accepted >= ENOUGH_TO_SUSPECT and self.risk not in TEAM_RISKS:
            return MOSTLY_WRONG
        if self.target_within_reach is None:
            return "No lower target that was tried is within reach of these data."
        goal = self._goal(self.target_within_reach)
        return f"A{goal[1:]} is within reach of these data; certify it on fresh cases."

    def _goal(self, target: float) -> str:
        kind = {"missed": "share missed", "cost": "mean cost"}.get(self.risk)
        return f"a {kind} of {1 - target:.6g}" if kind else f"a target of {at_least(target)}"

    def __str__(self) -> str:
        return f"{super().__str__()} {self.guarantee}"


Key = TypeVar("Key")
Point = TypeVar("Point", bound=OperatingPoint)


@dataclass(frozen=True, kw_only=True)
class Points(Mapping[Key, Point]):
    """A mapping to points that share one origin, and one confidence that all promises hold."""

    points: dict[Key, Point]
    confidence_level: float
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)

    def __getitem__(self, key: Key) -> Point:
        return self.points[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def certified(self) -> tuple[Key, ...]:
        """The keys that have a threshold."""
        return tuple(key for key, point in self.items() if point.threshold < math.inf)

    def with_origin(self, origin: Origin) -> Self:
        """Return the same points with another origin."""
        points = {key: point.with_origin(origin) for key, point in self.items()}
        return replace(self, points=points, origin=origin)


@dataclass(frozen=True, kw_only=True)
class CertifiedTargets(Points[float, CertifiedPoint]):
    """A mapping from target accuracies to their certified points, and one promise over all.

    Each point is tested at its share of the level, so you may choose among them after seeing the
    data. Save the chosen point.

    Attributes
    ----------
    points : dict from float to CertifiedPoint
        The point of each target, in ascending order.
    confidence_level : float
        The probability that all promises hold at once.
    origin : Origin
        The data, the model and the day.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.operating_point import certify
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> points = certify(y_true, y_proba, target_accuracy=[0.9, 0.95])
    >>> [f"{target}: load {point.expert_load:.3f}" for target, point in points.items()]
    ['0.9: load 0.258', '0.95: load 0.552']
    """

    @property
    def guarantee(self) -> str:
        """The promise for each target, in words."""
        together = f"{sure_that(self.confidence_level)} all of these hold at once."
        return "\n".join([together, *(point.guarantee for point in self.values())])

    def __str__(self) -> str:
        return "\n".join(f"{target:.6g}: {point}" for target, point in self.items())

"""Which cases the policy decides, and why the others go to an expert.

A case is decided automatically only if everything is as it was when the policy was certified: the
same model, the same classes, a known group, the same kind of confidence. Every other case goes to
an expert, and the cause is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from expertload import operating_point
from expertload._typing import BoolArray, FloatArray
from expertload.desk.intake.case import SentCase
from expertload.exceptions import DeskRefusedError, FileFormatError, InvalidInputError
from expertload.operating_point import (
    CertifiedClasses,
    CertifiedGroupClasses,
    CertifiedGroups,
    CertifiedPoint,
)
from expertload.operating_point.point import confidence_of

Point = CertifiedPoint | CertifiedGroups
OF_NO_MODEL = ("unknown_model", "model_not_named")  # causes: not an answer of the policy's model


class Route(NamedTuple):
    """Where a case goes.

    Attributes
    ----------
    accepted : bool
        Whether the policy decides it.
    predicted, confidence : str and float, optional
        The model's answer and how sure it is, if known.
    cause : str
        Why: "above_threshold", "below_threshold", or what prevents an automatic decision.
    """

    accepted: bool
    predicted: str | None
    confidence: float | None
    cause: str


@dataclass(frozen=True)
class RoutingPolicy:
    """A certified policy as the desk uses it."""

    point: Point

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; empty if the policy does not know them."""
        return tuple(str(label) for label in self.point.origin.labels or ())

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.classes)

    @cached_property
    def model(self) -> str | None:
        """The model that the policy was certified for."""
        return self.point.origin.model_name

    @cached_property
    def by_confidence(self) -> bool:
        """Whether the threshold applies to a confidence that is sent with the prediction."""
        return self.point.origin.ranked_by == "given_confidence"

    def route(self, cases: Sequence[SentCase]) -> list[Route]:
        """Route several cases together."""
        routes = [unrouted(case, self._obstacle(case)) for case in cases]
        ready = [i for i, route in enumerate(routes) if not route.cause]
        if not ready:
            return routes
        chosen = [cases[i] for i in ready]
        scores = self._scores(chosen)
        decided = zip(ready, scores.tolist(), self._accepts(chosen, scores).tolist(), strict=True)
        for i, score, accepted in decided:
            cause = "above_threshold" if accepted else "below_threshold"
            routes[i] = Route(accepted, routes[i].predicted, score, cause)
        return routes

    def _obstacle(self, case: SentCase) -> str:
        """Return what prevents this policy from deciding a case; empty if nothing does."""
        if self.model is not None and case.model != self.model:
            return "unknown_model" if case.model is not None else "model_not_named"
        if isinstance(self.point, CertifiedGroups) and case.group not in self._groups:
            return "unknown_group"
        if self.by_confidence:
            if case.confidence is None:
                return "no_confidence"
            if not math.isfinite(case.confidence):
                return "not_a_number"
        elif case.probabilities is None:
            return "no_probabilities"
        return self._class_obstacle(case)

    def _class_obstacle(self, case: SentCase) -> str:
        known = self._known
        if case.probabilities is not None:
            if known and known != case.probabilities.keys():
                return "unknown_class"
            flaw, top = answer_of(case.probabilities)
            return flaw or ("another_label" if case.label not in (None, top) else "")
        return "unknown_class" if known and case.label not in known else ""

    def _scores(self, cases: list[SentCase]) -> FloatArray:
        """Return the confidence that the policy was made with, even if another one was sent."""
        if self.by_confidence:
            return np.array([case.confidence for case in cases], dtype=np.float64)
        given = [case.probabilities or {} for case in cases]
        if self.point.origin.score is None:
            return np.array([max(probabilities.values()) for probabilities in given])
        proba = np.array([[one[name] for name in self.classes] for one in given])
        return confidence_of(self.point.origin, proba)

    def _accepts(self, cases: list[SentCase], scores: FloatArray) -> BoolArray:
        if isinstance(self.point, CertifiedGroups):
            groups = np.array([self._groups[case.group or ""] for case in cases])
            return self.point.accepts(scores, groups=groups)
        return self.point.accepts(scores)

    @cached_property
    def _groups(self) -> dict[str, str | int]:
        """The groups that the policy knows, by the names under which cases come."""
        points = self.point if isinstance(self.point, CertifiedGroups) else ()
        return {str(known): known for known in points}


def unrouted(case: SentCase, cause: str) -> Route:
    """Return the route of a case that no policy decides, with what is known of its prediction."""
    confidence, predicted = case.confidence, case.label
    if case.probabilities and (confidence is None or predicted is None):
        _, top = answer_of(case.probabilities)
        predicted = top if predicted is None else predicted
        if confidence is None and top is not None:
            confidence = case.probabilities[top]
    if confidence is not None and not math.isfinite(confidence):
        confidence = None
    return Route(False, predicted, confidence, cause)


def answer_of(probabilities: dict[str, float]) -> tuple[str, str | None]:
    """Return what is wrong with probabilities, empty if nothing is, and the most probable class."""
    values = probabilities.values()
    total = sum(values)  # shows nearly always, and fast, that none is NaN
    if math.isnan(total) and any(map(math.isnan, values)):
        return "not_a_number", None
    top = max(probabilities, key=probabilities.__getitem__, default=None)
    if top is None or len(values) < 2 or min(values) < 0 or probabilities[top] > 1:
        return "not_a_probability", top
    return "not_a_probability" if abs(total - 1) > 1e-3 else "", top


@lru_cache(maxsize=32)
def read_policy(document: str) -> RoutingPolicy:
    """Read a policy that was saved as JSON; refuse it if it is not certified."""
    try:
        point = operating_point.from_json(document)
    except (FileFormatError, InvalidInputError) as error:
        raise DeskRefusedError("bad_policy", f"This is not a policy: {error}") from error
    if isinstance(point, CertifiedClasses | CertifiedGroupClasses):
        raise DeskRefusedError(
            "not_certified",
            "A desk needs a policy that promises an accuracy, and this one makes promises about "
            "classes.",
            "expertload decide applies such a policy to a file, and expertload monitor watches it",
        )
    if not isinstance(point, CertifiedPoint | CertifiedGroups) or math.isinf(point.threshold):
        raise DeskRefusedError(
            "not_certified",
            "A desk needs a certified policy, and this one certifies nothing.",
            "expertload evaluate FILE --target-accuracy 0.95 --save-policy policy.json",
        )
    return RoutingPolicy(point)

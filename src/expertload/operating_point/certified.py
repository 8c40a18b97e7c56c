"""An operating point with a promise: what is guaranteed, how it was tested, or why it was not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from expertload.operating_point.ladder import Ladder
from expertload.operating_point.point import OperatingPoint, digits, quantity

__all__ = ["CertifiedPoint"]

Method = Literal["fixed_sequence", "bonferroni", "sgr"]
Risk = Literal["selective", "joint"]
Reason = Literal[
    "too_few_cases",
    "too_few_accepted",
    "over_confident_top",
    "not_enough_evidence",
    "accuracy_too_low",
]

CONDITIONS = (
    "This holds for new cases drawn as the calibration cases were, and for a model that was not "
    "fitted or tuned on them; it ends when the data drift."
)


@dataclass(frozen=True, kw_only=True)
class CertifiedPoint(OperatingPoint):
    """An operating point whose accuracy is guaranteed, or the plain word that none is.

    Has all that `OperatingPoint` has. Where nothing could be certified, ``threshold`` is infinite:
    everything is delegated.

    Attributes
    ----------
    target_accuracy, confidence_level : float
        What is promised, and how surely.
    method : {"fixed_sequence", "bonferroni", "sgr"}
        How the thresholds were tested.
    risk : {"selective", "joint"}
        Whether the target is for the accepted cases, or for model and perfect experts together.
    reason : str or None
        Why nothing was certified: "too_few_cases", "too_few_accepted", "over_confident_top",
        "not_enough_evidence" or "accuracy_too_low"; None where something was.
    sufficient_cases : int or None
        About how many calibration cases would suffice if the observed accuracy is the true one.
    target_within_reach : float or None
        A lower target that these data would have certified. Having looked, test it on fresh data.
    ladder : Ladder or None
        Every test that was done; not kept in saved files.
    """

    target_accuracy: float
    confidence_level: float
    method: Method = "fixed_sequence"
    risk: Risk = "selective"
    reason: Reason | None = None
    sufficient_cases: int | None = None
    target_within_reach: float | None = None
    ladder: Ladder | None = field(default=None, compare=False, repr=False)

    @property
    def is_certified(self) -> bool:
        """Whether a threshold carries the guarantee."""
        return self.reason is None

    @property
    def guarantee(self) -> str:
        """What is promised, in words; or that nothing is, why, and what would suffice."""
        if self.is_certified:
            return f"With {self.confidence_level:.6g} confidence, {self._promise}. {CONDITIONS}"
        return f"Nothing is certified at a target of {self.target_accuracy:.6g}: {self._why}"

    @property
    def _promise(self) -> str:
        if self.risk == "joint":
            return (
                f"at most a share of {1 - self.target_accuracy:.6g} of all cases is accepted at "
                f"confidence >= {digits(self.threshold)} and wrong, so that with perfect experts "
                f"the team's accuracy is at least {self.target_accuracy:.6g}"
            )
        return (
            f"the accuracy among cases accepted at confidence >= {digits(self.threshold)} is at "
            f"least {self.target_accuracy:.6g}"
        )

    @property
    def _why(self) -> str:
        return " ".join(
            part for part in (self._cause, self._more_cases, self._lower_target) if part
        )

    @property
    def _cause(self) -> str:
        first = self._first_test
        if self.reason == "too_few_cases":
            return f"{quantity(self.n_cases)} case(s) are too few, even if all were right."
        if self.reason == "too_few_accepted":
            return "the thresholds to test accept too few of the cases, even if all were right."
        if self.reason == "over_confident_top":
            return (
                f"among the most confident cases are too many errors to be sure{first}, and the "
                "sequence of tests ended there, although a looser threshold would pass alone. "
                "Hint: recalibrate the model if it is over-confident, or use method='bonferroni', "
                "which tests thresholds apart."
            )
        if self.reason == "accuracy_too_low":
            return f"the accuracy is too low{first}."
        return f"the accuracy may be high enough, but this could be luck{first}."

    @property
    def _first_test(self) -> str:
        """The strictest threshold tested, in brackets; nothing where the tests were not kept."""
        if self.ladder is None or not len(self.ladder.threshold):
            return ""
        errors, accepted = self.ladder.n_errors[0], self.ladder.n_accepted[0]
        return f" ({quantity(errors)} of the {quantity(accepted)} most confident wrong)"

    @property
    def _more_cases(self) -> str:
        if self.sufficient_cases is None:
            return ""
        return (
            f"About {quantity(self.sufficient_cases)} cases would suffice at the accuracy observed."
        )

    @property
    def _lower_target(self) -> str:
        if self.target_within_reach is None:
            return "No lower target that was tried is within reach of these data."
        return (
            f"A target of {self.target_within_reach:.6g} is within reach of these data (having "
            "looked, certify it on fresh ones)."
        )

    def __str__(self) -> str:
        return f"{super().__str__()} {self.guarantee}"

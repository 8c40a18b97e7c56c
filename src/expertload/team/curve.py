"""The team's curve: the accuracy of model and experts together at every threshold.

Cases whose confidence reaches the threshold are decided by the model, the others by an expert whose
answer is known. Experts err most where the model is unsure, and that is where cases are sent: a
constant expert accuracy, measured over all cases, overstates the team.

Where only some cases were read, all cases tell about the model, and those that were read about the
difference between expert and model:

    accuracy(t) = mean of m  +  mean over cases read of (h - m) 1(c < t), weighted by w / pi

with m and h the correctness of model and expert, c the confidence, w the weight of a case and pi
the probability with which it was read. If all were read, this is the plain mean over the team's
answers. It is a sum of two means, so its standard error has a closed form, with clusters too.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from expertload._check import check_fraction, check_level, check_threshold
from expertload._format import percent
from expertload._typing import FloatArray
from expertload.cases import Cases, check_are_cases, reaches
from expertload.exceptions import InsufficientDataError
from expertload.significance import Interval
from expertload.significance.interval import effective_size, linearise, rate_interval
from expertload.tally import COMPARISON_SLACK
from expertload.team.combine import Combiner, combined_answers, experts_of


class TeamCurve(NamedTuple):
    """The accuracy of model and experts together, loads ascending from 0 to 1.

    Attributes
    ----------
    expert_load : ndarray of shape (n_points,)
        Share of cases that experts answer. The first point is the model alone, the last one the
        experts alone.
    accuracy : ndarray of shape (n_points,)
        Accuracy over all cases.
    thresholds : ndarray of shape (n_points,)
        The model decides if and only if its confidence is at least this; infinity at the end.
    """

    expert_load: FloatArray
    accuracy: FloatArray
    thresholds: FloatArray

    def load_at_accuracy(self, target_accuracy: float) -> float | None:
        """Return the smallest load at which the team reaches a target; None if it never does.

        Examples
        --------
        >>> from expertload import Cases
        >>> from expertload.team import team_curve
        >>> cases = Cases.from_predictions(
        ...     [0, 1, 1, 0], [0.1, 0.4, 0.8, 0.3], expert_answers=[0, 1, 0, 0]
        ... )
        >>> team_curve(cases).load_at_accuracy(0.9)
        0.25
        """
        target = check_fraction(target_accuracy, "target_accuracy")
        reached = np.flatnonzero(self.accuracy >= target - COMPARISON_SLACK)
        return float(self.expert_load[reached[0]]) if len(reached) else None

    @property
    def best(self) -> int:
        """The point with the highest accuracy; of equals, that with the smallest load."""
        return int(np.flatnonzero(self.accuracy >= self.accuracy.max() - COMPARISON_SLACK)[0])


class Sides(NamedTuple):
    """How right each side is on each case, and how much each case that was read counts.

    `other` is the expert's correctness, or that of expert and model combined; it is 0, and without
    meaning, where `read` is 0.
    """

    model: FloatArray
    other: FloatArray
    read: FloatArray


def team_curve(cases: Cases, *, combine: Combiner | None = None) -> TeamCurve:
    """Compute the accuracy of model and experts together at every threshold.

    Parameters
    ----------
    cases : Cases
        Cases with `expert_answers`, made by `Cases.from_predictions`. Cases that nobody read are
        represented by those that were read, weighted by inclusion probability if it is known.
    combine : Combiner, optional
        Combine each expert's answer with the model's probabilities. A fitted one must have been
        fitted to other cases. One that is not fitted is fitted to these cases in five folds, each
        part by the others. By default the expert's answer counts alone.

    Returns
    -------
    TeamCurve
        One point per distinct confidence, and a last one where experts answer everything.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.team import team_curve
    >>> cases = Cases.from_predictions(
    ...     [0, 1, 1, 0], [0.1, 0.4, 0.8, 0.3], expert_answers=[0, 1, 0, 0]
    ... )
    >>> curve = team_curve(cases)
    >>> curve.expert_load.tolist(), curve.accuracy.tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.75, 1.0, 1.0, 0.75, 0.75])
    """
    return _curve(cases, sides_of(cases, combine))


def _curve(cases: Cases, sides: Sides) -> TeamCurve:
    table = cases.tally
    row = table.row_of(cases.confidence)
    gain = sides.read * (sides.other - sides.model)
    gains = np.cumsum(np.bincount(row, weights=gain, minlength=len(table.confidence)))
    alone = float(np.average(sides.model, weights=cases.weight))
    curve = table.curve()
    return TeamCurve(
        np.append(curve.expert_load, 1.0),
        alone + np.append(0.0, gains) / sides.read.sum(),
        np.append(curve.thresholds, math.inf),
    )


def sides_of(cases: Cases, combine: Combiner | None = None) -> Sides:
    """Return how right model and experts are, with what was read weighted by its inclusion."""
    check_are_cases(cases)
    answers = experts_of(cases)
    target = cases.predictions.target
    read = answers >= 0
    weight = np.ones(len(cases)) if cases.weight is None else cases.weight
    chance = 1.0 if cases.inclusion_probability is None else cases.inclusion_probability
    given = answers if combine is None else combined_answers(combine, cases)
    return Sides(
        cases.correct.astype(np.float64),
        ((given == target) & read).astype(np.float64),
        np.where(read, weight / chance, 0.0),
    )


# ------------------------------------------------------------------ with an interval


def team_accuracy(
    cases: Cases,
    *,
    threshold: float,
    combine: Combiner | None = None,
    confidence_level: float = 0.95,
) -> Interval:
    """Compute the team's accuracy at one threshold, with its interval in closed form.

    Parameters
    ----------
    cases, combine
        As in `team_curve`.
    threshold : float
        The model decides if and only if its confidence is at least this, fixed before the data:
        minus infinity is the model alone, infinity the experts alone.
    confidence_level : float, default=0.95
        The share of samples whose interval holds the true value.

    Returns
    -------
    Interval
        Wilson's, for as many independent cases as tell as much as these do with their weights,
        inclusion probabilities and clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.team import team_accuracy
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=500)
    >>> y_true = rng.random(500) < y_proba
    >>> answers = y_true ^ (rng.random(500) < 0.1)
    >>> cases = Cases.from_predictions(y_true, y_proba, expert_answers=answers)
    >>> print(team_accuracy(cases, threshold=0.8))
    0.8960 (95 % interval 0.8661 to 0.9198)
    """
    level = check_level(confidence_level)
    sides = sides_of(cases, combine)
    return _interval(cases, sides, check_threshold(threshold), level)


def _interval(cases: Cases, sides: Sides, threshold: float, level: float) -> Interval:
    weight = np.ones(len(cases)) if cases.weight is None else cases.weight
    delegated = ~reaches(cases.confidence, threshold)
    gain = np.where(delegated, sides.other - sides.model, 0.0)
    alone = float(np.average(sides.model, weights=weight))
    more = float(np.average(gain, weights=sides.read))
    part = weight / weight.sum() * (sides.model - alone)
    part += sides.read / sides.read.sum() * (gain - more)
    value = min(max(alone + more, 0.0), 1.0)
    error = linearise(value, len(cases) * part, cluster=cases.clusters).standard_error
    # Without any spread, the cases that were read are counted.
    independent = effective_size(len(cases), sides.read, cases.clusters)
    if error > 0:
        independent = max(value * (1 - value) / error**2, 1.0)
    return rate_interval(value, independent, level, error)


@dataclass(frozen=True, kw_only=True, eq=False)
class TeamEvaluation:
    """Experts alone, model alone, and both together at a threshold.

    Attributes
    ----------
    n_read : int
        Cases that an expert has answered.
    experts, model, team, combined : Interval
        Accuracy over all cases: of experts who answer everything, of the model that decides
        everything, of the team at `threshold`, and of the team whose experts' answers are combined
        with the model's probabilities (None if too few cases were read).
    delegated_experts : float or None
        Accuracy of experts on the cases below the threshold; None if none of them was read.
    threshold : float
        The model decides if and only if its confidence is at least this.
    curve, combined_curve : TeamCurve
        The team's accuracy at every threshold, without and with combining (in five folds).
    """

    n_read: int
    experts: Interval
    model: Interval
    team: Interval
    combined: Interval | None
    delegated_experts: float | None
    threshold: float
    curve: TeamCurve
    combined_curve: TeamCurve | None

    @property
    def best_load(self) -> float:
        """The smallest load at which the team is most accurate, on these cases."""
        return float(self.curve.expert_load[self.curve.best])

    @property
    def best_accuracy(self) -> float:
        """The highest accuracy of the team, on these cases."""
        return float(self.curve.accuracy[self.curve.best])

    @property
    def combined_load(self) -> float | None:
        """The smallest load at which the combined team is as accurate; None if it never is."""
        if self.combined_curve is None:
            return None
        return self.combined_curve.load_at_accuracy(min(self.best_accuracy, 1.0))

    def __str__(self) -> str:
        best = f"At best the team is right in {percent(self.best_accuracy)}"
        lines = [
            f"Experts alone are right in {percent(self.experts.estimate)} of cases, the model "
            f"alone in {percent(self.model.estimate)}, both together at this threshold in "
            f"{percent(self.team.estimate)}.",
            f"{best}, with a load of {percent(self.best_load)} on these cases.",
        ]
        if self.combined_load is not None and self.combined_load < self.best_load:
            lines.append(
                "If their answers are combined with the model's, a load of "
                f"{percent(self.combined_load)} is enough for that."
            )
        return " ".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON; JSON has no infinity, which is None."""
        sides = {"experts": self.experts, "model": self.model, "team": self.team}
        return {
            "n_read": self.n_read,
            **{name: asdict(interval) for name, interval in sides.items()},
            "combined": None if self.combined is None else asdict(self.combined),
            "delegated_experts": self.delegated_experts,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            **{n: getattr(self, n) for n in ("best_load", "best_accuracy", "combined_load")},
        }


def evaluate_team(
    cases: Cases, *, threshold: float, confidence_level: float = 0.95
) -> TeamEvaluation:
    """Measure experts, model and both together at a threshold.

    Parameters
    ----------
    cases : Cases
        As in `team_curve`.
    threshold : float
        The model decides if and only if its confidence is at least this.
    confidence_level : float, default=0.95
        The level of the intervals.

    Returns
    -------
    TeamEvaluation
        Accuracies with their intervals, and the curves.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.team import evaluate_team
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=500)
    >>> y_true = rng.random(500) < y_proba
    >>> answers = y_true ^ (rng.random(500) < 0.1)
    >>> cases = Cases.from_predictions(y_true, y_proba, expert_answers=answers)
    >>> team = evaluate_team(cases, threshold=0.8)
    >>> print(f"{team.experts.estimate:.3f}, {team.model.estimate:.3f}, {team.team.estimate:.3f}")
    0.864, 0.838, 0.896
    """
    level = check_level(confidence_level)
    threshold = check_threshold(threshold)
    sides = sides_of(cases)
    try:
        together = sides_of(cases, Combiner())
    except InsufficientDataError:  # too few answers to learn how experts err
        together = None
    below = np.where(reaches(cases.confidence, threshold), 0.0, sides.read)
    return TeamEvaluation(
        n_read=int(np.count_nonzero(sides.read)),
        experts=_interval(cases, sides, math.inf, level),
        model=_interval(cases, sides, -math.inf, level),
        team=_interval(cases, sides, threshold, level),
        combined=None if together is None else _interval(cases, together, threshold, level),
        delegated_experts=float(np.average(sides.other, weights=below)) if below.any() else None,
        threshold=threshold,
        curve=_curve(cases, sides),
        combined_curve=None if together is None else _curve(cases, together),
    )

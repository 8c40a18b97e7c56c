"""A threshold, where it comes from, what it means in cases and costs, and the decisions it makes.

A threshold is used long after it was computed. Its `Origin` is stored with it, so that nobody
applies it to another kind of confidence, and so that it can be traced to its data years later.

`choose` reads a point off the curve of the data it is given. It describes those data and promises
nothing about new ones. There the accuracy is usually a little lower, because the threshold was
picked where these data looked good.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from expertload._check import (
    as_array,
    as_floats,
    check_fraction,
    check_positive,
    check_probabilities,
    check_same_length,
    check_same_order,
    check_threshold,
    message,
)
from expertload._files import write_atomically
from expertload._format import small_table
from expertload._label_arrays import arrange_probabilities
from expertload._names import ReadAs
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases, reaches
from expertload.exceptions import ParameterError, ShapeError
from expertload.operating_point.ladder import Steps
from expertload.tally import COMPARISON_SLACK, Tally

if TYPE_CHECKING:
    from expertload.calibrators import ConfidenceScore


Label: TypeAlias = str | int
# The rounding error of 1 - (1 - share).
ROUNDING = 1e-15
# Two numbers whose sum is this close to one are the probabilities of both classes of one case.
SURELY_ONE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an operating point comes from.

    Attributes
    ----------
    ranked_by : {"top_probability", "given_confidence", "score"}
        What the threshold is compared with.
    score : ConfidenceScore, optional
        How the confidence is computed from probabilities, if cases are ranked by a score.
    labels : tuple of str or int, optional
        The names of the classes in the order of the columns, or their numbers if they have no
        names; None if only correctness was known.
    probability_columns : tuple of str or None, optional
        The columns of a file that held the probabilities, in the order of the classes. If one
        column was enough for two classes, the other class has None.
    read_as : {"probabilities", "normalized", "logits"}, optional
        How those columns were read: as they are, divided by the sum of their row, or through a
        softmax.
    confidence_column : str, optional
        The column of a file that held the confidence.
    group_column : str, optional
        The column of a file that held the group of each case, if each group has a threshold.
    confidence_quantiles : tuple of float, optional
        101 quantiles of the confidences, from the smallest to the largest. A monitor compares new
        cases with them.
    data_sha256 : str, optional
        Digest of the correctness, confidence and weight of the cases, in their order.
    model_name : str, optional
        As the user named the model.
    created : str
        Day and time (UTC) the point was made, in ISO form.
    library_version : str
        Version of expertload that made it.
    """

    ranked_by: Literal["top_probability", "given_confidence", "score"] = "given_confidence"
    score: ConfidenceScore | None = None
    labels: tuple[Label, ...] | None = None
    probability_columns: tuple[str | None, ...] | None = None
    read_as: ReadAs | None = None
    confidence_column: str | None = None
    group_column: str | None = None
    confidence_quantiles: tuple[float, ...] | None = None
    data_sha256: str | None = None
    model_name: str | None = None
    created: str = ""
    library_version: str = ""


class Policy:
    """What a point and the points of groups have in common: they are saved as JSON."""

    by_group: ClassVar[bool] = False  # whether the thresholds depend on the group of a case

    def to_json(self, *, model_name: str | None = None) -> str:
        """Return the policy as JSON, which `expertload.operating_point.from_json` reads.

        Parameters
        ----------
        model_name : str, optional
            Written into the document.

        Examples
        --------
        >>> from expertload import Cases, operating_point
        >>> cases = Cases.from_correctness([0, 1], [0.6, 0.9])
        >>> point = operating_point.at_threshold(cases, threshold=0.7)
        >>> print(point.to_json()[:44])
        {
          "kind": "expertload operating point",
        """
        from expertload.operating_point.storage import to_json  # avoids a cycle

        return to_json(self, model_name)  # type: ignore[arg-type]

    def save(self, path: str | os.PathLike[str], *, model_name: str | None = None) -> None:
        """Write the policy as JSON; an older file is replaced completely or not at all.

        Parameters
        ----------
        path : str or path
            Where to write.
        model_name : str, optional
            Written into the file.

        See Also
        --------
        load_operating_point : read it back.
        """
        write_atomically(path, self.to_json(model_name=model_name))


class Decisions(NamedTuple):
    """The decision for each case.

    Attributes
    ----------
    accepted : ndarray of bool, shape (n_cases,)
        Whether the case is decided automatically; the others go to experts.
    labels : ndarray of shape (n_cases,)
        The model's answer to every case, valid only where ``accepted``: class names if the point
        has them, else column numbers.
    """

    accepted: BoolArray
    labels: AnyArray


@dataclass(frozen=True, kw_only=True)
class OperatingPoint(Policy):
    """A threshold, and its counts on the data it was made from.

    Attributes
    ----------
    threshold : float
        Accept a case if and only if its confidence is at least this; infinity accepts none.
    n_accepted, n_delegated : float
        Cases (or weight) decided automatically and sent to experts.
    n_errors : float
        Errors among the accepted cases; for graded correctness, the missing grades.
    n_errors_spared : float
        Errors the model would have made on the delegated cases.
    origin : Origin
        The data, the model, the day, and what the threshold is compared with.
    """

    threshold: float
    n_accepted: float
    n_delegated: float
    n_errors: float
    n_errors_spared: float
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)

    @property
    def n_cases(self) -> float:
        """All cases (or their weight)."""
        return self.n_accepted + self.n_delegated

    @property
    def expert_load(self) -> float:
        """The share of cases delegated."""
        return self.n_delegated / self.n_cases

    @property
    def accuracy(self) -> float | None:
        """Accuracy among the accepted cases, None if none is accepted."""
        return 1 - self.n_errors / self.n_accepted if self.n_accepted else None

    def team_accuracy(self, *, expert_accuracy: float = 1.0) -> float:
        """Accuracy of model and experts together, over all cases.

        Parameters
        ----------
        expert_accuracy : float, default=1.0
            How often experts are right on the cases they are sent.

        Examples
        --------
        >>> from expertload import Cases, operating_point
        >>> cases = Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])
        >>> point = operating_point.at_threshold(cases, threshold=0.7)
        >>> point.team_accuracy(expert_accuracy=0.9)
        0.975
        """
        expert = check_fraction(expert_accuracy, "expert_accuracy")
        right = self.n_accepted - self.n_errors + expert * self.n_delegated
        return float(right / self.n_cases)

    def cost(self, *, error_cost: float, review_cost: float, expert_accuracy: float = 1.0) -> float:
        """Mean cost of a case: the errors that remain, and the reviews.

        Parameters
        ----------
        error_cost, review_cost : float
            The price of one error, and of one expert's review, in any one currency.
        expert_accuracy : float, default=1.0
            How often experts are right on the cases they are sent.

        Examples
        --------
        >>> from expertload import Cases, operating_point
        >>> cases = Cases.from_correctness([0, 1, 0, 1], [0.6, 0.7, 0.8, 0.9])
        >>> point = operating_point.at_threshold(cases, threshold=0.7)
        >>> point.cost(error_cost=100.0, review_cost=5.0)
        26.25
        """
        error = check_positive(error_cost, "error_cost", zero=True)
        review = check_positive(review_cost, "review_cost", zero=True)
        expert = check_fraction(expert_accuracy, "expert_accuracy")
        errors = self.n_errors + (1 - expert) * self.n_delegated
        return float((error * errors + review * self.n_delegated) / self.n_cases)

    def decide(self, y_proba: ArrayLike, *, confidence: ArrayLike | None = None) -> Decisions:
        """Decide new cases: which are accepted, and with which label.

        Parameters
        ----------
        y_proba : array-like of shape (n_cases, n_classes) or (n_cases,)
            Predicted probabilities. Columns must be in the same order as when the point was made;
            only a frame whose columns are named after the classes may have another order. For a
            lazy frame, and to keep its other columns, see `expertload.io.decide_frame`.
        confidence : array-like of shape (n_cases,), optional
            The confidence of each case. Required if the point was made with one, refused otherwise.

        Returns
        -------
        Decisions
            ``accepted`` and ``labels``. A large batch takes less than a microsecond per row, a
            single row some tens of microseconds.

        Examples
        --------
        >>> from expertload import Cases, operating_point
        >>> cases = Cases.from_predictions(["cat", "dog", "dog"], [0.1, 0.6, 0.8])
        >>> point = operating_point.choose(cases, target_accuracy=0.9)
        >>> accepted, labels = point.decide([0.95, 0.55])
        >>> accepted.tolist(), labels.tolist()
        ([True, False], ['dog', 'dog'])
        """
        answers, scores = read_cases(self.origin, y_proba, confidence)
        return Decisions(reaches(scores, self.threshold), answers)

    def with_origin(self, origin: Origin) -> Self:
        """Return the same point with another origin."""
        return replace(self, origin=origin)

    def accepts(self, confidence: ArrayLike) -> BoolArray:
        """Return which confidences are accepted, if labels do not matter.

        Examples
        --------
        >>> from expertload import Cases, operating_point
        >>> cases = Cases.from_correctness([0, 1], [0.6, 0.9])
        >>> point = operating_point.at_threshold(cases, threshold=0.7)
        >>> point.accepts([0.65, 0.7]).tolist()
        [False, True]
        """
        return reaches(as_floats(confidence, "confidence"), self.threshold)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        accepted, delegated, total = map(
            quantity, (self.n_accepted, self.n_delegated, self.n_cases)
        )
        right = "none" if self.accuracy is None else f"{self.accuracy:.1%}"
        load = round(self.expert_load, 3)  # as shown, both shares add up to 100 %
        rows = [
            ("accept at confidence", f">= {digits(self.threshold)}", ""),
            ("decided automatically", f"{1 - load:.1%}", f"{accepted} of {total}"),
            ("right among those", right, f"{quantity(self.n_errors)} wrong"),
            ("left to experts", f"{load:.1%}", f"{delegated} of {total}"),
        ]
        return small_table("Operating point", rows, [getattr(self, "guarantee", "")])

    def __str__(self) -> str:
        if self.accuracy is None:
            return f"Delegate everything: all {quantity(self.n_cases)} cases go to experts."
        load = round(self.expert_load, 3)  # as shown, both shares add up to 100 %
        return (
            f"Accept at confidence >= {digits(self.threshold)}: {1 - load:.1%} of "
            f"cases decided automatically, {self.accuracy:.1%} of them right; "
            f"{load:.1%} delegated "
            f"({quantity(self.n_delegated)} of {quantity(self.n_cases)})."
        )


# ------------------------------------------------------------------ where a point comes from


def origin_of(cases: Cases, model_name: str | None = None) -> Origin:
    """Return the origin of a point made now from these cases."""
    from expertload import __version__  # avoids a cycle

    return Origin(
        ranked_by="top_probability" if cases.is_ranked_by_probability else "given_confidence",
        labels=cases.labels,
        confidence_quantiles=_quantiles(cases.tally),
        data_sha256=cases.sha256,
        model_name=model_name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        library_version=__version__,
    )


def plain_labels(values: AnyArray) -> tuple[Label, ...]:
    """Return labels as Python strings and integers, for JSON."""
    return tuple(value if isinstance(value, str) else int(value) for value in values.tolist())


def names_in_a_policy(classes: AnyArray) -> tuple[Label, ...] | None:
    """Return two or more classes as a policy stores them: as text or whole numbers, else None."""
    values = classes.tolist()
    if len(values) < 2:
        return None
    if all(isinstance(value, str) for value in values):
        return tuple(values)
    is_whole = all(isinstance(value, Real) and float(value).is_integer() for value in values)
    return tuple(int(value) for value in values) if is_whole else None


def _quantiles(table: Tally) -> tuple[float, ...]:
    """Return the smallest confidences that 0, 1, ..., 100 % of the weight do not exceed."""
    share = np.cumsum(table.weight)
    share /= table.total
    wanted = np.linspace(0, 1, 101) - COMPARISON_SLACK
    row = np.minimum(np.searchsorted(share, wanted), len(share) - 1)
    return tuple(table.confidence[row].astype(np.float64).tolist())


def policy_digest(policy: Any) -> str:
    """Return the digest of an operating point, or of those of all groups.

    The same policy saved twice, or with another model name, has the same digest. Another threshold
    or other calibration cases give another digest.

    Examples
    --------
    >>> from expertload import Cases, certify
    >>> from expertload.operating_point.point import policy_digest
    >>> policy = certify(Cases.from_correctness([1] * 200, range(200)), target_accuracy=0.95)
    >>> policy_digest(policy)[:8]
    'd4b1cf73'
    """
    origin = policy.origin
    content = {
        "thresholds": _thresholds(policy if isinstance(policy, Mapping) else {"": policy}),
        "target_accuracy": getattr(policy, "target_accuracy", None),
        "confidence_level": getattr(policy, "confidence_level", None),
        "ranked_by": origin.ranked_by,
        "labels": origin.labels,
        "data": origin.data_sha256,
    }
    if hasattr(policy, "promises"):
        content["promises"] = [str(promise) for promise in policy.promises]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _thresholds(points: Mapping[Any, Any]) -> list[list[Any]]:
    return [
        [name, _thresholds(part) if isinstance(part, Mapping) else part.threshold]
        for name, part in points.items()
    ]


# ------------------------------------------------------------------ points read off the curve


def choose(
    cases: Cases,
    *,
    target_accuracy: float | None = None,
    load_budget: float | None = None,
    error_cost: float | None = None,
    review_cost: float | None = None,
    expert_accuracy: float = 1.0,
) -> OperatingPoint:
    """Choose the operating point for a target accuracy, a load budget, or costs.

    Parameters
    ----------
    cases : Cases
        The cases to describe.
    target_accuracy : float, optional
        Choose the smallest load whose accuracy reaches this; if none does, everything is delegated.
    load_budget : float, optional
        Choose the best accuracy that delegates at most this share of the cases.
    error_cost, review_cost : float, optional
        Choose the smallest mean cost; give both. Delegating everything is considered too.
    expert_accuracy : float, default=1.0
        How often experts are right. Used for costs only.

    Returns
    -------
    OperatingPoint
        Threshold, load, accuracy and counts. It describes these data and guarantees nothing.

    Examples
    --------
    >>> from expertload import Cases, operating_point
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> cases = Cases.from_predictions([0, 1, 1, 0], y_proba)
    >>> point = operating_point.choose(cases, target_accuracy=0.95)
    >>> point.threshold, point.expert_load, point.accuracy
    (0.7, 0.25, 1.0)

    A review costs 5 and an error 100, so delegating the two doubtful cases pays:

    >>> cases = Cases.from_correctness([0, 1, 0, 1, 1], [0.5, 0.6, 0.7, 0.8, 0.9])
    >>> print(operating_point.choose(cases, error_cost=100, review_cost=5))
    Accept at confidence >= 0.8: 40.0% of cases decided automatically, 100.0% of them right; 60.0%
    delegated (3 of 5).
    """
    _check_one_criterion(
        target_accuracy, load_budget, error_cost=error_cost, review_cost=review_cost
    )
    # One entry per distinct confidence, and a last one that delegates everything.
    accepted = np.append(cases.tally.accepted, 0.0)
    errors = np.append(cases.tally.accepted_errors, 0.0)

    def at_row(row: np.intp) -> OperatingPoint:
        return at_threshold(cases, threshold=float(np.append(cases.tally.confidence, np.inf)[row]))

    if target_accuracy is not None:
        target = check_fraction(target_accuracy, "target_accuracy")
        suits = errors <= (1 - target + COMPARISON_SLACK) * accepted
        return at_row(suits.argmax())  # delegating everything always suits
    if load_budget is not None:
        budget = check_fraction(load_budget, "load_budget")
        affordable = accepted[:-1] >= (1 - budget - COMPARISON_SLACK) * accepted[0]
        accuracy = 1 - errors[:-1] / accepted[:-1]
        return at_row(np.where(affordable, accuracy, -1.0).argmax())
    error = check_positive(error_cost, "error_cost", zero=True)
    review = check_positive(review_cost, "review_cost", zero=True)
    expert = check_fraction(expert_accuracy, "expert_accuracy")
    delegated = accepted[0] - accepted
    cost = error * (errors + (1 - expert) * delegated) + review * delegated
    return at_row(cost.argmin())  # the smallest load, if equal


def at_threshold(cases: Cases, *, threshold: float) -> OperatingPoint:
    """Report what a threshold does on these cases, for example one chosen on other data.

    Parameters
    ----------
    cases : Cases
        The cases to describe.
    threshold : float
        Cases are accepted if and only if their confidence is at least this.

    Returns
    -------
    OperatingPoint
        Load, accuracy and counts there.

    Examples
    --------
    >>> from expertload import Cases, operating_point
    >>> cases = Cases.from_correctness([0, 1], [0.6, 0.9])
    >>> operating_point.at_threshold(cases, threshold=0.7).n_errors_spared
    1.0
    """
    return OperatingPoint(**described(cases, check_threshold(threshold)))


def described(cases: Cases, threshold: float, model_name: str | None = None) -> dict[str, Any]:
    """Return the fields of the point at a threshold, for a promise that adds its own."""
    counts = Steps.every(cases.tally).counts_at(threshold)
    return {**counts, "origin": origin_of(cases, model_name)}


def _check_one_criterion(*single: float | None, **costs: float | None) -> None:
    """Raise unless exactly one way to choose an operating point is given, in full."""
    priced = [name for name, value in costs.items() if value is not None]
    given = sum(value is not None for value in single) + bool(priced)
    if given != 1:
        raise ParameterError(
            f"Give exactly one criterion: target_accuracy, load_budget, or error_cost "
            f"with review_cost. Got {given or 'none'}. Hint: pass, for example, "
            "target_accuracy=0.95."
        )
    if len(priced) == 1:
        raise ParameterError(f"error_cost and review_cost belong together. Got only {priced[0]}.")


# ------------------------------------------------------------------ new cases


def read_cases(
    origin: Origin, y_proba: ArrayLike, confidence: ArrayLike | None
) -> tuple[AnyArray, FloatArray]:
    """Return the model's answers and the confidences to compare with a threshold."""
    _check_confidence_matches(origin.ranked_by == "given_confidence", confidence is not None)
    check_same_order(y_proba=y_proba, confidence=confidence)
    if origin.labels is not None or confidence is None:
        y_proba = arrange_probabilities(y_proba, origin.labels)
    if confidence is None:
        _check_not_one_case(y_proba)
    proba = check_probabilities(y_proba, "y_proba")
    column = proba.argmax(axis=1)
    if confidence is None:
        scores = confidence_of(origin, proba)
    else:
        scores = as_floats(confidence, "confidence")
        check_same_length(y_proba=proba, confidence=scores)
    if origin.labels is None:
        return column, scores
    if proba.shape[1] != len(origin.labels):
        wanted = f"must have {len(origin.labels)} columns"
        raise ShapeError(message("y_proba", wanted, f"{proba.shape[1]} columns"))
    return np.asarray(origin.labels)[column], scores


def _check_not_one_case(y_proba: ArrayLike) -> None:
    """Refuse a row of both classes: read as a column, it would be two cases, both decided."""
    values = as_array(y_proba, "y_proba")
    if values.shape == (2,) and values.dtype.kind == "f" and abs(values.sum() - 1) < 1e-6:
        hint = f"for one case, pass [{values.tolist()}]; for two cases, a column"
        raise ShapeError(message("y_proba", "must have a row for each case", str(y_proba), hint))


def confidence_of(origin: Origin, proba: FloatArray) -> FloatArray:
    """Return the confidence that a policy computes from probabilities."""
    if origin.score is not None:
        return origin.score.confidence(proba)
    return np.asarray(proba.max(axis=1))


def digits(threshold: float, fewest: int = 6) -> str:
    """Return a threshold with six digits, or with more if it would be rounded down, or to 1.

    People copy it, and a smaller number would accept cases that the promise says nothing about.

    Examples
    --------
    >>> digits(0.1234567), digits(0.1234561), digits(0.8), digits(0.9999996), digits(1.0)
    ('0.123457', '0.1234561', '0.8', '0.9999996', '1')
    """
    texts = (f"{threshold:.{n}g}" for n in range(fewest, 18))
    return next(
        text for text in texts if float(text) >= threshold and (float(text) != 1 or threshold == 1)
    )


def at_least(share: float) -> str:
    """Return a promised share with six digits, rounded down: nothing more was promised.

    Examples
    --------
    >>> at_least(0.95), at_least(0.9999999), at_least(1 - 0.05 / 6)
    ('0.95', '0.999999', '0.991666')
    """
    text = f"{share:.6g}"
    if float(text) <= share + ROUNDING:
        return text
    step = 10.0 ** (math.floor(math.log10(share)) - 5)
    return f"{math.floor(share / step) * step:.6g}"


def sure_that(confidence_level: float) -> str:
    """Begin a promise; "confidence" is left to what a model has.

    Examples
    --------
    >>> sure_that(0.95), sure_that(1 - 1e-7)
    ('One can be 95 % sure that', 'One can be 99.9999 % sure that')
    """
    return f"One can be {at_least(100 * confidence_level)} % sure that"


def quantity(number: float) -> str:
    """Return a count with all digits; a sum of weights or grades with six digits.

    Examples
    --------
    >>> quantity(1500000.0), quantity(3.25), quantity(1234567.8)
    ('1500000', '3.25', '1234568')
    """
    is_whole = float(number).is_integer() or abs(number) >= 1e5
    return f"{number:.0f}" if is_whole else f"{number:.6g}"


def _check_confidence_matches(needed: bool, given: bool) -> None:
    """Raise unless the new confidence is of the kind that the threshold was made with."""
    if needed and not given:
        raise ParameterError(
            "This operating point was made with your own confidence, so it needs the "
            "'confidence' of the new cases. Got none. Hint: pass confidence=..., or use "
            "accepts(confidence)."
        )
    if given and not needed:
        raise ParameterError(
            "This operating point was made with the largest probability, so it does not "
            "accept another 'confidence'. Hint: leave it out, or make the point with confidence=..."
        )

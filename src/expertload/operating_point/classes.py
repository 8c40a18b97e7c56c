"""Promises about classes: how often an answer is right, and how many cases of a class are missed.

In screening, accuracy means little. What is promised there is that an automatic answer "malignant"
is right in at least so many cases (*precision*), or that at most so many malignant cases are
decided as something else (*missed*). Each promise is one sequence of tests, at its share of the
level, so that all of them hold together:

- ``precision:c=p``: among new cases that are answered c and accepted, at least a share p is of the
  class c. Given how many calibration cases are answered c, these are independent draws, and
  `certify`'s walk on them alone proves it; every threshold that passed holds.
- ``missed:c=m``: of all new cases of the class c, at most a share m is accepted with another
  answer. That share can only grow as the threshold is lowered, so thresholds are tested from strict
  to loose, on the calibration cases of the class c, at the whole level of the promise (as for joint
  risk). Every stricter threshold holds too, for each answer separately.

There is one threshold for each answer. A precision restricts the threshold of its own answer, a
limit on misses those of all other answers, so that in screening one of them decides the positive
answers and the other the negative ones. A single threshold for all answers would be the larger of
the two (`benchmarks.certification` has both). Where an answer has both kinds of promises, its
threshold is the loosest that passed for its precision and is not below any limit on misses. An
answer that no promise is about is left to experts.

Within groups, such as sites, the same is done with the cases of each group alone, at the group's
share of the level, so that the promises to all groups hold together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from expertload._check import (
    check_fraction,
    check_level,
    check_same_length,
    check_same_order,
    message,
)
from expertload._label_arrays import check_groups
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases
from expertload.exceptions import InsufficientDataError, ParameterError
from expertload.operating_point.certified import CertifiedPoint, ClusterPromise
from expertload.operating_point.certify import certify_promises, check_unweighted
from expertload.operating_point.graded import largest_cluster
from expertload.operating_point.groups import PointsByName, groups_of
from expertload.operating_point.ladder import Promise, Risk
from expertload.operating_point.point import (
    Decisions,
    Label,
    OperatingPoint,
    Origin,
    at_least,
    at_threshold,
    origin_of,
    plain_labels,
    read_cases,
    sure_that,
)

Kind = Literal["precision", "missed"]
FORM = re.compile(rf"({'|'.join(get_args(Kind))}):(.+)=\s*(\d*\.?\d+(?:[eE]-?\d+)?)")
HINT = "write 'precision:malignant=0.98' or 'missed:malignant=0.02'"


class ClassPromise(NamedTuple):
    """One promise about a class.

    Attributes
    ----------
    kind : {"precision", "missed"}
        What is promised.
    label : str or int
        The class.
    share : float
        The smallest share of right answers, or the largest share of missed cases.

    Examples
    --------
    >>> from expertload.operating_point import ClassPromise
    >>> promise = ClassPromise.parse("missed:malignant=0.02")
    >>> promise.share, str(promise)
    (0.02, 'missed:malignant=0.02')
    """

    kind: Kind
    label: Label
    share: float

    @classmethod
    def parse(cls, text: str) -> ClassPromise:
        """Read a promise from text such as ``precision:malignant=0.98``."""
        form = FORM.fullmatch(str(text).strip())
        if form is None:
            wanted = "must name a kind, a class and a share"
            raise ParameterError(message("promises", wanted, repr(text), HINT))
        kind: Kind = "precision" if form[1] == "precision" else "missed"
        share = check_fraction(float(form[3]), "promises", inclusive=False)
        return cls(kind, form[2].strip(), share)

    @property
    def target_accuracy(self) -> float:
        """The share of cases, among those the promise is about, that must not count as errors."""
        return self.share if self.kind == "precision" else 1 - self.share

    @property
    def claim(self) -> str:
        """What is promised, as a phrase for the sentences of a monitor."""
        if self.kind == "precision":
            return f"a precision of {self.share:.6g} for '{self.label}'"
        return f"missing at most {self.share:.6g} of '{self.label}'"

    def restricts(self, answer: Label) -> bool:
        """Whether the promise is about cases with this answer."""
        return (answer == self.label) == (self.kind == "precision")

    def about(self, cases: Cases) -> Cases:
        """Return the cases that the promise is about: of an answer, or of a class."""
        target, proba, _ = cases.predictions
        of = proba.argmax(axis=1) if self.kind == "precision" else target
        return cases.take(of == _labels(cases).index(self.label))

    def outcomes(self, decided: AnyArray, label: AnyArray) -> tuple[BoolArray, FloatArray]:
        """Return which cases the promise is about, and 1 for those of them that keep it.

        Parameters
        ----------
        decided : ndarray of shape (n_cases,)
            The automatic answer to each case; None for those left to experts.
        label : ndarray of shape (n_cases,)
            The true class; None while it is not known.

        Returns
        -------
        concerned : ndarray of bool
            For a precision, cases with this answer; for misses, cases known to be of this class.
        kept : ndarray of float
            1 or 0, NaN while the class is not known.

        Examples
        --------
        >>> import numpy as np
        >>> from expertload.operating_point import ClassPromise
        >>> decided = np.array(["benign", "benign", None], dtype=object)
        >>> label = np.array(["benign", "malignant", "malignant"], dtype=object)
        >>> concerned, kept = ClassPromise("missed", "malignant", 0.02).outcomes(decided, label)
        >>> concerned.tolist(), kept[concerned].tolist()
        ([False, True, True], [0.0, 1.0])
        """
        values = (decided, label)
        automatic, known = (np.array([x is not None for x in row], np.bool_) for row in values)
        answered, belongs = (
            np.array([x is not None and str(x) == str(self.label) for x in row], np.bool_)
            for row in values
        )
        if self.kind == "precision":
            return answered, np.where(known, belongs, np.nan)
        return belongs, np.where(known, answered | ~automatic, np.nan)

    def __str__(self) -> str:
        return f"{self.kind}:{self.label}={self.share:.6g}"


@dataclass(frozen=True, kw_only=True)
class CertifiedClasses(PointsByName[OperatingPoint]):
    """A threshold for each answer, and promises about classes that hold together.

    Attributes
    ----------
    points : dict from str or int to OperatingPoint
        For each answer its threshold, and the counts of the calibration cases with that answer. The
        promises are about all of them together: see `guarantee`.
    promises : dict from ClassPromise to CertifiedPoint
        What each promise's own tests certified, with the reason if nothing.
    confidence_level : float
        The probability that all promises that were certified hold at once.
    origin : Origin
        The data, the model and the day.
    """

    promises: dict[ClassPromise, CertifiedPoint]

    _of = "Of the cases answered "

    @property
    def guarantee(self) -> str:
        """The promises in words, and the answers that are left to experts."""
        kept = [point for point in self.promises.values() if point.is_certified]
        if not kept:
            return self.in_words
        together = "all of this" if len(kept) > 1 else "this"
        return self._sentences(
            f"{sure_that(self.confidence_level)} {together} holds. {kept[0].conditions}"
        )

    @property
    def in_words(self) -> str:
        """What is promised, without how sure that is."""
        return self._sentences()

    def _sentences(self, *sure: str) -> str:
        kept = [promise for promise, point in self.promises.items() if point.is_certified]
        parts = [*map(self._in_words, kept), *sure]
        if not self.promises:
            parts.append("There are no cases of a kind that is promised something about.")
        parts += [
            f"{promise} cannot be promised: {point.guarantee}"
            for promise, point in self.promises.items()
            if not point.is_certified
        ]
        experts = [str(answer) for answer in self if answer not in self.certified]
        if experts:
            parts.append(f"Left to experts, whatever the confidence: {', '.join(experts)}.")
        return " ".join(parts)

    @staticmethod
    def _in_words(promise: ClassPromise) -> str:
        if promise.kind == "precision":
            share = at_least(100 * promise.share)
            return f"At least {share} % of the automatic answers '{promise.label}' are right."
        return (
            f"At most {100 * promise.share:.6g} % of the cases of class '{promise.label}' are "
            "decided automatically as something else."
        )

    def decide(self, y_proba: ArrayLike, *, confidence: ArrayLike | None = None) -> Decisions:
        """Decide new cases, each by the threshold of its answer.

        Parameters
        ----------
        y_proba, confidence
            As in `OperatingPoint.decide`.

        Examples
        --------
        >>> from expertload import Cases
        >>> from expertload.operating_point import certify_classes
        >>> cases = Cases.from_predictions([1] * 200, [0.9] * 200, labels=[0, 1])
        >>> policy = certify_classes(cases, promises="precision:1=0.98")
        >>> policy.decide([0.95, 0.1]).accepted.tolist()
        [True, False]
        """
        answers, scores = read_cases(self.origin, y_proba, confidence)
        return Decisions(self._accepts(scores, answers), answers)

    def with_origin(self, origin: Origin) -> CertifiedClasses:
        """Return the same points with another origin; without labels, answers are numbered."""
        same = super().with_origin(origin)
        if origin.labels is not None or self.origin.labels is None:
            return same
        numbers = {label: number for number, label in enumerate(self.origin.labels)}
        return replace(same, points={numbers[label]: point for label, point in same.items()})


@dataclass(frozen=True, kw_only=True)
class CertifiedGroupClasses(PointsByName[CertifiedClasses]):  # type: ignore[type-var]
    """A mapping from groups to their thresholds for each answer; all promises hold together.

    Attributes
    ----------
    points : dict from str or int to CertifiedClasses
        The thresholds and promises of each group, in sorted order.
    confidence_level : float
        The probability that all promises that were certified hold at once, in all groups.
    origin : Origin
        The data, the model and the day.
    """

    by_group = True

    @property
    def promises(self) -> dict[str, CertifiedPoint]:
        """What each promise's own tests certified, by group and promise: ``a: missed:1=0.02``."""
        return {
            f"{group}: {promise}": point
            for group, own in self.items()
            for promise, point in own.promises.items()
        }

    @property
    def guarantee(self) -> str:
        """The promises to each group in words, and what is left to experts."""
        kept = [point for point in self.promises.values() if point.is_certified]
        parts = [f"{group}: {own.in_words}" for group, own in self.items()]
        if kept:
            sure = sure_that(self.confidence_level)
            parts.append(f"{sure} all of this holds, in all groups at once. {kept[0].conditions}")
        return " ".join(parts)

    def decide(
        self, y_proba: ArrayLike, *, groups: ArrayLike, confidence: ArrayLike | None = None
    ) -> Decisions:
        """Decide new cases, each by the threshold of its answer in its group.

        Parameters
        ----------
        y_proba, confidence
            As in `OperatingPoint.decide`.
        groups : array-like of shape (n_cases,)
            The group of each case. Cases of unknown groups are delegated.
        """
        check_same_order(y_proba=y_proba, confidence=confidence, groups=groups)
        answers, scores = read_cases(self.origin, y_proba, confidence)
        named, accepted = np.asarray(check_groups(groups)), np.zeros(len(scores), dtype=np.bool_)
        check_same_length(groups=named, confidence=scores)
        for group, own in self.items():
            rows = np.flatnonzero(named == group)
            accepted[rows] = own._accepts(scores[rows], answers[rows])
        return Decisions(accepted, answers)


def certify_classes(
    cases: Cases,
    *,
    promises: str | Sequence[str],
    confidence_level: float = 0.95,
    cluster_promise: ClusterPromise = "all_cases",
    model_name: str | None = None,
) -> CertifiedClasses:
    """Certify a threshold for each answer, with promises about single classes.

    Parameters
    ----------
    cases : Cases
        Calibration cases as in `certify`, made with `Cases.from_predictions`.
    promises : str or sequence of str
        ``"precision:malignant=0.98"``: at least 98 % of the automatic answers "malignant" are
        right. ``"missed:malignant=0.02"``: at most 2 % of the malignant cases are decided
        automatically as something else. Several hold together, each at its share of the level.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that all promises are kept.
    cluster_promise, model_name
        As in `certify`.

    Returns
    -------
    CertifiedClasses
        A mapping from answers to their points. An answer that no promise is about is left to
        experts.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.operating_point import certify_classes
    >>> rng = np.random.default_rng(0)
    >>> malignant = rng.beta(0.3, 0.6, size=3000)
    >>> y_true = np.where(rng.random(3000) < malignant, "malignant", "benign")
    >>> cases = Cases.from_predictions(y_true, malignant, labels=["benign", "malignant"])
    >>> policy = certify_classes(
    ...     cases, promises=["precision:malignant=0.9", "missed:malignant=0.02"]
    ... )
    >>> print({answer: f"{point.threshold:.3f}" for answer, point in policy.items()})
    {'benign': '0.947', 'malignant': '0.823'}
    """
    wanted, level = _read_promises(promises, cases), _level(cases, confidence_level)
    tested = _tested(cases, wanted, level, cluster_promise, largest_cluster(cases))
    return _certified(cases, tested, level, origin_of(cases, model_name))


def certify_group_classes(
    cases: Cases,
    *,
    promises: str | Sequence[str],
    confidence_level: float = 0.95,
    cluster_promise: ClusterPromise = "all_cases",
    model_name: str | None = None,
) -> CertifiedGroupClasses:
    """Certify promises about classes within each group, with the level shared out among groups.

    Parameters
    ----------
    cases : Cases
        Calibration cases with the group of each, as in `certify_groups`.
    promises, cluster_promise, model_name
        As in `certify_classes`; the same promises are made to every group.
    confidence_level : float, default=0.95
        The probability that all promises to all groups are kept at once.

    Returns
    -------
    CertifiedGroupClasses
        A mapping from groups to their points. A group that has no case of the kind that a promise
        is about is left to experts completely.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.operating_point import certify_group_classes
    >>> rng = np.random.default_rng(0)
    >>> malignant = rng.beta(0.3, 0.6, size=6000)
    >>> y_true = np.where(rng.random(6000) < malignant, "malignant", "benign")
    >>> site = np.where(np.arange(6000) < 5950, "north", "south")
    >>> labels = ["benign", "malignant"]
    >>> cases = Cases.from_predictions(y_true, malignant, labels=labels, groups=site)
    >>> policy = certify_group_classes(cases, promises="missed:malignant=0.02")
    >>> policy["north"].certified, policy["south"].certified
    (('benign',), ())
    """
    names, rows = np.unique(groups_of(cases), return_inverse=True)
    wanted, level = _read_promises(promises, cases), _level(cases, confidence_level)
    origin, points, largest = origin_of(cases, model_name), {}, largest_cluster(cases)
    for index, name in enumerate(plain_labels(names)):
        part, shared = cases.take(rows == index), 1 - (1 - level) / len(names)
        try:
            tested = _tested(part, wanted, shared, cluster_promise, largest)
        except InsufficientDataError:
            tested = {}
        points[name] = _certified(part, tested, shared, origin)
    return CertifiedGroupClasses(points=points, confidence_level=level, origin=origin)


def _level(cases: Cases, confidence_level: float) -> float:
    check_unweighted(cases.weight)
    return check_level(confidence_level)


def _labels(cases: Cases) -> Sequence[Label]:
    return cases.labels or tuple(range(cases.predictions.proba.shape[1]))


def _read_promises(promises: str | Sequence[str], cases: Cases) -> list[ClassPromise]:
    """Return promises about known classes, at most one of each kind about each class."""
    given = [promises] if isinstance(promises, str) else promises
    known = {str(label): label for label in _labels(cases)}
    wanted = []
    for promise in map(ClassPromise.parse, given):
        if str(promise.label) not in known:
            classes = f"must be about one of the classes {', '.join(known)}"
            raise ParameterError(message("promises", classes, f"'{promise.label}'"))
        wanted.append(promise._replace(label=known[str(promise.label)]))
    if not wanted or len({promise[:2] for promise in wanted}) < len(wanted):
        what = "must be one or more, and different"
        raise ParameterError(message("promises", what, ", ".join(given) or "none", HINT))
    return wanted


def _tested(
    cases: Cases,
    wanted: Sequence[ClassPromise],
    level: float,
    clusters: ClusterPromise,
    largest: int,
) -> dict[ClassPromise, CertifiedPoint]:
    """Test each promise on the cases that it is about, at its share of the level."""
    tested, share = {}, (1 - level) / len(wanted)
    for promise in wanted:
        part = promise.about(cases)
        if not len(part):
            raise InsufficientDataError(f"{promise} is about cases that the calibration lacks.")
        risk: Risk = "selective" if promise.kind == "precision" else "missed"
        tests = Promise(promise.target_accuracy, share, risk=risk, largest=largest)
        tested[promise] = certify_promises(part, [tests], clusters)[tests.target]
    return tested


def _certified(
    cases: Cases, tested: dict[ClassPromise, CertifiedPoint], level: float, origin: Origin
) -> CertifiedClasses:
    """Return a threshold for each answer that keeps the promises about it."""
    answer, points = cases.predictions.proba.argmax(axis=1), {}
    for column in np.unique(answer).tolist():
        label = _labels(cases)[column]
        point = at_threshold(cases.take(answer == column), threshold=_threshold(label, tested))
        points[label] = replace(point, origin=origin)
    return CertifiedClasses(points=points, promises=tested, confidence_level=level, origin=origin)


def _threshold(answer: Label, tested: dict[ClassPromise, CertifiedPoint]) -> float:
    """Return the loosest threshold that keeps all promises about an answer; infinity if none."""
    about = [(promise.kind, p) for promise, p in tested.items() if promise.restricts(answer)]
    limits = [point.threshold for kind, point in about if kind == "missed"]
    least = max(limits, default=-math.inf)
    passed = next((point.passed for kind, point in about if kind == "precision"), None)
    if passed is None:
        return least if limits else math.inf
    allowed = passed.steps.threshold[passed.steps.threshold >= least]
    return least if least in passed else float(allowed.min(initial=math.inf))

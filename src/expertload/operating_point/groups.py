"""Certifies a point for each group, such as a site or a class, with one promise for all of them.

A threshold certified over all cases may fail in one of the groups. Here each group is tested
separately, at a share of the level, so that all promises hold together.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from expertload._check import as_floats, check_same_length, check_same_order, message
from expertload._label_arrays import check_groups
from expertload._names import Method
from expertload._typing import ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases, reaches
from expertload.exceptions import ParameterError
from expertload.operating_point.certified import CertifiedPoint, ClusterPromise, Point, Points
from expertload.operating_point.certify import (
    certify_promises,
    check_unweighted,
    read_promise,
)
from expertload.operating_point.graded import largest_cluster
from expertload.operating_point.ladder import Risk
from expertload.operating_point.point import (
    Decisions,
    Label,
    Policy,
    at_least,
    origin_of,
    plain_labels,
    read_cases,
    sure_that,
)


class PointsByName(Policy, Points[Label, Point]):
    """A mapping from names to points, each with its own threshold for the cases of its name."""

    _of = ""  # what the names are, in the lines of each point

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The promise in words."""

    @property
    def threshold(self) -> float:
        """The loosest of all thresholds; infinity if everything is delegated."""
        return min(point.threshold for point in self.values())

    @property
    def n_cases(self) -> float:
        """All cases that the points were made from."""
        return sum(point.n_cases for point in self.values())

    @property
    def n_delegated(self) -> float:
        """Those of them that are delegated."""
        return sum(point.n_delegated for point in self.values())

    @property
    def expert_load(self) -> float:
        """The share of all cases delegated."""
        return self.n_delegated / self.n_cases

    def _accepts(self, scores: FloatArray, names: ArrayLike) -> BoolArray:
        distinct, rows = np.unique(np.asarray(names), return_inverse=True)
        known = {name: point.threshold for name, point in self.items()}
        threshold = np.array([known.get(name, np.inf) for name in plain_labels(distinct)])
        return reaches(scores, threshold[rows])

    def __str__(self) -> str:
        lines = [f"{self._of}{name}: {point}" for name, point in self.items()]
        return "\n".join([*lines, self.guarantee])


@dataclass(frozen=True, kw_only=True)
class CertifiedGroups(PointsByName[CertifiedPoint]):
    """A mapping from groups to their certified points, and one promise over all of them.

    Attributes
    ----------
    points : dict from str or int to CertifiedPoint
        The point of each group, in sorted order.
    target_accuracy, confidence_level : float
        The promised accuracy, and the confidence that it holds for all groups at once.
    origin : Origin
        The data, the model and the day.
    """

    target_accuracy: float

    by_group = True

    @property
    def guarantee(self) -> str:
        """The promise in words, and the groups without one."""
        sure, missing = self.certified, [group for group in self if not self[group].is_certified]
        parts = []
        if sure:
            what = {
                "selective": "the accuracy among accepted cases",
                "joint": "the accuracy of model and perfect experts together",
            }[self[sure[0]].risk]
            parts.append(
                f"{sure_that(self.confidence_level)} {what} is at least "
                f"{at_least(self.target_accuracy)} in every one of {len(sure)} group(s) at once. "
                f"{self[sure[0]].conditions}"
            )
        if missing:
            names = ", ".join(str(group) for group in missing)
            parts.append(f"Nothing is certified, and everything delegated, in: {names}.")
        return " ".join(parts)

    def decide(
        self, y_proba: ArrayLike, *, groups: ArrayLike, confidence: ArrayLike | None = None
    ) -> Decisions:
        """Decide new cases, each by the threshold of its group.

        Parameters
        ----------
        y_proba, confidence
            As in `OperatingPoint.decide`.
        groups : array-like of shape (n_cases,)
            The group of each case. Cases of unknown groups are delegated.

        Examples
        --------
        >>> from expertload import Cases
        >>> from expertload.operating_point import certify_groups
        >>> site = ["a"] * 90 + ["b"] * 10
        >>> cases = Cases.from_correctness([1] * 100, [0.5] * 100, groups=site)
        >>> points = certify_groups(cases, target_accuracy=0.95)
        >>> points.decide([0.9, 0.9], groups=["a", "b"], confidence=[0.5, 0.5]).accepted.tolist()
        [True, False]
        """
        check_same_order(y_proba=y_proba, confidence=confidence, groups=groups)
        answers, scores = read_cases(self.origin, y_proba, confidence)
        return Decisions(self._accepts_in(scores, groups), answers)

    def accepts(self, confidence: ArrayLike, *, groups: ArrayLike) -> BoolArray:
        """Return which confidences are accepted in their groups, where labels do not matter."""
        check_same_order(confidence=confidence, groups=groups)
        return self._accepts_in(as_floats(confidence, "confidence"), groups)

    def _accepts_in(self, scores: FloatArray, groups: ArrayLike) -> BoolArray:
        named = check_groups(groups)
        check_same_length(groups=named, confidence=scores)
        return self._accepts(scores, named)


def certify_groups(
    cases: Cases,
    *,
    target_accuracy: float,
    confidence_level: float = 0.95,
    method: Method = "spending",
    risk: Risk = "selective",
    cluster_promise: ClusterPromise = "all_cases",
    model_name: str | None = None,
) -> CertifiedGroups:
    """Certify an operating point for each group, with the level shared out among them.

    Parameters
    ----------
    cases : Cases
        Calibration cases with the group of each. It must be known when a case is decided: its
        site, or its *predicted* class (``y_proba.argmax(axis=1)``), but not its true class. If
        they have clusters, each group is certified by those of its cases.
    target_accuracy, method, risk, cluster_promise, model_name
        As in `certify`.
    confidence_level : float, default=0.95
        The probability that the promises to all groups are kept at once.

    Returns
    -------
    CertifiedGroups
        A mapping from groups to their points. A group with too few cases is delegated completely,
        and its point gives the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.operating_point import certify_groups
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.3, 0.3, size=3000)
    >>> y_true = rng.random(3000) < y_proba
    >>> site = np.where(np.arange(3000) < 2950, "north", "south")
    >>> cases = Cases.from_predictions(y_true, y_proba, groups=site)
    >>> points = certify_groups(cases, target_accuracy=0.95)
    >>> points["north"].is_certified, points["south"].reason
    (True, 'too_few_cases')
    """
    check_unweighted(cases.weight)
    promise = read_promise(target_accuracy, confidence_level, method, risk)
    names, rows = np.unique(groups_of(cases), return_inverse=True)
    share = promise.error_level / len(names)
    shared = promise._replace(error_level=share, largest=largest_cluster(cases))
    origin, points = origin_of(cases, model_name), {}
    for index, name in enumerate(plain_labels(names)):
        part = certify_promises(cases.take(rows == index), [shared], cluster_promise)
        points[name] = replace(part[promise.target], origin=origin)
    return CertifiedGroups(
        points=points,
        target_accuracy=promise.target,
        confidence_level=1 - promise.error_level,
        origin=origin,
    )


def groups_of(cases: Cases) -> ArrayLike:
    """Return the groups of cases; raise if they have none."""
    if cases.groups is None:
        hint = "pass groups= to Cases.from_predictions or Cases.from_correctness"
        raise ParameterError(message("cases", "must have groups", "none", hint))
    return check_groups(cases.groups)

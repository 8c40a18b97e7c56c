"""For scikit-learn: a classifier that delegates, and scorers that select models by expert load.

`DelegatingClassifier` answers the cases above a certified threshold and delegates the others. A
scorer is called with a fitted classifier, cases and their labels; higher is better. Use it
wherever scikit-learn takes ``scoring=``::

    cross_val_score(model, X, y, scoring=aucoc_scorer)
    GridSearchCV(model, grid, scoring=load_at_accuracy_scorer(0.95))

Labels are compared with the classifier's ``classes_``, never with column numbers. So a fold that
lacks a class is scored correctly, and cases of a class that the classifier never saw count as
errors. Importing this module needs scikit-learn, the extra ``sklearn``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np

from expertload._answers import (
    Answers,
    answers_of,
    cases_of,
    check_calibration_size,
    check_classifier,
    check_delegate_label,
    right_answers,
    selectable,
)
from expertload._check import (
    as_array,
    as_floats,
    check_fraction,
    check_same_length,
    check_same_order,
    message,
    needs_extra,
)
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from expertload.cases import Cases
from expertload.exceptions import LabelError, NotFittedError, ParameterError
from expertload.operating_point import (
    CertifiedGroups,
    CertifiedPoint,
    Decisions,
    Method,
    Origin,
    certify,
    certify_groups,
)
from expertload.operating_point.certify import read_promise
from expertload.operating_point.point import names_in_a_policy
from expertload.tally import check_weight

with needs_extra("sklearn", "expertload.sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.model_selection import GroupShuffleSplit, train_test_split
    from sklearn.utils import _safe_indexing, get_tags, indexable
    from sklearn.utils.metadata_routing import UNUSED
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted

__all__ = [
    "DelegatingClassifier",
    "DelegatingClassifierWarning",
    "Scorer",
    "accuracy_at_load_scorer",
    "aucoc_scorer",
    "get_scorer",
    "get_scorer_names",
    "load_at_accuracy_scorer",
]

AUTO_CALIBRATION_SIZE = 0.25
# If a larger share of feature rows repeats another, cases may belong together.
REPEATED_SHARE = 0.05


class DelegatingClassifierWarning(UserWarning):
    """Nothing could be certified, or cases may not be independent; the message says what helps."""


def _warn_of_repeats(X: Any) -> None:
    """Warn if feature rows repeat, as they do for several cases of one patient."""
    rows = np.asarray(X) if hasattr(X, "__array__") or isinstance(X, list) else np.empty(0)
    if rows.ndim != 2 or not rows.size:
        return
    is_mixed = rows.dtype.kind == "O"  # a frame with numbers and names
    n_distinct = len({str(row.tolist()) if is_mixed else row.tobytes() for row in rows})
    n_repeated = len(rows) - n_distinct
    if n_repeated > REPEATED_SHARE * len(rows):
        warnings.warn(
            f"{n_repeated} of {len(rows)} feature rows repeat another one. If they are cases of "
            "the same patient or customer, the promise does not hold without clusters=.",
            DelegatingClassifierWarning,
            stacklevel=3,
        )


def _gives_probabilities(self: DelegatingClassifier) -> bool:
    return hasattr(getattr(self, "estimator_", self.estimator), "predict_proba")


class DelegatingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that delegates the cases it is not certified to decide.

    ``fit`` trains the model on most of the cases and certifies a threshold on the rest. For your
    own calibration cases, use ``calibration_size=None`` and ``calibrate``. Where nothing can be
    certified, a `DelegatingClassifierWarning` says what would help.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier with ``predict_proba``, or any at all if `confidence` is
        given. If it is already fitted, it can be calibrated without another ``fit``.
    target_accuracy : float, default=0.95
        The accuracy to certify among the cases it answers.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.
    method : str, default="spending"
        As in `expertload.operating_point.certify`.
    confidence : callable, optional
        Ranks cases: a function of the fitted estimator and the features that returns a number for
        each case, higher for more confident answers. The top probability by default.
    delegate_label : "auto", int or str, default="auto"
        The label that ``predict`` returns for delegated cases; "auto" is -1 for numeric classes and
        ``"delegate"`` for strings, or the next one that is not a class: -2, -3, ``"delegate_2"``
        and so on. A label that is a class is refused.
    calibration_size : "auto", float, int or None, default="auto"
        The cases that ``fit`` sets aside for calibration: "auto" is a quarter, or pass a share or a
        number. With None, the model is fitted to all cases; call ``calibrate`` after ``fit``.
    random_state : int or RandomState, optional
        Which cases are set aside.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : ndarray
        Its classes; ``predict`` may return ``delegate_label_`` as well.
    delegate_label_ : int or str
        The label of delegated cases.
    operating_point_ : CertifiedPoint or CertifiedGroups
        The certified threshold, with its guarantee, or the reason why there is none; one for each
        group if groups were given. ``operating_point_.save(path)`` makes a policy of it, for
        ``expertload decide`` and the desk.
    expert_load_ : float
        The share of calibration cases delegated.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from expertload import DelegatingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0)
    >>> model = DelegatingClassifier(forest, target_accuracy=0.95, calibration_size=None)
    >>> model = model.fit(X[:250], y[:250]).calibrate(X[250:450], y[250:450])
    >>> print(f"delegates {(model.predict(X[450:]) == -1).mean():.2f}")
    delegates 0.08
    """

    operating_point_: CertifiedPoint | CertifiedGroups

    def __init__(
        self,
        estimator: Any,
        *,
        target_accuracy: float = 0.95,
        confidence_level: float = 0.95,
        method: Method = "spending",
        confidence: Callable[[Any, Any], ArrayLike] | None = None,
        delegate_label: Any = "auto",
        calibration_size: float | int | str | None = "auto",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.target_accuracy = target_accuracy
        self.confidence_level = confidence_level
        self.method = method
        self.confidence = confidence
        self.delegate_label = delegate_label
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit the model, and calibrate it on the cases that ``calibration_size`` sets aside.

        Parameters
        ----------
        X, y : array-like
            Features and classes.
        sample_weight : array-like of shape (n_cases,), optional
            Passed on to the model's ``fit``; the calibration counts cases.
        groups, clusters : array-like of shape (n_cases,), optional
            As in `calibrate`. Cases of one cluster are never on both sides of the split.
        """
        y, groups, clusters = selectable(y), selectable(groups), selectable(clusters)
        self._check_options(y)
        rows = {"sample_weight": sample_weight, "groups": groups, "clusters": clusters}
        check_same_order(X=X, y=y, **rows)
        for attribute in ("operating_point_", "expert_load_", "feature_names_in_"):
            self.__dict__.pop(attribute, None)  # of an earlier model
        if self.calibration_size is None:
            return self._fit_model(X, y, sample_weight)
        given = {"X": X, "y": y, **{k: v for k, v in rows.items() if v is not None}}
        arrays = dict(zip(given, indexable(*given.values()), strict=True))
        fit, aside = (
            {name: _safe_indexing(values, part) for name, values in arrays.items()}
            for part in self._split(len(arrays["y"]), clusters)
        )
        self._fit_model(fit["X"], fit["y"], fit.get("sample_weight"))
        if clusters is None:
            _warn_of_repeats(X)
        return self._certify(aside["X"], aside["y"], aside.get("groups"), aside.get("clusters"))

    def _split(self, n_cases: int, clusters: ArrayLike | None) -> tuple[AnyArray, AnyArray]:
        """Return the rows to fit and those set aside, whole clusters if there are any.

        Not stratified: the promise is about cases as they come, including rare classes.
        """
        size = AUTO_CALIBRATION_SIZE if self.calibration_size == "auto" else self.calibration_size
        rows = np.arange(n_cases)
        if clusters is None:
            fit, aside = train_test_split(rows, test_size=size, random_state=self.random_state)
            return fit, aside
        share = size / n_cases if isinstance(size, Integral) else size
        split = GroupShuffleSplit(n_splits=1, test_size=share, random_state=self.random_state)
        fit, aside = next(split.split(rows, groups=as_array(clusters, "clusters")))
        return fit, aside

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Certify a threshold on cases the model was neither fitted nor tuned on.

        Call it once: calibrating again and again, with more cases, until something is certified
        succeeds by luck sooner or later.

        Parameters
        ----------
        X, y : array-like
            Features and classes; a class the model does not know counts as an error.
        groups : array-like of shape (n_cases,), optional
            The site, device, ... of each case. A threshold is then certified for every group, and
            ``predict`` and ``decide`` need the groups of new cases; cases of other groups are
            delegated.
        clusters : array-like of shape (n_cases,), optional
            The patient, customer, ... of each case. Cases of one cluster need not be independent,
            and none of theirs may have been used to fit the model. Without clusters the promise
            holds only if all cases are independent.
        """
        if not hasattr(self, "estimator_"):
            check_is_fitted(self.estimator)
            self._set_model(self.estimator)
        check_same_order(X=X, y=y, groups=groups, clusters=clusters)
        if clusters is None:
            _warn_of_repeats(X)
        return self._certify(X, y, groups, clusters)

    def predict(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> AnyArray:
        """Return the class of each case, or ``delegate_label_`` if an expert should decide."""
        accepted, answers = self.decide(X, groups=groups)
        label = np.asarray(self.delegate_label_)
        return np.where(accepted, answers, label.astype(np.result_type(self.classes_, label)))

    def decide(self, X: ArrayLike, *, groups: ArrayLike | None = None) -> Decisions:
        """Return which cases are accepted, and the model's answer to all of them.

        ``groups`` are required if `calibrate` was given groups, and refused if it was not.
        """
        check_is_fitted(self, "estimator_")
        check_same_order(X=X, groups=groups)
        if not hasattr(self, "operating_point_"):
            raise NotFittedError(
                "This classifier is fitted but not calibrated. Hint: call calibrate(X, y) with "
                "cases the model was not fitted on, or use the default calibration_size."
            )
        answers = self._answers(X)
        return Decisions(self._accepts(answers.confidence, groups), answers.labels)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the model's probabilities, also for delegated cases."""
        check_is_fitted(self, "estimator_")
        probabilities: FloatArray = self.estimator_.predict_proba(X)
        return probabilities

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return the share of all cases that are decided automatically and right."""
        check_same_order(X=X, y=y, sample_weight=sample_weight, groups=groups)
        accepted, answers = self.decide(X, groups=groups)
        right = accepted & right_answers(answers, y)
        return float(np.average(right, weights=check_weight(sample_weight, len(right))))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "operating_point_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    def _check_options(self, y: ArrayLike) -> None:
        """Raise for what cannot work, before the model is trained, which may take long."""
        read_promise(self.target_accuracy, self.confidence_level, self.method)
        check_calibration_size(self.calibration_size)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind not in ("binary", "multiclass"):
            raise LabelError(message("y", "must hold one class for each case", kind))

    def _fit_model(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self._set_model(clone(self.estimator).fit(X, y, **weights))

    def _set_model(self, model: Any) -> Self:
        needed = ("classes_",) if self.confidence is not None else ("predict_proba", "classes_")
        for attribute in needed:
            check_classifier(model, attribute)
        self.delegate_label_ = check_delegate_label(self.delegate_label, model.classes_)
        self.estimator_, self.classes_ = model, model.classes_
        for attribute in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, attribute):
                setattr(self, attribute, getattr(model, attribute))
        return self

    def _certify(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, clusters: ArrayLike | None
    ) -> Self:
        answers = self._answers(X)
        right = right_answers(answers.labels, y)
        cases = Cases.from_correctness(right, answers.confidence, groups=groups, clusters=clusters)
        options: dict[str, Any] = {
            name: getattr(self, name) for name in ("target_accuracy", "confidence_level", "method")
        }
        make: Any = certify if groups is None else certify_groups
        certified: CertifiedPoint | CertifiedGroups = make(cases, **options)
        self.operating_point_ = certified.with_origin(self._origin(certified.origin))
        points = [certified] if isinstance(certified, CertifiedPoint) else [*certified.values()]
        accepted = sum(point.n_accepted for point in points)
        self.expert_load_ = 1 - accepted / len(cases)
        if not accepted:
            self._warn_that_all_is_delegated(points)
        return self

    def _origin(self, origin: Origin) -> Origin:
        """Record that the top probability ranks cases, so that a policy can do it too."""
        names = names_in_a_policy(self.classes_)
        if self.confidence is not None or names is None:
            return origin
        return replace(origin, ranked_by="top_probability", labels=names)

    def _answers(self, X: ArrayLike) -> Answers:
        if self.confidence is None:
            return answers_of(self.estimator_, X)
        labels = np.asarray(self.estimator_.predict(X))
        scores = as_floats(self.confidence(self.estimator_, X), "confidence")
        check_same_length(X=labels, confidence=scores)
        return Answers(labels, scores)

    def _accepts(self, confidence: FloatArray, groups: ArrayLike | None) -> BoolArray:
        point = self.operating_point_
        if isinstance(point, CertifiedGroups):
            if groups is None:
                raise ParameterError(
                    "This classifier was calibrated by group, so it needs the groups of new cases. "
                    "Got none. Hint: pass groups=..."
                )
            return point.accepts(confidence, groups=groups)
        if groups is not None:
            raise ParameterError(
                "This classifier has one threshold for all cases. Got groups. Hint: pass "
                "groups=... to calibrate, or to fit, as well."
            )
        return point.accepts(confidence)

    def _warn_that_all_is_delegated(self, points: list[CertifiedPoint]) -> None:
        where = "" if len(points) == 1 else f" The largest of {len(points)} groups:"
        largest = max(points, key=lambda point: point.n_cases)
        warnings.warn(
            f"{type(self).__name__} delegates every case.{where} {largest.guarantee}",
            DelegatingClassifierWarning,
            stacklevel=4,
        )


# ------------------------------------------------------------------ scorers


class Scorer(BaseEstimator):  # type: ignore[misc]
    """A number read from the COC curve of a fitted classifier, higher is better.

    Made by `load_at_accuracy_scorer` and its siblings. Weights are requested by scikit-learn's
    metadata routing: ``get_scorer("aucoc").set_score_request(sample_weight=True)``. As in
    scikit-learn, that changes the scorer; `get_scorer` returns a new one each time.
    """

    # The classifier comes by position; only ``sample_weight`` can be requested.
    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012

    def __init__(self, name: str = "aucoc", reading: float | None = None) -> None:
        self.name = name
        self.reading = reading

    def score(
        self, estimator: Any, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score a fitted classifier with ``predict_proba``; a scorer is called the same way."""
        cases = cases_of(estimator, X, y, sample_weight=sample_weight)
        if self.name == "aucoc":
            return cases.aucoc()
        if self.name.startswith("accuracy_at_load"):
            return cases.accuracy_at_load(self.reading)  # type: ignore[arg-type]
        load = cases.load_at_accuracy(self.reading)  # type: ignore[arg-type]
        return -load if load else 0.0  # avoids minus zero in tables of results

    __call__ = score

    def _accept_sample_weight(self) -> bool:
        """Accept weights; scikit-learn checks this without metadata routing."""
        return True

    def __repr__(self) -> str:
        return f"get_scorer({self.name!r})"


aucoc_scorer = Scorer("aucoc")


def load_at_accuracy_scorer(target_accuracy: float) -> Scorer:
    """Return a scorer of the expert load at a target accuracy, negative so that higher is better.

    Parameters
    ----------
    target_accuracy : float
        The accuracy that automatic decisions must reach, in [0, 1].

    Returns
    -------
    Scorer
        Minus the smallest load that reaches the target: 0 at best, and -1 if none does.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from expertload.sklearn import load_at_accuracy_scorer
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> load_at_accuracy_scorer(0.95)(model, [[0.0], [1.4], [3.0]], [0, 1, 1])
    -0.33...
    """
    target = check_fraction(target_accuracy, "target_accuracy")
    return Scorer(f"neg_load_at_accuracy_{target:.15g}", target)


def accuracy_at_load_scorer(expert_load: float) -> Scorer:
    """Return a scorer of the accuracy among the cases left when experts take a share.

    Parameters
    ----------
    expert_load : float
        The share of cases that experts take, in [0, 1].

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from expertload.sklearn import accuracy_at_load_scorer
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> accuracy_at_load_scorer(0.0)(model, [[0.0], [1.4], [3.0], [4.0]], [0, 1, 1, 1])
    0.75
    """
    load = check_fraction(expert_load, "expert_load")
    return Scorer(f"accuracy_at_load_{load:.15g}", load)


def get_scorer(scoring: Any) -> Any:
    """Return a scorer by its name, like scikit-learn's ``get_scorer``.

    Parameters
    ----------
    scoring : str or callable
        "aucoc", "neg_load_at_accuracy_0.95" or "accuracy_at_load_0.2", with any number in place
        of those; a callable is returned unchanged.

    Examples
    --------
    >>> from expertload.sklearn import get_scorer
    >>> get_scorer("neg_load_at_accuracy_0.95").reading
    0.95
    """
    if callable(scoring):
        return scoring
    if scoring == "aucoc":
        return Scorer("aucoc")
    makers = {
        "neg_load_at_accuracy": load_at_accuracy_scorer,
        "accuracy_at_load": accuracy_at_load_scorer,
    }
    parts = re.fullmatch(r"(\w+)_([0-9.]+(?:[eE][+-]?[0-9]+)?)", str(scoring))
    if parts and parts[1] in makers:
        return makers[parts[1]](float(parts[2]))
    names = ", ".join(get_scorer_names())
    hint = "pass scikit-learn's own names directly as scoring="
    raise ParameterError(message("scoring", f"must be one of {names}", repr(scoring), hint))


def get_scorer_names() -> list[str]:
    """Return the names that `get_scorer` accepts; SHARE means a number in [0, 1].

    Examples
    --------
    >>> from expertload.sklearn import get_scorer_names
    >>> get_scorer_names()
    ['accuracy_at_load_SHARE', 'aucoc', 'neg_load_at_accuracy_SHARE']
    """
    return ["accuracy_at_load_SHARE", "aucoc", "neg_load_at_accuracy_SHARE"]

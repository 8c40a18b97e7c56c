"""A scikit-learn classifier that knows when to ask: it answers where it is certified to be right.

The verbs come in an honest order. ``fit`` trains the model; ``calibrate`` certifies a threshold on
cases the model was not fitted on; ``predict`` answers the cases above it and delegates the rest.
Where only ``fit`` is called, as in a grid search, ``calibration_size`` sets cases aside for the
second step. Importing this module needs scikit-learn, the extra ``sklearn``.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from expertload._typing import AnyArray, ArrayLike, FloatArray
from expertload._validation import (
    check_calibrated,
    check_classifier,
    check_delegate_label,
    require_extra,
)
from expertload.operating_point import CertifiedPoint, Decisions, certify_from_correctness
from expertload.operating_point.certified import Method

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.model_selection import train_test_split
    from sklearn.utils import get_tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError:
    require_extra("sklearn", "sklearn", "DelegatingClassifier")
    raise

__all__ = ["DelegatingClassifier"]


class DelegatingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that delegates the cases it is not certified to decide.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier with ``predict_proba``. Fitted already, it may be calibrated
        without another ``fit``.
    target_accuracy : float, default=0.95
        The accuracy to certify among the cases it answers.
    confidence_level : float, default=0.95
        The probability, over draws of the calibration cases, that the promise is kept.
    method : {"fixed_sequence", "bonferroni", "sgr"}, default="fixed_sequence"
        As in `expertload.operating_point.certify`.
    delegate_label : "auto", int or str, default="auto"
        What ``predict`` returns for delegated cases; "auto" is -1 for classes that are numbers and
        ``"delegate"`` for classes that are strings. A label that is a class is refused.
    calibration_size : float or int, optional
        Cases that ``fit`` sets aside and calibrates on, a share or a number. By default none:
        call ``calibrate`` after ``fit``.
    random_state : int or RandomState, optional
        Which cases are set aside.

    Attributes
    ----------
    estimator_ : classifier
        The fitted model.
    classes_ : ndarray
        Its classes; ``predict`` may return ``delegate_label_`` as well.
    delegate_label_ : int or str
        What stands for delegated cases.
    operating_point_ : CertifiedPoint
        The certified threshold, with its guarantee, or the reason why there is none.
    expert_load_ : float
        The share of calibration cases delegated.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from expertload.delegating_classifier import DelegatingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0)
    >>> model = DelegatingClassifier(forest, target_accuracy=0.95)
    >>> model = model.fit(X[:250], y[:250]).calibrate(X[250:450], y[250:450])
    >>> print(f"delegates {(model.predict(X[450:]) == -1).mean():.2f}")
    delegates 0.08
    """

    def __init__(
        self,
        estimator: Any,
        *,
        target_accuracy: float = 0.95,
        confidence_level: float = 0.95,
        method: Method = "fixed_sequence",
        delegate_label: Any = "auto",
        calibration_size: float | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.target_accuracy = target_accuracy
        self.confidence_level = confidence_level
        self.method = method
        self.delegate_label = delegate_label
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model, and calibrate it if ``calibration_size`` sets cases aside.

        Parameters
        ----------
        X, y : array-like
            Features and classes.
        sample_weight : array-like of shape (n_cases,), optional
            Passed on to the model's ``fit``; the calibration counts cases.
        """
        check_classification_targets(y)
        self._forget()
        weights = [] if sample_weight is None else [sample_weight]
        if self.calibration_size is None:
            return self._fit_model(X, y, *weights)
        # Not stratified: the promise is for cases drawn as they come, rare classes included.
        parts = train_test_split(
            X, y, *weights, test_size=self.calibration_size, random_state=self.random_state
        )
        return self._fit_model(*parts[::2]).calibrate(*parts[1:4:2])

    def calibrate(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Certify a threshold on cases the model was neither fitted nor tuned on.

        Parameters
        ----------
        X, y : array-like
            Features and classes; a class the model does not know counts as an error.
        """
        if not hasattr(self, "estimator_"):
            check_is_fitted(self.estimator)
            self._adopt(self.estimator)
        answers, confidence = self._answers(X)
        self.operating_point_: CertifiedPoint = certify_from_correctness(
            answers == column_or_1d(y),
            confidence,
            target_accuracy=self.target_accuracy,
            confidence_level=self.confidence_level,
            method=self.method,
        )
        self.expert_load_ = self.operating_point_.expert_load
        return self

    def predict(self, X: ArrayLike) -> AnyArray:
        """Return the class of each case, or ``delegate_label_`` where experts should decide."""
        accepted, answers = self.decide(X)
        return np.where(accepted, answers, np.asarray(self.delegate_label_, dtype=self._dtype()))

    def decide(self, X: ArrayLike) -> Decisions:
        """Return which cases are accepted, and the model's answer to all of them."""
        check_is_fitted(self, "estimator_")
        check_calibrated(hasattr(self, "operating_point_"), type(self).__name__)
        answers, confidence = self._answers(X)
        return Decisions(self.operating_point_.accepts(confidence), answers)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the model's probabilities, for delegated cases too."""
        check_is_fitted(self, "estimator_")
        probabilities: FloatArray = self.estimator_.predict_proba(X)
        return probabilities

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of all cases that are decided automatically and right.

        Delegated cases earn nothing, so that, the accuracy being certified, the better model is
        the one that takes more cases off the experts. Delegating everything scores 0. For the
        accuracy among the accepted alone, use `decide`.
        """
        accepted, answers = self.decide(X)
        right = accepted & (answers == column_or_1d(y))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(right, weights=weights))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "operating_point_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    # -------------------------------------------------------------- what the verbs share

    def _fit_model(self, X: ArrayLike, y: ArrayLike, *sample_weight: ArrayLike) -> Self:
        weights = {"sample_weight": sample_weight[0]} if sample_weight else {}
        return self._adopt(clone(self.estimator).fit(X, y, **weights))

    def _adopt(self, model: Any) -> Self:
        for attribute in ("predict_proba", "classes_"):
            check_classifier(model, attribute, type(self).__name__)
        label = self.delegate_label
        self.delegate_label_ = check_delegate_label(label, model.classes_, type(self).__name__)
        self.estimator_, self.classes_ = model, model.classes_
        for attribute in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, attribute):
                setattr(self, attribute, getattr(model, attribute))
        return self

    def _forget(self) -> None:
        """Drop the threshold of an earlier model."""
        for attribute in ("operating_point_", "expert_load_", "feature_names_in_"):
            if hasattr(self, attribute):
                delattr(self, attribute)

    def _answers(self, X: ArrayLike) -> tuple[AnyArray, FloatArray]:
        proba = self.estimator_.predict_proba(X)
        column = proba.argmax(axis=1)
        return self.classes_[column], np.take_along_axis(proba, column[:, None], axis=1)[:, 0]

    def _dtype(self) -> Any:
        """A type that holds the classes and the label for delegated cases."""
        if self.classes_.dtype.kind == "O":
            return object
        return np.result_type(self.classes_.dtype, np.asarray(self.delegate_label_).dtype)

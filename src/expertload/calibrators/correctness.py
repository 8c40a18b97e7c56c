"""The chance that an answer is right, and the confidence scores of policies.

A softmax compares classes within a case. Whether a case should be decided automatically is another
question: some classes are right more often than others at the same log odds. This model answers it
with a logistic regression on two things, the log odds of the predicted class and which class that
is::

    P(right) = expit(slope * log_odds + intercept + offset[predicted class])

It changes the order of cases but not the predictions. A ridge penalty pulls the offsets towards
zero; its strength is chosen by cross-fitting. With a very strong penalty the order is that of the
top probability, so nothing changes if the classes do not differ. Targets are moved away from 0 and
1 as in Platt scaling, so that the fit exists for any set.

A `ConfidenceScore` ranks cases, only from their probabilities. A threshold is useless without the
confidence that it applies to. A score has a name and, if it is learned, a fitted model. Both can be
stored as JSON, so that a policy can keep its score. Log-probabilities are used as logits: the two
differ by a constant in each row, which does not change any of these scores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit

from expertload._check import check_count, check_option, check_probabilities
from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload.calibrators.base import (
    DOCUMENT,
    FittedOnLogits,
    check_fitted,
    learned,
    log_odds,
    log_probabilities,
)
from expertload.calibrators.scaling import TemperatureScaling, fit_logistic
from expertload.scores import (
    entropy_confidence,
    gini_confidence,
    margin_confidence,
    max_logit_norm_confidence,
)

# ------------------------------------------------------------------ correctness


# About how many cases of a class it takes to move its offset halfway. The first value is
# practically infinite and turns offsets off.
STRENGTHS = (1e9, 100.0, 30.0, 10.0, 3.0, 1.0)
# Larger log odds carry no more information; this limit keeps squares finite.
LARGEST_ODDS = 1e3


@dataclass(kw_only=True, eq=False, repr=False)
class CorrectnessModel(FittedOnLogits):
    """Predicts how often an answer is right, from its log odds and its class.

    Fit it on validation cases. Training cases would make it too optimistic, and a threshold must be
    certified on other cases than these.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.
    n_folds : int, default=5
        The number of folds for choosing the strength of the ridge.

    Attributes
    ----------
    slope_, intercept_ : float
        The coefficients of the log odds of the predicted class.
    offset_ : ndarray of shape (n_classes,)
        The offset of each predicted class.
    strength_ : float
        The chosen strength of the ridge on offsets.
    converged_ : bool
        Whether the fit converged.

    Examples
    --------
    Both classes are predicted with the same log odds; the second is right less often:

    >>> import numpy as np
    >>> from expertload.calibrators import CorrectnessModel
    >>> logits = np.array([[2.0, 0.0], [0.0, 2.0]] * 100)
    >>> y_true = np.array([0, 1] * 60 + [0, 0] * 40)
    >>> model = CorrectnessModel().fit(logits, y_true)
    >>> model.confidence([[2.0, 0.0], [0.0, 2.0]]).round(2)
    array([0.98, 0.62])
    """

    name = "correctness"
    _learned = learned(
        slope_="float",
        intercept_="float",
        offset_="array classes",
        strength_="float",
        converged_="bool",
    )

    input: str = "logits"
    n_folds: int = 5

    def confidence(self, inputs: ArrayLike) -> FloatArray:
        """Return the probability that each prediction is right, to rank cases.

        Parameters
        ----------
        inputs : array-like of shape (n_cases, n_classes)
            Cases in the form that `fit` was given.

        Returns
        -------
        ndarray of shape (n_cases,)
            Between 0 and 1; pass it as ``confidence=``.
        """
        odds, predicted = _prediction(self._check_new_inputs(inputs))
        return np.asarray(expit(self.slope_ * odds + self.intercept_ + self.offset_[predicted]))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the fitted model in a file that ``save`` wrote, or raise `FileFormatError`.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        CorrectnessModel
            Equal, to the last bit, to the one that was saved.
        """
        return cls.from_dict(DOCUMENT.read(path))

    def _check_options(self) -> None:
        super()._check_options()
        check_count(self.n_folds, "n_folds", minimum=2)

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        odds, predicted = _prediction(inputs)
        seen = Seen(odds, predicted == target, weight, predicted)
        self.strength_ = _choose_strength(seen, self.n_folds, self.n_classes_)
        x, self.converged_, _ = fit_logistic(*seen, n_groups=self.n_classes_, ridge=self.strength_)
        self.slope_, self.intercept_ = float(x[0]), float(x[1])
        self.offset_ = x[2:].copy()


class Seen(NamedTuple):
    """What `fit_logistic` takes: log odds, correctness, weight and class of each prediction."""

    odds: FloatArray
    right: Any
    weight: FloatArray
    predicted: IntArray

    def take(self, rows: Any) -> Seen:
        """Return some of the cases."""
        return Seen(*(part[rows] for part in self))


def _prediction(logits: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the log odds of the predicted class, and its number."""
    predicted = logits.argmax(axis=1)
    odds = log_odds(logits)[np.arange(len(logits)), predicted]
    return np.clip(odds, -LARGEST_ODDS, LARGEST_ODDS), predicted


def _folds(n_cases: int, n_folds: int) -> list[Any]:
    """Return a mask for each fold; the same for the same number of cases."""
    fold = np.random.default_rng(0).permutation(np.arange(n_cases) % n_folds)
    return [fold == k for k in range(n_folds) if (fold == k).any() and (fold != k).any()]


def _choose_strength(seen: Seen, n_folds: int, n_classes: int) -> float:
    """Return the strength with the lowest log loss on left-out cases; the stronger one if equal."""
    folds = _folds(len(seen.odds), n_folds)
    losses = [
        sum(_log_loss(seen, held, strength, n_classes) for held in folds) for strength in STRENGTHS
    ]
    return STRENGTHS[int(np.argmin(losses))]


def _log_loss(seen: Seen, held: Any, strength: float, n_classes: int) -> float:
    """Return the log loss of the cases held out, under the fit to the others."""
    x = fit_logistic(*seen.take(~held), n_groups=n_classes, ridge=strength).x
    odds, right, weight, predicted = seen.take(held)
    score = x[0] * odds + x[1] + x[2:][predicted]
    return float(weight @ np.logaddexp(0, np.where(right, -score, score)))


# ------------------------------------------------------------------ confidence score


PLAIN = "max_probability"
FROM_LOGITS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "margin": margin_confidence,
    "entropy": entropy_confidence,
    "gini": gini_confidence,
    "max_logit_norm": max_logit_norm_confidence,
}
LEARNED: Mapping[str, type[TemperatureScaling] | type[CorrectnessModel]] = {
    "temperature": TemperatureScaling,
    "correctness": CorrectnessModel,
}
CONFIDENCE_SCORES = (PLAIN, *FROM_LOGITS, *LEARNED)


@dataclass(repr=False)
class ConfidenceScore:
    """A confidence by name, fitted if it has parameters.

    Parameters
    ----------
    name : str
        One of ``CONFIDENCE_SCORES``: ``max_probability``; ``margin``, ``entropy``, ``gini`` and
        ``max_logit_norm``, as in `expertload.scores`; or, learned, ``temperature`` (the largest
        probability after `TemperatureScaling`) and ``correctness`` (`CorrectnessModel`).

    Attributes
    ----------
    model_ : TemperatureScaling, CorrectnessModel or None
        The fitted model; None if the score has no parameters.

    Examples
    --------
    >>> from expertload.calibrators import ConfidenceScore
    >>> ConfidenceScore("margin").confidence([[0.5, 0.3, 0.2], [0.5, 0.5, 0.0]]).round(3)
    array([0.2, 0. ])
    """

    name: str = PLAIN
    model_: TemperatureScaling | CorrectnessModel | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_option(self.name, CONFIDENCE_SCORES, "name")

    @property
    def is_learned(self) -> bool:
        """Whether the score has parameters to learn."""
        return self.name in LEARNED

    def fit(
        self, y_proba: ArrayLike, y_true: ArrayLike, *, labels: ArrayLike | None = None
    ) -> Self:
        """Fit the score, on cases that will not be used to certify anything.

        Parameters
        ----------
        y_proba : array-like of shape (n_cases, n_classes) or (n_cases,)
            Probabilities.
        y_true : array-like of shape (n_cases,)
            The true label of each case.
        labels : array-like of shape (n_classes,), optional
            Names of the columns in order; needed if labels are not column numbers.
        """
        if self.is_learned:
            check_probabilities(y_proba, "y_proba")
            kind = LEARNED[self.name]
            self.model_ = kind(input="probabilities").fit(y_proba, y_true, labels=labels)
        return self

    def confidence(self, y_proba: ArrayLike) -> FloatArray:
        """Return the confidence of each case.

        Parameters
        ----------
        y_proba : array-like of shape (n_cases, n_classes) or (n_cases,)
            Probabilities.

        Returns
        -------
        ndarray of shape (n_cases,)
            Higher means keep automatic.
        """
        check_fitted(self.model_ is not None or not self.is_learned)
        if self.model_ is not None:
            y_proba = self.model_.in_order(y_proba)
        checked = check_probabilities(y_proba, "y_proba")
        # One memory layout, so that sums do not depend on it.
        proba: FloatArray = np.ascontiguousarray(checked, dtype=np.float64)
        if isinstance(self.model_, CorrectnessModel):
            return self.model_.confidence(proba)
        if self.model_ is not None:
            proba = self.model_.transform(proba)
        elif self.name in FROM_LOGITS:
            return FROM_LOGITS[self.name](log_probabilities(proba))
        return np.asarray(proba.max(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain lists and numbers."""
        check_fitted(self.model_ is not None or not self.is_learned)
        return {"name": self.name, "model": None if self.model_ is None else self.model_.to_dict()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the score that `to_dict` described, or raise `FileFormatError`."""
        name, model = document.get("name"), document.get("model")
        if set(document) != {"name", "model"} or name not in CONFIDENCE_SCORES:
            DOCUMENT.refuse(
                f"its score must be one of {', '.join(CONFIDENCE_SCORES)}, not {name!r}"
            )
        score = cls(str(name))
        if score.is_learned != isinstance(model, Mapping):
            DOCUMENT.refuse(f"its score {name!r} must have a model if, and only if, it learns one")
        if isinstance(model, Mapping):
            score.model_ = LEARNED[score.name].from_dict(model)
        return score

    def __repr__(self) -> str:
        return f"ConfidenceScore({self.name!r})"

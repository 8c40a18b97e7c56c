"""Named scores that rank cases, computed only from their probabilities.

A threshold is useless without the confidence that it applies to. A score has a name and, if it is
learned, a fitted model. Both can be stored as JSON, so that a policy can keep its score.
Log-probabilities are used as logits: the two differ by a constant in each row, which does not
change any of these scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_fitted, check_option, check_probabilities
from expertload.calibrators.base import DOCUMENT
from expertload.calibrators.correctness import CorrectnessModel
from expertload.calibrators.logits import log_probabilities
from expertload.calibrators.temperature import TemperatureScaling
from expertload.scores import (
    entropy_confidence,
    gini_confidence,
    margin_confidence,
    max_logit_norm_confidence,
)

__all__ = ["CONFIDENCE_SCORES", "ConfidenceScore"]

PLAIN = "max_probability"
FROM_LOGITS: Mapping[str, Callable[[FloatArray], FloatArray]] = MappingProxyType(
    {
        "margin": margin_confidence,
        "entropy": entropy_confidence,
        "gini": gini_confidence,
        "max_logit_norm": max_logit_norm_confidence,
    }
)
LEARNED: Mapping[str, type[TemperatureScaling] | type[CorrectnessModel]] = MappingProxyType(
    {"temperature": TemperatureScaling, "correctness": CorrectnessModel}
)
CONFIDENCE_SCORES = (PLAIN, *FROM_LOGITS, *LEARNED)


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

    def __init__(self, name: str = PLAIN) -> None:
        self.name = check_option(name, CONFIDENCE_SCORES, "name")
        self.model_: TemperatureScaling | CorrectnessModel | None = None

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

        Returns
        -------
        Self
            The same object.
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
        top: FloatArray = proba.max(axis=1)
        return top

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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfidenceScore):
            return NotImplemented
        return (self.name, self.model_) == (other.name, other.model_)

    __hash__ = None  # type: ignore[assignment]  # fit changes the object in place

    def __repr__(self) -> str:
        return f"ConfidenceScore({self.name!r})"

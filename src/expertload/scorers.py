"""Scorers for scikit-learn: select models by the load they leave to experts.

A scorer is called with a fitted classifier, cases and their labels; higher is better. Use it
wherever scikit-learn takes ``scoring=``::

    cross_val_score(model, X, y, scoring=aucoc_scorer)
    GridSearchCV(model, grid, scoring=load_at_accuracy_scorer(0.95))
    cross_validate(model, X, y, scoring={"area": aucoc_scorer, "acc": "accuracy"})

Labels are compared with the classifier's ``classes_``, never with column numbers. So a fold that
lacks a class is scored correctly, and cases of a class that the classifier never saw count as
errors. Importing this module does not import scikit-learn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from expertload._answers import judge
from expertload._typing import ArrayLike
from expertload._validation import check_fraction, message, require_extra
from expertload.cases import Cases
from expertload.exceptions import ParameterError

__all__ = [
    "Scorer",
    "accuracy_at_load_scorer",
    "aucoc_scorer",
    "get_scorer",
    "get_scorer_names",
    "load_at_accuracy_scorer",
]


@dataclass(frozen=True)
class Scorer:
    """A number read from the COC curve of a fitted classifier, higher is better.

    Made by `load_at_accuracy_scorer` and its siblings. It never changes, so it can be shared,
    pickled, cloned and sent to other processes.

    Attributes
    ----------
    name : str
        The name for `get_scorer`; it begins with ``neg_`` if a smaller number is better.
    reading : float or None
        The accuracy or the load at which the curve is read.
    requests : tuple of pairs
        The requests of `set_score_request`.
    """

    name: str
    reading: float | None = None
    requests: tuple[tuple[str, bool | str | None], ...] = (("sample_weight", None),)

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score a fitted classifier.

        Parameters
        ----------
        estimator : object
            Anything fitted with ``predict_proba`` and ``classes_``.
        X : array-like
            What the estimator predicts from.
        y : array-like of shape (n_cases,)
            True labels; those the estimator does not know count as its errors.
        sample_weight : array-like of shape (n_cases,), optional
            How much each case counts.

        Returns
        -------
        float
            The score.
        """
        right, confidence = judge(estimator, X, y, sample_weight=sample_weight)
        return MEASURES[_family(self.name)](right, confidence, sample_weight, self.reading)

    def set_score_request(self, **requests: bool | str | None) -> Scorer:
        """Return a scorer that requests ``sample_weight`` by scikit-learn's metadata routing.

        Parameters
        ----------
        **requests
            ``sample_weight=True``, False, None or the name it is passed by, as in scikit-learn.

        Returns
        -------
        Scorer
            A new scorer; this one is not changed, because it may be in use elsewhere.
        """
        unknown = sorted(set(requests) - {"sample_weight"})
        if unknown:
            raise ParameterError(
                f"A scorer can request only sample_weight. Got {', '.join(unknown)}."
            )
        return replace(self, requests=tuple(requests.items()))

    def get_metadata_routing(self) -> Any:
        """Return the requests in the form of scikit-learn's metadata routing."""
        routing = require_extra("sklearn.utils.metadata_routing", "sklearn", "Metadata routing")
        request = routing.MetadataRequest(owner=self)
        for name, alias in self.requests:
            request.score.add_request(param=name, alias=alias)
        return request

    def _accept_sample_weight(self) -> bool:
        """Accept weights; scikit-learn checks this without metadata routing."""
        return True

    def _routing_repr(self) -> str:
        return repr(self)

    def __sklearn_clone__(self) -> Scorer:
        return self

    def __repr__(self) -> str:
        return f"get_scorer({self.name!r})"


# ------------------------------------------------------------------ what is read


def _area(right: Any, confidence: Any, weight: Any, reading: Any) -> float:
    return Cases.from_correctness(right, confidence, sample_weight=weight).aucoc()


def _negative_load(right: Any, confidence: Any, weight: Any, reading: Any) -> float:
    cases = Cases.from_correctness(right, confidence, sample_weight=weight)
    load = cases.load_at_accuracy(reading)
    return -load if load else 0.0  # avoids minus zero in tables of results


def _accuracy(right: Any, confidence: Any, weight: Any, reading: Any) -> float:
    cases = Cases.from_correctness(right, confidence, sample_weight=weight)
    return cases.accuracy_at_load(reading)


MEASURES: dict[str, Callable[[Any, Any, Any, Any], float]] = {
    "accuracy_at_load": _accuracy,
    "aucoc": _area,
    "neg_load_at_accuracy": _negative_load,
}

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
        It returns minus the smallest load that reaches the target: 0 at best, and -1 if the target
        is not reached and everything is delegated.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from expertload.scorers import load_at_accuracy_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(C=0.01, max_iter=1000)
    >>> cross_val_score(model, X, y, scoring=load_at_accuracy_scorer(0.95)).round(2)
    array([-0.33, -0.23, -0.47, -0.33, -0.07])
    """
    target = check_fraction(target_accuracy, "target_accuracy")
    return Scorer(f"neg_load_at_accuracy_{target:.15g}", target)


def accuracy_at_load_scorer(expert_load: float) -> Scorer:
    """Return a scorer of the accuracy among the cases left when experts take a share.

    Parameters
    ----------
    expert_load : float
        The share of cases that experts take, in [0, 1].

    Returns
    -------
    Scorer
        It returns the accuracy among the others.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from expertload.scorers import accuracy_at_load_scorer
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(C=0.01, max_iter=1000).fit(X[::2], y[::2])
    >>> print(f"{accuracy_at_load_scorer(0.2)(model, X[1::2], y[1::2]):.3f}")
    0.850
    """
    load = check_fraction(expert_load, "expert_load")
    return Scorer(f"accuracy_at_load_{load:.15g}", load)


# ------------------------------------------------------------------ by name


def get_scorer(scoring: Any) -> Any:
    """Return a scorer by its name, like scikit-learn's ``get_scorer``.

    Parameters
    ----------
    scoring : str or callable
        "aucoc", "neg_load_at_accuracy_0.95" or "accuracy_at_load_0.2", with any number in place
        of those; a callable is returned unchanged.

    Returns
    -------
    Scorer
        A scorer for ``scoring=``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from expertload.scorers import get_scorer
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> get_scorer("neg_load_at_accuracy_0.95")(model, [[0.0], [1.4], [3.0]], [0, 1, 1])
    -0.33...
    """
    if callable(scoring):
        return scoring
    if scoring == aucoc_scorer.name:
        return aucoc_scorer
    family, reading = _family(scoring), _reading(scoring)
    if family == "neg_load_at_accuracy" and reading is not None:
        return load_at_accuracy_scorer(reading)
    if family == "accuracy_at_load" and reading is not None:
        return accuracy_at_load_scorer(reading)
    names = ", ".join(get_scorer_names())
    hint = "pass scikit-learn's own names directly as scoring="
    raise ParameterError(message("scoring", f"must be one of {names}", repr(scoring), hint))


def get_scorer_names() -> list[str]:
    """Return the names that `get_scorer` accepts; SHARE means a number in [0, 1].

    Examples
    --------
    >>> from expertload.scorers import get_scorer_names
    >>> get_scorer_names()
    ['accuracy_at_load_SHARE', 'aucoc', 'neg_load_at_accuracy_SHARE']
    """
    return [name if name == aucoc_scorer.name else f"{name}_SHARE" for name in sorted(MEASURES)]


def _family(name: Any) -> str:
    return re.sub(r"_[0-9.eE+-]+$", "", str(name))


def _reading(name: Any) -> float | None:
    try:
        return float(str(name).rpartition("_")[2])
    except ValueError:
        return None

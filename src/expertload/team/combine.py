"""Two opinions in one: an expert's answer combined with the model's probabilities.

Given the true class, expert and model are taken to err independently. Then

    P(class | model, answer)  is proportional to  p(class) * C[class, answer]

with p the model's probabilities after temperature scaling and C the experts' confusion matrix
(Kerrigan, Smyth and Steyvers 2021). Independence does not hold exactly: hard cases are hard for
both. On real answers the combination gains all the same, and weights learned for either side, or a
confusion matrix by confidence, gain no more (`docs/team.md`).

The confusion matrix is smoothed by as many imagined answers to each class as there are classes,
which are right as often as the experts are overall and spread evenly otherwise. So some hundred
cases are enough.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np

from expertload._check import check_probabilities, check_same_order, insufficient
from expertload._files import write_atomically
from expertload._label_arrays import arrange_probabilities, match_answers
from expertload._labels import ClassName
from expertload._store import DocumentKind, Learned, plain
from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload.calibrators import TemperatureScaling
from expertload.calibrators.base import check_columns, check_fitted, softmax
from expertload.cases import Cases
from expertload.exceptions import ParameterError

DOCUMENT = DocumentKind("expertload combiner", 1, hint="save the combiner again")
# Fewer answers than this do not tell how experts err.
FEWEST_ANSWERS = 20
N_FOLDS = 5


class Combiner:
    """Combines an expert's answer with the model's probabilities.

    Attributes
    ----------
    temperature_ : float
        The temperature of the model's probabilities.
    confusion_ : ndarray of shape (n_classes, n_classes)
        The probability of each answer of an expert (columns), given the true class (rows).
    labels_ : tuple
        The names of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.team import Combiner
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=500)
    >>> y_true = rng.random(500) < y_proba
    >>> answers = y_true ^ (rng.random(500) < 0.1)
    >>> cases = Cases.from_predictions(y_true, y_proba, expert_answers=answers)
    >>> combiner = Combiner().fit(cases)
    >>> combiner.transform([0.7, 0.02], [0, 1]).round(2).tolist()
    [[0.74, 0.26], [0.83, 0.17]]
    """

    _learned: ClassVar = {
        "temperature_": Learned("float"),
        "confusion_": Learned("array", ("classes", "classes")),
    }
    temperature_: float
    confusion_: FloatArray
    labels_: tuple[ClassName, ...]

    def fit(self, cases: Cases) -> Self:
        """Learn the temperature from all cases, and the confusions from those that were read.

        Parameters
        ----------
        cases : Cases
            Cases with `expert_answers`, on which the model was not trained.
        """
        target, proba, weight = cases.predictions
        answers = experts_of(cases)
        n_read = int(np.count_nonzero(answers >= 0))
        if n_read < FEWEST_ANSWERS:
            wanted = f"answers of experts to at least {FEWEST_ANSWERS} cases"
            raise insufficient(wanted, str(n_read), "read more cases")
        scaling = TemperatureScaling(input="probabilities")
        columns = range(proba.shape[1])
        scaling.fit(proba, target, sample_weight=weight, labels=columns)
        self.temperature_ = scaling.temperature_
        self.confusion_ = confusion_matrix(target, answers, _counts(cases), proba.shape[1])
        self.labels_ = cases.labels or tuple(range(proba.shape[1]))
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called, or a fitted combiner loaded."""
        return hasattr(self, "confusion_")

    def transform(self, y_proba: ArrayLike, expert_answers: ArrayLike) -> FloatArray:
        """Return the probability of each class, given the model's and the expert's answers.

        Parameters
        ----------
        y_proba : array-like of shape (n_cases, n_classes) or (n_cases,)
            The model's probabilities; columns with names may be in another order.
        expert_answers : array-like of shape (n_cases,)
            One class for each case; where it is missing, the model's calibrated probabilities
            stay.

        Returns
        -------
        ndarray of shape (n_cases, n_classes)
            Rows that sum to one.
        """
        check_fitted(self.is_fitted)
        check_same_order(y_proba=y_proba, expert_answers=expert_answers)
        proba = check_probabilities(arrange_probabilities(y_proba, self.labels_), "y_proba")
        check_columns(proba, len(self.labels_), "y_proba")
        return self._combine(proba, match_answers(expert_answers, self.labels_, len(proba)))

    def _combine(self, proba: FloatArray, answers: IntArray) -> FloatArray:
        tiny = np.finfo(np.float64).tiny
        logs = np.log(np.maximum(proba.astype(np.float64), tiny)) / self.temperature_
        logs += np.where((answers >= 0)[:, None], np.log(self.confusion_.T[answers]), 0.0)
        return softmax(logs)

    # ------------------------------------------------------------------ saving

    def to_dict(self) -> dict[str, Any]:
        """Return a fitted combiner as plain lists and numbers, with the digest of its content."""
        check_fitted(self.is_fitted)
        state = {name: plain(getattr(self, name)) for name in self._learned}
        return DOCUMENT.complete({"labels": list(self.labels_), "state": state})

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Return the combiner that `to_dict` described, or raise FileFormatError."""
        DOCUMENT.check(document)
        labels = DOCUMENT.items(document.get("labels"), "labels")
        state = DOCUMENT.section(document.get("state"), "state")
        combiner = cls()
        for name, value in DOCUMENT.learned(state, cls._learned, len(labels)).items():
            setattr(combiner, name, value)
        combiner.labels_ = tuple(labels)
        return combiner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted combiner as JSON; an older file is replaced completely or not at all.

        Parameters
        ----------
        path : path-like
            The file to write; its folder must exist.
        """
        write_atomically(path, DOCUMENT.write(self.to_dict()))


def load_combiner(path: str | os.PathLike[str]) -> Combiner:
    """Return the fitted combiner in a file that `Combiner.save` wrote.

    Parameters
    ----------
    path : path-like
        The file. One that is damaged, changed or of another kind raises `FileFormatError`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from expertload import Cases
    >>> from expertload.team import Combiner, load_combiner
    >>> y_true, y_proba = [0, 1, 1, 0, 1] * 5, [0.1, 0.8, 0.4, 0.3, 0.9] * 5
    >>> answers = [0, 1, 1, 1, 1] * 5
    >>> cases = Cases.from_predictions(y_true, y_proba, expert_answers=answers)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "combiner.json"
    ...     Combiner().fit(cases).save(path)
    ...     combiner = load_combiner(path)
    >>> combiner.confusion_.round(2).tolist()
    [[0.55, 0.45], [0.03, 0.97]]
    """
    return Combiner.from_dict(DOCUMENT.read(path))


def experts_of(cases: Cases) -> IntArray:
    """Return the experts' answers; an error if there are none."""
    if cases.expert_answers is None:
        raise ParameterError(
            "This needs what experts answered. Got cases without it. Hint: pass "
            "expert_answers=... to Cases.from_predictions; for experts of a known, constant "
            "accuracy there is OperatingPoint.team_accuracy."
        )
    return cases.expert_answers


def confusion_matrix(
    truth: IntArray, answers: IntArray, counts: FloatArray, n_classes: int
) -> FloatArray:
    """Return the smoothed probability of each answer (column) given the true class (row)."""
    read = answers >= 0
    seen = np.zeros((n_classes, n_classes))
    np.add.at(seen, (truth[read], answers[read]), counts[read])
    right = (np.trace(seen) + 1) / (seen.sum() + 2)
    imagined = np.full((n_classes, n_classes), (1 - right) / (n_classes - 1))
    np.fill_diagonal(imagined, right)
    counted = seen + n_classes * imagined
    return np.asarray(counted / counted.sum(axis=1, keepdims=True))


def _counts(cases: Cases) -> FloatArray:
    """Return how much each case counts that was read: 1 on average."""
    counts = np.ones(len(cases)) if cases.weight is None else cases.weight
    if cases.inclusion_probability is not None:
        counts = counts / cases.inclusion_probability
    return np.asarray(counts / counts[experts_of(cases) >= 0].mean())


def combined_answers(combiner: Combiner, cases: Cases) -> IntArray:
    """Return the answer of model and expert together; of equals, the first class wins.

    A combiner that is not fitted is fitted in folds of whole clusters, so that no case has a part
    in its own answer.
    """
    proba, answers = cases.predictions.proba, experts_of(cases)
    if combiner.is_fitted:
        if combiner.labels_ != (cases.labels or tuple(range(proba.shape[1]))):
            raise ParameterError("'combine' was fitted to other classes, or in another order.")
        return np.asarray(combiner._combine(proba, answers).argmax(axis=1), np.int64)
    fold = np.random.default_rng(0).integers(N_FOLDS, size=int(cases.unit.max()) + 1)[cases.unit]
    joint = np.full(len(cases), -1)
    for number in range(N_FOLDS):
        own = fold == number
        if own.any():
            fitted = type(combiner)().fit(cases.take(~own))
            joint[own] = fitted._combine(proba[own], answers[own]).argmax(axis=1)
    return joint

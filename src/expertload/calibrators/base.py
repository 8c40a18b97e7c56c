"""The base of all calibrators, and arithmetic on rows of logits.

The constructor of a calibrator only stores options. ``fit`` learns attributes whose names end in an
underscore; ``transform`` returns one row of probabilities per case. A method implements `_fit` and
`_transform` on validated arrays and declares its learned attributes in the table `_learned`.
`FittedOnLogits` has everything except the probabilities.

Arithmetic on rows of logits cannot overflow. Only differences within a row matter to a softmax, so
every function here first subtracts the row's maximum. A difference too large for a float is held at
``-WIDEST_GAP``, whose exponential is zero like that of anything below -746.
"""

from __future__ import annotations

import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from expertload._check import (
    as_floats,
    check_option,
    check_probabilities,
    check_same_length,
    check_same_order,
    message,
    warn_if_probabilities,
)
from expertload._files import write_atomically
from expertload._label_arrays import arrange_columns, check_labels, frame_columns
from expertload._labels import as_probability
from expertload._store import DocumentKind, Learned, plain
from expertload._typing import AnyArray, ArrayLike, FloatArray, IntArray
from expertload.exceptions import InvalidInputError, NotFittedError, ShapeError
from expertload.tally import check_weight

# ------------------------------------------------------------------ base


DOCUMENT = DocumentKind(
    "expertload calibrator",
    1,
    hint="save the calibrator again; the file was changed or damaged",
    has_digest=False,  # it may be part of another document, which has one
)


class CalibrationWarning(UserWarning):
    """The calibration set does not determine the fit; the message says what was done instead."""


def learned(**forms: str) -> Mapping[str, Learned]:
    """Return the forms of learned attributes: a kind, and the names of an array's dimensions."""
    kinds = {name: form.split() for name, form in forms.items()}
    return {name: Learned(kind, tuple(shape)) for name, (kind, *shape) in kinds.items()}  # type: ignore[arg-type]


class FittedOnLogits(ABC):
    """The base of models that are fitted on logits or probabilities, and saved as JSON."""

    name: ClassVar[str]
    _learned: ClassVar[Mapping[str, Learned]]

    input: str = "logits"
    n_classes_: int
    column_names_: list[str] | None = None  # those of a frame; None if columns have no names

    # ----------------------------------------------------------------------- what a method writes

    @abstractmethod
    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        """Learn from float64 logits, column numbers and positive weights."""

    def _check_options(self) -> None:
        """Raise ParameterError for an option outside its range."""
        check_option(self.input, ("logits", "probabilities"), "input")

    def _problem(self) -> str | None:
        """Return what is wrong with restored attributes, besides shapes; None if nothing is."""
        return None

    # ----------------------------------------------------------------------- what a user calls

    def fit(
        self,
        inputs: ArrayLike,
        y_true: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
    ) -> Self:
        """Learn from cases that the model was not trained on.

        Parameters
        ----------
        inputs : array-like of shape (n_cases, n_classes)
            One row per case and one column per class: logits or probabilities, depending on the
            option `input`. A single column belongs to the second of two classes: its log-odds, or
            its probability.
        y_true : array-like of shape (n_cases,)
            The true label of each case.
        sample_weight : array-like of shape (n_cases,), optional
            Weights, zero or more; cases of weight zero count as absent.
        labels : array-like of shape (n_classes,), optional
            Names of the columns in order; needed if labels are not column numbers.
        """
        check_same_order(inputs=inputs, y_true=y_true, sample_weight=sample_weight)
        array, target, n_classes = self._read(inputs, y_true, labels)
        weight = check_weight(sample_weight, len(target))
        if weight is None:
            weight = np.ones(len(target))
        elif not weight.all():
            kept = weight > 0
            array, target, weight = array[kept], target[kept], weight[kept]
        self.n_classes_, self.column_names_ = n_classes, frame_columns(inputs)
        self._fit(array, target, weight)
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called, or a fitted calibrator loaded."""
        return all(hasattr(self, name) for name in ("n_classes_", *self._learned))

    @classmethod
    def _option_names(cls) -> list[str]:
        return [field.name for field in fields(cls)]  # type: ignore[arg-type]  # each is a dataclass

    @property
    def options(self) -> dict[str, Any]:
        """The constructor's options and their values."""
        return {name: getattr(self, name) for name in self._option_names()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return `options`, under the name that scikit-learn's ``clone`` uses."""
        return self.options

    def set_params(self, **options: Any) -> Self:
        """Set options by name, as scikit-learn's estimators do.

        Parameters
        ----------
        **options
            Options of the constructor.

        Returns
        -------
        Self
            This calibrator; fit it again for the options to take effect.
        """
        for name, value in options.items():
            check_option(name, tuple(self.options), "options")
            setattr(self, name, value)
        return self

    # ----------------------------------------------------------------------- saving and loading

    def to_dict(self) -> dict[str, Any]:
        """Return a fitted calibrator as plain lists and numbers."""
        from expertload import __version__  # avoids a cycle

        check_fitted(self.is_fitted)
        content = {
            "library_version": __version__,
            "method": self.name,
            "options": self._plain_options(),
            "n_classes": self.n_classes_,
            "state": {name: plain(getattr(self, name)) for name in self._learned},
        }
        if self.column_names_ is not None:
            content["column_names"] = self.column_names_
        return DOCUMENT.complete(content)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the calibrator that `to_dict` described, or raise FileFormatError."""
        DOCUMENT.check(document)
        if document.get("method") != cls.name:
            DOCUMENT.refuse(f"its 'method' must be {cls.name!r}, not {document.get('method')!r}")
        calibrator = cls._from_options(DOCUMENT.section(document.get("options"), "options"))
        n_classes = document.get("n_classes")
        if not isinstance(n_classes, int) or isinstance(n_classes, bool) or n_classes < 2:
            DOCUMENT.refuse(f"its 'n_classes' must be 2 or more, not {n_classes!r}")
        calibrator.n_classes_ = n_classes
        state = DOCUMENT.section(document.get("state"), "state")
        for name, value in DOCUMENT.learned(state, cls._learned, n_classes).items():
            setattr(calibrator, name, value)
        names, n_columns = document.get("column_names"), calibrator._n_columns()
        calibrator.column_names_ = None if names is None else _read_names(names, n_columns)
        problem = calibrator._problem()
        if problem is not None:
            DOCUMENT.refuse(problem)
        return calibrator

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator as JSON; an older file is replaced completely or not at all.

        Parameters
        ----------
        path : path-like
            The file to write; its folder must exist.
        """
        write_atomically(path, json.dumps(self.to_dict(), allow_nan=False) + "\n")

    # ----------------------------------------------------------------------- inside

    def _read(
        self, inputs: ArrayLike, y_true: ArrayLike, labels: ArrayLike | None
    ) -> tuple[FloatArray, IntArray, int]:
        """Return checked inputs, the number of each case's class, and the number of classes."""
        self._check_options()
        array = self._check_inputs(inputs)
        n_classes = self._count_classes(array, y_true, labels)
        target, _ = check_labels(y_true, self._class_columns(inputs), n_classes, labels)
        check_same_length(inputs=array, y_true=target)
        return array, target, n_classes

    def _check_inputs(self, inputs: ArrayLike) -> FloatArray:
        if self.input == "probabilities":
            return log_probabilities(check_probabilities(inputs, "inputs"))
        logits = as_floats(inputs, "inputs", ndim=(1, 2)).astype(np.float64, copy=False)
        if logits.ndim == 1 or logits.shape[1] == 1:  # the log-odds of the second class
            positive = logits.reshape(-1)
            logits = np.column_stack([np.zeros_like(positive), positive])
        hint = f'{type(self).__name__}(input="probabilities") takes them'
        warn_if_probabilities(logits, hint, stacklevel=5)
        return logits

    def _class_columns(self, inputs: ArrayLike) -> list[str] | None:
        """Return the classes that the columns of a frame are named after; None without names."""
        names = frame_columns(inputs)
        if names is None or self.input != "logits":
            return names
        return [as_probability(name) for name in names]

    def _count_classes(
        self, inputs: FloatArray, y_true: ArrayLike, labels: ArrayLike | None
    ) -> int:
        return int(inputs.shape[1])

    def _n_columns(self) -> int:
        return self.n_classes_

    def _plain_options(self) -> dict[str, Any]:
        return {name: plain(value) for name, value in self.options.items()}

    @classmethod
    def _from_options(cls, options: Mapping[str, Any]) -> Self:
        known = set(cls._option_names())
        if set(options) != known:
            odd = ", ".join(sorted(known ^ set(options)))
            DOCUMENT.refuse(f"its 'options' has missing or unknown entries: {odd}")
        calibrator = cls(**options)
        try:
            calibrator._check_options()
        except InvalidInputError as error:
            DOCUMENT.refuse(str(error).rstrip("."))
        return calibrator

    def _warn(self, message: str) -> None:
        warnings.warn(f"{type(self).__name__}: {message}", CalibrationWarning, stacklevel=4)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, FittedOnLogits):
            return NotImplemented
        if self._plain_options() != other._plain_options() or self.is_fitted != other.is_fitted:
            return False
        return not self.is_fitted or self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # fit changes the object in place

    def in_order(self, inputs: ArrayLike) -> Any:
        """Return inputs with the columns of a frame in the order of `fit`; refuse other columns."""
        return arrange_columns(inputs, self.column_names_)

    def _check_new_inputs(self, inputs: ArrayLike) -> FloatArray:
        """Return the logits of new cases, in the same form as in `fit`."""
        check_fitted(self.is_fitted)
        array = self._check_inputs(self.in_order(inputs))
        check_columns(array, self._n_columns(), "inputs")
        return array


class Calibrator(FittedOnLogits):
    """The interface of all calibrators."""

    @abstractmethod
    def _transform(self, inputs: FloatArray) -> FloatArray:
        """Return probabilities for float64 logits with the same columns as in `fit`."""

    def transform(self, inputs: ArrayLike) -> FloatArray:
        """Return calibrated probabilities, one column per class, rows that sum to one.

        Parameters
        ----------
        inputs : array-like of shape (n_cases, n_classes)
            Cases in the same form as in `fit`. Columns with names may be in another order; the
            result has them in the order of `fit`.

        Returns
        -------
        ndarray of shape (n_cases, n_classes)
            Float64.
        """
        return self._transform(self._check_new_inputs(inputs))


def _read_names(value: Any, n_columns: int) -> list[str]:
    """Return the names of columns; of two classes, one column may be enough."""
    is_list = isinstance(value, list) and all(isinstance(name, str) for name in value)
    if not is_list or len(value) not in ((1, 2) if n_columns == 2 else (n_columns,)):
        DOCUMENT.refuse(f"its 'column_names' must be a list of {n_columns} names, not {value!r}")
    return list(value)


# ------------------------------------------------------------------ logits


WIDEST_GAP = 1e100
SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)


def centre(logits: FloatArray) -> FloatArray:
    """Return the logits less their row's maximum: zero at the top, negative elsewhere."""
    with np.errstate(over="ignore"):
        gaps: FloatArray = logits - logits.max(axis=1, keepdims=True)
    return np.maximum(gaps, -WIDEST_GAP, out=gaps)


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax of the logits."""
    with np.errstate(over="ignore"):
        proba: FloatArray = special.softmax(logits, axis=1)
    return proba


def log_probabilities(proba: FloatArray) -> FloatArray:
    """Return log-probabilities, where zeros count as the smallest normal float (2.2e-308)."""
    floored: FloatArray = np.maximum(proba.astype(np.float64), SMALLEST_PROBABILITY)
    return np.log(floored)


def log_odds(logits: FloatArray) -> FloatArray:
    """Return each class's log-odds against all the others together.

    In a row's top column the others are summed on their own, because one minus a probability
    that rounds to one would be zero.
    """
    gaps = centre(logits)
    rows = np.arange(len(gaps))
    top = gaps.argmax(axis=1)
    others = np.exp(gaps)
    total_of_others = others.sum(axis=1, keepdims=True) - others
    total_of_others[rows, top] = 1.0  # a placeholder, replaced below
    odds: FloatArray = gaps - np.log(np.maximum(total_of_others, 1.0))
    gaps[rows, top] = -np.inf
    runner_up = gaps.max(axis=1)
    rest = np.exp(gaps - runner_up[:, None]).sum(axis=1)
    odds[rows, top] = -(runner_up + np.log(rest))
    return odds


def one_hot(target: IntArray, n_classes: int) -> FloatArray:
    """Return a row for each case that is one in its class's column and zero elsewhere."""
    return np.where(target[:, None] == np.arange(n_classes), 1.0, 0.0)


def normalise_rows(scores: FloatArray, fallback: FloatArray) -> FloatArray:
    """Return rows of non-negative scores divided by their sums, `fallback` where all are zero."""
    total = scores.sum(axis=1, keepdims=True)
    empty = total[:, 0] <= SMALLEST_PROBABILITY
    proba = scores / np.where(empty[:, None], 1.0, total)
    proba[empty] = fallback[empty]
    return proba


def check_columns(array: AnyArray, n_columns: int, name: str) -> None:
    """Raise unless `array` has as many columns as in `fit`."""
    if array.shape[1] != n_columns:
        raise ShapeError(
            message(name, f"must have {n_columns} columns, as in fit", f"{array.shape[1]} columns")
        )


def check_fitted(fitted: bool) -> None:
    """Raise unless an object is fitted."""
    if not fitted:
        raise NotFittedError(
            "This object is not fitted. Hint: call fit(inputs, y_true) on held-out cases first."
        )

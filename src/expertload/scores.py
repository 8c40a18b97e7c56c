"""Confidences computed from logits, and probabilities from the judgements of a language model.

A function that ends in ``confidence`` takes logits of shape (n_cases, n_classes) and returns one
confidence per case. Higher means keep automatic. Pass the result as ``confidence=`` to the curve,
or its negative as ``outlier_score`` to the outlier metrics. All are exact for logits of any size:
nothing overflows.

A function that ends in ``probabilities`` takes what a language model says about each case: log
probabilities of tokens, repeated answers, or a confidence in words. It returns one row of class
probabilities per case, which is used like those of any classifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr, logsumexp, softmax

from expertload._check import (
    as_floats,
    check_logits,
    check_minimum,
    check_positive,
    check_unit_interval,
    message,
    parameter_error,
)
from expertload._label_arrays import match_answers
from expertload._labels import ClassName, class_key, listed
from expertload._typing import ArrayLike, BoolArray, FloatArray
from expertload.exceptions import DataTypeError, LabelError, ProbabilityError

if TYPE_CHECKING:
    from expertload.calibrators import Calibrator

__all__ = [
    "energy_confidence",
    "entropy_confidence",
    "gini_confidence",
    "margin_confidence",
    "max_logit_confidence",
    "max_logit_norm_confidence",
    "max_softmax_confidence",
    "stated_probabilities",
    "tempered_softmax_confidence",
    "token_probabilities",
    "vote_probabilities",
]

HIGHEST_LOG = 1e-3  # the log probability of a sure token, rounded in half precision


# ------------------------------------------------------------------ from the softmax


def max_softmax_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the probability of the top class.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 1 / n_classes and 1.

    References
    ----------
    Hendrycks and Gimpel, "A baseline for detecting misclassified and out-of-distribution
    examples in neural networks", ICLR 2017.

    Examples
    --------
    >>> from expertload.scores import max_softmax_confidence
    >>> max_softmax_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.5  , 0.881])
    """
    return top_probability(check_logits(logits))


def tempered_softmax_confidence(logits: ArrayLike, *, temperature: float = 1000.0) -> FloatArray:
    """Compute the probability of the top class after dividing the logits by a temperature.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.
    temperature : float, default=1000
        Larger values weigh the gaps to all other classes equally. 1000 is ODIN's; the paper used
        the temperature of temperature scaling.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 1 / n_classes and 1.

    References
    ----------
    Liang et al., "Enhancing the reliability of out-of-distribution image detection in neural
    networks", ICLR 2018.

    Examples
    --------
    >>> from expertload.scores import tempered_softmax_confidence
    >>> tempered_softmax_confidence([[0.0, 0.0], [3.0, 1.0]], temperature=2.0).round(3)
    array([0.5  , 0.731])
    """
    temperature = check_positive(temperature, "temperature")
    return top_probability(check_logits(logits) / temperature)


def margin_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the difference between the two largest probabilities.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 0, a tie, and 1.

    Examples
    --------
    >>> from expertload.scores import margin_confidence
    >>> margin_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.   , 0.762])
    """
    proba = softmax(check_logits(logits), axis=1)
    second_and_top = np.partition(proba, -2, axis=1)[:, -2:]
    return np.asarray(second_and_top[:, 1] - second_and_top[:, 0])


def entropy_confidence(logits: ArrayLike) -> FloatArray:
    """Compute one minus the entropy of the prediction, relative to its largest possible value.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 0, all classes equally likely, and 1, one class certain.

    Examples
    --------
    >>> from expertload.scores import entropy_confidence
    >>> entropy_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.   , 0.473])
    """
    values = check_logits(logits)
    entropy = entr(softmax(values, axis=1)).sum(axis=1)
    # Rounding can leave the entropy a hair above its maximum.
    return np.asarray(np.clip(1 - entropy / np.log(values.shape[1]), 0, 1))


def gini_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the sum of the squared probabilities, one minus Gini's impurity.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between one over the number of classes, no idea, and 1.

    References
    ----------
    Granese et al., "DOCTOR: a simple method for detecting misclassification errors", NeurIPS 2021.

    Examples
    --------
    >>> from expertload.scores import gini_confidence
    >>> gini_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.5 , 0.79])
    """
    return np.asarray((softmax(check_logits(logits), axis=1) ** 2).sum(axis=1))


def top_probability(logits: FloatArray) -> FloatArray:
    """One over the sum of exponentials relative to the top: no softmax matrix is kept."""
    top = logits.max(axis=1, keepdims=True)
    return np.asarray(1 / np.exp(logits - top).sum(axis=1))


# ------------------------------------------------------------------ from the logits themselves


def max_logit_confidence(logits: ArrayLike) -> FloatArray:
    """Compute the largest logit.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.

    Returns
    -------
    ndarray of shape (n_cases,)
        Any real numbers.

    References
    ----------
    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings", ICML 2022.

    Examples
    --------
    >>> from expertload.scores import max_logit_confidence
    >>> max_logit_confidence([[0.0, 0.0], [3.0, 1.0]])
    array([0., 3.])
    """
    return np.asarray(check_logits(logits).max(axis=1))


def energy_confidence(logits: ArrayLike, *, temperature: float = 1.0) -> FloatArray:
    """Compute the negative free energy, ``T * log(sum(exp(logits / T)))``.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax.
    temperature : float, default=1
        T; as it falls to zero, the result becomes the maximum logit.

    Returns
    -------
    ndarray of shape (n_cases,)
        Any real numbers.

    References
    ----------
    Liu et al., "Energy-based out-of-distribution detection", NeurIPS 2020.

    Examples
    --------
    >>> from expertload.scores import energy_confidence
    >>> energy_confidence([[0.0, 0.0], [3.0, 1.0]]).round(3)
    array([0.693, 3.127])
    """
    temperature = check_positive(temperature, "temperature")
    scaled = check_logits(logits) / temperature
    return temperature * np.asarray(logsumexp(scaled, axis=1))


def max_logit_norm_confidence(logits: ArrayLike, *, norm: float = 5.0) -> FloatArray:
    """Compute the largest centred logit, divided by the p-norm of the centred logits.

    Parameters
    ----------
    logits : array-like of shape (n_cases, n_classes)
        Outputs of the model before the softmax. Each row is first shifted to a mean of zero, which
        does not change its softmax.
    norm : float, default=5.0
        The power p of the norm, at least 1. Choose it on validation data.

    Returns
    -------
    ndarray of shape (n_cases,)
        Between 0 (all logits equal) and 1.

    References
    ----------
    Cattelan and Silva, "How to fix a broken confidence estimator", UAI 2024.

    Examples
    --------
    >>> from expertload.scores import max_logit_norm_confidence
    >>> max_logit_norm_confidence([[0.0, 0.0, 0.0], [3.0, 1.0, 0.0]], norm=2).round(3)
    array([0.   , 0.772])
    """
    power = check_minimum(norm, 1.0, "norm", "2 to 10 are usual")
    values = check_logits(logits).astype(np.float64)
    # Divided by the largest first, so that neither the mean nor a power can overflow.
    values /= np.maximum(np.abs(values).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    values -= values.mean(axis=1, keepdims=True)
    size = np.abs(values).max(axis=1, keepdims=True)
    flat = size[:, 0] <= 4 * np.finfo(np.float64).eps  # equal logits, up to rounding
    values /= np.where(flat[:, None], 1.0, size)
    length = (np.abs(values) ** power).sum(axis=1) ** (1 / power)
    return np.where(flat, 0.0, values.max(axis=1) / np.where(flat, 1.0, length))


# ------------------------------------------------------------------ from a language model


def token_probabilities(
    log_probabilities: Sequence[Mapping[Any, float]], *, labels: Sequence[ClassName]
) -> FloatArray:
    """Compute class probabilities from the log probabilities of answer tokens.

    Parameters
    ----------
    log_probabilities : sequence of mappings
        For each case, tokens and their log probabilities, such as the most likely first tokens of
        an answer. Tokens that differ only in blanks around them are added up; tokens that are no
        class are left out; a class without a token has probability zero.
    labels : sequence of str or int
        The classes, in the order of the columns.

    Returns
    -------
    ndarray of shape (n_cases, n_classes)
        Rows sum to one.

    Examples
    --------
    >>> from expertload.scores import token_probabilities
    >>> judgements = [{"A": -0.1, "B": -2.4, "Neither": -7.0}, {"A": -1.0, " A": -2.0, "B": -0.8}]
    >>> token_probabilities(judgements, labels=["A", "B"]).round(3)
    array([[0.909, 0.091],
           [0.528, 0.472]])
    """
    _check_tokens(log_probabilities)
    number = {class_key(label): i for i, label in enumerate(labels)}
    logs = np.full((len(log_probabilities), len(number)), -np.inf)
    for row, given in enumerate(log_probabilities):
        for token, value in given.items():
            place = number.get(class_key(token))
            if place is not None:
                with np.errstate(invalid="ignore"):  # NaN is refused below
                    logs[row, place] = np.logaddexp(logs[row, place], value)
    bad = np.flatnonzero(~np.isfinite(logs.max(axis=1, initial=-np.inf)))
    if len(bad):
        wanted = f"must have a finite log probability of {listed(labels)} for every case"
        got = f"{listed(list(log_probabilities[bad[0]].items()))} at position {bad[0]}"
        hint = "ask for more tokens, or leave out cases without an answer"
        raise LabelError(message("log_probabilities", wanted, got, hint))
    return np.asarray(softmax(logs, axis=1))


def _check_tokens(log_probabilities: Sequence[Mapping[Any, float]]) -> None:
    given: Any = log_probabilities
    if isinstance(given, Mapping) or not all(isinstance(case, Mapping) for case in given):
        wanted = "must be a list of one mapping from tokens to log probabilities for each case"
        hint = 'from a list of tokens: {t["token"]: t["logprob"] for t in tokens}'
        raise DataTypeError(message("log_probabilities", wanted, listed([given]), hint))
    high = [value for case in given for value in case.values() if value > HIGHEST_LOG]
    if high:
        hint = "these look like probabilities; pass their logarithms"
        raise ProbabilityError(message("log_probabilities", "must be 0 or less", high[0], hint))


def vote_probabilities(
    answers: Sequence[Sequence[Any]], *, labels: Sequence[ClassName]
) -> FloatArray:
    """Compute class probabilities as shares of repeated answers to the same question.

    Parameters
    ----------
    answers : sequence of sequences
        For each case, the answers: one or more, not necessarily the same number for all.
    labels : sequence of str or int
        The classes, in the order of the columns; every answer must be one of them.

    Returns
    -------
    ndarray of shape (n_cases, n_classes)
        Rows sum to one. Of five answers there are few distinct shares: many cases are tied, and
        are decided together.

    Examples
    --------
    >>> from expertload.scores import vote_probabilities
    >>> vote_probabilities([["A", "A", "B"], ["B", "B"]], labels=["A", "B"]).round(3)
    array([[0.667, 0.333],
           [0.   , 1.   ]])
    """
    n_answers = np.array([len(given) for given in answers])
    case = np.repeat(np.arange(len(answers)), n_answers)
    together = np.array([answer for given in answers for answer in given], dtype=object)
    place = match_answers(together, labels, len(case), name="answers")
    n_known = np.bincount(case[place >= 0], minlength=len(answers))
    _check_answered((n_known == n_answers) & (n_answers > 0))
    votes = np.zeros((len(answers), len(labels)))
    np.add.at(votes, (case, place), 1.0)
    return np.asarray(votes / n_answers[:, None])


def stated_probabilities(
    answers: ArrayLike,
    confidence: ArrayLike,
    *,
    calibrator: Calibrator,
    labels: Sequence[ClassName],
) -> FloatArray:
    """Compute class probabilities from answers and the confidence that was stated with each.

    A language model that says "95 % sure" is not right in 95 % of such cases, so what it states is
    never taken as it is: a calibrator says how often it was right.

    Parameters
    ----------
    answers : array-like of shape (n_cases,)
        The answer to each case.
    confidence : array-like of shape (n_cases,)
        What was stated with it, in [0, 1].
    calibrator : Calibrator
        Made with ``input="probabilities"`` and fitted, on other cases, to what was stated and to
        whether the answer was right.
    labels : sequence of str or int
        The classes, in the order of the columns.

    Returns
    -------
    ndarray of shape (n_cases, n_classes)
        The calibrated probability of the answer; the other classes share the rest equally.

    Examples
    --------
    >>> from expertload.calibrators import PlattScaling
    >>> from expertload.scores import stated_probabilities
    >>> stated = [0.99, 0.99, 0.99, 0.9, 0.9, 0.9, 0.8, 0.8]
    >>> was_right = [1, 1, 0, 1, 0, 1, 0, 1]
    >>> calibrator = PlattScaling(input="probabilities").fit(stated, was_right)
    >>> new = stated_probabilities(["A"], [0.99], calibrator=calibrator, labels=["A", "B"])
    >>> new.round(3)
    array([[0.649, 0.351]])
    """
    if (
        getattr(calibrator, "input", None) != "probabilities"
        or getattr(calibrator, "n_classes_", 2) != 2
    ):
        wanted = "must be fitted to stated confidences and to whether the answer was right"
        hint = "PlattScaling(input='probabilities').fit(stated, was_right)"
        raise parameter_error("calibrator", wanted, repr(calibrator), hint)
    if len(labels) < 2:
        raise parameter_error("labels", "must name at least two classes", listed(labels))
    stated = as_floats(confidence, "confidence")
    check_unit_interval(stated, "confidence")
    place = match_answers(answers, labels, len(stated), name="answers")
    _check_answered(place >= 0)
    right = calibrator.transform(stated)[:, 1]
    proba = np.repeat(((1 - right) / (len(labels) - 1))[:, None], len(labels), axis=1)
    proba[np.arange(len(place)), place] = right
    return proba


def _check_answered(is_answered: BoolArray) -> None:
    """Raise unless every case has its answers, none of them empty."""
    if not is_answered.all():
        wanted, at = "must hold an answer to every case", int(is_answered.argmin())
        hint = "leave out cases without an answer, or give them a class of their own"
        raise parameter_error("answers", wanted, f"none at position {at}", hint)

"""Checks of options: numbers in a range, words from a list."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from operator import index
from typing import Any

import numpy as np

from expertload._validation.wording import message, percent_hint
from expertload.exceptions import ParameterError


def check_fraction(value: Any, name: str, *, inclusive: bool = True) -> float:
    """Return `value` as a float in [0, 1], or in (0, 1) if the ends are not allowed."""
    number = as_real(value, name)
    # Of a number next to zero, the complement would be rounded to one.
    inside = 0 <= number <= 1 if inclusive else 0 < number < 1 and 1 - number < 1
    if not inside:
        wanted = "must be in [0, 1]" if inclusive else "must be in (0, 1)"
        raise ParameterError(message(name, wanted, f"{value}", percent_hint(number)))
    return number


def check_positive(value: Any, name: str, *, zero: bool = False) -> float:
    """Return `value` as a finite float above zero (or at least zero)."""
    number = as_real(value, name)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        wanted = "must be zero or more" if zero else "must be positive"
        raise ParameterError(message(name, f"{wanted} and finite", f"{value}"))
    return number


def check_threshold(value: Any) -> float:
    """Return a threshold: any number except NaN."""
    number = as_real(value, "threshold")
    if math.isnan(number):
        raise ParameterError(message("threshold", "must be a number", "NaN"))
    return number


def check_count(value: Any, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return `value` as an int of at least `minimum` and at most `maximum`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < minimum or (maximum is not None and value > maximum):
        limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ParameterError(message(name, f"must be a whole number {limits}", f"{value!r}"))
    return int(value)


def check_ignore_index(value: Any) -> int | None:
    """Return the class number that marks cases without a label; None if there is none.

    True and False are refused: they are the numbers 1 and 0, and would leave out a class.
    """
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        wanted = "must be a whole number or None"
        raise ParameterError(message("ignore_index", wanted, f"{value!r}")) from None


def check_option(value: Any, options: Sequence[str], name: str) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        wanted = "must be one of " + ", ".join(repr(option) for option in options)
        raise ParameterError(message(name, wanted, f"{value!r}"))
    return value


def as_real(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(message(name, "must be a number", f"{value!r}"))
    try:
        return float(value)
    except OverflowError as error:
        got = "a whole number that no float can hold"
        raise ParameterError(message(name, "must be a number", got)) from error


def random_generator(seed: Any) -> np.random.Generator:
    """Return a generator from None, an int or a generator."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            message("random_state", "must be None, an int or a Generator", f"{seed!r}")
        ) from error


def check_minimum(value: Any, minimum: float, name: str, hint: str) -> float:
    """Return `value` as a finite float of at least `minimum`."""
    number = as_real(value, name)
    if not minimum <= number < math.inf:
        wanted = f"must be finite and at least {minimum:g}"
        raise ParameterError(message(name, wanted, f"{value}", hint))
    return number


def check_targets(value: Any) -> tuple[float, ...]:
    """Return one target accuracy or several as a tuple."""
    is_row = np.ndim(value) == 1 if isinstance(value, np.ndarray) else isinstance(value, Sequence)
    several = list(value) if is_row else [value]
    if not several or isinstance(value, str):
        raise ParameterError(
            message("target_accuracy", "must be one or more numbers", f"{value!r}")
        )
    return tuple(check_fraction(each, "target_accuracy") for each in several)


def check_classifier(estimator: Any, attribute: str) -> None:
    """Raise unless a classifier has the attributes that are needed."""
    if not hasattr(estimator, attribute):
        has_scores = attribute == "predict_proba" and hasattr(estimator, "decision_function")
        raise ParameterError(
            message(
                "estimator",
                "must be a fitted classifier with 'predict_proba' and 'classes_'",
                f"a {type(estimator).__name__} without '{attribute}'",
                "wrap it in sklearn.calibration.CalibratedClassifierCV, which gives probabilities"
                if has_scores
                else "functions that take y_proba need no estimator, only its probabilities",
            )
        )


def check_models(models: Any) -> dict[str, Any]:
    """Return a mapping from names to models, which must not be empty."""
    if not isinstance(models, Mapping) or not models:
        raise ParameterError(
            message(
                "models",
                "must map at least one name to a model",
                "nothing" if isinstance(models, Mapping) else f"a {type(models).__name__}",
                'pass {"name": model, ...}',
            )
        )
    named = {str(name): model for name, model in models.items()}
    if len(named) < len(models):
        names = ", ".join(repr(name) for name in models)
        raise ParameterError(message("models", "must have names that differ as text", names))
    return named


def check_model_pairs(models: Any) -> dict[str, tuple[Any, Any]]:
    """Return a mapping from names to pairs of correctness and confidence."""
    pairs = check_models(models)
    for name, pair in pairs.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            got = f"a {type(pair).__name__} for {name!r}"
            raise ParameterError(message("models", "must map names to (correct, confidence)", got))
    return {name: (correct, confidence) for name, (correct, confidence) in pairs.items()}

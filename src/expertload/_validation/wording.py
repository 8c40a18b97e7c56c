"""The wording of errors: what must hold, what was passed, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from expertload.exceptions import (
    InsufficientDataError,
    LabelError,
    MissingExtraError,
    ParameterError,
)


def insufficient(wanted: str, got: str, hint: str) -> InsufficientDataError:
    """Return an error about too few or unsuitable cases, ready to be raised."""
    return InsufficientDataError(f"This needs {wanted}. Got {got} instead. Hint: {hint}.")


def parameter_error(name: str, wanted: str, got: object, hint: str | None = None) -> ParameterError:
    """Return an error about an option that another library has rejected."""
    return ParameterError(message(name, wanted, got, hint))


def require_extra(module: str, extra: str, what: str) -> Any:
    """Import an optional dependency; if it is missing, name the extra that installs it."""
    with needs_extra(extra, what):
        return import_module(module)


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Name the extra to install if an import inside the block fails.

    For the `__init__` of a package that needs the extra::

        with needs_extra("torch", "expertload.losses"):
            from expertload.losses.aucoc import AUCOCLoss
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "expertload"):  # a defect in this library, which no installation fixes
            raise
        raise MissingExtraError(
            f"{what} needs {missing}, which is not installed. "
            f"Hint: pip install 'expertload[{extra}]'"
        ) from error


def incompatible_options_error(options: str, why: str) -> ParameterError:
    """Return the error for options that exclude each other."""
    return ParameterError(f"The options {options} exclude each other: {why}.")


def message(name: str, wanted: str, got: object, hint: str | None = None) -> str:
    text = f"'{name}' {wanted}. Got {got} instead."
    return f"{text} Hint: {hint}." if hint else text


def percent_hint(number: float) -> str | None:
    if 1 < number <= 100:
        return f"pass {number / 100:g} for {number:g} %"
    return None


def label_range_error(
    low: int,
    high: int,
    n_classes: int,
    hint: str = "pass ignore_index=... for the number that marks positions without a label",
) -> LabelError:
    """Return the error for class numbers without a column of logits."""
    wanted = f"must hold class numbers from 0 to {n_classes - 1}"
    return LabelError(message("target", wanted, f"numbers from {low} to {high}", hint))

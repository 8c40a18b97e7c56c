"""The label that a classifier returns for delegated cases: never one of its classes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from expertload._typing import AnyArray
from expertload._validation import message
from expertload.exceptions import ParameterError

__all__ = ["check_delegate_label"]


def check_delegate_label(label: Any, classes: AnyArray) -> Any:
    """Return the label of delegated cases: not a class, but of the same type."""
    named = classes.dtype.kind in "OUT" and all(isinstance(each, str) for each in classes)
    if isinstance(label, str) and label == "auto":
        return _free_label(classes, named)
    if classes.dtype.kind != "O" and isinstance(label, str) != named:
        wanted = "must be a string" if named else "must be a number, as the classes are"
        raise ParameterError(message("delegate_label", wanted, f"{label!r}"))
    if (classes == label).any():
        raise ParameterError(
            message(
                "delegate_label",
                "must not be one of the classes",
                f"{label!r}",
                "pass delegate_label=... that no case can have",
            )
        )
    return label


def _free_label(classes: AnyArray, named: bool) -> str | int:
    """Return "delegate" or -1, or the next free label of that kind."""
    taken = set(classes.tolist())
    choices: Iterator[str | int] = count(-1, -1)
    if named:
        choices = chain(["delegate"], (f"delegate_{i}" for i in count(2)))
    return next(label for label in choices if label not in taken)

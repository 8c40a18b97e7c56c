"""Whether two columns name the same class: a prediction and the label, a decision and the answer.

A name that only one of them uses is usually a class that the other never names, and such a case is
wrong. It may also be a class in other letters, a missing value, or a score instead of a class: then
nobody knows whether the case is right, and the file is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from expertload._names import MISSING
from expertload._typing import IntArray
from expertload.columns.spelling import class_key, listed, truth_numbers, whole_number
from expertload.exceptions import FileFormatError

__all__ = ["Compared", "class_numbers"]

REMOVE = "remove the cases without a value"


class Compared(NamedTuple):
    """The wording of messages about two columns that are compared."""

    answers: str = "predicted"  # "'Cat' is predicted and 'cat' is the label"
    labels: str = "the label"
    unlabelled: str = REMOVE  # what to do if the label is missing


def class_numbers(
    labels: Sequence[str],
    answers: Sequence[str],
    where: str,
    *,
    said: Compared | None = None,
    few: bool = False,
) -> tuple[IntArray, IntArray]:
    """Return a number for each label and answer, equal if they are the same class in any spelling.

    They may be those of all cases, or only the distinct ones. If there may be `few` cases, all of
    them may be wrong: a single class on either side may be unknown to the other.
    """
    truths, guesses = _keys(labels), _keys(answers)
    _check(truths, guesses, where, said or Compared())
    least = 2 if few else 1
    is_known = not set(truths.values()).isdisjoint(guesses.values())
    numbers = truth_numbers(truths), truth_numbers(guesses)
    if numbers[0] is not None and numbers[1] is not None:
        truths = dict(zip(truths, map(str, numbers[0]), strict=True))
        guesses = dict(zip(guesses, map(str, numbers[1]), strict=True))
    elif not is_known and min(len(truths), len(guesses)) >= least:
        raise FileFormatError(
            f"The predictions of {where} must be among the labels {listed(sorted(truths))}. Got "
            f"{listed(list(guesses))}. Hint: use the same names for both."
        )
    number = {key: i for i, key in enumerate({*truths.values(), *guesses.values()})}
    return (
        np.array([number[truths[name]] for name in labels], dtype=np.int64),
        np.array([number[guesses[name]] for name in answers], dtype=np.int64),
    )


def _keys(names: Sequence[str]) -> dict[str, str]:
    return {name: class_key(name) for name in dict.fromkeys(names)}


def _check(truths: dict[str, str], guesses: dict[str, str], where: str, said: Compared) -> None:
    """Refuse names of one side that are no classes, or classes of the other in other letters."""
    for own, other, role in ((guesses, truths, said.answers), (truths, guesses, said.labels)):
        folded = {key.casefold(): name for name, key in other.items()}
        whole = all(whole_number(name) is not None for name in other)
        known = set(other.values())
        for name, key in own.items():
            if key in known:
                continue
            if key.casefold() in folded:
                there = folded[key.casefold()]
                pair = (name, there) if own is guesses else (there, name)
                raise FileFormatError(
                    f"'{pair[0]}' is {said.answers} and '{pair[1]}' is {said.labels} in {where}: "
                    "they differ in the case of letters alone. Hint: spell both alike."
                )
            if key.lower() in MISSING:
                remedy = REMOVE if own is guesses else said.unlabelled
                raise FileFormatError(
                    f"'{name}' is {role} in {where}: it looks like a missing value. Hint: "
                    f"{remedy}; if it is a class, rename it."
                )
            if whole and _is_fraction(name):
                raise FileFormatError(
                    f"'{name}' is {role} in {where}, where the others are whole numbers: it looks "
                    "like a score, not like a class. Hint: name the column of the class."
                )


def _is_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer()
    except (ValueError, OverflowError):
        return False

"""Labels matched to columns of probabilities: one set of rules for arrays, frames and files.

1. Columns with names are matched by name. Every label must name one; a label that names none is
   refused, and so are numbers beside names: numbers matched to the wrong column look like any
   others.
2. Columns without names, those of an array, are matched by order. Whole numbers are places, if
   they begin at 0 and end in range; text stands for the columns in sorted order, if every class
   occurs.
3. One column is the probability of the class it is named after. It is the second class's if its
   name says nothing: a name of no class beside classes 0 and 1, or a name without a prefix.
4. A user who names the classes of the columns in order (``labels=``, ``--classes``) overrules the
   names of the columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, NoReturn

from expertload.columns.spelling import (
    ClassName,
    class_key,
    listed,
    truth_number,
    whole_number,
    without_prefix,
)
from expertload.exceptions import LabelError

__all__ = [
    "Matched",
    "Wording",
    "class_of_lone_column",
    "in_order",
    "match_by_name",
    "match_by_order",
    "match_columns",
    "match_lone",
    "places_by_name",
    "refuse_lone",
]

BOOLEANS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"))


class Wording(NamedTuple):
    """How a refusal speaks to those who called a function, or typed a command."""

    labels: str  # "passed to aucoc_score", "of the column 'label' of x.csv"
    columns: str  # "passed to aucoc_score", "of x.csv"
    remedy: str  # "pass labels=[...] that ..."


class Matched(NamedTuple):
    """Classes in the order of their columns, and the class number of each label.

    Of a lone column there are two classes, in sorted order; `lone` is the number of its own.
    """

    classes: tuple[ClassName, ...]
    place: dict[str, int]
    lone: int | None = None


def match_columns(
    labels: Collection[str], columns: Sequence[str], classes: Sequence[str], said: Wording
) -> Matched:
    """Match the distinct labels of cases to columns of these classes: several, or a lone one.

    Where labels map to the rows in which they first stand, refusals name the row.
    """
    if len(columns) == 1:
        return match_lone(labels, columns[0], classes[0], said)
    return match_by_name(labels, classes, said)


# ------------------------------------------------------------------ columns with names


def match_by_name(labels: Collection[str], names: Sequence[str], said: Wording) -> Matched:
    """Match distinct labels to columns of two classes or more."""
    found, classes = places_by_name(labels, names)
    stranger = next((label for label in sorted(labels) if label not in found), None)
    if stranger is None:
        return Matched(tuple(classes), found)
    row = f" in row {labels[stranger]}" if isinstance(labels, Mapping) else ""
    raise LabelError(
        f"A label {said.labels} names no column: {listed([stranger])}{row}. The columns of "
        f"probabilities are of {listed(classes)}. Hint: name each column after its class, or "
        f"{said.remedy}."
    )


def in_order(classes: Sequence[ClassName], names: Sequence[str]) -> list[int] | None:
    """Return the column of each class, None unless each has one and each column has a class."""
    labels = [str(each) for each in classes]
    found, _ = places_by_name(labels, names)
    places = [found[label] for label in labels if label in found]
    one_each = len(labels) == len(names) and sorted(places) == list(range(len(names)))
    return places if one_each else None


def places_by_name(
    labels: Collection[str], names: Sequence[str]
) -> tuple[dict[str, int], Sequence[str]]:
    """Return the place among columns of every label that names one, and the classes of all.

    Names are compared as they are, then without a prefix, each time letter for letter, then as
    `class_key` spells them; last, of two classes, as words for true and false.
    """
    bare = [without_prefix(name) for name in names]
    most: dict[str, int] = {}
    of: Sequence[str] = bare
    for classes in (names, bare):
        for spelled in (str, class_key):
            places = {spelled(name): i for i, name in enumerate(classes)}
            if len(places) < len(classes):
                continue  # two classes differ in their spelling alone
            found = {label: places[spelled(label)] for label in labels if spelled(label) in places}
            if len(found) > len(most):
                most, of = found, classes
            if len(found) == len(labels):
                return found, classes
    return (most, of) if most else (_by_truth(labels, bare), bare)


def _by_truth(labels: Collection[str], classes: Sequence[str]) -> dict[str, int]:
    sides = [truth_number(name) for name in classes]
    if sides not in ([0, 1], [1, 0]) or any(truth_number(label) is None for label in labels):
        return {}
    return {label: sides.index(truth_number(label)) for label in labels}


# ------------------------------------------------------------------ columns without names


def match_by_order(labels: Collection[str], n_columns: int, said: Wording) -> Matched:
    """Match distinct labels to columns without names: places from 0, or all in sorted order."""
    found = {label: whole_number(label) for label in labels}
    numbers = {label: number for label, number in found.items() if number is not None}
    if len(numbers) == len(found):
        check_places(min(numbers.values()), max(numbers.values()), n_columns, said)
        return Matched(tuple(range(n_columns)), numbers)
    if len(labels) != n_columns:
        raise LabelError(
            f"The labels {said.labels} cannot be matched to columns: {len(labels)} distinct names "
            f"for {n_columns} columns. Hint: {said.remedy}."
        )
    return Matched(tuple(sorted(labels)), {label: i for i, label in enumerate(sorted(labels))})


def check_places(low: int, high: int, n_columns: int, said: Wording) -> None:
    """Raise unless whole numbers are places of columns: none out of range, and 0 among them.

    Labels 1 to 4 of five classes may be places, or the classes 1 to 5 without the last. That 0
    occurs settles it.
    """
    if low != 0 or high >= n_columns:
        raise LabelError(
            f"Integer labels {said.labels} are column numbers from 0 to {n_columns - 1} only where "
            f"0 occurs and none is larger. Got labels from {low} to {high}. Hint: {said.remedy}."
        )


# ------------------------------------------------------------------ one column


def match_lone(labels: Collection[str], column: str, name: str, said: Wording) -> Matched:
    """Match the distinct labels of cases to one column: the probability of one of two classes."""
    pair = _two_classes(labels, name)
    if pair is None:
        raise LabelError(
            f"One column of probabilities, '{column}' {said.columns}, tells two classes apart. Got "
            f"the labels {listed(sorted(labels))}. Hint: give each class a column, named after "
            "it, or number two classes 0 and 1."
        )
    side = class_of_lone_column(pair, column, name)
    if side is None:
        refuse_lone(pair, column, said)
    place, _ = places_by_name(labels, [str(each) for each in pair])
    return Matched(pair, place, side)


def class_of_lone_column(pair: Sequence[ClassName], column: str, name: str) -> int | None:
    """Return whether a lone column is of the first class or the second; None if none can tell."""
    classes = [str(each) for each in pair]
    is_letter = len(name) == 1 and name.isalpha()  # f may be false, or the model's name
    found = {} if is_letter and name not in classes else places_by_name([name], classes)[0]
    if found:
        return found[name]
    numbered = [whole_number(each) for each in pair] == [0, 1] or tuple(pair) in BOOLEANS
    says_nothing = name == column and all(isinstance(each, str) for each in pair)
    return 1 if whole_number(name) is None and (numbered or says_nothing) else None


def refuse_lone(pair: Sequence[ClassName], column: str, said: Wording) -> NoReturn:
    """Raise because one cannot tell which class a lone column is of."""
    raise LabelError(
        f"Of which class '{column}' {said.columns} holds the probability cannot be told: the "
        f"classes are {listed(pair)}. Hint: name it after one of them, p_{pair[1]} for "
        f"instance, or {said.remedy}."
    )


def _two_classes(labels: Collection[str], name: str) -> tuple[ClassName, ...] | None:
    """Return the two classes that there must be, in sorted order, if labels leave no doubt."""
    numbers = {whole_number(label) for label in labels}
    if None not in numbers:
        begun = 0 in numbers or truth_number(name) is not None  # 1 alone may be the first class
        known = {0, 1} if numbers <= {0, 1} and begun else numbers
        return tuple(sorted(n for n in known if n is not None)) if len(known) == 2 else None
    for pair in BOOLEANS:
        if set(labels) <= set(pair):
            return pair
    names = sorted({class_key(label) for label in labels})
    return tuple(names) if len(names) == 2 else None

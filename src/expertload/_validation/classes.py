"""Classes by name: what a label and a column of probabilities share if they are one class.

A class is found by its name wherever it has one. That a label is the number of a column is believed
only where no label names a column, and a lone column is that of the second class only where its
name does not say otherwise: numbers matched to the wrong column look like any others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, NoReturn, TypeAlias

from expertload.exceptions import LabelError

ClassName: TypeAlias = str | int

PREFIXES = ("p_", "prob_", "proba_")
TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), 1),
    **dict.fromkeys(("false", "f", "no", "n", "0"), 0),
}
BOOLEANS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"))
MOST_SHOWN = 8


class Matched(NamedTuple):
    """Classes in the order of their columns, and the class number of each label.

    Of a lone column there are two classes, in sorted order; `lone` is the number of its own.
    """

    names: tuple[ClassName, ...]
    place: dict[str, int]
    lone: int | None = None


def class_key(name: object) -> str:
    """Return what the spellings of a class have in common: 1, '1.0' and ' 01' are one class."""
    text = str(name).strip()
    number = re.fullmatch(r"([+-]?\d{1,17})(\.0*)?", text, re.ASCII)
    return str(int(number[1])) if number else text


def whole_number(name: object) -> int | None:
    """Return the whole number that a class is named after, if it is one."""
    key = class_key(name)
    return int(key) if re.fullmatch(r"-?\d{1,17}", key, re.ASCII) else None


def without_prefix(column: str) -> str:
    """Return the class that a column is named after: p_cat is the probability of cat."""
    prefix = next((p for p in PREFIXES if column.lower().startswith(p)), "")
    return column[len(prefix) :] or column


def match_classes(labels: Collection[str], classes: Sequence[str]) -> dict[str, int]:
    """Return the place among the classes of every label that names one.

    Names are compared as they are, then as `class_key` spells them; last, of two classes, as words
    for true and false.
    """
    most: dict[str, int] = {}
    for spelled in (str, class_key):
        places = {spelled(name): i for i, name in enumerate(classes)}
        if len(places) < len(classes):
            continue  # two classes differ in their spelling alone
        found = {label: places[spelled(label)] for label in labels if spelled(label) in places}
        if len(found) == len(labels):
            return found
        most = max(most, found, key=len)
    return most or _match_truths(labels, classes)


def _match_truths(labels: Collection[str], classes: Sequence[str]) -> dict[str, int]:
    sides = [truth_number(name) for name in classes]
    if sides not in ([0, 1], [1, 0]) or any(truth_number(label) is None for label in labels):
        return {}
    return {label: sides.index(truth_number(label)) for label in labels}


def truth_number(name: str) -> int | None:
    """Return 1 for true, yes and their like, 0 for false and no, None for other names."""
    return TRUTHS.get(class_key(name).casefold())


# ------------------------------------------------------------------ labels of cases


def match_labels(labels: Collection[str], classes: Sequence[str], where: str) -> Matched:
    """Match the distinct labels of cases to columns of two classes or more.

    Where labels map to the rows in which they first stand, refusals name the row.
    """
    found = match_classes(labels, classes)
    if len(found) == len(labels):
        return Matched(_plain(classes), found)
    unnumbered = all(whole_number(name) is None for name in classes)
    places = {label: _position(label) for label in labels}
    if not found and unnumbered and all(0 <= place < len(classes) for place in places.values()):
        return Matched(tuple(classes), places)
    stranger = next(label for label in sorted(labels) if label not in found)
    row = f" in row {labels[stranger]}" if isinstance(labels, Mapping) else ""
    raise LabelError(
        f"A label of {where} names no column: {name_some([stranger])}{row}. The columns of "
        f"probabilities are of {name_some(classes)}. Hint: name each after its class, or number "
        "the classes from 0 in the order of columns that are not named after numbers."
    )


def match_lone_column(labels: Collection[str], column: str, name: str, *, where: str) -> Matched:
    """Match the distinct labels of cases to one column: the probability of one of two classes."""
    pair = _two_classes(labels)
    if pair is None:
        raise LabelError(
            f"One column of probabilities, '{column}' of {where}, tells two classes apart. Got the "
            f"labels {name_some(sorted(labels))}. Hint: give each class a column, named after it, "
            "or number two classes 0 and 1."
        )
    side = lone_side(pair, column, name)
    if side is None:
        refuse_lone_column(pair, column, where)
    return Matched(pair, match_classes(labels, [str(each) for each in pair]), side)


def lone_side(pair: Sequence[ClassName], column: str, name: str) -> int | None:
    """Return whether a lone column is of the first class or the second; None if none can tell.

    It is of the class it is named after. The second class it is if its name says nothing: a name
    of no class beside classes that are numbered 0 and 1, or a name without a prefix.
    """
    classes = [str(each) for each in pair]
    is_letter = len(name) == 1 and name.isalpha()  # f may be false, or the model's name
    found = {} if is_letter and name not in classes else match_classes([name], classes)
    if found:
        return found[name]
    numbered = [whole_number(each) for each in pair] == [0, 1] or tuple(pair) in BOOLEANS
    says_nothing = name == column and all(isinstance(each, str) for each in pair)
    return 1 if whole_number(name) is None and (numbered or says_nothing) else None


def refuse_lone_column(pair: Sequence[ClassName], column: str, where: str) -> NoReturn:
    """Raise because one cannot tell which class a lone column is of."""
    raise LabelError(
        f"Of which class '{column}' of {where} holds the probability cannot be told: the classes "
        f"are {name_some(pair)}. Hint: name it after one of them, p_{pair[1]} for instance."
    )


def number_classes(names: Sequence[str], caller: str) -> list[int]:
    """Return the numbers that labels must be, two at least, from the names of columns alone."""
    if len(names) == 1:
        side = lone_side((0, 1), names[0], names[0])
        if side is not None:
            return [1 - side, side]
    numbers = [whole_number(name) for name in names]
    found = match_classes(["0", "1"], names) if len(names) == 2 else {}
    if None not in numbers and len(names) > 1:
        return [n for n in numbers if n is not None]
    if len(found) == 2:
        return [list(found.values()).index(place) for place in range(2)]
    if any(number is not None for number in numbers):
        raise LabelError(
            f"The labels that {caller} reads are numbers, and cannot be matched to columns of "
            f"{name_some(names)}. Hint: pass labels=[...] that names the classes in order."
        )
    return list(range(len(names)))


def _two_classes(labels: Collection[str]) -> tuple[ClassName, ...] | None:
    """Return the two classes that there must be, in sorted order, if labels leave no doubt."""
    numbers = {whole_number(label) for label in labels}
    if None not in numbers:
        known = {0, 1} if numbers <= {0, 1} else numbers
        return tuple(sorted(n for n in known if n is not None)) if len(known) == 2 else None
    for pair in BOOLEANS:
        if set(labels) <= set(pair):
            return pair
    names = sorted({class_key(label) for label in labels})
    return tuple(names) if len(names) == 2 else None


def _position(label: str) -> int:
    """Return the number of a column that a label is, -1 if it is none."""
    if label.strip().casefold() in ("true", "false"):
        return TRUTHS[label.strip().casefold()]
    number = whole_number(label)
    return -1 if number is None else number


def _plain(classes: Sequence[str]) -> tuple[ClassName, ...]:
    """Names as whole numbers if all are, and none would lose a zero it begins with."""
    whole = all(re.fullmatch(r"-?(0|[1-9]\d{0,16})(\.0*)?", name, re.ASCII) for name in classes)
    numbers = tuple(int(class_key(name)) for name in classes) if whole else ()
    return numbers if len(set(numbers)) == len(classes) else tuple(classes)


def name_some(names: Sequence[object]) -> str:
    """Return names with commas between them, the first few where there are many."""
    texts = [" ".join(str(name).split()) for name in names]
    texts = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    more = f" and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
    return ", ".join(texts[:MOST_SHOWN]) + more

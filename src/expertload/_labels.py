"""Class names: when a label and a column name are the same class, and which column a label has.

| written | is the class |
| --- | --- |
| ``cat`` | cat, letter for letter, without blanks around it |
| ``é``, one character or an e and an accent | the same class (Unicode normalisation) |
| ``1``, ``1.0``, ``01``, ``True`` as a number | 1, the same whole number |
| ``p_cat``, ``prob_cat``, ``proba_cat`` | cat, if it is the name of a column |
| ``true``, ``yes``, ``pos``, ``1``, their opposites | the same, if two classes are such a pair |

Arrays, frames and files match labels to columns of probabilities by the same rules:

1. Columns with names are matched by name. Every label must match a column; otherwise the data are
   refused. Numeric labels are not matched to named columns by position, because a wrong match
   could not be noticed.
2. Columns without names, as in an array, are matched by position. Whole numbers are column numbers,
   if 0 occurs and none is too large. Text labels are sorted and matched to the columns in order,
   if every class occurs.
3. A single column is the probability of the class it is named after. If it is not named after a
   class, it belongs to the second class: this needs classes 0 and 1, or a name without a prefix.
4. Classes that the user names in order (``labels=``, ``--classes``) override the column names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

from expertload.exceptions import LabelError

ClassName: TypeAlias = str | int

PREFIXES = ("p_", "prob_", "proba_")
LOGITS = ("logit_", "logits_", "logit.", "logits.", "logprob_", "logprobs_", "logprobs.")
# The words of a pair are opposites. Words of two pairs are not: N and T may be normal and tumour.
TRUTH_PAIRS = (
    ("false", "true"),
    ("f", "t"),
    ("no", "yes"),
    ("n", "y"),
    ("neg", "pos"),
    ("negative", "positive"),
    ("0", "1"),
)
TRUTHS = {word: truth for pair in TRUTH_PAIRS for truth, word in enumerate(pair)}
NUMBER = re.compile(r"([+-]?)0*(\d+?)(\.0*)?", re.ASCII)
# A number with more digits is an identifier, and compared as written.
MOST_DIGITS = 18


def class_key(name: object) -> str:
    """Return a key that all spellings of a class share: 1, '1.0' and ' 01' are the same class."""
    text = same_spelling(name)
    number = NUMBER.fullmatch(text)
    if number is None:
        return text
    minus = "-" if number[1] == "-" and number[2] != "0" else ""
    return minus + number[2]


def same_spelling(name: object) -> str:
    """Return a name without blanks around it, in one Unicode form."""
    return unicodedata.normalize("NFC", str(name).strip())


def whole_number(name: object) -> int | None:
    """Return the whole number that a class name represents; None if it is not one."""
    key = class_key(name)
    is_number = re.fullmatch(rf"-?\d{{1,{MOST_DIGITS}}}", key, re.ASCII)
    return int(key) if is_number else None


def truth_number(name: object) -> int | None:
    """Return 1 for words such as true and yes, 0 for false and no, None for other names."""
    return TRUTHS.get(class_key(name).casefold())


def truth_numbers(names: Iterable[object]) -> list[int] | None:
    """Return 0 or 1 for each name, if all are words of one pair, such as yes and no; else None."""
    words = [class_key(name).casefold() for name in names]
    pair = next((pair for pair in TRUTH_PAIRS if set(words) <= set(pair)), None)
    return None if pair is None else [pair.index(word) for word in words]


def without_prefix(column: str) -> str:
    """Return the class that a column is named after: p_cat is the probability of cat."""
    prefix = next((p for p in PREFIXES if column.lower().startswith(p)), "")
    return column[len(prefix) :] or column


def as_probability(column: str) -> str:
    """Return the name of the probability that a logit belongs to: p_cat for logit_cat."""
    prefix = next((p for p in LOGITS if column.lower().startswith(p)), "")
    rest = column[len(prefix) :]
    return f"{PREFIXES[0]}{rest}" if prefix and rest else column


def plain_classes(classes: Sequence[ClassName]) -> tuple[ClassName, ...]:
    """Return names as whole numbers, if all are and none has a leading zero."""
    whole = re.compile(r"-?(0|[1-9]\d{0,16})(\.0*)?", re.ASCII)
    if not all(whole.fullmatch(str(name)) for name in classes):
        return tuple(classes)
    numbers = tuple(int(class_key(name)) for name in classes)
    return numbers if len(set(numbers)) == len(classes) else tuple(classes)


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or another library's missing value."""
    if value is None:
        return True
    try:
        return not bool(value == value)  # NaN and NaT are not equal to themselves
    except (TypeError, ValueError):  # pandas.NA raises an error here
        return True


def listed(names: Sequence[object], most: int = 8) -> str:
    """Return names separated by commas, only the first few if there are many."""
    texts = [" ".join(str(name).split()) for name in names]
    texts = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return (", ".join(texts[:most]) or "(none)") + more


BOOLEANS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"))


class Wording(NamedTuple):
    """What messages call labels and columns, and how they name the remedy."""

    labels: str  # "passed", or "of the column 'label' of x.csv"
    columns: str  # "passed", or "of x.csv"
    remedy: str  # "pass labels=[...] that ..."


class Matched(NamedTuple):
    """Classes in the order of their columns, and the class number of each label.

    A single column has two classes, in sorted order; `lone` is the number of its own class.
    """

    classes: tuple[ClassName, ...]
    place: dict[str, int]
    lone: int | None = None


def match_columns(
    labels: Collection[str], columns: Sequence[str], classes: Sequence[str], wording: Wording
) -> Matched:
    """Match the distinct labels of cases to the columns of these classes."""
    if len(columns) == 1:
        return match_lone(labels, columns[0], classes[0], wording)
    return match_by_name(labels, classes, wording)


# ------------------------------------------------------------------ columns with names


def match_by_name(labels: Collection[str], names: Sequence[str], wording: Wording) -> Matched:
    """Match distinct labels to columns of two classes or more."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise LabelError(
            f"There is more than one column of {listed([twice])} among those {wording.columns}. "
            "Hint: give every class one column."
        )
    place, classes = places_by_name(labels, names)
    stranger = next((label for label in sorted(labels) if label not in place), None)
    if stranger is None:
        return Matched(tuple(classes), place)
    raise LabelError(
        f"A label {wording.labels} names no column: {listed([stranger])}. The columns of "
        f"probabilities are of {listed(classes)}. Hint: name each column after its class, or "
        f"{wording.remedy}."
    )


def in_order(classes: Sequence[ClassName], names: Sequence[str]) -> list[int] | None:
    """Return the column of each class; None unless classes and columns match one to one."""
    labels = [str(name) for name in classes]
    place, _ = places_by_name(labels, names)
    places = [place[label] for label in labels if label in place]
    one_each = len(labels) == len(names) and sorted(places) == list(range(len(names)))
    return places if one_each else None


def places_by_name(
    labels: Collection[str], names: Sequence[str]
) -> tuple[dict[str, int], Sequence[str]]:
    """Return the column number of every label that matches a column, and the classes of all.

    Names are compared as written, then without a prefix: first letter by letter, then by
    `class_key`. Last, two classes are compared as words for true and false.
    """
    bare = [without_prefix(name) for name in names]
    most: dict[str, int] = {}
    of: Sequence[str] = bare
    for classes in (names, bare):
        for spelled in (str, class_key):
            places = {spelled(name): i for i, name in enumerate(classes)}
            if len(places) < len(classes):
                continue  # two classes that differ only in spelling
            place = {label: places[spelled(label)] for label in labels if spelled(label) in places}
            if len(place) > len(most):
                most, of = place, classes
            if len(place) == len(labels):
                return place, classes
    return (most, of) if most else (_by_truth(labels, bare), bare)


def _by_truth(labels: Collection[str], classes: Sequence[str]) -> dict[str, int]:
    sides, truths = truth_numbers(classes), truth_numbers(labels)
    if sides is None or truths is None or sorted(sides) != [0, 1]:
        return {}
    return {label: sides.index(truth) for label, truth in zip(labels, truths, strict=True)}


# ------------------------------------------------------------------ columns without names


def match_by_order(labels: Collection[str], n_columns: int, wording: Wording) -> Matched:
    """Match distinct labels to columns without names: as column numbers, or in sorted order."""
    numbers = {name: number for name in labels if (number := whole_number(name)) is not None}
    if len(numbers) == len(labels):
        check_places(min(numbers.values()), max(numbers.values()), n_columns, wording)
        return Matched(tuple(range(n_columns)), numbers)
    if len(labels) != n_columns:
        raise LabelError(
            f"The labels {wording.labels} cannot be matched to columns. Got {len(labels)} distinct "
            f"names for {n_columns} columns. Hint: {wording.remedy}."
        )
    return Matched(tuple(sorted(labels)), {label: i for i, label in enumerate(sorted(labels))})


def check_places(low: int, high: int, n_columns: int, wording: Wording) -> None:
    """Raise unless whole numbers are column numbers: 0 occurs, and none is out of range.

    With five columns, labels 1 to 4 could be column numbers, or the classes 1 to 5 without the
    last. If 0 occurs, they are column numbers.
    """
    if low != 0 or high >= n_columns:
        raise LabelError(
            f"Integer labels {wording.labels} must be column numbers from 0 to {n_columns - 1}, "
            f"and 0 must occur. Got labels from {low} to {high}. Hint: {wording.remedy}."
        )


# ------------------------------------------------------------------ one column


def match_lone(labels: Collection[str], column: str, name: str, wording: Wording) -> Matched:
    """Match the distinct labels of cases to a single column, which implies two classes."""
    pair = _two_classes(labels, name)
    if pair is None:
        raise LabelError(
            f"A single column of probabilities, '{column}' {wording.columns}, needs two classes. "
            f"Got the labels {listed(sorted(labels))}. Hint: give each class a column named after "
            "it, or number two classes 0 and 1; if it is the confidence of a prediction, name "
            "it as the confidence."
        )
    side = class_of_lone_column(pair, column, name)
    if side is None:
        refuse_lone(pair, column, wording)
    place, _ = places_by_name(labels, [str(name) for name in pair])
    return Matched(pair, place, side)


def class_of_lone_column(pair: Sequence[ClassName], column: str, name: str) -> int | None:
    """Return 0 or 1, the class of a single column; None if it is not clear."""
    named = named_class(pair, name)
    if named is not None:
        return named
    numbered = [whole_number(class_name) for class_name in pair] == [0, 1] or tuple(
        pair
    ) in BOOLEANS
    says_nothing = name == column and all(isinstance(class_name, str) for class_name in pair)
    return 1 if whole_number(name) is None and (numbered or says_nothing) else None


def named_class(pair: Sequence[ClassName], name: str) -> int | None:
    """Return 0 or 1, the class that a single column is named after; None if it is neither."""
    classes = [str(name) for name in pair]
    is_letter = len(name) == 1 and name.isalpha()  # `f` could mean false, or be a model's name
    places = {} if is_letter and name not in classes else places_by_name([name], classes)[0]
    return places.get(name)


def refuse_lone(pair: Sequence[ClassName], column: str, wording: Wording) -> NoReturn:
    """Raise because the class of a single column is not clear."""
    raise LabelError(
        f"The column '{column}' {wording.columns} must be named after one of the classes "
        f"{listed(pair)}: it is not clear which class it is the probability of. Hint: name it "
        f"p_{pair[1]}, for example, or {wording.remedy}."
    )


def _two_classes(labels: Collection[str], name: str) -> tuple[ClassName, ...] | None:
    """Return the two classes in sorted order, if the labels determine them."""
    numbers = {whole_number(label) for label in labels}
    if None not in numbers:
        begun = 0 in numbers or truth_number(name) is not None  # 1 alone may be the first class
        known = {0, 1} if numbers <= {0, 1} and begun else numbers
        return tuple(sorted(n for n in known if n is not None)) if len(known) == 2 else None
    for pair in BOOLEANS:
        if set(labels) <= set(pair):
            return pair
    names = sorted({class_key(label) for label in labels})
    is_pair = len({name.casefold() for name in names}) == len(names) == 2  # dog and Dog are one
    return tuple(names) if is_pair else None

"""Spellings of classes: when a label and a column name are the same class.

| written | is the class |
| --- | --- |
| ``cat`` | cat, letter for letter, without blanks around it |
| ``é``, one character or an e and an accent | the same class (Unicode normalisation) |
| ``1``, ``1.0``, ``01``, ``True`` as a number | 1, the same whole number |
| ``p_cat``, ``prob_cat``, ``proba_cat`` | cat, if it is the name of a column |
| ``true``, ``yes``, ``pos``, ``1``, their opposites | the same, if two classes are such a pair |
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

__all__ = [
    "LOGITS",
    "PREFIXES",
    "ClassName",
    "as_probability",
    "class_key",
    "is_missing",
    "listed",
    "plain_classes",
    "spelled_alike",
    "truth_number",
    "truth_numbers",
    "whole_number",
    "without_prefix",
]

ClassName: TypeAlias = str | int

PREFIXES = ("p_", "prob_", "proba_")
LOGITS = ("logit_", "logits_", "logit.", "logits.")
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
MOST_SHOWN = 8


def class_key(name: object) -> str:
    """Return a key that all spellings of a class share: 1, '1.0' and ' 01' are the same class."""
    text = spelled_alike(name)
    number = NUMBER.fullmatch(text)
    if number is None:
        return text
    minus = "-" if number[1] == "-" and number[2] != "0" else ""
    return minus + number[2]


def spelled_alike(name: object) -> str:
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


def listed(names: Sequence[object], most: int = MOST_SHOWN) -> str:
    """Return names separated by commas, only the first few if there are many."""
    texts = [" ".join(str(name).split()) for name in names]
    texts = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return (", ".join(texts[:most]) or "(none)") + more

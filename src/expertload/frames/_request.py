"""What a user asks of a frame, matched to the columns that the frame has.

The types of columns are known before any row is read, so what can be said about a frame without
running its engine is said here: columns that are missing, hold the wrong kind of values, or cannot
be matched to the labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from expertload._validation import (
    check_column,
    check_column_labels,
    check_column_type,
    check_columns_found,
    number_classes,
    without_prefix,
)

__all__ = ["Classes", "Request", "resolve_classes"]

Schema = Mapping[str, Any]
NUMBERS = "numbers (or True and False)"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The columns to read, as the user named them, and how to add them up."""

    caller: str
    confidence: str | None
    correct: str | None
    label: str | None
    probabilities: str | Sequence[str] | None
    labels: Sequence[Any] | None
    weight: str | None
    bits: int | None
    by: str | None = None

    def number(self, schema: Schema, column: str | None, name: str) -> str:
        """Return a column's name if it is there and holds numbers."""
        found = check_column(column, list(schema), name, self.caller)
        dtype = schema[found]
        right = dtype.is_numeric() or dtype == nw.Boolean
        check_column_type(found, right, NUMBERS, dtype, self.caller)
        return found


@dataclass(frozen=True)
class Classes:
    """The probability columns, the label that each stands for, and the column of true labels."""

    columns: tuple[str, ...]
    labels: tuple[Any, ...]
    label: str
    text: bool


def resolve_classes(request: Request, schema: Schema) -> Classes:
    """Match probability columns to labels.

    Text labels are the columns' names, or the part of them that a pattern's star stands for.
    Numbers are that part, or what follows a prefix such as p_, if it is a number in every name or
    says true and false; they are the columns' positions if it is a number in none.
    """
    columns, stars = _probability_columns(request, schema)
    label = check_column(request.label, list(schema), "label", request.caller)
    dtype = schema[label]
    text = dtype in (nw.String, nw.Categorical, nw.Enum)
    right = text or dtype.is_numeric() or dtype == nw.Boolean
    check_column_type(label, right, "class labels: strings or whole numbers", dtype, request.caller)
    n_classes = max(len(columns), 2)  # a lone column is the probability of the second class
    labels = _labels(request, columns, stars, text)
    check_column_labels(labels, n_classes, text, request.caller)
    return Classes(columns, tuple(labels), label, text)


def _probability_columns(
    request: Request, schema: Schema
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    asked = request.probabilities
    wanted = [asked] if isinstance(asked, str) else list(asked or ())
    found: list[str] = []
    stars: list[str] = []
    for one in wanted:
        if isinstance(one, str) and "*" in one and one not in schema:
            pattern = re.compile("(.*)".join(re.escape(part) for part in one.split("*")))
            matches = [match for name in schema if (match := pattern.fullmatch(name))]
            found += [match.group(0) for match in matches]
            stars += [match.group(1) for match in matches]
        else:
            found.append(check_column(one, list(schema), "probabilities", request.caller))
            stars.append(one)
    check_columns_found(found, asked, "probabilities", request.caller)
    for name in found:
        request.number(schema, name, "probabilities")
    return tuple(found), tuple(stars)


def _labels(
    request: Request, columns: Sequence[str], stars: Sequence[str], text: bool
) -> Sequence[Any]:
    if request.labels is not None:
        return [label.item() if hasattr(label, "item") else label for label in request.labels]
    if text and len(columns) > 1:
        return stars
    return number_classes([without_prefix(star) for star in stars], request.caller)

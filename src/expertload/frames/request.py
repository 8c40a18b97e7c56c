"""What a user asks of a frame, matched to the columns that the frame has.

The types of columns are known before any row is read, so what can be said about a frame without
running its engine is said here: columns that are missing, or hold the wrong kind of values. Labels
are matched to columns by the rules of `expertload.columns`, once it is known which ones occur.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from expertload._validation import check_column, check_column_type, check_columns_found
from expertload.columns import Matched, check_names, label_text, match_columns, pick, said_of

__all__ = ["Classes", "Request", "find_classes", "match_classes"]

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
    """The probability columns, the class that each is named after, and the column of labels."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    label: str
    as_text: bool


def find_classes(request: Request, schema: Schema) -> Classes:
    """Find the columns of probabilities and of labels."""
    asked = request.probabilities
    wanted = [asked] if isinstance(asked, str) else list(asked or ())
    found: list[tuple[str, str]] = []
    for one in wanted:
        if not (isinstance(one, str) and "*" in one):
            check_column(one, list(schema), "probabilities", request.caller)
        found += pick(schema, one)
    columns = [request.number(schema, column, "probabilities") for column, _ in found]
    check_columns_found(columns, asked, "probabilities", request.caller)
    label = check_column(request.label, list(schema), "label", request.caller)
    dtype = schema[label]
    text = dtype in (nw.String, nw.Categorical, nw.Enum)
    right = text or dtype.is_numeric() or dtype == nw.Boolean
    check_column_type(label, right, "class labels: strings or whole numbers", dtype, request.caller)
    as_text = text or dtype in (nw.Int128, nw.UInt128, nw.Decimal)  # which Python's floats are not
    return Classes(tuple(columns), tuple(name for _, name in found), label, as_text)


def match_classes(request: Request, classes: Classes, labels: Sequence[Any]) -> Matched:
    """Match the labels that occur to the columns."""
    said = said_of(request.caller)
    texts = [label_text(label, said) for label in labels]
    if request.labels is None:
        return match_columns(texts, classes.columns, classes.names, said)
    n_classes = max(len(classes.columns), 2)  # a lone column is the second one's
    names = [str(name) for name in check_names(request.labels, n_classes, request.caller)]
    return match_columns(texts, names, names, said)

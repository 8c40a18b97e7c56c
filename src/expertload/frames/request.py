"""Matches a user's request to the columns of a frame.

The types of columns are known before any row is read, so missing columns and wrong types are
reported here, without running the engine. Labels are matched to columns by the rules of
`expertload.columns`, once the labels that occur are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from expertload._validation import message
from expertload.columns import Matched, check_names, match_columns, pick, said_of
from expertload.exceptions import DataTypeError, ParameterError

__all__ = ["Classes", "Request", "find_classes", "match_classes"]

Schema = Mapping[str, Any]
NUMBERS = "numbers (or True and False)"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The columns to read, as the user named them, and how to add them up."""

    confidence: str | None
    correct: str | None
    label: str | None
    probabilities: str | Sequence[str] | None
    labels: Sequence[Any] | None
    weight: str | None
    bits: int | None
    by: str | None = None

    def number(self, schema: Schema, column: str | None, name: str) -> str:
        """Return a column's name if it exists and holds numbers."""
        found = check_column(column, list(schema), name)
        dtype = schema[found]
        right = dtype.is_numeric() or dtype == nw.Boolean
        _check_column_type(found, right, NUMBERS, dtype)
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
            check_column(one, list(schema), "probabilities")
        found += pick(schema, one)
    columns = [request.number(schema, column, "probabilities") for column, _ in found]
    _check_columns_found(columns, asked, "probabilities")
    label = check_column(request.label, list(schema), "label")
    dtype = schema[label]
    text = dtype in (nw.String, nw.Categorical, nw.Enum)
    right = text or dtype.is_numeric() or dtype == nw.Boolean
    _check_column_type(label, right, "class labels: strings or whole numbers", dtype)
    as_text = text or dtype in (nw.Int128, nw.UInt128, nw.Decimal)  # floats would round them
    return Classes(tuple(columns), tuple(name for _, name in found), label, as_text)


def match_classes(request: Request, classes: Classes, labels: Sequence[Any]) -> Matched:
    """Match the labels that occur to the columns."""
    said = said_of()
    texts = [str(label) for label in labels]
    if request.labels is None:
        return match_columns(texts, classes.columns, classes.names, said)
    n_classes = max(len(classes.columns), 2)  # a single column belongs to the second class
    names = [str(name) for name in check_names(request.labels, n_classes)]
    return match_columns(texts, names, names, said)


def check_column(column: Any, columns: Sequence[str], name: str) -> str:
    """Return `column` if the frame has it."""
    if not isinstance(column, str) or column not in columns:
        shown = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
        hint = f"the columns are: {shown}" if columns else "the frame has no columns"
        raise ParameterError(message(name, "must name a column", f"{column!r}", hint))
    return column


def _check_columns_found(found: Sequence[str], asked: Any, name: str) -> None:
    """Raise unless columns were found, without repeats."""
    if not found or len(set(found)) != len(found):
        got = f"{asked!r}, which matches {'none' if not found else 'one column twice'}"
        hint = "pass a list of names, or a pattern such as 'p_*'"
        raise ParameterError(message(name, "must name columns", got, hint))


def _check_column_type(column: str, right: bool, wanted: str, got: Any) -> None:
    """Raise unless a column has the right type."""
    if not right:
        raise DataTypeError(
            f"The column '{column}' must hold {wanted}. Got {got} instead. "
            "Hint: cast the column in the frame first."
        )

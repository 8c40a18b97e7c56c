"""Rows as Arrow's columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from expertload._validation import require_extra

__all__ = ["Columns", "from_rows"]

Columns = list[Any]  # Arrow's arrays, in the order of the query


def from_rows(rows: Sequence[Sequence[Any]], types: Sequence[str]) -> Columns:
    """Return the columns of rows; what is missing or not a number is nothing."""
    pa = require_extra("pyarrow", "desk", "An export")
    cells: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(types)
    return [
        # SQLite has no truth, only one.
        pa.array(list(map(bool, values)) if kind == "bool" else values, kind, from_pandas=True)
        for values, kind in zip(cells, types, strict=True)
    ]

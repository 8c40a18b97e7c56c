"""Columns that hold several numbers per case: lists, and structs of named fields.

Each number becomes a separate column, `probabilities.cat` or `probabilities.0`. If a list differs
in length from the first one, all its numbers are missing, so that none ends up in a wrong column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from expertload._opening.connection import quoted, text_of

__all__ = ["Part", "is_known_to_parquet", "parts_of"]

LISTS = ("list", "array")
KNOWN_TO_PARQUET = {
    *("boolean", "tinyint", "smallint", "integer", "bigint"),
    *("utinyint", "usmallint", "uinteger", "ubigint", "float", "double", "decimal"),
    *("varchar", "blob", "date", "time", "timestamp", "timestamp with time zone"),
    *("timestamp_s", "timestamp_ms", "timestamp_ns"),
}
NUMBERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "float", "double", "decimal")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One number of a column that holds several.

    Attributes
    ----------
    column : str
        The column that holds this number.
    name, type : str
        The name of the part, and its DuckDB type.
    sql : str
        The SQL expression that selects this number.
    length : int or None
        The length of the lists; None for structs, whose fields have names.
    """

    column: str
    name: str
    type: str
    sql: str
    length: int | None = None

    @property
    def is_place(self) -> bool:
        """Whether this is an element of a list, which has a position but no name."""
        return self.length is not None and self.length > 1


def parts_of(
    types: dict[str, Any], length_of: Callable[[str], int | None]
) -> dict[str, tuple[Part, ...]]:
    """Return the parts of every column that holds several numbers.

    `length_of` returns the length of a column's first list. A column is not split if a part would
    have the same name as another column.
    """
    taken = {name.lower() for name in types}
    found = {name: tuple(_parts(name, kind, length_of)) for name, kind in types.items()}
    return {name: parts for name, parts in found.items() if parts and not _clash(parts, taken)}


def _parts(column: str, kind: Any, length_of: Callable[[str], int | None]) -> Iterator[Part]:
    if kind.id == "struct" and all(_is_number(child) for _, child in kind.children):
        for field, child in kind.children:
            sql = f"struct_extract({quoted(column)}, {text_of(field)})"
            yield Part(column=column, name=f"{column}.{field}", type=str(child), sql=sql)
    if kind.id in LISTS and _is_number(kind.children[0][1]):
        length, child = length_of(column) or 0, str(kind.children[0][1])
        for i in range(length):
            sql = f"CASE WHEN len({quoted(column)}) = {length} THEN {quoted(column)}[{i + 1}] END"
            name = f"{column}.{i}" if length > 1 else column
            yield Part(column=column, name=name, type=child, sql=sql, length=length)


def _is_number(kind: Any) -> bool:
    return kind.id.removeprefix("u") in NUMBERS


def is_known_to_parquet(kind: Any) -> bool:
    """Whether Parquet can store a column of this DuckDB type unchanged."""
    if kind.id in ("list", "array", "struct", "map"):
        return all(name == "size" or is_known_to_parquet(child) for name, child in kind.children)
    return kind.id in KNOWN_TO_PARQUET


def _clash(parts: tuple[Part, ...], taken: Collection[str]) -> bool:
    names = [part.name.lower() for part in parts]
    others = [name for name in names if name != parts[0].column.lower()]
    return len(set(names)) < len(names) or any(name in taken for name in others)

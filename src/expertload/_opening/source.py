"""Columns of cases, from whatever holds them: whole, or some rows at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from expertload._opening.files import OpenedFile, resolve_file
from expertload._opening.options import FileOptions
from expertload._typing import AnyArray, IntArray
from expertload.exceptions import FileFormatError

__all__ = [
    "Batch",
    "Coded",
    "Progress",
    "Source",
    "Table",
    "encoded_values",
    "open_source",
    "to_codes",
    "to_numpy",
]

Table = dict[str, AnyArray]
Progress = Callable[[int, int | None], None]
Batch = dict[str, Any]  # pyarrow arrays, which the type checker does not know


# Arrow's numbers that lie in memory as numpy's do.
NUMBERS = {
    **{
        f"{sign}int{8 * size}": f"{sign or 'i'}{size}"
        for sign in ("", "u")
        for size in (1, 2, 4, 8)
    },
    "float": "f4",
    "double": "f8",
}


class Coded(NamedTuple):
    """A column of few distinct values: each of them once, and which of them each row holds."""

    values: AnyArray
    codes: IntArray


class Source(Protocol):
    """Columns of cases, read as asked for.

    Attributes
    ----------
    where : str
        The file's name, for messages.
    columns : list of str
        The names of the columns.
    types : dict from str to str
        What each column holds, in DuckDB's words; `VARCHAR` for text.
    numbered : frozenset of str
        The columns that are the places of a matrix, and have no names but their numbers.
    nested : frozenset of str
        What holds several numbers per case, and so is several of the columns.
    n_rows : int or None
        How many rows there are, where that is known without reading them.
    """

    where: str
    columns: list[str]
    types: dict[str, str]
    numbered: frozenset[str]
    nested: frozenset[str]
    n_rows: int | None

    def read(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Return some columns whole; text in those of numbers as numbers, if all of it is."""
        ...

    def read_coded(
        self, names: Sequence[str], numbers: Sequence[str], coded: Sequence[str]
    ) -> tuple[Table, dict[str, Coded]]:
        """Return some columns whole, and those of few distinct values coded."""
        ...

    def batches(
        self, names: Sequence[str], numbers: Sequence[str] = (), *, size: int
    ) -> Iterator[tuple[Batch, Batch]]:
        """Return Arrow arrays, this many rows at a time: some columns unchanged, some as numbers.

        Text in the columns of numbers is turned into numbers, and missing where it is none.
        """
        ...

    def check_spelled(self, name: str, numbers: Any, first_row: int = 1) -> None:
        """Refuse what spells no number, where it was turned into `numbers` that are missing."""
        ...


def open_source(
    path: str | os.PathLike[str],
    options: FileOptions | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open a file by what its name ends in; a database needs a query.

    `progress` is called with the rows read so far, and all where that is known.
    """
    options = options or FileOptions()
    file = resolve_file(path, options)
    if file.kind == "database" and options.query is None:
        raise FileFormatError(
            f"{file.where} is a database. Hint: say what to read with --query 'SELECT ...'."
        )
    return _npz(file, options) if file.kind == "npz" else _duckdb(file, options, progress)


def _npz(file: OpenedFile, options: FileOptions) -> Source:
    from expertload._opening.npz import NpzSource

    if options.query is not None:
        raise FileFormatError(
            f"A query cannot be put to {file.where}: an npz file is no table. Hint: leave --query "
            "out, or save the arrays as Parquet."
        )
    return NpzSource(file)


def _duckdb(file: OpenedFile, options: FileOptions, progress: Progress | None) -> Source:
    from expertload._opening.tables import DuckDBSource

    return DuckDBSource(file, options, progress)


def encoded_values(values: Any) -> Any:
    """Return Arrow's values as numbers of a dictionary."""
    return values.dictionary_encode()


def to_codes(encoded: Any) -> Coded:
    """Return what `encoded_values` made of each chunk of a column, with one dictionary for all."""
    encoded = encoded.unify_dictionaries().combine_chunks()
    indices, distinct = encoded.indices, to_numpy(encoded.dictionary)
    if indices.null_count:  # a missing value is one of its own
        indices = indices.fill_null(len(distinct))
        distinct = np.array([*distinct.tolist(), None], dtype=object)
    codes = to_numpy(indices)
    return Coded(distinct, codes.astype(np.min_scalar_type(len(distinct))))


def to_numpy(values: Any) -> AnyArray:
    """Return Arrow's values as numpy's, an array of objects with None where one is missing.

    Arrow's own way loads pandas first, if there is one, which takes longer than reading a small
    file. So it is left for dates, which no other way makes numpy's.
    """
    kind = str(values.type)
    if values.null_count == 0 and kind in NUMBERS:
        return _numbers(values, NUMBERS[kind])
    if values.null_count == 0 and kind.startswith(("date", "timestamp")):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    is_boolean = values.null_count == 0 and kind == "bool"
    listed = np.empty(len(values), dtype=bool if is_boolean else object)
    listed[:] = values.to_pylist()
    return listed


def _numbers(values: Any, dtype: str) -> AnyArray:
    """Return numbers from where they lie."""
    chunks = getattr(values, "chunks", [values])
    parts = [
        np.frombuffer(chunk.buffers()[1], dtype)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in chunks
        if len(chunk)
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype)

"""Columns of cases, from whatever holds them: whole, or some rows at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from expertload._opening.files import OpenedFile, resolve_file
from expertload._opening.options import FileOptions
from expertload._typing import AnyArray, BoolArray, IntArray
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = [
    "Batch",
    "Coded",
    "CodedParts",
    "Gathered",
    "Progress",
    "Source",
    "Table",
    "from_numpy",
    "open_source",
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
        self,
        names: Sequence[str],
        numbers: Sequence[str] = (),
        *,
        size: int,
        typed: Sequence[str] = (),
    ) -> Iterator[tuple[Batch, Batch]]:
        """Return Arrow arrays, this many rows at a time: some columns unchanged, some as numbers.

        Text in the columns of numbers is turned into numbers, and missing where it is none. What
        numpy has no type for (decimals, times with a zone, lists) is text, but for the columns in
        `typed`, if Parquet has one.
        """
        ...

    def check_spelled(self, name: str, is_none: BoolArray, first_row: int = 1) -> None:
        """Refuse what spells no number, in the rows where none was found."""
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


class Gathered:
    """Values that come in parts, in one array of the length that was promised.

    To keep the parts and to join them at the end takes twice the memory, and the time to get it.
    """

    def __init__(self, n_promised: int | None) -> None:
        self._n_promised, self._n = n_promised or 0, 0
        self._array: AnyArray = np.empty(0)

    def append(self, part: AnyArray) -> None:
        """Take in what comes next; where a value is missing, all become objects."""
        begin, end = self._n, self._n + len(part)
        kind = part.dtype if begin == 0 else np.result_type(self._array, part)
        if end > len(self._array) or kind != self._array.dtype:
            longer = np.empty(max(end, self._n_promised, begin + begin // 2), kind)
            longer[:begin] = self._array[:begin]
            self._array = longer
        self._array[begin:end] = part
        self._n = end

    def whole(self) -> AnyArray:
        """Return what was taken in."""
        return self._array[: self._n]


class CodedParts:
    """A column of few distinct values that comes in parts; of each, only small codes are kept."""

    def __init__(self, n_promised: int | None) -> None:
        self._n_promised = n_promised
        self._values: list[Any] = []  # the distinct values of each part, as Arrow's arrays
        self._codes: list[IntArray] = []

    def append(self, part: Any) -> None:
        """Take in Arrow's values; a missing one is a value of its own."""
        encoded = part.dictionary_encode(null_encoding="encode")
        codes = to_numpy(encoded.indices)
        self._values.append(encoded.dictionary)
        self._codes.append(codes.astype(np.min_scalar_type(len(encoded.dictionary))))

    def whole(self) -> Coded:
        """Return the column, with one number for each value wherever it stands."""
        pa = require_extra("pyarrow", "frames", "Reading files of predictions")
        values = pa.chunked_array(self._values or [pa.array([], pa.string())]).combine_chunks()
        encoded = values.dictionary_encode(null_encoding="encode")
        numbers = to_numpy(encoded.indices)
        numbers = numbers.astype(np.min_scalar_type(len(encoded.dictionary)))
        codes, begin = Gathered(self._n_promised), 0
        for part, own in zip(self._codes, self._values, strict=True):
            codes.append(numbers[begin : begin + len(own)][part])
            begin += len(own)
        return Coded(to_numpy(encoded.dictionary), codes.whole())


def to_numpy(values: Any) -> AnyArray:
    """Return Arrow's values as numpy's, an array of objects with None where one is missing.

    Arrow's own way loads pandas first, if there is one, which takes longer than reading a small
    file. So it is left for dates, which no other way makes numpy's.
    """
    kind = str(values.type)
    if values.null_count == 0 and kind in NUMBERS:
        return _numbers(values, NUMBERS[kind])
    if kind.startswith(("date", "timestamp")):
        moments = np.asarray(values.to_numpy(zero_copy_only=False))
        return _with_none(moments) if values.null_count else moments
    is_boolean = values.null_count == 0 and kind == "bool"
    listed = np.empty(len(values), dtype=bool if is_boolean else object)
    listed[:] = values.to_pylist()
    return listed


def from_numpy(values: AnyArray) -> Any:
    """Return numpy's numbers or truth values as Arrow's, for the same reason in another way."""
    pa = require_extra("pyarrow", "frames", "Deciding files")
    kind, letters = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    if values.dtype == np.bool_:
        letters = np.packbits(letters, bitorder="little")
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(letters)])


def _with_none(moments: AnyArray) -> AnyArray:
    """Return moments as objects, None where one is missing; Python knows no year above 9999."""
    listed = moments.astype(object)
    listed[np.isnat(moments)] = None
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

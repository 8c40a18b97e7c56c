"""Columns of cases from any kind of file, read whole or in batches of rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    "Gathered",
    "Progress",
    "Source",
    "Table",
    "check_distinct_names",
    "from_numpy",
    "open_source",
    "to_numpy",
]

Table = dict[str, AnyArray]
Progress = Callable[[int, int | None], None]
Batch = dict[str, Any]  # pyarrow arrays, for which the type checker has no types


# Arrow's numeric types with the same memory layout as numpy's.
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
    """A column with few distinct values, stored as the distinct values and a code per row."""

    values: AnyArray
    codes: IntArray


class Source(Protocol):
    """Columns of cases that are read on request.

    Attributes
    ----------
    where : str
        The file's name, for messages.
    columns : list of str
        The names of the columns.
    types : dict from str to str
        The DuckDB type of each column; `VARCHAR` for text.
    numbered : frozenset of str
        The columns of a matrix or list, which have positions but no names.
    nested : frozenset of str
        The columns of the file that hold several numbers per case, and were split.
    n_rows : int or None
        The number of rows, if it is known without reading them.
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

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return the classes of a matrix, if the file lists as many beside it."""
        ...

    def beside(self, name: str | None, other: str) -> str | None:
        """Return a column if it exists and has as many rows as another one."""
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
        """Yield Arrow arrays with this many rows: some columns unchanged, some as numbers.

        Text in numeric columns is converted to numbers; a value that is not a number is missing.
        Values without a numpy type (decimals, times with a zone, lists) are converted to text,
        except in the columns `typed`, if Parquet has a type for them.
        """
        ...

    def check_spelled(self, name: str, is_none: BoolArray, first_row: int = 1) -> None:
        """Refuse values that are not numbers, in the rows where the conversion failed."""
        ...


def open_source(
    path: str | os.PathLike[str],
    options: FileOptions | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open a file by the ending of its name; a database needs a query.

    `progress` is called with the number of rows read so far, and the total if known.
    """
    options = options or FileOptions()
    file = resolve_file(path, options)
    if file.kind == "database" and options.query is None:
        raise FileFormatError(
            f"{file.where} is a database. Hint: select the rows to read with --query 'SELECT ...'."
        )
    return _npz(file, options) if file.kind == "npz" else _duckdb(file, options, progress)


def _npz(file: OpenedFile, options: FileOptions) -> Source:
    from expertload._opening.npz import NpzSource

    if options.query is not None:
        raise FileFormatError(
            f"A query cannot read {file.where}, because an npz file is not a table. Hint: leave "
            "out --query, or save the arrays as Parquet."
        )
    return NpzSource(file)


def _duckdb(file: OpenedFile, options: FileOptions, progress: Progress | None) -> Source:
    from expertload._opening.tables import DuckDBSource

    return DuckDBSource(file, options, progress)


def check_distinct_names(
    names: Iterable[str], where: str, hint: str = "give every column a distinct name"
) -> None:
    """Refuse two columns with the same name, which DuckDB compares without regard to case."""
    counts = Counter(name.lower() for name in names)
    repeated = next((name for name, n in counts.items() if n > 1), None)
    if repeated is not None:
        raise FileFormatError(
            f"{where} has more than one column '{repeated}', in upper or lower case. Hint: {hint}."
        )


class Gathered:
    """Collects values that arrive in parts into one array of a known length.

    Keeping the parts and joining them at the end would take twice the memory, and more time. The
    values are written into `room` if it is given and they fit.
    """

    def __init__(self, n_promised: int | None, room: AnyArray | None = None) -> None:
        self._n_promised, self._n = n_promised or 0, 0
        self._array: AnyArray = np.empty(0) if room is None else room

    def append(self, part: AnyArray) -> None:
        """Add the next part; if a value is missing, the array becomes one of objects."""
        begin, end = self._n, self._n + len(part)
        kind = part.dtype if begin == 0 else np.result_type(self._array, part)
        if end > len(self._array) or kind != self._array.dtype:
            longer = np.empty(max(end, self._n_promised, begin + begin // 2), kind)
            longer[:begin] = self._array[:begin]
            self._array = longer
        self._array[begin:end] = part
        self._n = end

    def whole(self) -> AnyArray:
        """Return the collected values."""
        return self._array[: self._n]


def to_numpy(values: Any) -> AnyArray:
    """Return Arrow values as a numpy array; of objects, with None, if some are missing.

    Arrow's own conversion imports pandas if it is installed, which takes longer than reading a
    small file. So it is used only for dates, which cannot be converted in another way.
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
    """Return numpy numbers or booleans as an Arrow array, without importing pandas."""
    pa = require_extra("pyarrow", "frames", "Deciding files")
    kind, letters = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    if values.dtype == np.bool_:
        letters = np.packbits(letters, bitorder="little")
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(letters)])


def _with_none(moments: AnyArray) -> AnyArray:
    """Return moments as objects, None if missing; Python's own type ends at the year 9999."""
    listed = moments.astype(object)
    listed[np.isnat(moments)] = None
    return listed


def _numbers(values: Any, dtype: str) -> AnyArray:
    """Return a numpy view of Arrow's numbers, without a copy."""
    chunks = getattr(values, "chunks", [values])
    parts = [
        np.frombuffer(chunk.buffers()[1], dtype)[chunk.offset : chunk.offset + len(chunk)]
        for chunk in chunks
        if len(chunk)
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype)

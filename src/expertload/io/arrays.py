"""Columns of cases that are read on request: what every source offers, and npz archives."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from expertload._check import require_extra
from expertload._names import CLASS_LISTS, MATRICES
from expertload._typing import AnyArray, BoolArray
from expertload.exceptions import FileFormatError
from expertload.io.files import OpenedFile
from expertload.io.formats import check_distinct_names
from expertload.io.values import Coded

Table = dict[str, AnyArray]
Progress = Callable[[int, int | None], None]
Head = tuple[tuple[int, ...], Any]  # the shape of an array, and its type
Batch = dict[str, Any]  # pyarrow arrays, for which the type checker has no types

BATCH = 100_000
# The errors that numpy and zipfile raise for damaged archives.
DAMAGE = (
    *(ValueError, OSError, EOFError, KeyError, SyntaxError, TypeError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


class Source:
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
    numbered: frozenset[str] = frozenset()
    nested: frozenset[str] = frozenset()
    n_rows: int | None = None

    def read(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Return some columns whole; text in those of numbers as numbers, if all of it is."""
        return self.read_coded(names, numbers, ())[0]

    def read_coded(
        self, names: Sequence[str], numbers: Sequence[str], coded: Sequence[str]
    ) -> tuple[Table, dict[str, Coded]]:
        """Return some columns whole, and those of few distinct values coded."""
        raise NotImplementedError

    def batches(
        self,
        names: Sequence[str],
        numbers: Sequence[str] = (),
        *,
        size: int = BATCH,
        typed: Sequence[str] = (),
    ) -> Iterator[tuple[Batch, Batch]]:
        """Yield Arrow arrays with this many rows: some columns unchanged, some as numbers.

        Text in numeric columns is converted to numbers; a value that is not a number is missing.
        Values without a numpy type (decimals, times with a zone, lists) are converted to text,
        except in the columns `typed`, if Parquet has a type for them.
        """
        raise NotImplementedError

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return the classes of a matrix, if the file lists as many beside it."""
        return None

    def offer(self, names: Iterable[str]) -> None:
        """Add columns of classes that occur in no judgement, if they are asked for."""

    def beside(self, name: str | None, other: str) -> str | None:
        """Return a column if it exists and has as many rows as another one."""
        return name

    def check_spelled(self, name: str, is_none: BoolArray, first_row: int = 1) -> None:
        """Refuse values that are not numbers, in the rows where the conversion failed."""


# ------------------------------------------------------------------ npz


class NpzSource(Source):
    """The arrays of an archive; a matrix becomes one column per column, numbered from 0.

    Nothing in an archive is ever executed, and only the arrays that are asked for are unpacked.
    """

    def __init__(self, file: OpenedFile) -> None:
        self.where, self._path = file.where, file.paths[0]
        with self._explained_errors(), self._path.open("rb") as opened:
            self._heads = _heads(opened)
        numbered = {name: _numbered(name, shape) for name, (shape, _) in self._heads.items()}
        found = [(column, place) for columns in numbered.values() for column, place in columns]
        hint = "the columns of a matrix are numbered, p_0, p_1 and so on; give every array a "
        check_distinct_names((name for name, _ in found), self.where, f"{hint}distinct name")
        self._places = dict(found)
        self._unpacked: Table = {}
        self.columns = list(self._places)
        self.types = {name: str(self._heads[of][1]) for name, (of, _) in found}
        matrices = (columns for columns in numbered.values() if len(columns) > 1)
        self.numbered = frozenset(name for columns in matrices for name, _ in columns)

    def _column(self, name: str) -> AnyArray:
        """Return a column; its array is unpacked once."""
        of, place = self._places[name]
        if of not in self._unpacked:
            with self._explained_errors():
                self._unpacked[of] = _array(self._path, of)
        array = self._unpacked[of]
        return array.reshape(len(array)) if place is None else array[:, place]

    def read_coded(
        self, names: Sequence[str], numbers: Sequence[str], coded: Sequence[str]
    ) -> tuple[Table, dict[str, Coded]]:
        """Return whole columns, unchanged; columns with few distinct values as codes."""
        whole = {name: self._column(name) for name in (*names, *coded)}
        if len({len(array) for array in whole.values()}) > 1:
            got = ", ".join(f"{name}: {len(array)}" for name, array in whole.items())
            raise FileFormatError(
                f"The arrays read from {self.where} must all have one row per case. Got rows {got}."
            )
        codes = {name: Coded(*np.unique(whole[name], return_inverse=True)) for name in coded}
        return {name: whole[name] for name in names}, codes

    def batches(
        self,
        names: Sequence[str],
        numbers: Sequence[str] = (),
        *,
        size: int = BATCH,
        typed: Sequence[str] = (),
    ) -> Iterator[tuple[Batch, Batch]]:
        """Yield Arrow arrays with this many rows."""
        pa = require_extra("pyarrow", "frames", "Deciding files")
        columns = self.read([*names, *numbers])
        for start in range(0, len(next(iter(columns.values()))), size):
            with self._explained_errors():
                part = {name: pa.array(a[start : start + size]) for name, a in columns.items()}
            yield {name: part[name] for name in names}, {name: part[name] for name in numbers}

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return the classes of a matrix, if the file lists as many beside it."""
        lists = [self._column(name) for name in self.columns if name.lower() in CLASS_LISTS]
        found = {tuple(str(value) for value in one) for one in lists if len(one) == n_columns}
        if len(found) > 1:
            raise FileFormatError(
                f"{self.where} lists the classes of {n_columns} columns in more than one way. "
                "Hint: keep one list, or name the class of each column, in order (--classes)."
            )
        return next(iter(found), None)

    def beside(self, name: str | None, other: str) -> str | None:
        """Return a column if it exists and has as many rows as another one."""
        if not name:
            return None
        one, two = (self._heads[self._places[each][0]][0][0] for each in (name, other))
        return name if one == two else None

    @contextmanager
    def _explained_errors(self) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            reason = str(error).splitlines()[0].strip(". ") if str(error) else "it is damaged"
            raise FileFormatError(f"{self.where} could not be read as npz: {reason}.") from error


def _heads(file: BinaryIO) -> dict[str, Head]:
    """Return the shape and the type of each array of an archive, without unpacking it."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x93NUMPY"):
        raise ValueError("it holds a single array without a name")
    if not start.startswith(b"PK"):
        raise ValueError("it is not an archive")
    with zipfile.ZipFile(file) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
        heads = {name.removesuffix(".npy"): _head(archive, name) for name in members}
    if len(heads) < len(members):
        raise ValueError("it holds two arrays with the same name")
    return heads


def _head(archive: zipfile.ZipFile, member: str) -> Head:
    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject:
        raise ValueError(f"{member} holds Python objects (pickles), which are never loaded")
    return shape, dtype


def _array(path: Path, name: str) -> AnyArray:
    with np.load(path, allow_pickle=False) as archive:
        array: AnyArray = archive[f"{name}.npy"]
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _numbered(name: str, shape: tuple[int, ...]) -> list[tuple[str, tuple[str, int | None]]]:
    """Return an array as a column, or a matrix as several: their names, and where they are."""
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return [(name, (name, None))]
    prefix = "p" if name.lower() in MATRICES else name
    n_columns = shape[1] if len(shape) == 2 else 0
    return [(f"{prefix}_{i}", (name, i)) for i in range(n_columns)]


# ------------------------------------------------------------------ Arrow and numpy


def to_numpy(values: Any) -> AnyArray:
    """Return Arrow values as a numpy array; of objects, with None, if some are missing.

    Arrow's own conversion imports pandas if it is installed, which takes longer than reading a
    small file. So it is used only for dates, which cannot be converted in another way.
    """
    kind = str(values.type)
    if values.null_count == 0 and kind.endswith(("int8", "int16", "int32", "int64")):
        return _numbers(values)
    if values.null_count == 0 and kind in ("float", "double"):
        return _numbers(values)
    if kind.startswith(("date", "timestamp")):
        moments = np.asarray(values.to_numpy(zero_copy_only=False))
        if values.null_count == 0:
            return moments
        listed = moments.astype(object)  # Python's own type ends at the year 9999
        listed[np.isnat(moments)] = None
        return listed
    is_boolean = values.null_count == 0 and kind == "bool"
    listed = np.empty(len(values), dtype=bool if is_boolean else object)
    listed[:] = values.to_pylist()
    return listed


def _numbers(values: Any) -> AnyArray:
    parts = [np.from_dlpack(chunk) for chunk in getattr(values, "chunks", [values])]
    return np.concatenate(parts) if len(parts) != 1 else parts[0]


def from_numpy(values: AnyArray, is_known: BoolArray | None = None) -> Any:
    """Return numpy numbers or booleans as an Arrow array, without importing pandas."""
    pa = require_extra("pyarrow", "frames", "Deciding files")
    letters = np.ascontiguousarray(values)
    if values.dtype == np.bool_:
        letters = np.packbits(letters, bitorder="little")
    known = None
    if is_known is not None and not is_known.all():
        known = pa.py_buffer(np.packbits(is_known, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [known, pa.py_buffer(letters)])


def joined(parts: list[Any]) -> Any:
    """Return the parts of a column as one chunked array."""
    pa = require_extra("pyarrow", "frames", "Reading files of predictions")
    return pa.chunked_array(parts) if parts else pa.array([], pa.string())


def coded_column(parts: list[Any]) -> Coded:
    """Return a column from its dictionary-encoded parts; None is one more value if some miss."""
    if not parts:
        return Coded(np.empty(0, dtype=object), np.empty(0, dtype=np.int64))
    chunks = joined(parts).unify_dictionaries().chunks
    values, has_missing = to_numpy(chunks[0].dictionary), any(part.null_count for part in parts)
    n_values, kind = len(values), np.min_scalar_type(len(values))
    if has_missing:
        values = np.append(values.astype(object), [None])
    indices = (
        chunk.indices.fill_null(n_values) if has_missing else chunk.indices for chunk in chunks
    )
    codes = [to_numpy(part).astype(kind) for part in indices]
    return Coded(values, np.concatenate(codes))

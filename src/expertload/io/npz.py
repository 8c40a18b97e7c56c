"""The arrays of npz files, as columns; nothing in them is ever executed."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from expertload._names import CLASS_LISTS, MATRICES
from expertload._typing import AnyArray
from expertload.exceptions import FileFormatError
from expertload.io.files import OpenedFile, check_distinct_names, explained_errors

Head = tuple[tuple[int, ...], Any]  # the shape of an array, and its type


class Archive:
    """The arrays of an npz file; a matrix becomes one column per column, numbered from 0.

    Nothing in an archive is ever executed, and only the arrays that are asked for are unpacked.

    Attributes
    ----------
    types : dict from str to str
        The DuckDB type of each column, or of one like it.
    numbered : frozenset of str
        The columns of matrices, which have positions but no names.
    halves : frozenset of str
        The columns in half precision, which DuckDB lacks: they are read in single precision.
    """

    def __init__(self, file: OpenedFile) -> None:
        self._where, self._path = file.where, file.paths[0]
        with self._explained_errors(), self._path.open("rb") as opened:
            self._heads = _heads(opened)
        found = [pair for name, (shape, _) in self._heads.items() for pair in _columns(name, shape)]
        hint = "the columns of a matrix are numbered, p_0, p_1 and so on; give every array a "
        check_distinct_names((name for name, _ in found), self._where, f"{hint}distinct name")
        self._places, self._unpacked = dict(found), dict[str, AnyArray]()
        kinds = {name: self._heads[of][1] for name, (of, _) in found}
        self.types = {name: _duckdb_type(kind) for name, kind in kinds.items()}
        self.numbered = frozenset(name for name, (_, place) in found if place is not None)
        self.halves = frozenset(name for name, kind in kinds.items() if kind == np.float16)

    def column(self, name: str) -> AnyArray:
        """Return a column; its array is unpacked once."""
        of, place = self._places[name]
        if of not in self._unpacked:
            with self._explained_errors(), np.load(self._path, allow_pickle=False) as archive:
                self._unpacked[of] = _plain_array(archive[f"{of}.npy"])
        array = self._unpacked[of]
        return array.reshape(len(array)) if place is None else array[:, place]

    def table(self, names: Sequence[str]) -> Any:
        """Return some columns as a table of Arrow."""
        columns = {name: self.column(name) for name in dict.fromkeys(names)}
        if len({len(array) for array in columns.values()}) > 1:
            got = ", ".join(f"{name}: {len(array)}" for name, array in columns.items())
            raise FileFormatError(
                f"The arrays read from {self._where} must all have one row per case. Got rows "
                f"{got}."
            )
        with self._explained_errors():
            return pa.table({name: pa.array(array) for name, array in columns.items()})

    def n_rows(self, name: str) -> int:
        """Return the number of rows of a column, without unpacking it."""
        return self._heads[self._places[name][0]][0][0]

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return the classes of a matrix, if the file lists as many beside it."""
        lists = [self.column(name) for name in self.types if name.lower() in CLASS_LISTS]
        found = {tuple(str(value) for value in one) for one in lists if len(one) == n_columns}
        if len(found) > 1:
            raise FileFormatError(
                f"{self._where} lists the classes of {n_columns} columns in more than one way. "
                "Hint: keep one list, or name the class of each column, in order (--classes)."
            )
        return next(iter(found), None)

    def _explained_errors(self) -> AbstractContextManager[None]:
        return explained_errors(self._where, "read as npz", [self._path])


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


def _plain_array(array: AnyArray) -> AnyArray:
    """Return an array in a type that Arrow and DuckDB have."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _duckdb_type(kind: Any) -> str:
    if kind.kind in "SU":
        return "VARCHAR"
    return "DOUBLE" if kind.kind in "biufM" else str(kind)


def _columns(name: str, shape: tuple[int, ...]) -> list[tuple[str, tuple[str, int | None]]]:
    """Return an array as a column, or a matrix as several: their names, and where they are."""
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return [(name, (name, None))]
    prefix = "p" if name.lower() in MATRICES else name
    n_columns = shape[1] if len(shape) == 2 else 0
    return [(f"{prefix}_{i}", (name, i)) for i in range(n_columns)]

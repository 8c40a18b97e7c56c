"""npz archives: named arrays with one row per case. Nothing in them is ever executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np

from expertload._names import CLASS_LISTS, MATRICES
from expertload._opening.files import OpenedFile
from expertload._opening.source import Batch, Coded, Table, check_distinct_names
from expertload._typing import AnyArray, BoolArray
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = ["NpzSource"]

DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    SyntaxError,
    TypeError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


class NpzSource:
    """The arrays of an archive; a matrix becomes one column per column, numbered from 0."""

    nested: frozenset[str] = frozenset()

    def __init__(self, file: OpenedFile) -> None:
        self._path, self.where = file.paths[0], file.where
        self._numbered: list[str] = []
        self._arrays = self._load()
        self.columns = list(self._arrays)
        self.numbered = frozenset(self._numbered)
        self.types = {name: str(array.dtype) for name, array in self._arrays.items()}
        self.n_rows: int | None = None

    def read(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Return whole columns, unchanged."""
        return self._same_rows({name: self._arrays[name] for name in names})

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return the classes of a matrix, if the file lists as many beside it."""
        lists = [self._arrays[name] for name in self.columns if name.lower() in CLASS_LISTS]
        found = {tuple(str(each) for each in one) for one in lists if len(one) == n_columns}
        if len(found) > 1:
            raise FileFormatError(
                f"{self.where} lists the classes of {n_columns} columns in more than one way. "
                "Hint: keep one list, or name the class of each column, in order (--classes)."
            )
        return next(iter(found), None)

    def beside(self, name: str | None, other: str) -> str | None:
        """Return a column if it exists and has as many rows as another one."""
        arrays = self._arrays
        return name if name and len(arrays[name]) == len(arrays[other]) else None

    def read_coded(
        self, names: Sequence[str], numbers: Sequence[str], coded: Sequence[str]
    ) -> tuple[Table, dict[str, Coded]]:
        """Return whole columns; columns with few distinct values as codes."""
        whole = self.read(tuple(dict.fromkeys((*names, *coded))), numbers)
        codes = {name: Coded(*np.unique(whole[name], return_inverse=True)) for name in coded}
        return {name: whole[name] for name in names}, codes

    def batches(
        self,
        names: Sequence[str],
        numbers: Sequence[str] = (),
        *,
        size: int,
        typed: Sequence[str] = (),
    ) -> Iterator[tuple[Batch, Batch]]:
        """Yield Arrow arrays with this many rows."""
        pa = require_extra("pyarrow", "frames", "Deciding files")
        columns = self.read([*names, *numbers])
        n = len(next(iter(columns.values())))
        for start in range(0, n, size):
            with self._saying_errors():
                part = {name: pa.array(a[start : start + size]) for name, a in columns.items()}
            yield {name: part[name] for name in names}, {name: part[name] for name in numbers}

    def check_spelled(self, name: str, is_none: BoolArray, first_row: int = 1) -> None:
        """Do nothing, because numeric arrays contain no text."""

    def _load(self) -> Table:
        # Opened here, because numpy leaves a damaged file open.
        with self._saying_errors(), self._path.open("rb") as file:
            return self._unique(list(self._columns(_arrays(file))))

    @contextmanager
    def _saying_errors(self) -> Iterator[None]:
        try:
            yield
        except FileFormatError:
            raise
        except DAMAGE as error:
            reason = str(error).splitlines()[0].strip(". ") if str(error) else "it is damaged"
            raise FileFormatError(f"{self.where} could not be read as npz: {reason}.") from error

    def _columns(self, arrays: Table) -> Iterator[tuple[str, AnyArray]]:
        for name, array in arrays.items():
            if array.ndim == 1:
                yield name, array
            elif array.ndim == 2 and array.shape[1] == 1:
                yield name, array[:, 0]
            elif array.ndim == 2:
                prefix = "p" if name.lower() in MATRICES else name
                names = [f"{prefix}_{i}" for i in range(array.shape[1])]
                self._numbered += names
                yield from zip(names, array.T, strict=True)

    def _unique(self, columns: list[tuple[str, AnyArray]]) -> Table:
        """Refuse two columns with the same name: an array p_0, and column 0 of a matrix p."""
        hint = "the columns of a matrix are numbered, p_0, p_1 and so on; give every array a "
        check_distinct_names((name for name, _ in columns), self.where, f"{hint}distinct name")
        return dict(columns)

    def _same_rows(self, columns: Table) -> Table:
        """Return these arrays if all have one row per case; arrays that are not read may differ."""
        lengths = {len(array) for array in columns.values()}
        if len(lengths) > 1:
            got = ", ".join(f"{name}: {len(array)}" for name, array in columns.items())
            raise FileFormatError(
                f"The arrays read from {self.where} must all have one row per case. Got rows {got}."
            )
        return columns


def _arrays(file: BinaryIO) -> Table:
    """Return all arrays of an archive by name."""
    archive = np.load(file, allow_pickle=False) if _is_array_or_archive(file) else None
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(
            "it is not an archive" if archive is None else "it holds a single array without a name"
        )
    with archive, zipfile.ZipFile(file) as members_of:
        members = [name for name in members_of.namelist() if name.endswith(".npy")]
        arrays = {name.removesuffix(".npy"): archive[name] for name in members}
    if len(arrays) < len(members):
        raise ValueError("it holds two arrays with the same name")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name}.npy holds no array")
        if array.dtype.kind == "S":
            arrays[name] = np.char.decode(array, "utf-8")
        elif not array.dtype.isnative:
            arrays[name] = array.astype(array.dtype.newbyteorder("="))
    return arrays


def _is_array_or_archive(file: BinaryIO) -> bool:
    """Whether a file starts like npy or npz; for others, numpy suggests unsafe loading."""
    start = file.read(6)
    file.seek(0)
    return start == b"\x93NUMPY" or start.startswith(b"PK")

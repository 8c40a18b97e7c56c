"""Where columns come from: a file that DuckDB reads, a query, or numpy's own archive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from expertload._typing import AnyArray
from expertload.exceptions import DataNotFoundError, FileFormatError

__all__ = ["Source", "Table", "open_source"]

Table = dict[str, AnyArray]

DATABASES = (".duckdb", ".ddb", ".db")
KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json",
    ".npz": "npz",
}


class Source(Protocol):
    """Columns of cases, read as asked for."""

    where: str
    columns: list[str]

    def read(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Return some columns whole; those of numbers may be turned into some already."""
        ...

    def chunks(self, names: Sequence[str], size: int) -> Iterator[Table]:
        """Return some columns, so many rows at a time."""
        ...


def open_source(path: str | os.PathLike[str], query: str | None = None) -> Source:
    """Open a file by what its name ends in; a database needs a query."""
    file = Path(path)
    where = file.name or str(file)
    _check_there(file)
    is_database = file.suffix.lower() in DATABASES
    if is_database != (query is not None):
        raise FileFormatError(
            f"{where} is a database. Hint: say what to read with --query 'SELECT ...'."
            if is_database
            else f"A query needs a DuckDB database (.duckdb, .ddb or .db), and {where} is none."
        )
    kind = "database" if is_database else _kind(file)
    if kind == "npz":
        from expertload.predictions._npz_source import NpzSource

        return NpzSource(file, where)
    from expertload.predictions._duckdb_source import DuckDBSource

    return DuckDBSource(file, where, kind, query)


def _check_there(file: Path) -> None:
    if file.is_dir():
        raise FileFormatError(f"{file} is a folder, not a file of predictions.")
    if not file.exists():
        raise DataNotFoundError(f"There is no file {file}.")
    if file.is_file() and file.stat().st_size == 0:
        raise FileFormatError(f"{file.name} is empty.")


def _kind(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    kind = KINDS.get(suffixes[-1] if suffixes else "")
    if kind is None:
        raise FileFormatError(
            f"What {file.name} holds cannot be told from its name. Hint: predictions are read "
            "from .csv, .tsv, .parquet, .jsonl, .json and .npz files, and from DuckDB databases."
        )
    return kind

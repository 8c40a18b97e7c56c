"""`scan_file`: files on disk as a frame that DuckDB reads piece by piece, larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from uuid import uuid4

from expertload._opening import FileOptions, scan
from expertload._validation import check_count, parameter_error, require_extra

__all__ = ["scan_file"]


def scan_file(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    options: FileOptions | None = None,
    memory_limit: str | None = None,
    temp_directory: str | PathLike[str] | None = None,
    threads: int | None = None,
) -> Any:
    r"""Open Parquet, CSV or JSON files as a DuckDB relation, without loading them into memory.

    Parameters
    ----------
    path : path-like, or sequence of them
        A file, a pattern such as ``"predictions/*.parquet"``, a folder of Parquet files, or
        several of these.
    options : FileOptions, optional
        How to open the files: a format, a delimiter, an encoding, a query.
    memory_limit : str, optional
        The memory that DuckDB may use, such as ``"1GB"``; beyond it, DuckDB works on disk. Its
        default is most of the machine's memory.
    temp_directory : path-like, optional
        The folder for work on disk; by default a folder for temporary files of the system. It is
        emptied afterwards.
    threads : int, optional
        The number of cores that DuckDB may use; all by default.

    Returns
    -------
    duckdb.DuckDBPyRelation
        A frame for `tally_frame` and `tally_groups`. The columns of CSV and JSON are text, as
        written; `tally_frame` converts those it needs to numbers. Rows come in any order, which
        saves memory: if you need an order, also read an identifier.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from expertload.frames import scan_file, tally_frame
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "predictions.csv"
    ...     _ = path.write_text("confidence,correct\n0.9,true\n0.6,false\n")
    ...     print(tally_frame(scan_file(path)).accuracy)
    0.5
    """
    duckdb = require_extra("duckdb", "frames", "scan_file")
    paths = [fspath(one) for one in ([path] if isinstance(path, str | PathLike) else path)]
    if not paths:
        raise parameter_error("path", "must name a file", "none")
    settings = _settings(memory_limit, temp_directory, threads)
    try:
        return scan(paths, options or FileOptions(), settings)
    except duckdb.Error as error:  # an error of the settings; errors of the file were raised before
        got, hint = repr(memory_limit), "pass, for example, '1GB'"
        raise parameter_error("memory_limit", "must be a size", got, hint) from error


def _settings(
    memory_limit: str | None, temp_directory: str | PathLike[str] | None, threads: int | None
) -> dict[str, str]:
    settings = {"preserve_insertion_order": "false", "temp_directory": _folder(temp_directory)}
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = str(check_count(threads, "threads"))
    return settings


def _folder(temp_directory: str | PathLike[str] | None) -> str:
    """Return the folder for work on disk; DuckDB creates it when needed, and removes it."""
    if temp_directory is not None:
        return fspath(temp_directory)
    return str(Path(tempfile.gettempdir()) / f"expertload-{uuid4().hex}")

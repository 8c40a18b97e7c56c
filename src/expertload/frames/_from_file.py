"""`scan_file`: files on disk as a frame that DuckDB reads piece by piece, larger than memory."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from uuid import uuid4

from expertload._validation import check_count, check_option, parameter_error, require_extra
from expertload.exceptions import DataNotFoundError, FileFormatError

__all__ = ["scan_file"]

FORMATS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv"),
    "jsonl": (".jsonl", ".ndjson"),
}
COMPRESSED = (".gz", ".zst")


def scan_file(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002 - the word everyone looks for
    memory_limit: str | None = None,
    temp_directory: str | PathLike[str] | None = None,
    threads: int | None = None,
) -> Any:
    r"""Open Parquet, CSV or JSON Lines files as a DuckDB relation, without reading them yet.

    Parameters
    ----------
    path : path-like, or sequence of them
        A file, a pattern such as ``"predictions/*.parquet"``, or several of either.
    format : {"parquet", "csv", "jsonl"}, optional
        What the files hold; told from their names by default.
    memory_limit : str, optional
        The memory DuckDB may take, such as ``"1GB"``; beyond it, it works on disk. DuckDB's own
        default is most of the machine's.
    temp_directory : path-like, optional
        Where it works on disk; a folder among the system's temporary files by default. It is
        emptied afterwards.
    threads : int, optional
        How many cores DuckDB may use; all by default.

    Returns
    -------
    duckdb.DuckDBPyRelation
        A frame for `tally_frame` and `tally_groups`.

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
        raise parameter_error("path", "scan_file", "must name a file", "none")
    kind = _format(paths, format)
    connection = _connect(duckdb, memory_limit, temp_directory, threads)
    try:
        return _open(connection, paths, kind)
    except duckdb.IOException as error:
        raise DataNotFoundError(
            f"scan_file cannot open '{paths[0]}'. DuckDB says: {_first_line(error)} Hint: check "
            "the path; a pattern such as 'predictions/*.parquet' is welcome."
        ) from error
    except duckdb.Error as error:
        raise FileFormatError(
            f"scan_file cannot read '{paths[0]}' as {kind}. DuckDB says: {_first_line(error)} "
            "Hint: check the file, or pass the right format."
        ) from error


def _connect(
    duckdb: Any,
    memory_limit: str | None,
    temp_directory: str | PathLike[str] | None,
    threads: int | None,
) -> Any:
    options = {"preserve_insertion_order": "false", "temp_directory": _folder(temp_directory)}
    if memory_limit is not None:
        options["memory_limit"] = memory_limit
    if threads is not None:
        options["threads"] = str(check_count(threads, "threads", "scan_file"))
    try:
        connection = duckdb.connect(config=options)
    except duckdb.Error as error:
        got, hint = repr(memory_limit), "pass '1GB', for instance"
        raise parameter_error("memory_limit", "scan_file", "must be a size", got, hint) from error
    connection.execute("set enable_progress_bar = false")  # it goes to standard output
    return connection


def _format(paths: list[str], asked: str | None) -> str:
    if asked is not None:
        return check_option(asked, tuple(FORMATS), "format", "scan_file")
    name = Path(paths[0].lower())
    suffix = Path(name.stem).suffix if name.suffix in COMPRESSED else name.suffix
    for kind, suffixes in FORMATS.items():
        if suffix in suffixes:
            return kind
    wanted = "must end in " + ", ".join(suffix for group in FORMATS.values() for suffix in group)
    hint = f"pass format={' or '.join(repr(kind) for kind in FORMATS)}"
    raise parameter_error("path", "scan_file", wanted, repr(paths[0]), hint)


def _folder(temp_directory: str | PathLike[str] | None) -> str:
    """Where to spill; DuckDB makes the folder when it needs it, and removes what it made."""
    if temp_directory is not None:
        return fspath(temp_directory)
    return str(Path(tempfile.gettempdir()) / f"expertload-{uuid4().hex}")


def _open(connection: Any, paths: list[str], kind: str) -> Any:
    if kind == "parquet":
        return connection.read_parquet(paths)
    if kind == "csv":
        # Columns are found by name, and a first name that is blank must not cost all of them.
        return connection.read_csv(paths, header=True)
    return connection.read_json(paths, format="newline_delimited")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") + "."

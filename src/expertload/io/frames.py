"""The COC curve of any data frame, of any size, computed by the frame's own engine.

The engine of a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame groups the rows by confidence.
Only this small table is returned to numpy; the curve, its area and all other numbers are computed
from it. Tables of shards, days or sites can be added. Files larger than memory are opened with
`scan_file`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from uuid import uuid4

from expertload._check import check_count, parameter_error, require_extra
from expertload.io.files import FileOptions
from expertload.io.frame_tally import MOST_BITS, FrameTally
from expertload.io.source import scan

# The default largest number of rows that may leave the engine: half a gigabyte.
MAX_ROWS = 2**24


def tally_frame(
    frame: Any,
    *,
    confidence: str | None = None,
    correct: str | None = None,
    label: str | None = None,
    probabilities: str | Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    weight: str | None = None,
    bits: int | None = None,
    max_rows: int = MAX_ROWS,
) -> FrameTally:
    """Add up a frame's rows by confidence, in its own engine, for the curve and its numbers.

    Parameters
    ----------
    frame : a pandas, Polars (eager or lazy), PyArrow, DuckDB, Dask or Spark frame
        One row per case. It is neither changed nor collected: its engine groups the rows, checks
        them in the same pass, and only the grouped table leaves it.
    confidence : str, optional
        The column that ranks cases, higher meaning keep automatic. ``"confidence"`` by default, or
        the largest probability if `probabilities` are given.
    correct : str, optional
        The column with whether each case is right, or its grade in [0, 1]. ``"correct"`` by
        default; not read if `probabilities` are given.
    label : str, optional
        The column of true labels, with `probabilities`. ``"label"`` by default.
    probabilities : str or sequence of str, optional
        The columns of class probabilities, as names or as a pattern such as ``"p_*"``. Among equal
        probabilities the first column wins. One column is the probability of the second class,
        or of class 0 if that is its name.
    labels : sequence, optional
        The label of each probability column. By default, the label is the name of the column, or
        the part of it that the pattern's star matches (or that follows ``p_``). If no name has a
        number, whole-number labels are column numbers.
    weight : str, optional
        The column of sample weights.
    bits : int, optional
        Round confidences down to a multiple of ``2**-bits`` (16 is plenty), which keeps the table
        small for any number of rows; the table bounds the error. Exact by default.
    max_rows : int, default=2**24
        Refuse a table of more rows than this, before it leaves the engine.

    Returns
    -------
    FrameTally
        The table, with `curve()`, `aucoc()`, `load_at_accuracy(target)`, `accuracy_at_load(load)`.

    Examples
    --------
    >>> import polars as pl
    >>> from expertload.io import tally_frame
    >>> frame = pl.LazyFrame(
    ...     {
    ...         "label": ["cat", "dog", "dog", "cat"],
    ...         "p_cat": [0.9, 0.3, 0.6, 0.8],
    ...         "p_dog": [0.1, 0.7, 0.4, 0.2],
    ...     }
    ... )
    >>> table = tally_frame(frame, probabilities="p_*")
    >>> print(f"{table.aucoc():.4f}")
    0.9658
    >>> table.load_at_accuracy(0.95)
    0.25
    """
    tables = _tables(
        frame,
        max_rows,
        confidence=confidence,
        correct=correct,
        label=label,
        probabilities=probabilities,
        labels=labels,
        weight=weight,
        bits=bits,
    )
    return tables[None]


def tally_groups(
    frame: Any, *, by: str, max_rows: int = MAX_ROWS, **columns: Any
) -> dict[Any, FrameTally]:
    """Add up a frame's rows by confidence within each group, such as a site or a day.

    Parameters
    ----------
    frame : a frame
        As in `tally_frame`.
    by : str
        The column that names the group of each row.
    max_rows : int, default=2**24
        Refuse tables with more rows than this, over all groups.
    **columns
        ``confidence``, ``correct``, ``label``, ``probabilities``, ``labels``, ``weight`` and
        ``bits``, as in `tally_frame`.

    Returns
    -------
    dict
        The table of each group, sorted by name; rows without a group have the key None.

    Examples
    --------
    >>> import polars as pl
    >>> from expertload.io import tally_groups
    >>> frame = pl.DataFrame(
    ...     {"site": ["A", "A", "B"], "confidence": [0.6, 0.9, 0.8], "correct": [0, 1, 1]}
    ... )
    >>> sites = tally_groups(frame, by="site")
    >>> {site: table.accuracy for site, table in sites.items()}
    {'A': 0.5, 'B': 1.0}
    >>> sites["A"] + sites["B"]
    FrameTally(3 rows, 3 cases, exact)
    """
    return _tables(frame, max_rows, by=by, **columns)


def _tables(frame: Any, max_rows: int, **columns: Any) -> dict[Any, FrameTally]:
    require_extra("narwhals", "frames", "tally_frame")
    from expertload.io.frame_cases import Request, with_numbers
    from expertload.io.frame_query import group_rows, open_frame

    request = Request.of(**columns)
    if request.bits is not None:
        check_count(request.bits, "bits", minimum=0, maximum=MOST_BITS)
    check_count(max_rows, "max_rows")
    opened = open_frame(frame)
    wanted = request.numbers(opened.collect_schema().names())
    correct = request.correct if request.probabilities is None else None
    return group_rows(with_numbers(opened, wanted, correct), request, max_rows)


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
    >>> from expertload.io import scan_file, tally_frame
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

"""Runs one grouped query in the engine, and returns the small table.

A row that fails a check gets no confidence, so all bad rows end up in one group. The pass that
makes the table thus also shows whether the frame is valid. Only if not, a second query returns a
single row of counts for the error message.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

import narwhals as nw
import numpy as np

from expertload._check import message
from expertload._labels import is_missing
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.exceptions import (
    DataTypeError,
    EmptyInputError,
    FileFormatError,
    ParameterError,
    WeightError,
)
from expertload.io.frame_cases import FrameCases, Request, check_column, read_cases, row_problem
from expertload.io.frame_tally import FrameTally

KEY, TOP, RIGHT, WEIGHT, GROUP, GRADED = "key", "top", "right", "weight", "group", "graded"


def open_frame(frame: Any) -> nw.LazyFrame[Any]:
    """Return any frame as a lazy one, whose operations run only when its table is requested."""
    try:
        opened = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        got = "one in which " + " ".join(str(error).split()).rpartition(" - ")[2]
        hint = "give every column a distinct name"
        raise DataTypeError(
            message("frame", "must have distinct column names", got, hint)
        ) from error
    _check_frame(frame, isinstance(opened, nw.DataFrame | nw.LazyFrame))
    strange = next((name for name in opened.columns if not isinstance(name, str)), None)
    if strange is not None:
        got, hint = f"{strange!r}", "name the columns in text: frame.columns = [...]"
        raise DataTypeError(message("frame", "must name its columns in text", got, hint))
    lazy: nw.LazyFrame[Any] = opened.lazy()
    return lazy


def group_rows(frame: nw.LazyFrame[Any], request: Request, max_rows: int) -> dict[Any, FrameTally]:
    """Return the table of each group; of a single group None if none are requested."""
    cases = read_cases(frame, request, _collect)
    if request.by is not None:
        check_column(request.by, cases.frame.collect_schema().names(), "by")
    columns = _collect(_query(cases, request).head(max_rows + 1))
    n_rows = len(columns[KEY])
    _check_table_size(n_rows, max_rows)
    if np.isnan(_floats(columns[KEY])).any():
        raise _diagnosis(cases)
    _check_some_weight(n_rows, float(_floats(columns[WEIGHT]).sum()))
    is_counted = cases.weight is None and not _floats(columns.get(GRADED, np.zeros(1))).any()
    return _tables(columns, request.bits, is_counted=is_counted, labels=cases.labels)


def _query(cases: FrameCases, request: Request) -> nw.LazyFrame[Any]:
    sound = reduce(and_, [check.met for check in cases.checks])
    right = cases.correct
    # Of rows that are not sound nothing is added up: their weights may be too large for that.
    weight = None if cases.weight is None else nw.when(sound).then(cases.weight)
    columns = {RIGHT: right if weight is None else right * weight}
    sums = {WEIGHT: nw.len(), RIGHT: nw.col(RIGHT).sum()}
    if weight is not None:
        columns[WEIGHT] = weight
        sums[WEIGHT] = nw.col(WEIGHT).sum()
    if weight is None and request.probabilities is None:
        columns[GRADED], sums[GRADED] = right * (1 - right), nw.col(GRADED).max()
    key = cases.confidence
    if request.bits is not None:
        # A power of two changes only the exponent, so neither step rounds anything else.
        columns[TOP] = cases.confidence * 2.0**request.bits
        sums[TOP] = nw.col(TOP).max()
        key = columns[TOP].floor()
    columns[KEY] = nw.when(sound).then(key)
    keys = [KEY]
    if request.by is not None:
        columns[GROUP] = nw.col(request.by)
        keys.append(GROUP)
    return cases.frame.select(**columns).group_by(*keys).agg(**sums)


def _collect(frame: nw.LazyFrame[Any]) -> dict[str, AnyArray]:
    """Run the query; only its result is sent to this process."""
    if frame.implementation.is_duckdb():
        return _fetch(frame.to_native())
    options: dict[str, Any] = {"engine": "streaming"} if frame.implementation.is_polars() else {}
    table = frame.collect(**options)
    return {name: table[name].to_numpy() for name in table.columns}


def _fetch(relation: Any) -> dict[str, AnyArray]:
    """Run a query in DuckDB, which returns numpy arrays without other packages.

    Files are read only now, so a broken line in the middle of a file is found here.
    """
    import duckdb

    try:
        return dict(relation.fetchnumpy())
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise _unreadable_rows("DuckDB", error) from error


def _floats(values: AnyArray) -> FloatArray:
    """Return double precision, with NaN for missing values."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    return values.astype(np.float64, copy=False)


def _tables(columns: dict[str, AnyArray], bits: int | None, **counts: Any) -> dict[Any, FrameTally]:
    confidence = top = _floats(columns[KEY])
    if bits is not None:
        confidence, top = np.ldexp(confidence, -bits), np.ldexp(_floats(columns[TOP]), -bits)
    rows = (confidence, _floats(columns[WEIGHT]), _floats(columns[RIGHT]), top)
    groups = _split(columns.get(GROUP))
    if groups is None:
        return {None: FrameTally.from_rows(rows, bits, **counts)}
    return {
        group: FrameTally.from_rows((row[index] for row in rows), bits, **counts)
        for group, index in groups.items()
        if rows[1][index].any()  # groups of weight zero are left out
    }


def _split(groups: AnyArray | None) -> dict[Any, IntArray] | None:
    """Return the rows of each group, in order, with unnamed groups last."""
    if groups is None:
        return None
    names = [None if is_missing(group) else group for group in groups.tolist()]
    number = {name: i for i, name in enumerate(sorted(set(names), key=lambda n: (n is None, n)))}
    numbers = np.fromiter((number[name] for name in names), np.int64, len(names))
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers))
    return dict(zip(number, np.split(order, ends[:-1]), strict=True))


def _diagnosis(cases: FrameCases) -> Exception:
    """Count the rows that fail each check, and return the error for the first failure."""
    shown, wanted = {}, {}
    for i, check in enumerate(cases.checks):
        wanted[f"count{i}"] = nw.when(check.met).then(0).otherwise(1).sum()
        if check.low is not None and check.high is not None:
            shown[f"low{i}"], shown[f"high{i}"] = check.low, check.high
            failed = nw.when(check.met).then(0).otherwise(1) == 1
            wanted[f"low{i}"] = nw.when(failed).then(nw.col(f"low{i}")).min()
            wanted[f"high{i}"] = nw.when(failed).then(nw.col(f"high{i}")).max()
    frame = cases.frame.with_columns(**shown) if shown else cases.frame
    counts = _collect(frame.select(**wanted))
    first = next(i for i in range(len(cases.checks)) if counts[f"count{i}"][0])
    low, high = (counts.get(f"{side}{first}", [None])[0] for side in ("low", "high"))
    check, n_rows = cases.checks[first], int(counts[f"count{first}"][0])
    return row_problem(check.kind, check.name, n_rows, low, high)


def _check_frame(frame: Any, supported: bool) -> None:
    """Raise unless a frame has a supported engine."""
    if not supported:
        hint = "pass a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame; for a file, "
        hint += "scan_file(path); for arrays, expertload.aucoc_score and its siblings"
        got = f"a {type(frame).__name__}"
        raise DataTypeError(message("frame", "must be a data frame", got, hint))


def _unreadable_rows(engine: str, error: Exception) -> FileFormatError:
    """Return the error for rows that an engine cannot read."""
    why = " ".join(str(error).split())
    why = why if len(why) <= 300 else why[:300] + " ..."
    return FileFormatError(
        f"{engine} could not read the rows of the frame: {why} Hint: repair or filter the rows "
        "that it names."
    )


def _check_table_size(n_rows: int, max_rows: int) -> None:
    """Raise if a frame has more distinct confidences than `max_rows`."""
    if n_rows > max_rows:
        raise ParameterError(
            f"The frame must have at most {max_rows} distinct confidences. "
            "Hint: pass bits=16, which adds them up in 65,537 cells and bounds the error, or a "
            "larger max_rows."
        )


def _check_some_weight(n_rows: int, total: float) -> None:
    """Raise unless a frame has cases of positive weight."""
    if n_rows == 0:
        raise EmptyInputError(message("frame", "must hold at least one row", "none"))
    if total == 0:
        raise WeightError(message("weight", "must not be all zero", "zeros alone"))

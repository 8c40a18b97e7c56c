"""The COC curve of any data frame, of any size, computed by the frame's own engine.

The engine of a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame groups the rows by confidence.
Only this small table is returned to numpy; the curve, its area and all other numbers are computed
from it. Tables of shards, days or sites can be added. Files larger than memory are opened with
`scan_file`.

A row that fails a check of `frame_cases` gets no confidence, so all bad rows end up in one group,
and the pass that makes the table also shows whether the frame is valid. Only if not, a second query
counts the failures of each check, for the error message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import narwhals as nw
import numpy as np

from expertload._check import check_count, message
from expertload._labels import is_missing
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.exceptions import EmptyInputError, ParameterError, WeightError
from expertload.io.frame_cases import (
    FrameCases,
    Request,
    cases_of,
    check_column,
    collected,
    open_frame,
    with_numbers,
)
from expertload.io.frame_tally import MOST_BITS, FrameTally

KEY, TOP, RIGHT, WEIGHT, GROUP, GRADED = "key", "top", "right", "weight", "group", "graded"
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
    request = Request(confidence, correct, label, probabilities, labels, weight, bits)
    return _tally(frame, max_rows, request)[None]


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
    return _tally(frame, max_rows, Request(by=by, **columns))


# ------------------------------------------------------------------ the query


def _tally(frame: Any, max_rows: int, request: Request) -> dict[Any, FrameTally]:
    """Return the table of each group; of a single group None if none are requested."""
    request = request.with_usual_names()
    if request.bits is not None:
        check_count(request.bits, "bits", minimum=0, maximum=MOST_BITS)
    check_count(max_rows, "max_rows")
    opened = open_frame(frame)
    available = opened.collect_schema().names()
    wanted = {request.confidence, request.weight, *dict(request.probability_columns(available))}
    cases = cases_of(with_numbers(opened, wanted, request.correct), request)
    if request.by is not None:
        check_column(request.by, available, "by")
    found = collected(_query(cases, request).head(max_rows + 1))
    n_rows = len(found[KEY])
    if n_rows > max_rows:
        raise ParameterError(
            f"The frame must have at most {max_rows} distinct confidences. "
            "Hint: pass bits=16, which adds them up in 65,537 cells and bounds the error, or a "
            "larger max_rows."
        )
    if np.isnan(_floats(found[KEY])).any():
        raise _diagnosis(cases)
    if n_rows == 0:
        raise EmptyInputError(message("frame", "must hold at least one row", "none"))
    if _floats(found[WEIGHT]).sum() == 0:
        raise WeightError(message("weight", "must not be all zero", "zeros alone"))
    is_counted = cases.weight is None and not _floats(found.get(GRADED, np.zeros(1))).any()
    return _tables(found, request.bits, is_counted=is_counted, labels=cases.labels)


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
    groups = _split(columns[GROUP]) if GROUP in columns else {None: slice(None)}
    return {
        group: FrameTally.from_rows((row[index] for row in rows), bits, **counts)
        for group, index in groups.items()
        if rows[1][index].any()  # groups of weight zero are left out
    }


def _split(groups: AnyArray) -> dict[Any, IntArray]:
    """Return the rows of each group, in order, with unnamed groups last."""
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
        failed = nw.when(check.met).then(0).otherwise(1)
        wanted[f"count{i}"] = failed.sum()
        if check.low is not None:
            shown[f"low{i}"] = check.low
            shown[f"high{i}"] = check.low if check.high is None else check.high
            wanted[f"low{i}"] = nw.when(failed == 1).then(nw.col(f"low{i}")).min()
            wanted[f"high{i}"] = nw.when(failed == 1).then(nw.col(f"high{i}")).max()
    frame = cases.frame.with_columns(**shown) if shown else cases.frame
    counts = {name: values[0] for name, values in collected(frame.select(**wanted)).items()}
    first = next(i for i in range(len(cases.checks)) if counts[f"count{i}"])
    problem, name, *_ = cases.checks[first]
    got = f"{int(counts[f'count{first}'])} row(s) that do not"
    if counts.get(f"low{first}") is not None:
        got += f", with values from {counts[f'low{first}']:g} to {counts[f'high{first}']:g}"
    return problem.error(message(name, problem.wanted, got, problem.hint))

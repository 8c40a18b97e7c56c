"""`tally_frame` and `tally_groups`: from any frame to its table, by the frame's own engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expertload._validation import check_count, require_extra
from expertload.frames.frame_tally import MOST_BITS, FrameTally

__all__ = ["MAX_ROWS", "tally_frame", "tally_groups"]

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
    >>> from expertload.frames import tally_frame
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
    frame: Any,
    *,
    by: str,
    confidence: str | None = None,
    correct: str | None = None,
    label: str | None = None,
    probabilities: str | Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    weight: str | None = None,
    bits: int | None = None,
    max_rows: int = MAX_ROWS,
) -> dict[Any, FrameTally]:
    """Add up a frame's rows by confidence within each group, such as a site or a day.

    Parameters
    ----------
    frame, confidence, correct, label, probabilities, labels, weight, bits
        As in `tally_frame`.
    by : str
        The column that names the group of each row.
    max_rows : int, default=2**24
        Refuse tables with more rows than this, over all groups.

    Returns
    -------
    dict
        The table of each group, sorted by name; rows without a group have the key None.

    Examples
    --------
    >>> import polars as pl
    >>> from expertload.frames import tally_groups
    >>> frame = pl.DataFrame(
    ...     {"site": ["A", "A", "B"], "confidence": [0.6, 0.9, 0.8], "correct": [0, 1, 1]}
    ... )
    >>> sites = tally_groups(frame, by="site")
    >>> {site: table.accuracy for site, table in sites.items()}
    {'A': 0.5, 'B': 1.0}
    >>> sites["A"] + sites["B"]
    FrameTally(3 rows, 3 cases, exact)
    """
    return _tables(
        frame,
        max_rows,
        by=by,
        confidence=confidence,
        correct=correct,
        label=label,
        probabilities=probabilities,
        labels=labels,
        weight=weight,
        bits=bits,
    )


def _tables(frame: Any, max_rows: int, **asked: Any) -> dict[Any, FrameTally]:
    require_extra("narwhals", "frames", "tally_frame")
    from expertload.frames.engine import group_rows, open_frame
    from expertload.frames.request import Request
    from expertload.frames.text import with_numbers

    if asked["bits"] is not None:
        check_count(asked["bits"], "bits", minimum=0, maximum=MOST_BITS)
    check_count(max_rows, "max_rows")
    asked = {**asked, **_defaults(asked)}
    opened = with_numbers(open_frame(frame), asked)
    return group_rows(opened, Request(**asked), max_rows)


def _defaults(asked: dict[str, Any]) -> dict[str, str]:
    """Return the conventional names of columns that were not named."""
    wanted = ("confidence", "correct") if asked["probabilities"] is None else ("label",)
    return {name: name for name in wanted if asked[name] is None}

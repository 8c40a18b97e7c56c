"""The COC curve of any data frame, of any size, computed by the frame's own engine.

The engine of a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame groups the rows by confidence.
Only this small table, a `FrameTally`, is returned to numpy; the curve, its area and all other
numbers are computed from it. It has one row per distinct confidence, or per cell of rounded
confidences, and tables of shards, days and sites add up to the table of their union: each part is
read once, in place. Files larger than memory are opened with `scan_file`.

A row that fails a check of `frame_cases` gets no confidence, so all bad rows end up in one group,
and the pass that makes the table also shows whether the frame is valid. Only if not, a second query
counts the failures of each check, for the error message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import narwhals as nw
import numpy as np

from expertload._check import check_count, check_fraction, check_option, message
from expertload._files import replaced_whole
from expertload._labels import is_missing
from expertload._typing import AnyArray, BoolArray, FloatArray, IntArray
from expertload.cases import Cases
from expertload.exceptions import EmptyInputError, FileFormatError, ParameterError, WeightError
from expertload.io.frame_cases import (
    FrameCases,
    Request,
    cases_of,
    check_column,
    collected,
    open_frame,
    with_numbers,
)
from expertload.tally import (
    CONVENTIONS,
    Bounds,
    COCCurve,
    Convention,
    Tally,
    accuracy_bounds,
    area_bounds,
    check_whole_weight,
    load_bounds,
)

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
    if request.bits is not None:
        check_count(request.bits, "bits", minimum=0, maximum=MOST_BITS)
    check_count(max_rows, "max_rows")
    opened = open_frame(frame)
    available = opened.collect_schema().names()
    request = request.of(available)
    wanted = {request.confidence, request.weight, *dict(request.probabilities or ())}
    cases = cases_of(with_numbers(opened, wanted, request.correct), request)
    if request.by is not None:
        check_column(request.by, available, "by")
    table = collected(_query(cases, request).head(max_rows + 1))
    n_rows = len(table[KEY])
    if n_rows > max_rows:
        raise ParameterError(
            f"The frame must have at most {max_rows} distinct confidences. "
            "Hint: pass bits=16, which adds them up in 65,537 cells and bounds the error, or a "
            "larger max_rows."
        )
    if np.isnan(_floats(table[KEY])).any():
        raise _diagnosis(cases)
    if n_rows == 0:
        raise EmptyInputError(message("frame", "must hold at least one row", "none"))
    if _floats(table[WEIGHT]).sum() == 0:
        raise WeightError(message("weight", "must not be all zero", "zeros alone"))
    is_counted = cases.weight is None and not _floats(table.get(GRADED, np.zeros(1))).any()
    return _tables(table, request.bits, is_counted=is_counted, labels=cases.labels)


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
    return np.asarray(np.ma.filled(values.astype(np.float64, copy=False), np.nan))


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
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(groups.tolist()):
        rows.setdefault(None if is_missing(name) else name, []).append(row)
    return {name: np.array(rows[name]) for name in sorted(rows, key=lambda n: (n is None, n))}


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


# ------------------------------------------------------------------ the table


# A double has 53 bits, so finer cells could not be distinguished.
MOST_BITS = 52
# Tables on disk are plain arrays, checked when they are read.
FORMAT = "expertload.FrameTally"
VERSION = 1
NO_BITS = -1  # of an exact table
ARRAYS = ("confidence", "weight", "correct", "top")


@dataclass(frozen=True, eq=False, repr=False)
class FrameTally:
    """Cases added up by confidence, as returned by `tally_frame`.

    Attributes
    ----------
    confidence : ndarray of shape (n_rows,)
        Distinct confidences, ascending; for a rounded table, the lower edges of the cells.
    weight : ndarray of shape (n_rows,)
        Number (or weight) of the cases there.
    correct : ndarray of shape (n_rows,)
        Number (or weight) of the correct ones among them, or the sum of their grades.
    top : ndarray of shape (n_rows,)
        The largest confidence of each row: `confidence` itself unless the table is rounded.
    bits : int or None
        Confidences are rounded down to a multiple of ``2**-bits``; None if they are exact.
    is_counted : bool
        Whether the table counts cases that are right or wrong, without weights.
    labels : tuple or None
        The classes, if the confidence is the largest probability.

    Examples
    --------
    >>> import polars as pl
    >>> from expertload.io import tally_frame
    >>> monday = pl.DataFrame({"confidence": [0.5, 0.5, 0.7], "correct": [True, False, True]})
    >>> tuesday = pl.DataFrame({"confidence": [0.7, 0.9], "correct": [True, True]})
    >>> week = tally_frame(monday) + tally_frame(tuesday)
    >>> week
    FrameTally(3 rows, 5 cases, exact)
    >>> print(f"{week.aucoc():.4f}")
    0.9532
    """

    confidence: FloatArray
    weight: FloatArray
    correct: FloatArray
    top: FloatArray
    bits: int | None = None
    is_counted: bool = False
    labels: tuple[Any, ...] | None = None

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[FloatArray],
        bits: int | None,
        *,
        is_counted: bool = False,
        labels: tuple[Any, ...] | None = None,
    ) -> FrameTally:
        """Build a table from its four columns, in any order of rows, adding up equal ones."""
        confidence, weight, correct, top = rows
        order = np.argsort(confidence, kind="stable")
        order = order[weight[order] > 0]  # cases of weight zero are left out
        ascending = confidence[order]
        start = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
        distinct = ascending[start]
        total = np.add.reduceat(weight[order], start)
        # Sums in another order may differ in the last digit; correct weight must not exceed weight.
        right = np.minimum(np.add.reduceat(correct[order], start), total)
        top = distinct if bits is None else np.maximum.reduceat(top[order], start)
        return cls(distinct, total, right, top, bits, is_counted, labels)

    # ------------------------------------------------------------------ the numbers

    @property
    def tally(self) -> Tally:
        """The table as a `Tally`, for the rest of the library."""
        return Tally(self.confidence, self.weight, self.correct)

    @property
    def n_cases(self) -> float:
        """All cases (or their weight)."""
        return self.tally.total

    @property
    def accuracy(self) -> float:
        """Mean correctness of all cases."""
        return float(self.correct.sum() / self.weight.sum())

    def curve(self) -> COCCurve:
        """Return the COC curve; its points are exact, even for a rounded table."""
        return self.tally.curve()

    def aucoc(self, *, convention: Convention = "exact") -> float:
        """Return the area under the curve, as `expertload.aucoc_score` does."""
        check_option(convention, CONVENTIONS, "convention")
        if convention == "thresholds":
            check_whole_weight(self.weight)
        return self.tally.area(convention)

    def load_at_accuracy(self, target_accuracy: float) -> float:
        """Return the smallest load that reaches a target, as `expertload.load_at_accuracy` does.

        For a rounded table, the load is never too small: the cases reach the target at the
        threshold that the curve shows.
        """
        return self.tally.load_at_accuracy(check_fraction(target_accuracy, "target_accuracy"))

    def accuracy_at_load(self, expert_load: float) -> float:
        """Return the accuracy at a load, as `expertload.accuracy_at_load` does."""
        return self.tally.accuracy_at_load(check_fraction(expert_load, "expert_load"))

    def cases(self) -> Cases:
        """Return the cases if the table counts them; else its rows as weighted, graded cases.

        `expertload.certify` and `expertload.evaluation.evaluate` take the table itself.

        Examples
        --------
        >>> import polars as pl
        >>> from expertload.io import tally_frame
        >>> from expertload import operating_point
        >>> frame = pl.DataFrame({"confidence": [0.5, 0.5, 0.7], "correct": [1, 0, 1]})
        >>> cases = tally_frame(frame).cases()
        >>> operating_point.choose(cases, target_accuracy=0.9).threshold
        0.7
        """
        if self.is_counted:
            return Cases.from_tally(self.tally, labels=self.labels)
        return Cases.from_correctness(self.tally.grade, self.confidence, sample_weight=self.weight)

    __cases__ = cases

    # ------------------------------------------------------------------ what rounding costs

    @property
    def error_bound(self) -> float:
        """The largest possible rounding error of `aucoc()`; 0 for an exact table."""
        if self._tied.all():
            return 0.0
        area, bounds = self.aucoc(), self.aucoc_bounds()
        return max(bounds.high - area, area - bounds.low)

    def aucoc_bounds(self) -> Bounds:
        """Return bounds for the area of the exact confidences.

        Examples
        --------
        >>> import numpy as np, polars as pl
        >>> from expertload.io import tally_frame
        >>> case = np.arange(10_000)
        >>> frame = pl.DataFrame({"confidence": np.sqrt(case / 1e4), "correct": case % 10 > 0})
        >>> exact, rounded = tally_frame(frame), tally_frame(frame, bits=10)
        >>> len(exact.confidence), len(rounded.confidence)
        (10000, 998)
        >>> low, high = rounded.aucoc_bounds()
        >>> print(f"{low:.3f} <= {exact.aucoc():.3f} <= {high:.3f}")
        0.900 <= 0.900 <= 0.901
        """
        return area_bounds(self.tally, self._tied)

    def load_bounds(self, target_accuracy: float) -> Bounds:
        """Return bounds for the load at a target, for the exact confidences."""
        target = check_fraction(target_accuracy, "target_accuracy")
        return load_bounds(self.tally, self._tied, target, is_counted=self.is_counted)

    def accuracy_bounds(self, expert_load: float) -> Bounds:
        """Return bounds for the accuracy at a load, for the exact confidences."""
        load = check_fraction(expert_load, "expert_load")
        return accuracy_bounds(self.tally, self._tied, load)

    @cached_property
    def _tied(self) -> BoolArray:
        """The rows whose cases certainly all have the same confidence."""
        return np.asarray(self.top == self.confidence)

    # ------------------------------------------------------------------ tables together

    def merge(self, *others: FrameTally) -> FrameTally:
        """Return the table of all cases together; the order of tables does not matter.

        Parameters
        ----------
        *others : FrameTally
            Tables of other cases, rounded to the same bits as this one, or exact if it is exact.

        Examples
        --------
        >>> import polars as pl
        >>> from expertload.io import tally_frame
        >>> site = tally_frame(pl.DataFrame({"confidence": [0.5, 0.7], "correct": [0, 1]}))
        >>> site.merge(site, site).n_cases
        6.0
        """
        tables = (self, *others)
        if any(table.bits != self.bits for table in tables):
            got = ", ".join("exact" if t.bits is None else f"{t.bits} bits" for t in tables)
            raise ParameterError(
                f"The tables to merge must all be exact, or rounded to the same bits. Got "
                f"{got}. Hint: table.rounded(bits) makes a table coarser."
            )
        rows = (np.concatenate([getattr(table, name) for table in tables]) for name in ARRAYS)
        labels = self.labels if all(table.labels == self.labels for table in tables) else None
        is_counted = all(table.is_counted for table in tables)
        return FrameTally.from_rows(rows, self.bits, is_counted=is_counted, labels=labels)

    def __add__(self, other: FrameTally) -> FrameTally:
        return self.merge(other) if isinstance(other, FrameTally) else NotImplemented

    def rounded(self, bits: int) -> FrameTally:
        """Return a coarser table, for example to merge this one with a coarser one.

        Parameters
        ----------
        bits : int
            Round down to a multiple of ``2**-bits``; no more than this table has.

        Examples
        --------
        >>> import polars as pl
        >>> from expertload.io import tally_frame
        >>> exact = tally_frame(pl.DataFrame({"confidence": [0.26, 0.49, 0.5], "correct": 1}))
        >>> exact.rounded(2).confidence
        array([0.25, 0.5 ])
        """
        most = MOST_BITS if self.bits is None else self.bits
        bits = check_count(bits, "bits", minimum=0, maximum=most)
        edges = np.floor(np.ldexp(self.confidence, bits))
        rows = (np.ldexp(edges, -bits), self.weight, self.correct, self.top)
        return FrameTally.from_rows(rows, bits, is_counted=self.is_counted, labels=self.labels)

    # ------------------------------------------------------------------ tables on disk

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table to an `.npz` file, which `load` reads; an old one stays if this fails."""
        header = np.array([VERSION, NO_BITS if self.bits is None else self.bits])
        named: dict[str, Any] = {name: getattr(self, name) for name in ARRAYS}
        counts = json.dumps({"is_counted": self.is_counted, "labels": self.labels})
        with replaced_whole(path) as draft, draft.open("xb") as file:
            np.savez_compressed(file, format=FORMAT, header=header, counts=counts, **named)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> FrameTally:
        """Read a file of `save`; other files are refused, and nothing is executed."""
        try:
            with Path(path).open("rb") as file:
                return _table_from(np.load(file, allow_pickle=False))
        except (ValueError, KeyError, IndexError, EOFError, AttributeError, BadZipFile) as error:
            raise FileFormatError(
                f"The file '{path}' must be a table that FrameTally.save wrote, in version "
                f"{VERSION} of its format. Hint: tally the frame and save it again."
            ) from error

    def __repr__(self) -> str:
        kind = "exact" if self.bits is None else f"rounded to 2**-{self.bits}"
        return f"FrameTally({len(self.weight)} rows, {self.n_cases:g} cases, {kind})"


def _table_from(archive: Any) -> FrameTally:
    """Return the table in an archive; raise an error if there is none, or not a sound one."""
    header = archive["header"]
    if str(archive["format"]) != FORMAT or header.dtype.kind != "i" or header[0] != VERSION:
        raise ValueError("another format")
    counts = json.loads(str(archive["counts"])) if "counts" in archive else {}
    bits, labels = int(header[1]), counts.get("labels")
    table = FrameTally(
        **{name: archive[name] for name in ARRAYS},
        bits=None if bits == NO_BITS else bits,
        is_counted=bool(counts.get("is_counted")),
        labels=None if labels is None else tuple(labels),
    )
    if not _is_sound(table):
        raise ValueError("rows that cannot belong to a table")
    return table


def _is_sound(table: FrameTally) -> bool:
    arrays = [getattr(table, name) for name in ARRAYS]
    if any(a.dtype != np.float64 or a.ndim != 1 or not np.isfinite(a).all() for a in arrays):
        return False
    confidence, weight, correct, top = arrays
    if len({len(a) for a in arrays}) != 1 or len(weight) == 0:
        return False
    cells = top if table.bits is None else np.ldexp(confidence, table.bits)
    edges = confidence if table.bits is None else np.floor(cells)
    whole = [weight, correct] if table.is_counted else []
    return bool(
        (weight > 0).all()
        and ((correct >= 0) & (correct <= weight)).all()
        and (np.diff(confidence) > 0).all()
        and (top >= confidence).all()
        and (cells == edges).all()
        and all((counted == np.floor(counted)).all() for counted in whole)
    )

"""The table that an engine returns: small, exact to merge, and enough for every number.

A `FrameTally` has one row per distinct confidence, or per cell of rounded confidences. Tables of
shards, days and sites add up to the table of their union. So each part is read once, in place, and
only its table is moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from expertload._check import check_count, check_fraction, check_option
from expertload._files import replaced_whole
from expertload._typing import BoolArray, FloatArray
from expertload.cases import Cases
from expertload.exceptions import FileFormatError, ParameterError
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
        target = check_fraction(target_accuracy, "target_accuracy")
        return self.tally.load_at_accuracy(target)

    def accuracy_at_load(self, expert_load: float) -> float:
        """Return the accuracy at a load, as `expertload.accuracy_at_load` does."""
        load = check_fraction(expert_load, "expert_load")
        return self.tally.accuracy_at_load(load)

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
        return load_bounds(self.tally, self._tied, target)

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

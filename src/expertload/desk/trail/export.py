"""Exports cases, one row each, for `expertload evaluate` and other programs.

`y_true` is the experts' final answer, empty if there is none. `p_*` are the model's probabilities;
`predicted`, `confidence` and `correct` follow from them. Rows are turned into columns and bytes a
few thousand at a time, so that memory does not grow with the desk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson

from expertload._validation import require_extra
from expertload.desk.desk import Desk
from expertload.desk.queue import classes_of
from expertload.exceptions import DeskRefusedError, DeskUnavailableError, FileWriteError
from expertload.predictions.writing import open_writer, stream_writer

__all__ = ["Format", "Which", "export", "export_bytes"]

T = TypeVar("T")
Format = Literal["jsonl", "csv", "parquet"]
Which = Literal["all", "labelled", "audited"]
CHUNK = 2_000  # rows that are Python objects at a time
CELLS_TOGETHER = 120_000  # cells written at a time: a row group of Parquet
TYPES = {
    "key": "string",
    "state": "string",
    "cause": "string",
    "model": "string",
    "group": "string",
    "cluster": "string",
    "policy": "int64",
    "accepted": "bool",
    "sampled": "bool",
    "rate": "float64",
    "predicted": "string",
    "confidence": "float64",
    "y_true": "string",
    "correct": "bool",
    "decided_by": "string",
    "decision": "string",
    "received": "float64",
    "due": "float64",
}
# The plus sign keeps the database from using the index of the project. So rows come in the order of
# their ids, and need not be sorted in memory.
_QUERY = """
    SELECT c.key, c.state, c.cause, c.model, c.group_name, c.cluster, c.policy_id, c.accepted,
      c.draw < c.rate, c.rate, c.predicted, c.confidence,
      CASE WHEN c.audit = 'right' THEN c.predicted
           WHEN c.state = 'closed' THEN d.label END,
      d.kind, d.label, c.received, c.due, c.probabilities
    FROM cases AS c
    LEFT JOIN decisions AS d ON d.case_id = c.id
      AND NOT EXISTS (SELECT 1 FROM decisions AS later WHERE later.supersedes = d.id)
    WHERE +c.project_id = (SELECT id FROM projects WHERE name = :project) {condition}
    ORDER BY c.id
"""
_CONDITIONS: dict[str, str] = {
    "all": "",
    "labelled": "AND (c.audit = 'right' OR (c.state = 'closed' AND d.label IS NOT NULL))",
    "audited": "AND c.audit IN ('right', 'wrong')",
}
FORMULA = r"^[=+\-@\t\r]"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def export(desk: Desk, path: str | os.PathLike[str], *, which: Which = "all") -> int:
    """Write cases to a .jsonl, .csv or .parquet file, completely or not at all; return how many."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".jsonl", ".csv", ".parquet"):
        raise DeskRefusedError(
            "bad_format",
            f"{target.name} is not a .jsonl, .csv or .parquet file.",
            "give the file one of these endings.",
        )
    n = 0
    try:
        with open_writer(target) as write:
            for columns in _columns(desk, which):
                write(_without_formulas(columns) if kind == ".csv" else columns)
                n += len(columns["key"])
    except FileWriteError as error:
        if isinstance(error.__cause__, DeskUnavailableError):  # reading failed, not writing
            raise error.__cause__ from None
        raise
    return n


def export_bytes(desk: Desk, kind: Format, *, which: Which = "all") -> Iterator[bytes]:
    """Yield the bytes of an export as they are produced."""
    buffer = _Buffer()
    with stream_writer(buffer, f".{kind}") as write:  # type: ignore[arg-type]
        for columns in _columns(desk, which):
            write(_without_formulas(columns) if kind == "csv" else columns)
            yield buffer.take()
    yield buffer.take()


class _Buffer(io.RawIOBase):
    """A stream that keeps its bytes until they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, part: Any) -> int:
        """Add some bytes."""
        self._parts.append(bytes(part))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return and remove the bytes."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


# ------------------------------------------------------------------ from rows to columns


def _columns(desk: Desk, which: Which) -> Iterator[dict[str, Any]]:
    """Yield columns of many rows at a time; if there are no rows, yield empty columns once."""
    return _prefetched(_column_groups(desk, which))


def _prefetched(parts: Generator[T]) -> Iterator[T]:
    """Yield parts; another thread reads the next part while the caller writes this one."""
    end: Any = object()
    with ThreadPoolExecutor(1, thread_name_prefix="desk-export") as other, closing(parts):
        following = other.submit(next, parts, end)
        while (part := following.result()) is not end:
            following = other.submit(next, parts, end)
            try:
                yield part
            except GeneratorExit:  # the caller does not want the rest
                wait([following])
                raise


def _column_groups(desk: Desk, which: Which) -> Generator[dict[str, Any]]:
    pa = require_extra("pyarrow", "desk", "An export")
    classes = desk.read(classes_of)
    names = [*TYPES, *(f"p_{name}" for name in classes)]
    at_a_time = max(1, CELLS_TOGETHER // (CHUNK * len(names)))
    with desk.database.reading() as connection:
        query = _QUERY.format(condition=_CONDITIONS[which])
        found = desk.database.stream(connection, query, {"project": desk.project}, CHUNK)
        parts = (_arrays(pa, some, classes) for some in found)
        begun = False
        while (group := list(islice(parts, at_a_time))) or not begun:
            begun = True
            together = zip(*(group or [_arrays(pa, [], classes)]), strict=True)
            yield dict(zip(names, map(pa.concat_arrays, together), strict=True))


def _arrays(pa: Any, rows: Sequence[Sequence[Any]], classes: Sequence[str]) -> list[Any]:
    """Return the columns of some rows, in the order of `TYPES` and then of the classes."""
    compute = require_extra("pyarrow.compute", "desk", "An export")
    cells = zip(*rows, strict=True) if rows else [()] * len(_SELECTED)
    selected = dict(zip(_SELECTED, cells, strict=True))
    texts = [each or "{}" for each in selected.pop("probabilities")]
    probabilities = orjson.loads(f"[{','.join(texts)}]")
    arrays = {}
    for name, values in selected.items():
        kind = TYPES[name]
        if kind == "bool":  # SQLite returns 0 and 1
            arrays[name] = pa.array(list(map(bool, values)), kind)
        else:
            arrays[name] = pa.array(values, kind, from_pandas=True)  # NaN becomes null
    arrays["correct"] = compute.equal(arrays["y_true"], arrays["predicted"])
    for name in ("received", "due"):
        arrays[name] = compute.divide(arrays[name], 1e6)
    by_class = [pa.array([each.get(name) for each in probabilities], "float64") for name in classes]
    return [*(arrays[name] for name in TYPES), *by_class]


_SELECTED = [*(name for name in TYPES if name != "correct"), "probabilities"]


def _without_formulas(columns: dict[str, Any]) -> dict[str, Any]:
    """Return columns in which spreadsheets run no cell: an apostrophe precedes formulas."""
    return {
        name: _quoted_formulas(values) if str(values.type) == "string" else values
        for name, values in columns.items()
    }


def _quoted_formulas(values: Any) -> Any:
    compute = require_extra("pyarrow.compute", "desk", "An export")
    is_formula = compute.and_not(
        compute.match_substring_regex(values, FORMULA),
        compute.match_substring_regex(values, NUMBER),
    )
    return compute.if_else(is_formula, compute.binary_join_element_wise("'", values, ""), values)

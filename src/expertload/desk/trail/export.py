"""Every case in a row, streamed: what `expertload evaluate` reads, and any other program.

`y_true` is what experts have settled on, empty where they were not asked; `p_*` are the model's
probabilities, `predicted`, `confidence` and `correct` what follows from them. Rows become columns a
few thousand at a time, and the columns bytes: memory does not grow with the desk.
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
CHUNK = 2_000  # rows that are Python's objects at a time
CELLS_TOGETHER = 120_000  # that are written at a time: a row group of Parquet
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
# By the plus sign the index of the project is passed over: rows come in the order of their numbers,
# and none has to be sorted in memory.
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
            "bad_format", f"{target.name} cannot be written.", "name a .jsonl, .csv or .parquet."
        )
    n = 0
    try:
        with open_writer(target) as write:
            for columns in _columns(desk, which):
                write(_without_formulas(columns) if kind == ".csv" else columns)
                n += len(columns["key"])
    except FileWriteError as error:
        if isinstance(error.__cause__, DeskUnavailableError):  # it was the reading that failed
            raise error.__cause__ from None
        raise
    return n


def export_bytes(desk: Desk, kind: Format, *, which: Which = "all") -> Iterator[bytes]:
    """Give the bytes of an export as they are made."""
    made = _Made()
    with stream_writer(made, f".{kind}") as write:  # type: ignore[arg-type]
        for columns in _columns(desk, which):
            write(_without_formulas(columns) if kind == "csv" else columns)
            yield made.taken()
    yield made.taken()


class _Made(io.RawIOBase):
    """A stream whose bytes are taken away as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, part: Any) -> int:
        """Keep some bytes."""
        self._parts.append(bytes(part))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """Return what has come since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


# ------------------------------------------------------------------ from rows to columns


def _columns(desk: Desk, which: Which) -> Iterator[dict[str, Any]]:
    """Give columns, many rows at a time; once without rows where there are none."""
    return _ahead(_gathered(desk, which))


def _ahead(parts: Generator[T]) -> Iterator[T]:
    """Give parts, each while the next is made in another thread: bytes and rows share no lock."""
    end: Any = object()
    with ThreadPoolExecutor(1, thread_name_prefix="desk-export") as other, closing(parts):
        following = other.submit(next, parts, end)
        while (part := following.result()) is not end:
            following = other.submit(next, parts, end)
            try:
                yield part
            except GeneratorExit:  # nobody wants the rest
                wait([following])
                raise


def _gathered(desk: Desk, which: Which) -> Generator[dict[str, Any]]:
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
    said = dict(zip(_SELECTED, cells, strict=True))
    seen = orjson.loads(f"[{','.join([each or '{}' for each in said.pop('probabilities')])}]")
    arrays = {}
    for name, values in said.items():
        kind = TYPES[name]
        if kind == "bool":  # SQLite has no truth, only one
            arrays[name] = pa.array(list(map(bool, values)), kind)
        else:
            arrays[name] = pa.array(values, kind, from_pandas=True)  # NaN is nothing
    arrays["correct"] = compute.equal(arrays["y_true"], arrays["predicted"])
    for name in ("received", "due"):
        arrays[name] = compute.divide(arrays[name], 1e6)
    by_class = [pa.array([each.get(name) for each in seen], "float64") for name in classes]
    return [*(arrays[name] for name in TYPES), *by_class]


_SELECTED = [*(name for name in TYPES if name != "correct"), "probabilities"]


def _without_formulas(columns: dict[str, Any]) -> dict[str, Any]:
    """Return columns of which no spreadsheet runs a cell: formulas get an apostrophe first."""
    return {
        name: _harmless(values) if str(values.type) == "string" else values
        for name, values in columns.items()
    }


def _harmless(values: Any) -> Any:
    compute = require_extra("pyarrow.compute", "desk", "An export")
    runs = compute.and_not(
        compute.match_substring_regex(values, FORMULA),
        compute.match_substring_regex(values, NUMBER),
    )
    return compute.if_else(runs, compute.binary_join_element_wise("'", values, ""), values)

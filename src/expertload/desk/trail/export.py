"""Exports cases or readings, one row each, for `expertload evaluate` and other programs.

`y_true` is the experts' final answer, empty if there is none. `p_*` are the model's probabilities;
`predicted`, `confidence` and `correct` follow from them. Rows are turned into columns and bytes a
few thousand at a time, so that memory does not grow with the desk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson
from sqlalchemy import text

from expertload._check import require_extra
from expertload._names import Which
from expertload.desk.desk import Desk
from expertload.desk.queue.claims import classes_of
from expertload.exceptions import DeskRefusedError, DeskUnavailableError, FileWriteError
from expertload.io.write import open_writer, stream_writer

Format = Literal["jsonl", "csv", "parquet"]
CELLS_TOGETHER = 120_000  # about so many cells are read and written at a time
FEWEST_ROWS = 2_000
# Each column's type, and where it comes from. "correct" follows from other columns.
COLUMNS = {
    "key": ("string", "c.key"),
    "state": ("string", "c.state"),
    "cause": ("string", "c.cause"),
    "model": ("string", "c.model"),
    "group": ("string", "c.group_name"),
    "cluster": ("string", "c.cluster"),
    "policy": ("int64", "c.policy_id"),
    "accepted": ("bool", "c.accepted"),
    "sampled": ("bool", "c.draw < c.rate"),
    "rate": ("float64", "c.rate"),
    "predicted": ("string", "c.predicted"),
    "confidence": ("float64", "c.confidence"),
    "y_true": (
        "string",
        "CASE WHEN c.state = 'closed' THEN d.label WHEN c.audit = 'right' THEN c.predicted END",
    ),
    "correct": ("bool", "NULL"),
    "decided_by": ("string", "d.kind"),
    "decision": ("string", "d.label"),
    "received": ("float64", "c.received"),
    "due": ("float64", "c.due"),
}
# The plus sign keeps the database from using the index of the project. So rows come in the order of
# their ids, and need not be sorted in memory.
_QUERY = f"""
    SELECT {", ".join(source for _, source in COLUMNS.values())}, c.probabilities
    FROM cases AS c
    LEFT JOIN decisions AS d ON d.case_id = c.id
      AND NOT EXISTS (SELECT 1 FROM decisions AS later WHERE later.supersedes = d.id)
    WHERE +c.project_id = (SELECT id FROM projects WHERE name = :project)
"""
_CONDITIONS: dict[str, str] = {
    "all": "AND c.truth IS NULL",
    "readings": "",
    "labelled": "AND (c.audit = 'right' OR (c.state = 'closed' AND d.label IS NOT NULL))",
    "audited": "AND c.audit IN ('right', 'wrong')",
}
# Of readings, as `expertload.team.Readings` takes them: the answer that counts now.
READINGS = {
    "case": ("string", "c.key"),
    "reader": ("string", "u.name"),
    "answer": ("string", "a.label"),
    "truth": ("string", "c.truth"),
    "given": ("float64", "a.given"),
    "seconds": ("float64", "first.seconds"),
}
_READINGS = f"""
    SELECT {", ".join(source for _, source in READINGS.values())}
    FROM readings AS r
    JOIN cases AS c ON c.id = r.case_id
    JOIN users AS u ON u.id = r.reader
    JOIN answers AS a ON a.id = r.answer_id
    LEFT JOIN answers AS first ON first.id = (
      SELECT max(timed.id) FROM answers AS timed
      WHERE timed.reading_id = r.id AND timed.standing = 'counted')
    WHERE r.project_id = (SELECT id FROM projects WHERE name = :project) AND r.state = 'done'
    ORDER BY r.id
"""
FORMULA = r"^[=+\-@\t\r]"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def export(desk: Desk, path: str | os.PathLike[str], *, which: Which = "all") -> int:
    """Write rows to a .jsonl, .csv or .parquet file, completely or not at all; return how many."""
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
        with open_writer(target, is_private=True) as write:
            for columns in _columns(desk, which):
                write(_without_formulas(columns) if kind == ".csv" else columns)
                n += len(next(iter(columns.values())))
    except FileWriteError as error:
        if isinstance(error.__cause__, DeskUnavailableError):  # reading failed, not writing
            raise error.__cause__ from None
        raise
    return n


def export_bytes(desk: Desk, kind: Format, *, which: Which = "all") -> Iterator[bytes]:
    """Yield the bytes of an export as they are produced."""
    buffer = io.BytesIO()
    with stream_writer(buffer, f".{kind}") as write:
        for columns in _columns(desk, which):
            write(_without_formulas(columns) if kind == "csv" else columns)
            yield _taken(buffer)
    yield _taken(buffer)


def _taken(buffer: io.BytesIO) -> bytes:
    """Return and remove the bytes of a buffer."""
    content = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return content


# ------------------------------------------------------------------ from rows to columns


def _columns(desk: Desk, which: Which) -> Iterator[dict[str, Any]]:
    """Yield columns of many rows at a time; if there are no rows, yield empty columns once."""
    classes = () if which == "readings" else desk.read(classes_of)
    n_columns = len(COLUMNS) + len(classes)
    at_once = max(FEWEST_ROWS, CELLS_TOGETHER // n_columns)
    query = text(f"{_QUERY} {_CONDITIONS[which]} ORDER BY c.id")
    arrays: Callable[[Sequence[Any]], dict[str, Any]] = partial(_arrays, classes=classes)
    if which == "readings":
        query, arrays = text(_READINGS), _reading_arrays
    with desk.database.reading() as connection:
        options = {"yield_per": at_once}
        rows: Sequence[Any] = []
        with connection.execute(
            query, {"project": desk.project}, execution_options=options
        ) as found:
            for rows in found.partitions(at_once):
                yield arrays(rows)
        if not rows:
            yield arrays(rows)


def _reading_arrays(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the columns of some readings, in the order of `READINGS`."""
    pa = require_extra("pyarrow", "desk", "An export")
    cells = zip(*rows, strict=True) if rows else [()] * len(READINGS)
    kinds = ((name, kind) for name, (kind, _) in READINGS.items())
    arrays = {
        name: pa.array(values, kind) for (name, kind), values in zip(kinds, cells, strict=True)
    }
    arrays["given"] = require_extra("pyarrow.compute", "desk", "An export").divide(
        arrays["given"], 1e6
    )
    return arrays


def _arrays(rows: Sequence[Sequence[Any]], classes: Sequence[str]) -> dict[str, Any]:
    """Return the columns of some rows, in the order of `COLUMNS` and then of the classes."""
    pa = require_extra("pyarrow", "desk", "An export")
    compute = require_extra("pyarrow.compute", "desk", "An export")
    *cells, written = zip(*rows, strict=True) if rows else [()] * (len(COLUMNS) + 1)
    arrays = {}
    for (name, (kind, _)), values in zip(COLUMNS.items(), cells, strict=True):
        if kind == "bool":  # SQLite returns 0 and 1
            values = tuple(map(bool, values))
        arrays[name] = pa.array(values, kind, from_pandas=True)  # NaN becomes null
    arrays["correct"] = compute.equal(arrays["y_true"], arrays["predicted"])
    for name in ("received", "due"):
        arrays[name] = compute.divide(arrays[name], 1e6)
    probabilities = orjson.loads(f"[{','.join(some or '{}' for some in written)}]")
    for name in classes:
        arrays[f"p_{name}"] = pa.array([some.get(name) for some in probabilities], "float64")
    return arrays


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

"""Every case in a row, streamed: what `expertload evaluate` reads, and any other program.

`y_true` is what experts have settled on, empty where they were not asked; `p_*` are the model's
probabilities, `predicted`, `confidence` and `correct` what follows from them. The rows come from
the database as they are written, so memory does not grow with the desk.
"""

from __future__ import annotations

import csv
import io
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson
from sqlalchemy import text

from expertload._files import replaced_whole
from expertload._validation import require_extra
from expertload.desk.desk import Desk
from expertload.desk.queue import classes_of
from expertload.desk.store import AnyRow
from expertload.exceptions import DeskRefusedError, FileWriteError

__all__ = ["Format", "Which", "export", "export_lines"]

Format = Literal["jsonl", "csv", "parquet"]
Which = Literal["all", "labelled", "audited"]
CHUNK = 2_000
TYPES = {
    "key": "VARCHAR",
    "state": "VARCHAR",
    "cause": "VARCHAR",
    "model": "VARCHAR",
    "group": "VARCHAR",
    "cluster": "VARCHAR",
    "policy": "BIGINT",
    "accepted": "BOOLEAN",
    "sampled": "BOOLEAN",
    "rate": "DOUBLE",
    "predicted": "VARCHAR",
    "confidence": "DOUBLE",
    "y_true": "VARCHAR",
    "correct": "BOOLEAN",
    "decided_by": "VARCHAR",
    "decision": "VARCHAR",
    "received": "DOUBLE",
    "due": "DOUBLE",
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


def export(desk: Desk, path: str | os.PathLike[str], *, which: Which = "all") -> int:
    """Write cases to a .jsonl, .csv or .parquet file, completely or not at all; return how many."""
    kinds: dict[str, Format] = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
    target = Path(path)
    kind = kinds.get(target.suffix.lower())
    if kind is None:
        raise DeskRefusedError(
            "bad_format", f"{target.name} cannot be written.", "name a .jsonl, .csv or .parquet."
        )
    try:
        with replaced_whole(target) as draft:
            return _write(desk, draft, kind, which)
    except OSError as error:
        raise FileWriteError(
            f"{target} could not be written: {error.strerror or error}."
        ) from error


def _write(desk: Desk, draft: Path, kind: Format, which: Which) -> int:
    n = 0
    with draft.open("xb") as stream:
        for chunk, size in _chunks(desk, "jsonl" if kind == "parquet" else kind, which):
            stream.write(chunk)
            n += size
    if kind == "parquet":
        _to_parquet(draft, _types(desk))
    return n


def export_lines(desk: Desk, kind: Format, *, which: Which = "all") -> Iterator[bytes]:
    """Give the bytes of an export as they are made."""
    if kind != "parquet":
        for chunk, _ in _chunks(desk, kind, which):
            yield chunk
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "export")
        _write(desk, file, kind, which)
        with file.open("rb") as stream:
            while part := stream.read(1 << 20):
                yield part


def _types(desk: Desk) -> dict[str, str]:
    classes = desk.read(classes_of)
    return {**TYPES, **{f"p_{name}": "DOUBLE" for name in classes}}


def _chunks(desk: Desk, kind: str, which: Which) -> Iterator[tuple[bytes, int]]:
    """Give text and how many rows it holds; the first of CSV is its header."""
    header = list(_types(desk))
    classes = [name.removeprefix("p_") for name in header[len(TYPES) :]]
    if kind == "csv":
        yield _csv([header]), 0
    written: Callable[[Iterable[Sequence[Any]]], bytes] = (
        _csv if kind == "csv" else partial(_json_lines, header)
    )
    with desk.database.engine.connect() as connection:
        result = connection.execute(
            text(_QUERY.format(condition=_CONDITIONS[which])),
            {"project": desk.project},
            execution_options={"yield_per": CHUNK},
        )
        for rows in result.partitions(CHUNK):
            yield written(_values(row, classes) for row in rows), len(rows)


def _values(row: AnyRow, classes: list[str]) -> tuple[Any, ...]:
    """Return what is written of a row, in the order of `TYPES`."""
    predicted, confidence, truth, kind, label, received, due, probabilities = row[10:]
    proba = orjson.loads(probabilities) if probabilities and classes else {}
    return (
        *row[:7],
        row[7] == 1,  # SQLite has no truth, only one
        row[8] == 1,
        row[9],
        predicted,
        confidence,
        truth,
        None if truth is None else truth == predicted,
        kind,
        label,
        received / 1e6,
        due / 1e6,
        *map(proba.get, classes),
    )


def _json_lines(header: list[str], rows: Iterable[Sequence[Any]]) -> bytes:
    newline, dumps = orjson.OPT_APPEND_NEWLINE, orjson.dumps
    return b"".join([dumps(dict(zip(header, row, strict=True)), None, newline) for row in rows])


def _csv(rows: Iterable[Sequence[Any]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_cell(v) for v in row] for row in rows)
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    """Write a cell that no spreadsheet runs: what begins like a formula and is no number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value[:1] in "=+-@\t\r" and value and not _is_number(value):
        return "'" + value
    return value


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value)) and value.strip() == value
    except ValueError:
        return False


def _to_parquet(draft: Path, types: dict[str, str]) -> None:
    """Turn a draft in JSON Lines into Parquet; DuckDB streams it."""
    duckdb = require_extra("duckdb", "desk", "Writing Parquet")
    turned = draft.with_name(draft.name + ".parquet")
    try:
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.read_json(
                str(draft), columns=types, format="newline_delimited"
            ).write_parquet(str(turned), compression="zstd")
        turned.replace(draft)
    finally:
        turned.unlink(missing_ok=True)

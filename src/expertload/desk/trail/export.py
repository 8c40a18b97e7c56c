"""Exports cases or readings, one row each, for `expertload evaluate` and other programs.

`y_true` is the experts' final answer, empty if there is none. `p_*` are the model's probabilities;
`predicted`, `confidence` and `correct` follow from them. Audits are drawn with unequal
probabilities, so their rows have weights: with them they stand for all automatic decisions. A few
thousand rows at a time are turned into columns and bytes: memory does not grow with the desk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
from pyarrow import compute
from sqlalchemy import text

from expertload._names import Which
from expertload.desk.desk import Desk
from expertload.desk.intake.receiving import classes_of
from expertload.desk.store.tables import LIVE
from expertload.exceptions import DeskUnavailableError, FileWriteError
from expertload.io.write import open_writer, stream_writer

Format = Literal["jsonl", "csv", "parquet"]
CELLS_TOGETHER = 120_000  # about so many cells are read and written at a time
FEWEST_ROWS = 2_000
IN_SECONDS = "/ CAST(1e6 AS DOUBLE PRECISION)"
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
        "CASE WHEN c.state = 'closed' THEN live.label WHEN c.audit = 'right' THEN c.predicted END",
    ),
    "correct": ("bool", "NULL"),
    "decided_by": ("string", "live.kind"),
    "decision": ("string", "live.label"),
    "received": ("float64", f"c.received {IN_SECONDS}"),
    "due": ("float64", f"c.due {IN_SECONDS}"),
}
# How much an audit counts, as in the monitor: of a cluster, only the first one does.
WEIGHT = {
    "sample_weight": (
        "float64",
        """CASE WHEN c.cluster IS NULL OR c.id IN (
             SELECT min(id) FROM cases WHERE audit IS NOT NULL GROUP BY policy_id, cluster)
           THEN coalesce(c.weight, 1) ELSE 0 END""",
    )
}
# The plus sign keeps the database from using the index of the project. So rows come in the order of
# their ids, and need not be sorted in memory.
_QUERY = f"""
    SELECT {{}}, c.probabilities FROM cases AS c {LIVE}
    WHERE +c.project_id = (SELECT id FROM projects WHERE name = :project)
"""
_CONDITIONS: dict[str, str] = {
    "all": "AND c.truth IS NULL",
    "labelled": "AND (c.audit = 'right' OR (c.state = 'closed' AND live.label IS NOT NULL))",
    "audited": "AND c.audit IN ('right', 'wrong')",
}
# Of readings, as `expertload.team.Readings` takes them: the answer that counts now.
READINGS = {
    "case": ("string", "c.key"),
    "reader": ("string", "u.name"),
    "answer": ("string", "a.label"),
    "truth": ("string", "c.truth"),
    "given": ("float64", f"a.given {IN_SECONDS}"),
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
    n = 0
    try:
        with open_writer(path, is_private=True) as write:
            for columns in _columns(desk, which, is_csv=Path(path).suffix.lower() == ".csv"):
                write(columns)
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
        for columns in _columns(desk, which, is_csv=kind == "csv"):
            write(columns)
            yield _taken(buffer)
    yield _taken(buffer)


def _taken(buffer: io.BytesIO) -> bytes:
    """Return and remove the bytes of a buffer."""
    content = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return content


# ------------------------------------------------------------------ from rows to columns


def _columns(desk: Desk, which: Which, *, is_csv: bool) -> Iterator[dict[str, Any]]:
    """Yield columns of many rows at a time; if there are no rows, yield empty columns once."""
    made = without_formulas if is_csv else dict
    classes = () if which == "readings" else desk.read(classes_of)
    columns, query = READINGS, _READINGS
    if which != "readings":
        columns = COLUMNS | WEIGHT if which == "audited" else COLUMNS
        sources = ", ".join(source for _, source in columns.values())
        query = f"{_QUERY.format(sources)} {_CONDITIONS[which]} ORDER BY c.id"
    at_once = max(FEWEST_ROWS, CELLS_TOGETHER // (len(columns) + len(classes)))
    with desk.database.reading() as connection:
        options = {"yield_per": at_once}
        rows: Sequence[Any] = []
        with connection.execute(
            text(query), {"project": desk.project}, execution_options=options
        ) as result:
            for rows in result.partitions(at_once):
                yield made(_arrays(rows, columns, classes))
        if not rows:
            yield made(_arrays(rows, columns, classes))


def _arrays(
    rows: Sequence[Sequence[Any]], columns: dict[str, tuple[str, str]], classes: Sequence[str]
) -> dict[str, Any]:
    """Return some rows as columns; those of cases end with probabilities, a column per class."""
    cells = [*zip(*rows, strict=True)] or [()] * (len(columns) + 1)
    arrays = {}
    for (name, (kind, _)), values in zip(columns.items(), cells, strict=False):
        if kind == "bool":  # SQLite returns 0 and 1
            values = tuple(map(bool, values))
        arrays[name] = pa.array(values, kind, from_pandas=True)  # NaN becomes null
    if columns is READINGS:
        return arrays
    arrays["correct"] = compute.equal(arrays["y_true"], arrays["predicted"])
    probabilities = orjson.loads(f"[{','.join(some or '{}' for some in cells[-1])}]")
    for name in classes:
        arrays[f"p_{name}"] = pa.array([some.get(name) for some in probabilities], "float64")
    return arrays


def without_formulas(columns: dict[str, Any]) -> dict[str, Any]:
    """Return columns in which spreadsheets run no cell: an apostrophe precedes formulas."""
    safe = dict(columns)
    for name, values in columns.items():
        if str(values.type) == "string":
            is_formula = compute.match_substring_regex(values, FORMULA)
            is_number = compute.match_substring_regex(values, NUMBER)
            quoted = compute.binary_join_element_wise("'", values, "")
            safe[name] = compute.if_else(compute.and_not(is_formula, is_number), quoted, values)
    return safe

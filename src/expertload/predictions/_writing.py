"""Decisions as CSV, JSON Lines or Parquet, written as they come and shown when they are whole."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from expertload._files import replaced_whole
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError, FileWriteError

__all__ = ["open_writer", "saying_write_errors"]

Write = Callable[[list[list[Any]]], None]
TYPES = {"row": "BIGINT", "accepted": "BOOLEAN", "confidence": "DOUBLE"}


@contextmanager
def open_writer(out: str | os.PathLike[str] | TextIO, header: list[str]) -> Iterator[Write]:
    """Open a file or a stream; call what is returned with the columns of some rows."""
    if not isinstance(out, str | os.PathLike):
        yield _csv_writer(out, header)
        return
    kind = Path(out).suffix.lower()
    if kind not in (".csv", ".jsonl", ".ndjson", ".parquet"):
        raise FileFormatError(
            f"Decisions cannot be written to {Path(out).name}. Hint: name a .csv, .jsonl or "
            ".parquet file."
        )
    with saying_write_errors(out), replaced_whole(out) as draft:
        with draft.open("x", encoding="utf-8", newline="") as stream:
            yield _json_writer(stream, header) if "json" in kind else _csv_writer(stream, header)
        if kind == ".parquet":
            _to_parquet(draft, header)


def _csv_writer(stream: TextIO, header: list[str]) -> Write:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)

    def write(columns: list[list[Any]]) -> None:
        writer.writerows(zip(*map(_as_text, columns), strict=True))

    return write


def _json_writer(stream: TextIO, header: list[str]) -> Write:
    def write(columns: list[list[Any]]) -> None:
        rows = zip(*columns, strict=True)
        stream.writelines(
            json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) + "\n"
            for row in rows
        )

    return write


def _as_text(column: list[Any]) -> list[Any]:
    """Truth values in the spelling that other programs read."""
    if column and isinstance(column[0], bool):
        return ["true" if value else "false" for value in column]
    return column


@contextmanager
def saying_write_errors(out: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what the system says into a sentence that names the file."""
    try:
        yield
    except OSError as error:
        raise FileWriteError(f"{out} could not be written: {error.strerror or error}.") from error


def _to_parquet(draft: Path, header: list[str]) -> None:
    """Turn a draft in CSV into Parquet; DuckDB streams, so no table is ever in memory."""
    duckdb = require_extra("duckdb", "frames", "Writing Parquet")
    types = {name: TYPES.get(name, "VARCHAR") for name in header}
    turned = draft.with_name(draft.name + ".parquet")
    try:
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            relation = connection.read_csv(str(draft), header=True, dtype=types, delimiter=",")
            relation.write_parquet(str(turned), compression="zstd")
        turned.replace(draft)
    finally:
        turned.unlink(missing_ok=True)

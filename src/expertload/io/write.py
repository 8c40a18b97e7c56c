"""Writes columns as CSV, JSON Lines or Parquet; the file appears only when it is complete."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from expertload._files import explained_write_errors, private, replaced_whole
from expertload.exceptions import FileFormatError

Write = Callable[[Mapping[str, Any]], None]
NO_JSON = (None, "nan", "-nan", "inf", "-inf")


def is_parquet(out: str | os.PathLike[str] | IO[Any]) -> bool:
    """Whether the output is Parquet, which has column types."""
    return isinstance(out, str | os.PathLike) and Path(out).suffix.lower() == ".parquet"


@contextmanager
def open_writer(
    out: str | os.PathLike[str] | IO[Any], *, is_private: bool = False
) -> Iterator[Write]:
    """Open a file, or a stream for CSV; yields a function that writes the columns of a batch.

    Only its owner can read a private file.
    """
    if not isinstance(out, str | os.PathLike):
        yield _text_writer(out, ".csv")
        return
    kind = Path(out).suffix.lower()
    if kind not in (".csv", ".jsonl", ".ndjson", ".parquet"):
        raise FileFormatError(
            f"The ending of {Path(out).name} says no format. Hint: name a .csv, .jsonl or .parquet "
            "file."
        )
    with (
        explained_write_errors(out),
        replaced_whole(out) as draft,
        open(draft, "xb", opener=private if is_private else None) as stream,
        stream_writer(stream, kind) as write,
    ):
        yield write


@contextmanager
def stream_writer(stream: IO[bytes], kind: str) -> Iterator[Write]:
    """Write to a stream of bytes in order, so that it need not support seeking."""
    if kind != ".parquet":
        yield _text_writer(stream, kind)
        return
    writer: Any = None

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal writer
        table = pa.table(dict(columns))
        if writer is None:
            # Dictionary encoding of numbers would cost more than everything else.
            text = [field.name for field in table.schema if str(field.type) == "string"]
            writer = pq.ParquetWriter(stream, table.schema, compression="zstd", use_dictionary=text)
        writer.write_table(table)  # one group of rows

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _text_writer(stream: IO[Any], kind: str) -> Write:
    """Write lines in UTF-8, independent of the system's encoding."""
    is_text = isinstance(stream, io.TextIOBase)
    binary = getattr(stream, "buffer", None) if is_text else stream
    begun = False

    def put(content: bytes | memoryview) -> None:
        if binary is None:
            stream.write(bytes(content).decode())
        else:
            stream.flush()  # text that was written before
            binary.write(content)

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal begun
        if kind != ".csv":
            put(_json_lines(columns))
            return
        if not begun:
            put(_csv_lines({name: pa.array([name]) for name in columns}))
        begun = True
        put(_csv_lines(columns))

    return write


def _csv_lines(columns: Mapping[str, Any]) -> memoryview:
    """Return rows as text; Arrow converts whole columns, and no row becomes a Python object."""
    texts = [_csv_values(values) for values in columns.values()]
    joined = compute.binary_join_element_wise(
        *texts, ",", null_handling="replace", null_replacement=""
    )
    lines = compute.binary_join_element_wise(joined, "", "\n")
    n_bytes = compute.sum(compute.binary_length(lines)).as_py() or 0
    return memoryview(lines.buffers()[2] or b"")[:n_bytes]


def _csv_values(values: Any) -> Any:
    """Return values as text, in quotes if they contain a delimiter, a quote or a line end."""
    if str(values.type) not in ("string", "large_string"):
        return values.cast("string")
    need = compute.match_substring_regex(values, '[",\r\n]')
    if not compute.any(need).as_py():
        return values
    doubled = compute.replace_substring(values, '"', '""')
    return compute.if_else(need, compute.binary_join_element_wise('"', doubled, '"', ""), values)


def _json_lines(columns: Mapping[str, Any]) -> bytes:
    rows = zip(*map(_json_values, columns.values()), strict=True)
    lines = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def _json_values(values: Any) -> list[Any]:
    """Return values that JSON has: no NaN and no infinity, and dates as text."""
    kind = str(values.type)
    if kind in ("double", "float"):  # as Arrow writes them: few digits for single precision
        texts = values.cast("string").to_pylist()
        return [None if text in NO_JSON else json.loads(text) for text in texts]
    is_plain = kind in ("bool", "string") or "int" in kind
    listed: list[Any] = (values if is_plain else values.cast("string")).to_pylist()
    return listed

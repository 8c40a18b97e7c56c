"""Writes columns as CSV, JSON Lines or Parquet; the file appears only when it is complete.

Arrow converts whole columns to text at once; no row becomes a Python object.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from expertload._files import replaced_whole
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError, FileWriteError

__all__ = ["is_parquet", "open_writer", "saying_write_errors", "stream_writer"]

Write = Callable[[Mapping[str, Any]], None]
KINDS = (".csv", ".jsonl", ".ndjson", ".parquet")
NEED_QUOTES = '",\r\n'
NEED_ESCAPES = r'["\\\x00-\x1f]'


def is_parquet(out: str | os.PathLike[str] | IO[Any]) -> bool:
    """Whether the output is Parquet, which has column types."""
    return isinstance(out, str | os.PathLike) and Path(out).suffix.lower() == ".parquet"


@contextmanager
def open_writer(out: str | os.PathLike[str] | IO[Any]) -> Iterator[Write]:
    """Open a file or a stream; yields a function that writes the columns of a batch."""
    if not isinstance(out, str | os.PathLike):
        yield _text_writer(out, _csv_lines, _csv_header)
        return
    kind = Path(out).suffix.lower()
    if kind not in KINDS:
        raise FileFormatError(
            f"Decisions cannot be written to {Path(out).name}. Hint: name a .csv, .jsonl or "
            ".parquet file."
        )
    with (
        saying_write_errors(out),
        replaced_whole(out) as draft,
        draft.open("xb") as stream,
        stream_writer(stream, kind) as write,
    ):
        yield write


@contextmanager
def stream_writer(stream: IO[bytes], kind: str) -> Iterator[Write]:
    """Write to a stream of bytes in order, so that it need not support seeking."""
    if kind == ".parquet":
        with _parquet_writer(stream) as write:
            yield write
    elif kind == ".csv":
        yield _text_writer(stream, _csv_lines, _csv_header)
    else:
        yield _text_writer(stream, _json_lines)


@contextmanager
def saying_write_errors(out: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a system error into a sentence that names the file."""
    try:
        yield
    except FileWriteError:
        raise
    except OSError as error:
        why = (error.strerror or str(error).splitlines()[0]).rstrip(".")
        raise FileWriteError(f"{out} could not be written: {why}.") from error


def _text_writer(
    stream: IO[Any],
    lines_of: Callable[[Mapping[str, Any]], Any],
    header_of: Callable[[Mapping[str, Any]], str] | None = None,
) -> Write:
    """Write lines in UTF-8, independent of the system's encoding."""
    is_text = isinstance(stream, io.TextIOBase)
    binary = getattr(stream, "buffer", None) if is_text else stream
    begun = False

    def put(content: bytes | memoryview) -> None:
        if binary is None:
            stream.write(bytes(content).decode())
        else:
            stream.flush()  # flush text that was written before
            binary.write(content)

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal begun
        if not begun and header_of is not None:
            put(header_of(columns).encode())
        begun = True
        put(_bytes_of(lines_of(columns)))

    return write


def _bytes_of(lines: Any) -> memoryview | bytes:
    """Return the bytes of all lines of a text array, without a copy."""
    _, _, letters = lines.buffers()
    return b"" if letters is None else memoryview(letters)[: _length(lines)]


def _length(lines: Any) -> int:
    compute = require_extra("pyarrow.compute", "frames", "Deciding files")
    return int(compute.sum(compute.binary_length(lines)).as_py() or 0)


# --------------------------------------------------------------------------------- CSV


def _csv_header(columns: Mapping[str, Any]) -> str:
    return (
        ",".join(_quoted(name) if set(NEED_QUOTES) & set(name) else name for name in columns) + "\n"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _csv_lines(columns: Mapping[str, Any]) -> Any:
    compute = require_extra("pyarrow.compute", "frames", "Deciding files")
    texts = [_csv_values(values) for values in columns.values()]
    rows = compute.binary_join_element_wise(
        *texts, ",", null_handling="replace", null_replacement=""
    )
    return compute.binary_join_element_wise(rows, "", "\n")


def _csv_values(values: Any) -> Any:
    """Return values as text, in quotes if they contain a delimiter, a quote or a line end."""
    compute = require_extra("pyarrow.compute", "frames", "Deciding files")
    is_text = str(values.type) in ("string", "large_string")
    text = values if is_text else values.cast("string")
    letters = memoryview(text.buffers()[2] or b"")
    if not is_text or not any(each in bytes(letters) for each in NEED_QUOTES.encode()):
        return text
    doubled = compute.replace_substring(text, '"', '""')
    quoted = compute.binary_join_element_wise('"', doubled, '"', "")
    return compute.if_else(compute.match_substring_regex(text, f"[{NEED_QUOTES}]"), quoted, text)


# --------------------------------------------------------------------------------- JSON Lines


def _json_lines(columns: Mapping[str, Any]) -> Any:
    pa = require_extra("pyarrow", "frames", "Deciding files")
    compute = require_extra("pyarrow.compute", "frames", "Deciding files")
    parts: list[Any] = []
    between = "{"
    for i, (name, values) in enumerate(columns.items()):
        between += (", " if i else "") + json.dumps(name, ensure_ascii=False) + ": "
        written = _json_values(values)
        if isinstance(written, str):
            between += written
        else:
            parts += [between, written]
            between = ""
    n_rows = max(map(len, columns.values()))
    return compute.binary_join_element_wise(*parts, pa.repeat(between + "}\n", n_rows), "")


def _json_values(values: Any) -> Any:
    """Return values as JSON text: an array, or a single text if all are missing."""
    pa = require_extra("pyarrow", "frames", "Deciding files")
    compute = require_extra("pyarrow.compute", "frames", "Deciding files")
    kind = str(values.type)
    if values.null_count == len(values):
        return "null"
    if kind in ("double", "float"):  # JSON has neither NaN nor infinity
        values = compute.if_else(compute.is_finite(values), values, None)
    if kind in ("bool", "double", "float") or "int" in kind:
        return values.cast("string").fill_null("null")
    text = values if kind == "string" else values.cast("string")
    if not compute.any(compute.match_substring_regex(text, NEED_ESCAPES)).as_py():
        return compute.binary_join_element_wise('"', text, '"', "").fill_null("null")
    written = [json.dumps(each, ensure_ascii=False) for each in text.to_pylist()]
    return pa.array(written, pa.string())


# --------------------------------------------------------------------------------- Parquet


@contextmanager
def _parquet_writer(stream: IO[bytes]) -> Iterator[Write]:
    """Write columns with their types, one group of rows at a time."""
    pa = require_extra("pyarrow", "frames", "Writing Parquet")
    parquet = require_extra("pyarrow.parquet", "frames", "Writing Parquet")
    writer: Any = None

    def write(columns: Mapping[str, Any]) -> None:
        nonlocal writer
        table = pa.table(dict(columns))
        if writer is None:
            # Dictionary encoding of numbers would cost more than everything else.
            text = [field.name for field in table.schema if str(field.type) == "string"]
            writer = parquet.ParquetWriter(
                stream, table.schema, compression="zstd", use_dictionary=text
            )
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()

"""The bytes of a file, decompressed and decoded; damaged files raise an error that says so."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = ["COMPRESSIONS", "check_text", "check_whole_text", "pieces_of", "transcoded"]

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
PACKED_MARKS = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
PIECE = 1 << 18  # small enough to stay in the processor's cache while it is scanned
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def pieces_of(path: Path, compression: str, where: str) -> Iterator[bytes]:
    """Yield a file's content in pieces; raise an error if the file is damaged."""
    try:
        with path.open("rb") as raw, _unpacked(raw, compression) as stream:
            while piece := stream.read(PIECE):
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(where, compression, error) from error
    except OSError as error:
        if compression == "zstd" and error.errno is None:  # Arrow raises OSError for damaged data
            raise _damaged(where, compression, error) from error
        raise FileFormatError(f"{where} could not be read: {error.strerror or error}.") from error


def _unpacked(raw: Any, compression: str) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=raw)
    if compression == "zstd":
        arrow = require_extra("pyarrow", "frames", "Reading .zst files")
        return arrow.CompressedInputStream(raw, "zstd")
    return raw


def _damaged(where: str, compression: str, error: Exception) -> FileFormatError:
    why = str(error).splitlines()[0].rstrip(".") if str(error) else "it ends too early"
    return FileFormatError(
        f"{where} is damaged: it could not be unpacked as {compression} ({why}). Hint: get the "
        "file again."
    )


def transcoded(pieces: Iterator[bytes], encoding: str, where: str) -> Iterator[bytes]:
    """Yield text in another encoding as UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for piece in pieces:
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise FileFormatError(
            f"{where} is not in the encoding {encoding}: {error}. Hint: pass another one "
            "(--encoding)."
        ) from error


def check_whole_text(pieces: Iterator[bytes], where: str) -> None:
    """Refuse a file that is damaged or not in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_lines = 0
    for piece in pieces:
        try:
            decoder.decode(piece)
        except UnicodeDecodeError as error:
            _refuse_encoding(piece, where, n_lines + piece.count(b"\n", 0, error.start) + 1)
        if b"\0" in piece:
            check_text(piece, where, n_lines)
        n_lines += piece.count(b"\n")


def check_text(block: bytes, where: str, n_lines: int = 0, *, is_whole: bool = True) -> None:
    """Refuse bytes that are not UTF-8, and name the likely encoding."""
    nul = block.find(b"\0")
    if nul >= 0 and likely_encoding(block).startswith("utf"):
        _refuse_encoding(block, where, n_lines + 1)
    if nul >= 0:
        line = n_lines + block.count(b"\n", 0, nul) + 1
        raise FileFormatError(
            f"{where} must be a text file. Got a NUL byte in line {line}. Hint: {_packed(block)}"
            "get the file again."
        )
    if block.isascii():
        return
    try:
        block.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.end < len(block):
            _refuse_encoding(block, where, n_lines + block.count(b"\n", 0, error.start) + 1)


def _refuse_encoding(block: bytes, where: str, line: int) -> NoReturn:
    encoding = likely_encoding(block)
    raise FileFormatError(
        f"{where} must be in UTF-8. Got text that may be in {encoding} (line {line}). Hint: "
        f"{_packed(block)}pass --encoding {encoding}, or save it as UTF-8."
    )


def _packed(block: bytes) -> str:
    """Return a hint if a block looks like the start of a compressed file, else an empty text."""
    ends = (end for end, mark in PACKED_MARKS.items() if block.startswith(mark))
    return next(
        (f"if it is compressed, its name must end in {end}; otherwise, " for end in ends), ""
    )


def likely_encoding(block: bytes) -> str:
    """Return the most likely encoding of text that is not UTF-8.

    Examples
    --------
    >>> likely_encoding("Größe".encode("latin-1")), likely_encoding("a".encode("utf-16"))
    ('cp1252', 'utf-16')
    """
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if block.startswith(mark):
            return encoding
    if block.count(b"\0") > len(block) // 4:
        return "utf-16-le" if block[1:2] == b"\0" else "utf-16-be"
    try:
        block.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"

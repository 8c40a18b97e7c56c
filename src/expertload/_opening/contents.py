"""The bytes of a file, unpacked and decoded; what is damaged is said in a sentence."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = ["COMPRESSIONS", "likely_encoding", "pieces_of", "transcoded"]

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
PIECE = 1 << 20
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def pieces_of(path: Path, compression: str, where: str) -> Iterator[bytes]:
    """Return a file's content a piece at a time, or say that it is damaged."""
    try:
        with path.open("rb") as raw, _unpacked(raw, compression) as stream:
            while piece := stream.read(PIECE):
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(where, compression, error) from error
    except OSError as error:
        if compression == "zstd" and error.errno is None:  # Arrow's word for damage
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
    """Return UTF-8 for text in another encoding."""
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


def likely_encoding(block: bytes) -> str:
    """Return what text that is not UTF-8 most likely is in.

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

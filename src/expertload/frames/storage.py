"""Tables on disk: plain arrays, written completely or not at all, and checked when read."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from expertload._files import replaced_whole
from expertload._typing import AnyArray, FloatArray
from expertload.exceptions import FileFormatError

__all__ = ["read", "write"]

FORMAT = "expertload.FrameTally"
VERSION = 1
EXACT = -1
ARRAYS = ("confidence", "weight", "correct", "top")


def write(path: str | PathLike[str], bits: int | None, *arrays: FloatArray) -> None:
    """Write a table; after a full disk or a crash, the old file is unchanged."""
    header = np.array([VERSION, EXACT if bits is None else bits])
    named: dict[str, Any] = dict(zip(ARRAYS, arrays, strict=True))
    with replaced_whole(path) as draft, draft.open("xb") as file:
        np.savez_compressed(file, format=np.array(FORMAT), header=header, **named)


def read(
    path: str | PathLike[str],
) -> tuple[int | None, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Read a table; raise an error if the file is not a valid table."""
    try:
        with Path(path).open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            content = {name: archive[name] for name in ("format", "header", *ARRAYS)}
    except (ValueError, KeyError, IndexError, EOFError, BadZipFile) as error:
        raise _refused(path, "something else") from error
    _check_header(path, content["format"], content["header"])
    confidence, weight, correct, top = (content[name] for name in ARRAYS)
    bits = int(content["header"][1])
    if not _is_table(confidence, weight, correct, top, bits):
        raise _refused(path, "rows that cannot belong to a table")
    return None if bits == EXACT else bits, confidence, weight, correct, top


def _check_header(path: str | PathLike[str], name: AnyArray, header: AnyArray) -> None:
    if str(name) != FORMAT or header.dtype.kind != "i" or header.shape != (2,):
        raise _refused(path, "something else")
    if header[0] != VERSION:
        raise _refused(path, f"version {header[0]} (this version of the library reads {VERSION})")


def _is_table(
    confidence: AnyArray, weight: AnyArray, correct: AnyArray, top: AnyArray, bits: int
) -> bool:
    arrays = (confidence, weight, correct, top)
    if any(a.dtype != np.float64 or a.ndim != 1 or not np.isfinite(a).all() for a in arrays):
        return False
    if len({len(a) for a in arrays}) != 1 or len(weight) == 0:
        return False
    sums = (weight > 0).all() and (correct >= 0).all() and (correct <= weight).all()
    ascending = (np.diff(confidence) > 0).all() and (top >= confidence).all()
    if bits == EXACT:
        return bool(sums and ascending and (top == confidence).all())
    cells = np.ldexp(confidence, bits)
    return bool(sums and ascending and (cells == np.floor(cells)).all())


def _refused(path: str | PathLike[str], got: str) -> FileFormatError:
    return FileFormatError(
        f"The file '{path}' must be a table that FrameTally.save wrote. Got {got} instead. Hint: "
        "tally the frame and save it again."
    )

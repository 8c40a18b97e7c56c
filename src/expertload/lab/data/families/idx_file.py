"""The IDX format of the MNIST family: a magic number, the sizes, then the bytes."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from expertload.lab.data.catalogue import damaged
from expertload.lab.data.dataset import ImageArray

__all__ = ["read_idx"]

UNSIGNED_BYTE = 0x08
MOST_DIMENSIONS = 4


def read_idx(path: Path) -> ImageArray:
    """Return the array in an IDX file of unsigned bytes, gzipped or not."""
    try:
        raw = path.read_bytes()
        content = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, f"cannot be decompressed ({error})") from error
    if len(content) < 4 or content[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise damaged(path, "does not start like an IDX file of unsigned bytes")
    if not 1 <= content[3] <= MOST_DIMENSIONS:
        raise damaged(path, f"says that it has {content[3]} dimensions, not 1 to {MOST_DIMENSIONS}")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise damaged(path, "is cut short before its first byte of data")
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    if len(content) - start != math.prod(shape):
        raise damaged(path, f"is cut short or too long for its shape {shape}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()

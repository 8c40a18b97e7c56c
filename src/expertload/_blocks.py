"""Long arrays in blocks of rows, so that temporary results stay in the processor's cache.

A temporary array of millions of rows costs more than the arithmetic that fills it, because the
system must allocate and clear its memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from expertload._typing import FloatArray

__all__ = ["BLOCK", "blocks", "differences"]

BLOCK = 1 << 16


def blocks(n: int) -> Iterator[slice]:
    """Yield slices that cover the rows of an array in order.

    Examples
    --------
    >>> from expertload._blocks import blocks
    >>> list(blocks(70_000))
    [slice(0, 65536, None), slice(65536, 70000, None)]
    """
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))


def differences(values: FloatArray) -> FloatArray:
    """Return the same as `numpy.diff`, but overwrite the values instead of using new memory.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload._blocks import differences
    >>> differences(np.array([1.0, 3.0, 7.0])).tolist()
    [2.0, 4.0]
    """
    n = len(values) - 1
    for rows in blocks(n):
        values[rows] = values[rows.start + 1 : rows.stop + 1] - values[rows]
    return values[:n]

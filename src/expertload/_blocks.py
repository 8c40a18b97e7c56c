"""Long arrays in blocks of rows, so that temporary results stay in the processor's cache.

A temporary array of millions of rows costs more than the arithmetic that fills it, because the
system must allocate and clear its memory.
"""

from __future__ import annotations

from collections.abc import Iterator

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

"""How the benchmarks measure: best of several interleaved runs, and traced peak memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any


def best_times(*functions: Callable[[], Any], repeats: int = 3) -> list[float]:
    """Return the seconds of the best run of each function; their runs take turns.

    Taking turns means that a busy minute on the machine slows down all rivals alike.
    """
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def peak_memory(function: Callable[[], Any]) -> int:
    """Return the peak of bytes that Python and numpy allocate while a function runs."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def row(
    what: str,
    measured: float,
    *,
    unit: str = "x",
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Print one line of a table: what was measured, and what was wanted."""
    reached = (at_least is None or measured >= at_least) and (
        at_most is None or measured <= at_most
    )
    wanted = f">= {at_least:g}" if at_least is not None else f"<= {at_most:g}"
    verdict = "ok" if reached else "NOT REACHED"
    print(f"{what:<62} {measured:>9.3g} {unit:<3} (wanted {wanted}) {verdict}")

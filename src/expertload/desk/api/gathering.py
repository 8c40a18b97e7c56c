"""Handles single requests in batches: all that wait are handled together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Gathering"]

MOST_TOGETHER = 500
Item = TypeVar("Item")
Result = TypeVar("Result")


class Gathering(Generic[Item, Result]):
    """Handles single items in batches of all that are waiting.

    An item never joins a batch that has started, so its result is never older than the item.

    Parameters
    ----------
    work : callable
        Takes a list of items and returns the result of each.
    """

    def __init__(self, work: Callable[[list[Item]], Awaitable[Sequence[Result]]]) -> None:
        self._work = work
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._working: asyncio.Task[None] | None = None

    async def send(self, item: Item) -> Result:
        """Return the result of one item."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work_off())
        return await future

    async def _work_off(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            try:
                results = await self._work([item for item, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():  # its sender may have hung up
                    future.set_result(result)

"""Cases that arrive one at a time share a commit: those that wait go together."""

from __future__ import annotations

import asyncio

from expertload.desk.desk import Desk
from expertload.desk.intake import Outcome, SentCase, receive
from expertload.exceptions import DeskRefusedError

__all__ = ["Gathering"]

MOST_TOGETHER = 500
Received = Outcome | DeskRefusedError


class Gathering:
    """Sends single cases of one user to the desk, as many at once as are waiting."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: list[tuple[SentCase, asyncio.Future[Received]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def send(self, case: SentCase) -> Received:
        """Return what became of a case, after the commit."""
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._waiting.append((case, future))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
        return await future

    async def _send_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            try:
                outcomes = await self._desk.awrite(receive, [case for case, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if not future.done():  # its sender may have hung up
                    future.set_result(outcome)

"""`expertload desk serve`, with a task that records how long the event loop pauses.

The task sleeps for 10 ms again and again. What it oversleeps is the time in which the loop could
answer nobody. `GET /pauses` answers with the longest pause since the last call, and with the most
that the loop's own thread, and all threads of the desk together, computed within one nap. In the
rest of a pause the desk waited for a core: on a machine with free cores, only this is left of it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from starlette.responses import JSONResponse

from expertload.desk import Desk
from expertload.desk.app import create_app, listen, serve

NAP = 0.01
CLOCKS = (time.monotonic, time.thread_time, time.process_time)


class Watched:
    """An application that also answers `/pauses`."""

    def __init__(self, app: Any) -> None:
        self.app, self.task, self.pauses = app, None, [(0.0, 0.0, 0.0)]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer `/pauses`, and pass everything else on."""
        if self.task is None:
            self.task = asyncio.create_task(self._watch())
        if scope.get("path") != "/pauses":
            await self.app(scope, receive, send)
            return
        (pause, loop, desk), self.pauses = (
            map(max, zip(*self.pauses, strict=True)),
            [(0.0, 0.0, 0.0)],
        )
        answer = JSONResponse({"longest": pause, "loop": loop, "desk": desk})
        await answer(scope, receive, send)

    async def _watch(self) -> None:
        while True:
            before = [clock() for clock in CLOCKS]
            await asyncio.sleep(NAP)
            pause, loop, desk = (clock() - then for clock, then in zip(CLOCKS, before, strict=True))
            self.pauses.append((pause - NAP, loop, desk))


def main(where: str, port: int) -> None:
    """Serve the desk of a folder or an address."""
    with Desk.open(where, serving=True) as desk, listen("127.0.0.1", port) as listening:
        serve(Watched(create_app(desk)), listening)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

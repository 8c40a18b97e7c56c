"""The application: the interface and the pages on one desk, its chores, and the port it is on."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from expertload.desk.api import install_api
from expertload.desk.api.single import SingleCases
from expertload.desk.desk import Desk
from expertload.desk.pages import install_pages
from expertload.desk.people import OpenIdConnect, TrustedProxy
from expertload.desk.trail import deliver, seal_events
from expertload.exceptions import DeskInUseError, DeskUnavailableError

__all__ = ["create_app", "listen", "serve"]

log = logging.getLogger("expertload.desk")
CHORE_SECONDS = 1.0
# A batch of cases is a hundred thousand small objects that live for a moment; looking through all
# of them for circles after every 700 costs a fifth of the batch.
OBJECTS_BETWEEN_COLLECTIONS = 200_000


def create_app(
    desk: Desk, *, proxy: TrustedProxy | None = None, provider: OpenIdConnect | None = None
) -> FastAPI:
    """Return the application that serves a desk; whoever opened the desk closes it.

    The interactive documentation of FastAPI is off: it is fetched from elsewhere, and no request
    leaves the machine. The schema is at `/api/openapi.json`.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        # Each on its own, so that a slow receiver of news keeps nothing from being sealed.
        chores = [asyncio.create_task(_keep_doing(each, desk)) for each in (seal_events, deliver)]
        yield
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)
        await _do_chore(seal_events, desk)

    app = _App(
        title="expertload desk",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=life,
    )
    app.state.desk = desk
    install_api(app)
    install_pages(app, proxy=proxy, provider=provider)
    return app


class _App(FastAPI):
    """An application in which single cases are taken before any routing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        single: SingleCases = self.state.single
        if not await single.take(scope, receive, send):
            await super().__call__(scope, receive, send)


async def _keep_doing(chore: Callable[[Desk], int], desk: Desk) -> None:
    """Do a chore again and again, for as long as the desk runs."""
    while True:
        await _do_chore(chore, desk)
        await asyncio.sleep(CHORE_SECONDS)


async def _do_chore(chore: Callable[[Desk], int], desk: Desk) -> None:
    """Do one chore in a thread; what it cannot do now waits in the database for the next time."""
    try:
        await asyncio.to_thread(chore, desk)
    except DeskUnavailableError as error:
        log.warning("%s", error)
    except Exception:
        log.exception("a chore of the desk failed; it is tried again")


def listen(host: str, port: int) -> socket.socket:
    """Take a port, before anybody is told of it; 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise DeskInUseError(
            f"Nothing can listen on port {port} of {host} ({error.strerror}). "
            "Hint: name another --port, or end the program that has it."
        ) from error


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve an application on a port; what is under way when it ends is finished."""
    import uvicorn

    from expertload.desk.protocol import LimitedProtocol

    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked through
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            http=LimitedProtocol,
            timeout_graceful_shutdown=10,
        )
    )
    with listening, suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    if not server.started:
        raise DeskUnavailableError("The desk could not start. Hint: see what it says above.")

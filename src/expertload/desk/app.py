"""The application: the interface and pages of one desk, its background tasks, and its server."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from expertload.desk.api import claims, management
from expertload.desk.api.access import answer_error, install_errors
from expertload.desk.api.cases import install_cases
from expertload.desk.desk import Desk
from expertload.desk.pages import audit, manage, page, review, sign_in
from expertload.desk.people.sign_on import OpenIdConnect, TrustedProxy
from expertload.desk.trail.chain import seal_events
from expertload.desk.trail.webhooks import deliver
from expertload.desk.watch.policies import decide_all_waiting
from expertload.exceptions import DeskInUseError, DeskUnavailableError

log = logging.getLogger("expertload.desk")
SECONDS_BETWEEN_TASKS = 1.0
MOST_HEAD_BYTES = 64_000
MOST_CONNECTIONS = 900  # many systems allow a program 1,024 files and connections
MOST_SECONDS = 30.0  # for a request, plus a second for every so many bytes of it
LEAST_BYTES_A_SECOND = 20_000
IDLE_SECONDS = 75  # between two requests of a connection; browsers and proxies expect a minute
# A batch of cases makes a hundred thousand short-lived objects. By default, Python searches them
# for reference cycles after every 700 new ones, which takes a fifth of the batch's time.
OBJECTS_BETWEEN_COLLECTIONS = 200_000


def create_app(
    desk: Desk,
    *,
    proxy: TrustedProxy | None = None,
    provider: OpenIdConnect | None = None,
    passwords: bool = True,
) -> FastAPI:
    """Return the application that serves a desk; the caller closes the desk.

    Without `passwords`, people sign in only through the proxy or the provider: one-time links are
    refused too.

    FastAPI's interactive documentation is off, because it loads scripts from another site and a
    desk sends no request elsewhere. The schema is at `/api/openapi.json`.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        # A loop each, so that a slow receiver of webhooks does not delay the sealing of events.
        tasks = (seal_events, deliver, decide_all_waiting)
        loops = [asyncio.create_task(_repeat(task, desk)) for task in tasks]
        yield
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await _run_once(seal_events, desk)

    app = FastAPI(
        title="expertload desk",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=life,
        # The desk sends nothing elsewhere; and asking whether it should takes a tenth of a request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.desk = desk
    install_errors(app)
    install_cases(app)
    for part in (claims, management):
        app.include_router(part.router)
    sign_in.prepare(app, proxy, provider, passwords)
    for pages in (sign_in, review, manage, audit, page):
        app.include_router(pages.router, include_in_schema=False)
    for status in (404, 405):
        app.add_exception_handler(status, _no_page)
    return app


async def _no_page(request: Request, error: Any) -> Response:
    """Answer an unknown address, or a form's that is opened as a page; browsers get a page."""
    if "text/html" in request.headers.get("accept", ""):
        if error.status_code == 404:
            message = "There is no page at this address."
            return page.refusal(request, 404, message, "start from your own page.")
        if request.method == "GET":
            return page.go(page.page_of(request.url.path))
    return await answer_error(request, error)


async def _repeat(task: Callable[[Desk], int], desk: Desk) -> None:
    """Run a background task again and again, as long as the desk runs."""
    while True:
        await _run_once(task, desk)
        await asyncio.sleep(SECONDS_BETWEEN_TASKS)


async def _run_once(task: Callable[[Desk], int], desk: Desk) -> None:
    """Run a background task in a thread; unfinished work stays in the database for the next run."""
    try:
        await asyncio.to_thread(task, desk)
    except DeskUnavailableError as error:
        log.warning("%s", error)
    except Exception:
        log.exception("a background task of the desk failed; it will run again")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port; 0 is any free port.

    The port is taken before a link to it is printed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise DeskInUseError(
            f"Nothing can listen on port {port} of {host} ({error.strerror}). "
            "Hint: name another --port, or end the program that has it."
        ) from error


class LimitedProtocol(HttpToolsProtocol):
    """A connection that ends if a request takes too long or has too long a head.

    A head is read before the sender is known, so endless headers could fill the memory. Slow
    senders and receivers could keep all connections for themselves. uvicorn's fast parser limits
    neither. And once its limit of connections is reached, it also refuses requests on open ones.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = True
        self._head_bytes = self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._blocked: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, unless there are too many connections already."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        for timer in (self._timer, self._blocked):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle some bytes; refuse a head that goes on for too long."""
        self._bytes += len(data)
        self._head_bytes += len(data)
        super().data_received(data)
        is_too_long = self._in_head and self._head_bytes > MOST_HEAD_BYTES
        if is_too_long and not self.transport.is_closing():
            self.send_400_response(
                f"The head of a request may have at most {MOST_HEAD_BYTES} bytes."
            )

    def on_message_begin(self) -> None:
        """Start the clock of a request."""
        self._expect_request()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; one after the body is refused, because uvicorn would keep all of them."""
        if self._in_head:
            super().on_header(name, value)
        else:
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Record that a head has ended."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Record that the next bytes belong to a new head."""
        self._in_head, self._head_bytes = True, 0
        if self._timer is not None:
            self._timer.cancel()
        super().on_message_complete()

    def _expect_request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._bytes, self._began = 0, self.loop.time()
        self._timer = self.loop.call_later(MOST_SECONDS, self._check_pace)

    def _check_pace(self) -> None:
        """Close the connection, unless the request came fast enough to be given more time."""
        left = self._began + MOST_SECONDS + self._bytes / LEAST_BYTES_A_SECOND - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._check_pace)
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Wait for a receiver that does not take its answer, but not for long."""
        super().pause_writing()
        self._blocked = self.loop.call_later(MOST_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on sending."""
        if self._blocked is not None:
            self._blocked.cancel()
        super().resume_writing()


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve an application until it is stopped; requests in progress are finished first."""
    gc.collect()
    gc.freeze()  # existing objects stay, so the garbage collector need not search them
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            http=LimitedProtocol,
            timeout_graceful_shutdown=10,
            timeout_keep_alive=IDLE_SECONDS,
        )
    )
    try:
        with listening, suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    finally:
        gc.unfreeze()  # else extension modules report at the end that their objects leaked
    if not server.started:
        raise DeskUnavailableError("The desk could not start. Hint: see what it says above.")

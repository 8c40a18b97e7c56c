"""The application: the interface and the pages on one desk, its chores, and the port it is on."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from expertload.desk.api import install_api
from expertload.desk.desk import Desk
from expertload.desk.pages import install_pages
from expertload.desk.people import OpenIdConnect, TrustedProxy
from expertload.desk.trail import deliver, seal_events
from expertload.exceptions import DeskUnavailableError

__all__ = ["create_app", "serve"]

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
        chores = asyncio.create_task(_do_chores(desk))
        yield
        chores.cancel()
        await asyncio.gather(chores, return_exceptions=True)
        await asyncio.to_thread(seal_events, desk)

    app = FastAPI(
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


async def _do_chores(desk: Desk) -> None:
    """Seal what has happened and deliver what others are told, for as long as the desk runs."""
    while True:
        try:
            await asyncio.to_thread(seal_events, desk)
            await asyncio.to_thread(deliver, desk)
        except DeskUnavailableError:
            log.warning("the database does not answer; trying again")
        except Exception:
            log.exception("a chore of the desk failed; trying again")
        await asyncio.sleep(CHORE_SECONDS)


def serve(app: FastAPI, *, host: str, port: int) -> None:
    """Serve an application; what is under way when it ends is finished."""
    import uvicorn

    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked through
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )

"""The application: routes, errors, and what every answer carries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from expertload.desk.api import cases, claims, management, policies, state
from expertload.desk.api.errors import install_errors
from expertload.desk.api.gathering import Gathering
from expertload.desk.desk import Desk
from expertload.desk.pages import install_pages
from expertload.desk.people import OpenIdConnect, TrustedProxy, find_tokens
from expertload.desk.trail import deliver, seal_events
from expertload.exceptions import DeskUnavailableError

__all__ = ["create_app"]

log = logging.getLogger("expertload.desk")
CHORE_SECONDS = 1.0


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
    app.state.gatherings = {}
    app.state.tokens = Gathering(lambda tokens: desk.aread(find_tokens, tokens))
    install_errors(app)
    for part in (cases, claims, policies, management, state):
        app.include_router(part.router)
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

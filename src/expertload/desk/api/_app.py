"""The application: routes, errors, and what every answer carries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from expertload.desk.api import _cases, _claims, _policies, _state
from expertload.desk.api._errors import install_errors
from expertload.desk.desk import Desk

__all__ = ["create_app"]


def create_app(desk: Desk) -> FastAPI:
    """Return the application that serves a desk; whoever opened the desk closes it.

    The interactive documentation of FastAPI is off: it is fetched from elsewhere, and no request
    leaves the machine. The schema is at `/api/openapi.json`.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield

    app = FastAPI(
        title="expertload desk",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=life,
    )
    app.state.desk = desk
    app.state.gatherings = {}
    install_errors(app)
    for part in (_cases, _claims, _policies, _state):
        app.include_router(part.router)
    return app

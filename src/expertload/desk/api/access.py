"""Who sends a request: only bearer tokens count, so no site can use a browser's session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request

from expertload.desk.desk import Desk
from expertload.desk.people import Principal, Role, require

__all__ = ["desk_of", "needs", "token_of"]


def desk_of(request: Request) -> Desk:
    """Return the desk that an app serves."""
    desk: Desk = request.app.state.desk
    return desk


def token_of(request: Request) -> str:
    """Return the bearer token of a request, or an empty text if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def needs(*roles: Role) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency that gives the sender, or refuses one without any of these roles."""

    async def somebody(request: Request) -> Principal:
        token = token_of(request)
        principal = await request.app.state.tokens.send(token) if token else None
        return require(principal, *roles)

    somebody.roles = roles  # type: ignore[attr-defined]  # for the test that walks every route
    return somebody

"""Who sends a request: only bearer tokens count, so no site can use a browser's session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request

from expertload.desk.desk import Desk
from expertload.desk.people import Principal, Role, require

__all__ = ["desk_of", "needs"]


def desk_of(request: Request) -> Desk:
    """Return the desk that an app serves."""
    desk: Desk = request.app.state.desk
    return desk


def needs(*roles: Role) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency that gives the sender, or refuses one without any of these roles."""

    async def somebody(request: Request) -> Principal:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        principal = None
        if scheme.lower() == "bearer" and token.strip():
            principal = await request.app.state.tokens.send(token.strip())
        return require(principal, *roles)

    somebody.roles = roles  # type: ignore[attr-defined]  # for the test that walks every route
    return somebody

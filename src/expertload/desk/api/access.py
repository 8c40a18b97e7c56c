"""Who sends a request: bearer tokens alone, so that no site can borrow a browser's session."""

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
    """Return the token that a request carries, if it does."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def needs(*roles: Role) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency: somebody with one of these roles, or a refusal."""

    async def somebody(request: Request) -> Principal:
        token = token_of(request)
        principal = await request.app.state.tokens.send(token) if token else None
        return require(principal, *roles)

    somebody.roles = roles  # type: ignore[attr-defined]  # for the test that walks every route
    return somebody

"""Single sign-on: redirects to the provider, and signs in who comes back."""

from __future__ import annotations

import asyncio
import hmac

from fastapi import APIRouter, Request, Response

from expertload.desk.api.access import desk_of
from expertload.desk.pages.render import go
from expertload.desk.pages.route import PageRoute
from expertload.desk.pages.sign_in import is_secure, welcome
from expertload.desk.people import Attempt, OpenIdConnect, begin_session, find_named
from expertload.exceptions import DeskRefusedError

__all__ = ["router"]

router = APIRouter(prefix="/single-sign-on", route_class=PageRoute)
MINUTES = 10


def _provider(request: Request) -> OpenIdConnect:
    provider: OpenIdConnect | None = request.app.state.provider
    if provider is None:
        raise DeskRefusedError("not_found", "This desk has no single sign-on.")
    return provider


def _cookie(request: Request) -> str:
    return "__Host-desk-attempt" if is_secure(request) else "desk-attempt"


def _back(request: Request) -> str:
    return f"{request.base_url}single-sign-on/back"


@router.get("")
async def leave(request: Request) -> Response:
    """Send the browser to the provider."""
    attempt = Attempt.new()
    there = await asyncio.to_thread(_provider(request).address, attempt, _back(request))
    answer = go(there)
    answer.set_cookie(
        _cookie(request),
        attempt.written,
        max_age=60 * MINUTES,
        httponly=True,
        secure=is_secure(request),
        samesite="lax",
    )
    return answer


@router.get("/back")
async def come_back(request: Request, code: str = "", state: str = "") -> Response:
    """Sign in the user whom the provider names, if a manager has added them."""
    provider = _provider(request)
    attempt = Attempt.read(request.cookies.get(_cookie(request), ""))
    if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise DeskRefusedError("forbidden", "This sign-in did not start here.", "sign in again.")
    name = await asyncio.to_thread(provider.name_of, code, attempt, _back(request))
    desk = desk_of(request)
    who = await desk.aread(find_named, name)
    if who is None:
        raise DeskRefusedError(
            "forbidden", f"'{name}' is not a user of this desk.", "ask a manager to add you."
        )
    answer = welcome(request, await desk.acting(who.user).awrite(begin_session, who.user), "/")
    answer.delete_cookie(_cookie(request), secure=is_secure(request), httponly=True)
    return answer

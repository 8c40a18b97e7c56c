"""What all requests share: who sends them, how much they may send, and how errors are answered.

Only bearer tokens count here, so no other site can use a browser's session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from expertload._names import Role
from expertload.desk.desk import Desk
from expertload.desk.people.accounts import Principal, find_token, require
from expertload.exceptions import DeskRefusedError, DeskUnavailableError

MOST_BYTES = 64_000_000
STATUS = {
    "unauthorized": 401,
    "bad_origin": 403,
    "forbidden": 403,
    "not_found": 404,
    "no_such_lease": 404,
    "conflict": 409,
    "cannot_undo": 409,
    "too_large": 413,
    "wrong_media_type": 415,
    "too_many": 429,
}
HEADERS = {
    "unauthorized": {"WWW-Authenticate": "Bearer"},
    "too_large": {"Connection": "close"},  # otherwise the rest of an endless request is read
    "unavailable": {"Retry-After": "1"},
}
CODES = {404: "not_found", 405: "wrong_method", 413: "too_large", 415: "wrong_media_type"}


# ------------------------------------------------------------------ who sends a request


def desk_of(request: Request) -> Desk:
    """Return the desk that an app serves; its events name the known sender of the request."""
    desk: Desk = request.app.state.desk
    who: Principal | None = getattr(request.state, "who", None)
    return desk if who is None else desk.acting(who.user)


def token_of(request: Request) -> str:
    """Return the bearer token of a request, or an empty text if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def needs(*roles: Role) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency that gives the sender, or refuses one without any of these roles."""

    async def somebody(request: Request) -> Principal:
        principal = await desk_of(request).aread(find_token, token_of(request))
        who = request.state.who = require(principal, *roles)
        return who

    somebody.roles = roles  # type: ignore[attr-defined]  # for the test that walks every route
    return somebody


async def read_limited(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return a request's body; refuse it as soon as it is too long, before it fills the memory."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise DeskRefusedError(
                "too_large", f"A request must have at most {most} bytes.", "send smaller batches."
            )
        parts.append(part)
    return b"".join(parts)


# ------------------------------------------------------------------ errors


class Failure(NamedTuple):
    """What went wrong, for programs and people: a status, a code, a sentence, and what to do."""

    status: int
    code: str
    message: str
    hint: str = ""


def failure_of(error: Exception) -> Failure:
    """Describe any error that a request can end with."""
    if isinstance(error, DeskRefusedError):
        return Failure(STATUS.get(error.code, 422), error.code, error.message, error.hint)
    if isinstance(error, DeskUnavailableError):
        hint = "treat the case as delegated, and send the same request again."
        return Failure(503, "unavailable", "The desk's database does not answer.", hint)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first.get("loc", ())[1:]) or "the request"
        return Failure(422, "invalid", f"{where}: {first.get('msg')}.")
    if isinstance(error, HTTPException):
        code = CODES.get(error.status_code, "http_error")
        return Failure(error.status_code, code, str(error.detail))
    if isinstance(error, ClientDisconnect):
        # nobody gets this answer, but the log then shows no fault of the desk
        return Failure(400, "hung_up", "The request ended before it was complete.")
    return Failure(500, "internal", "Something went wrong inside the desk; nothing was decided.")


def error_body(failure: Failure) -> dict[str, dict[str, str]]:
    """Return the form that every error has."""
    return {"error": {"code": failure.code, "message": failure.message, "hint": failure.hint}}


async def answer_error(_: Request, error: Exception) -> JSONResponse:
    """Answer an error as JSON."""
    failure = failure_of(error)
    headers = getattr(error, "headers", None) or HEADERS.get(failure.code)
    return JSONResponse(error_body(failure), failure.status, headers)


def install_errors(app: FastAPI, answer: Any = answer_error) -> None:
    """Make an app answer every error in one form."""
    refused = (DeskRefusedError, DeskUnavailableError, RequestValidationError)
    for kind in (*refused, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, answer)

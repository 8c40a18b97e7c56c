"""What all requests share: who sends them, how much they may send, and how errors are answered.

Only bearer tokens count for the interface, so no other site can use a browser's session. `Gate`
checks the token before any of the body is read: strangers can make the desk neither store nor parse
what they send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from expertload._names import Role
from expertload.desk.desk import Desk
from expertload.desk.people.accounts import ROLES, Principal, find_token, require
from expertload.exceptions import DeskRefusedError, DeskUnavailableError

# The bytes that a request may have, by its address.
MOST_BYTES = {
    "/api/cases": 64_000_000,
    "/api/shadow": 64_000_000,
    "/api/golden": 64_000_000,
    "/manage/readers/golden": 64_000_000,
    "/api/policies": 4_000_000,
    "/manage/policies": 4_100_000,
}
MOST_BYTES_ELSEWHERE = 64_000
STATUS = {
    "unauthorized": 401,
    "bad_origin": 403,
    "forbidden": 403,
    "not_found": 404,
    "no_such_lease": 404,
    "conflict": 409,
    "cannot_undo": 409,
    "not_shown": 409,
    "too_large": 413,
    "wrong_media_type": 415,
    "too_many": 429,
}
HEADERS = {
    "unauthorized": {"WWW-Authenticate": "Bearer"},
    "too_large": {"Connection": "close"},  # otherwise the rest of an endless request is read
    "unavailable": {"Retry-After": "1"},
    # Starlette answers these outside of `Gate`.
    "internal": {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"},
}
# Every answer has these, unless it says otherwise.
SAFE = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
ONLY_HTTPS = (b"strict-transport-security", b"max-age=31536000")
CODES = {404: "not_found", 405: "wrong_method", 413: "too_large", 415: "wrong_media_type"}


# ------------------------------------------------------------------ what requests hold

Label = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
Reason = Annotated[str, Field(min_length=1, max_length=2_000, pattern=r"^[^\x00]+$")]
Number = Annotated[int, Field(ge=1, lt=2**62)]


class Body(BaseModel, extra="forbid"):
    """What a program sends as JSON, or a page as a form; both are checked alike."""


class ReasonBody(Body):
    """Why something is done."""

    reason: Reason


def seconds(moment: int | None) -> float | None:
    """Return a moment as programs get it: in seconds since 1970."""
    return None if moment is None else moment / 1e6


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


async def _sender(request: Request) -> Principal | None:
    """Return whose token a request has, which is looked for once."""
    if not hasattr(request.state, "sender"):
        request.state.sender = await desk_of(request).aread(find_token, token_of(request))
    sender: Principal | None = request.state.sender
    return sender


async def body_of(request: Request) -> bytes:
    """Return the body; refuse if the token has ended since, because it may take many minutes."""
    data = await request.body()
    del request.state.sender
    require(await _sender(request), *request.state.who.roles)
    return data


def needs(*roles: Role) -> Callable[[Request], Awaitable[Principal]]:
    """Return a dependency that gives the sender, or refuses one without any of these roles."""

    async def somebody(request: Request) -> Principal:
        who = request.state.who = require(await _sender(request), *roles)
        return who

    somebody.roles = roles  # type: ignore[attr-defined]  # for the test that walks every route
    return somebody


class Gate:
    """Admits requests: only with a token if they use the interface, and with a limited body.

    A request with an answer in `direct` goes no further: the layers of FastAPI take longer than
    storing a case.
    """

    def __init__(
        self, app: ASGIApp, direct: dict[tuple[str, str], Callable[[Request], Awaitable[Response]]]
    ) -> None:
        self.app, self.direct = app, direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on with what is known of its sender."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        send, path = _safe(scope, send), scope["path"]
        request = Request(scope, _limited(receive, most_bytes(path)))
        try:
            answer = self.direct.get((scope["method"], path))
            if answer is None:
                if path.startswith("/api/") and scope["method"] not in ("GET", "HEAD"):
                    require(await _sender(request), *ROLES)
                await self.app(scope, request.receive, send)
                return
            response = await answer(request)
        except (DeskRefusedError, DeskUnavailableError, ClientDisconnect) as error:
            response = await answer_error(request, error)
            if not request.headers.get("content-length", "").isdecimal() or (
                int(request.headers["content-length"]) > MOST_BYTES_ELSEWHERE
            ):
                response.headers["Connection"] = "close"  # the rest of a long body is not read
        await response(scope, receive, send)


def _safe(scope: Scope, send: Send) -> Send:
    """Add headers to the answer: no guessing of types, no copies, and https stays https."""
    wanted = (*SAFE, ONLY_HTTPS) if scope.get("scheme") == "https" else SAFE

    async def safe(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name for name, _ in message["headers"]}
            added = (pair for pair in wanted if pair[0] not in known)
            message["headers"] = [*message["headers"], *added]
        await send(message)

    return safe


def most_bytes(path: str) -> int:
    """Return how long the body of a request to an address may be."""
    return MOST_BYTES.get(path, MOST_BYTES_ELSEWHERE)


def _limited(receive: Receive, most: int) -> Receive:
    """Refuse a body as soon as it is too long, before it fills the memory."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise too_large(most)
        return message

    return limited


def too_large(most: int) -> DeskRefusedError:
    """Return the refusal of a body that is too long."""
    return DeskRefusedError(
        "too_large", f"Too large: at most {most / 1e6:g} MB are taken.", "send less at once."
    )


# ------------------------------------------------------------------ errors


def failure_of(error: Exception) -> tuple[int, DeskRefusedError]:
    """Return the status of any error that a request can end with, and what programs are told."""
    if isinstance(error, DeskRefusedError):
        return STATUS.get(error.code, 422), error
    if isinstance(error, DeskUnavailableError):
        hint = "treat the case as delegated, and send the same request again."
        message = "The desk's database does not answer."
        return 503, DeskRefusedError("unavailable", message, hint)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first.get("loc", ())[1:]) or "the request"
        return 422, DeskRefusedError("invalid", f"{where}: {first.get('msg')}.")
    if isinstance(error, HTTPException):
        if isinstance(error.__cause__, DeskRefusedError):  # raised while FastAPI read the body
            return failure_of(error.__cause__)
        code = CODES.get(error.status_code, "http_error")
        return error.status_code, DeskRefusedError(code, str(error.detail))
    if isinstance(error, ClientDisconnect):
        # nobody receives this; as another error, the log would call it a fault of the desk
        return 400, DeskRefusedError("hung_up", "The request ended before it was complete.")
    message = "Something went wrong inside the desk; nothing was decided."
    return 500, DeskRefusedError("internal", message)


def error_body(refused: DeskRefusedError) -> dict[str, dict[str, str]]:
    """Return the form that every error has."""
    return {"error": {"code": refused.code, "message": refused.message, "hint": refused.hint}}


async def answer_error(_: Request, error: Exception) -> JSONResponse:
    """Answer an error as JSON."""
    status, told = failure_of(error)
    headers = getattr(error, "headers", None) or HEADERS.get(told.code)
    return JSONResponse(error_body(told), status, headers)


def install_errors(app: FastAPI) -> None:
    """Make an app answer every error in one form."""
    refused = (DeskRefusedError, DeskUnavailableError, RequestValidationError)
    for kind in (*refused, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, answer_error)

"""Errors for programs and people: a code, a sentence, and what to do."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from expertload.exceptions import DeskRefusedError, DeskUnavailableError

__all__ = ["ErrorBody", "answer_to", "error_body", "http_error", "install_errors"]

STATUS = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "no_such_lease": 404,
    "conflict": 409,
    "cannot_undo": 409,
    "too_large": 413,
    "wrong_media_type": 415,
}
HEADERS = {
    "unauthorized": {"WWW-Authenticate": "Bearer"},
    "too_large": {"Connection": "close"},  # otherwise the rest of an endless request is read
}
CODES = {404: "not_found", 405: "wrong_method", 413: "too_large", 415: "wrong_media_type"}

ErrorBody = dict[str, dict[str, str]]


def error_body(code: str, message: str, hint: str = "") -> ErrorBody:
    """Return the form that every error has."""
    return {"error": {"code": code, "message": message, "hint": hint}}


def install_errors(app: FastAPI) -> None:
    """Make an app answer every error in that form."""
    for kind in (DeskRefusedError, DeskUnavailableError, Exception):
        app.add_exception_handler(kind, _answered)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(ClientDisconnect, _hung_up)


def answer_to(error: Exception) -> JSONResponse:
    """Return the answer to an error of the desk, or to an unexpected one."""
    if isinstance(error, DeskRefusedError):
        body = error_body(error.code, error.said, error.hint)
        return JSONResponse(body, STATUS.get(error.code, 422), HEADERS.get(error.code))
    if isinstance(error, DeskUnavailableError):
        hint = "treat the case as delegated, and send the same request again."
        body = error_body("unavailable", "The desk's database does not answer.", hint)
        return JSONResponse(body, 503, {"Retry-After": "1"})
    body = error_body("internal", "Something went wrong inside the desk; nothing was decided.")
    return JSONResponse(body, 500)


async def _answered(_: Request, error: Exception) -> JSONResponse:
    return answer_to(error)


async def _invalid(_: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ())[1:]) or "the request"
    return JSONResponse(error_body("invalid", f"{where}: {first.get('msg')}."), 422)


async def http_error(_: Request, error: Any) -> JSONResponse:
    """Answer an HTTP error: an unknown address, a wrong method."""
    code = CODES.get(error.status_code, "http_error")
    return JSONResponse(
        error_body(code, str(error.detail)), error.status_code, getattr(error, "headers", None)
    )


async def _hung_up(_: Request, error: Any) -> JSONResponse:
    """Answer a sender who hung up: nobody gets it, but the log shows no fault of the desk."""
    return JSONResponse(error_body("hung_up", "The request ended before it was complete."), 400)

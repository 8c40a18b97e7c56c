"""What all pages share: forms are accepted only from this site, and refusals are pages too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from expertload.exceptions import DeskRefusedError, DeskUnavailableError

__all__ = ["HEADERS", "PageRoute"]

MOST_BYTES = 5_000_000
STATUS = {
    "bad_origin": 403,
    "forbidden": 403,
    "not_found": 404,
    "no_such_lease": 404,
    "conflict": 409,
    "cannot_undo": 409,
    "too_large": 413,
    "too_many": 429,
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # 'no-referrer' would make browsers send 'Origin: null' with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


class PageRoute(APIRoute):
    """A route whose refusals are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, guarded."""
        inner = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            from expertload.desk.pages.render import refusal

            try:
                _check_form(request)
                return await inner(request)
            except DeskRefusedError as error:
                if error.code == "unauthorized":
                    return _to_sign_in(request)
                status = STATUS.get(error.code, 422)
                return refusal(request, status, error.said, error.hint)
            except RequestValidationError as error:
                first = error.errors()[0]
                where = str(first.get("loc", ("", "the form"))[-1])
                return refusal(request, 422, f"'{where}': {first.get('msg')}.")
            except DeskUnavailableError:
                said = "The desk's database does not answer. Nothing was changed."
                return refusal(request, 503, said, "try again in a moment.")

        return guarded


def _to_sign_in(request: Request) -> Response:
    there = request.url.path if request.method == "GET" else "/"
    return RedirectResponse(f"/sign-in?next={quote(there)}", 303, headers=HEADERS)


def _check_form(request: Request) -> None:
    """Refuse a form that comes from another site or is too long."""
    if request.method in ("GET", "HEAD"):
        return
    if not _is_from_here(request):
        raise DeskRefusedError(
            "bad_origin",
            "This request does not come from a page of this desk. Nothing was changed.",
            "open the desk's own page and try again there.",
        )
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        raise DeskRefusedError(
            "too_large", f"A form must state its length, which may be at most {MOST_BYTES} bytes."
        )


def _is_from_here(request: Request) -> bool:
    """Whether the browser says that the form is from here. If it says nothing, the form is not.

    Browsers send Sec-Fetch-Site to https and loopback addresses, and Origin with every form.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", ""))
    return bool(origin.netloc) and origin.netloc == request.headers.get("host")

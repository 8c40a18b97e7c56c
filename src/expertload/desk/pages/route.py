"""What all pages share: forms are accepted only from this site, and refusals are pages too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from expertload.exceptions import DeskRefusedError, DeskUnavailableError

__all__ = ["HEADERS", "PLACES", "PageRoute", "page_before", "page_of"]

log = logging.getLogger("expertload.desk")
# (address, name in the menu, roles that see it)
PLACES: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("/review", "Review", frozenset({"reader", "arbiter"})),
    ("/manage", "Overview", frozenset({"manager", "auditor"})),
    ("/manage/policies", "Policies", frozenset({"manager"})),
    ("/manage/people", "People", frozenset({"manager"})),
    ("/audit", "Audit", frozenset({"auditor", "manager"})),
)

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
            except HTTPException as error:
                return refusal(request, error.status_code, str(error.detail))
            except Exception:
                log.exception("a page of the desk failed")
                said = "Something went wrong inside the desk."
                return refusal(
                    request, 500, said, "try again; if it happens again, tell your operator."
                )

        return guarded


def page_before(request: Request) -> str:
    """Return the page that the browser comes from."""
    came_from = urlsplit(request.headers.get("referer", ""))
    if came_from.netloc == request.headers.get("host"):
        return page_of(came_from.path)
    return "/" if request.method == "GET" else page_of(request.url.path)


def page_of(path: str) -> str:
    """Return the page that an address belongs to: forms have addresses below that of their page."""
    pages = [place[0] for place in PLACES] + ["/account"]
    above = [page for page in pages if path == page or path.startswith(f"{page}/")]
    return max(above, key=len, default="/")


def _to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in, which leads back; what was sent is not stored."""
    is_lost = request.method != "GET"
    there = page_before(request) if is_lost else request.url.path
    more = "&lost=yes" if is_lost else ""
    return RedirectResponse(f"/sign-in?next={quote(there)}{more}", 303, headers=HEADERS)


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
    if not length.isdecimal():
        raise DeskRefusedError("too_large", "A form must state its length.")
    if int(length) > MOST_BYTES:
        most = f"{MOST_BYTES / 1e6:g} MB"
        raise DeskRefusedError("too_large", f"This is too large: a form takes at most {most}.")


def _is_from_here(request: Request) -> bool:
    """Whether the browser says that the form is from here. If it says nothing, the form is not.

    Browsers send Sec-Fetch-Site to https and loopback addresses, and Origin with every form.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", ""))
    return bool(origin.netloc) and origin.netloc == request.headers.get("host")

"""What all pages share: templates, headers and static files; only own forms; refusals as pages."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from expertload.desk.api.access import failure_of, most_bytes, too_large
from expertload.desk.people.accounts import Principal
from expertload.exceptions import DeskRefusedError

log = logging.getLogger("expertload.desk")
# (address, name in the menu, roles that see it)
PLACES: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("/review", "Review", frozenset({"reader", "arbiter"})),
    ("/manage", "Overview", frozenset({"manager", "auditor"})),
    ("/manage/policies", "Policies", frozenset({"manager"})),
    ("/manage/cases", "Cases", frozenset({"manager"})),
    ("/manage/readers", "Readers", frozenset({"manager"})),
    ("/manage/challengers", "Challengers", frozenset({"manager", "auditor"})),
    ("/manage/people", "People", frozenset({"manager"})),
    ("/audit", "Audit", frozenset({"auditor", "manager"})),
)
LEAST_COMPRESSED = 1_000
LONGEST_PRETTY = 20_000  # bytes; nested lists can become fifty times as long
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    # 'no-referrer' would make browsers send 'Origin: null' with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


# ------------------------------------------------------------------ requests


class PageRoute(APIRoute):
    """A route whose refusals are pages, and which reads forms only of its own users and pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, guarded."""
        inner = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                if request.method not in ("GET", "HEAD"):
                    _check_form(request)
                    for dependency in self.dependant.dependencies:
                        # FastAPI would check the sender after reading the form; this is before.
                        if dependency.call is not None and hasattr(dependency.call, "roles"):
                            await dependency.call(request)
                return await inner(request)
            except Exception as error:
                return _refused(request, error)

        return guarded


def _refused(request: Request, error: Exception) -> Response:
    status, told = failure_of(error)
    message, hint = told.message, told.hint
    if told.code == "unauthorized":
        # The sign-in leads back; what was sent is not stored.
        is_lost = request.method != "GET"
        there = _page_before(request) if is_lost else request.url.path
        return go(f"/sign-in?next={quote(there)}{'&lost=yes' if is_lost else ''}")
    if told.code == "unavailable":
        message, hint = f"{message} Nothing was changed.", "try again in a moment."
    elif told.code == "internal":
        log.error("a page of the desk failed", exc_info=error)
        message = "Something went wrong inside the desk."
        hint = "try again; if it happens again, tell your operator."
    return refusal(request, status, message, hint)


def _page_before(request: Request) -> str:
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


def _check_form(request: Request) -> None:
    """Refuse a form that comes from another site or is too long."""
    if not _is_from_here(request):
        raise DeskRefusedError(
            "bad_origin",
            "This request does not come from a page of this desk. Nothing was changed.",
            "open the desk's own page and try again there.",
        )
    most, length = most_bytes(request.url.path), request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > most:
        raise too_large(most)


def _is_from_here(request: Request) -> bool:
    """Whether the browser says that the form is from here. If it says nothing, the form is not.

    Browsers send Sec-Fetch-Site to https and loopback addresses, and Origin with every form.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", ""))
    return bool(origin.netloc) and origin.netloc == request.headers.get("host")


# ------------------------------------------------------------------ responses


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return a page, with the menu of the signed-in user."""
    who: Principal | None = getattr(request.state, "who", None)
    places = [place for place in PLACES if who is not None and who.roles & place[2]]
    page = environment().get_template(template)
    ways = request.app.state  # how people sign in to this desk
    text = page.render(who=who, places=places, here=request.url.path, ways=ways, **values)
    return _respond(request, text.encode(), "text/html", HEADERS, status)


def refusal(request: Request, status: int, message: str, hint: str = "") -> Response:
    """Return a page that says what cannot be done, what to do instead, and how to get back."""
    back = "/" if status == 403 else _page_before(request)  # a forbidden page is no way back
    values = {"message": message, "hint": hint, "back": back}
    return render(request, "refusal.html.j2", status=status, **values)


def go(where: str) -> RedirectResponse:
    """Redirect the browser to a page after a change."""
    return RedirectResponse(where, 303, headers=HEADERS)


def _respond(
    request: Request, content: bytes, media_type: str, headers: dict[str, str], status: int = 200
) -> Response:
    """Return content, compressed if it is long and the browser accepts that."""
    headers = {**headers, "Vary": "Accept-Encoding"}
    if len(content) > LEAST_COMPRESSED and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 6, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(content, status, headers, media_type)


# ------------------------------------------------------------------ static files

router = APIRouter(route_class=PageRoute)
# The desk uses the style of the report, so that both have the same look.
FILES = {
    "base.css": ("expertload.report", "templates/page.css", "text/css"),
    "desk.css": ("expertload.desk.pages", "static/desk.css", "text/css"),
    "desk.js": ("expertload.desk.pages", "static/desk.js", "text/javascript"),
    "icon.svg": ("expertload.desk.pages", "static/icon.svg", "image/svg+xml"),
}


@cache
def _file(name: str) -> tuple[bytes, str]:
    """Return the content of a file and its digest."""
    package, path, _ = FILES[name]
    content = files(package).joinpath(path).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:16]


def _address_of(name: str) -> str:
    """Return the address of a file, with its digest, so that a new version has a new address."""
    return f"/static/{_file(name)[1]}/{name}"


@router.get("/static/{digest}/{name}")
async def send(digest: str, name: str, request: Request) -> Response:
    """Send a file, to anybody; browsers keep it."""
    if name not in FILES or _file(name)[1] != digest:
        raise DeskRefusedError("not_found", "There is no such file.")
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return _respond(request, _file(name)[0], FILES[name][2], headers)


# ------------------------------------------------------------------ how values are written

NOTHING = "\N{EN DASH}"
SPACE = "\N{NARROW NO-BREAK SPACE}"


@cache
def environment() -> Environment:
    """Return the templates and how they write values."""
    made = Environment(
        loader=PackageLoader("expertload.desk.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = (moment, last_day, share, exact, at_least, span, number, pretty)
    made.filters.update({write.__name__: write for write in written})
    made.globals.update(address_of=_address_of)
    return made


def moment(microseconds: int | None) -> Markup | str:
    """Write a time in UTC; the script shows it in the reader's own time zone."""
    if microseconds is None:
        return NOTHING
    when = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        when.isoformat(timespec="seconds"), when.strftime("%d %b %Y, %H:%M UTC")
    )


def last_day(end: int) -> str:
    """Write the day that ends at a time: of days the zone of a reader says nothing."""
    return f"{datetime.fromtimestamp(end / 1e6 - 1, UTC):%d %b %Y}"


def hour(start: datetime) -> Markup:
    """Write the hour of a tick in UTC; the script shows it in the reader's own time zone."""
    return Markup('<tspan data-hour="{}">{:%H:%M}</tspan>').format(start.isoformat(), start)


def share(value: float | None, digits: int = 1) -> str:
    """Show a share in percent."""
    return NOTHING if value is None else f"{100 * value:.{digits}f}{SPACE}%"


def exact(value: float | None) -> str:
    """Show a share that somebody chose: 97.5 % is neither 97 nor 98."""
    return NOTHING if value is None else f"{100 * value:.6g}{SPACE}%"


def at_least(value: float | None) -> str:
    """Show a lower bound, rounded down, so that it still is one."""
    return share(None if value is None else math.floor(1_000 * value + 1e-9) / 1_000)


def number(value: float | None) -> str:
    """Show a whole number, its digits in groups of three."""
    return NOTHING if value is None else f"{value:,.0f}".replace(",", SPACE)


def span(seconds: float | None) -> str:
    """Write a length of time in its two largest units."""
    if seconds is None:
        return NOTHING
    left, parts = round(seconds), []
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        n, left = divmod(left, size)
        if n:
            parts.append(f"{n}{SPACE}{name}")
    return " ".join(parts[:2]) or f"0{SPACE}s"


def pretty(content: bytes) -> str:
    """Write JSON with a line for each value; what is long stays as it is, or it would get huge."""
    if len(content) > LONGEST_PRETTY:
        return content.decode()
    return json.dumps(json.loads(content), indent=2, ensure_ascii=False)

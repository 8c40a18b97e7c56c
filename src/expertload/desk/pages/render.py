"""Renders templates as responses, with the headers that every page has."""

from __future__ import annotations

import gzip
import json
import math
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from expertload.desk.pages.files import address_of
from expertload.desk.pages.route import HEADERS, PLACES, page_before
from expertload.desk.people import Principal

__all__ = ["go", "hour", "number", "refusal", "render"]

LEAST_COMPRESSED = 1_000
NOTHING = "\N{EN DASH}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("expertload.desk.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        moment=_moment,
        share=_share,
        exact=_exact,
        at_least=_at_least,
        span=_span,
        number=number,
        pretty=_pretty,
        points=_points,
    )
    made.globals.update(address_of=address_of)
    return made


def render(
    request: Request,
    template: str,
    *,
    status: int = 200,
    who: Principal | None = None,
    **values: Any,
) -> HTMLResponse:
    """Return a page, compressed if the browser accepts that."""
    places = [place for place in PLACES if who is not None and who.roles & place[2]]
    text = (
        _environment()
        .get_template(template)
        .render(who=who, places=places, here=request.url.path, **values)
    )
    content, headers = text.encode(), {**HEADERS, "Vary": "Accept-Encoding"}
    if len(content) > LEAST_COMPRESSED and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 6, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return HTMLResponse(content, status, headers)


def refusal(request: Request, status: int, said: str, hint: str = "") -> HTMLResponse:
    """Return a page that says what cannot be done, what to do instead, and how to get back."""
    who = getattr(request.state, "who", None)
    back = "/" if status == 403 else page_before(request)  # a forbidden page is no way back
    values = {"said": said, "hint": hint, "back": back}
    return render(request, "refusal.html.j2", status=status, who=who, **values)


def go(where: str) -> RedirectResponse:
    """Redirect the browser to a page after a change."""
    return RedirectResponse(where, 303, headers=HEADERS)


# ------------------------------------------------------------------ how values are written


def _moment(microseconds: int | None) -> Markup | str:
    """Write a time in UTC; the script shows it in the reader's own time zone."""
    if microseconds is None:
        return NOTHING
    when = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        when.isoformat(timespec="seconds"), when.strftime("%d %b %Y, %H:%M UTC")
    )


def hour(start: datetime) -> Markup:
    """Write the hour of a tick in UTC; the script shows it in the reader's own time zone."""
    return Markup('<tspan data-hour="{}">{:%H:%M}</tspan>').format(start.isoformat(), start)


def _share(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{100 * value:.{digits}f}\N{NARROW NO-BREAK SPACE}%"


def _exact(value: float | None) -> str:
    """Show a share that somebody chose: 97.5 % is neither 97 nor 98."""
    return NOTHING if value is None else f"{100 * value:.6g}\N{NARROW NO-BREAK SPACE}%"


def _at_least(value: float | None) -> str:
    """Show a lower bound, rounded down: what is said to be sure must be sure."""
    return _share(None if value is None else math.floor(1_000 * value + 1e-9) / 1_000)


def _points(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def number(value: float | None) -> str:
    """Show a whole number, its digits in groups of three."""
    return NOTHING if value is None else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _span(seconds: float | None) -> str:
    """Write a length of time in its two largest units."""
    if seconds is None:
        return NOTHING
    left, parts = round(seconds), []
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        n, left = divmod(left, size)
        if n:
            parts.append(f"{n}\N{NARROW NO-BREAK SPACE}{name}")
    return " ".join(parts[:2]) or "0\N{NARROW NO-BREAK SPACE}s"


def _pretty(content: bytes) -> str:
    return json.dumps(json.loads(content), indent=2, ensure_ascii=False)

"""Adds the routes of all pages to an app."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from expertload.desk.api.access import answer_error
from expertload.desk.pages import audit, manage, people_page, review, sign_in, single
from expertload.desk.pages.files import router as files
from expertload.desk.pages.render import go, refusal
from expertload.desk.pages.route import page_of
from expertload.desk.people import OpenIdConnect, TrustedProxy

__all__ = ["install_pages"]


def install_pages(
    app: FastAPI, *, proxy: TrustedProxy | None = None, provider: OpenIdConnect | None = None
) -> None:
    """Add the pages to an app whose `state.desk` is the desk."""
    sign_in.prepare(app, proxy, provider)
    for part in (sign_in, single, review, people_page, manage, audit):
        app.include_router(part.router, include_in_schema=False)
    app.include_router(files, include_in_schema=False)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _no_form)


async def _no_form(request: Request, error: Exception) -> Response:
    """Answer a form's address that is opened as a page: browsers get the page with the form."""
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return go(page_of(request.url.path))
    return await answer_error(request, error)


async def _not_found(request: Request, error: Exception) -> Response:
    """Answer an unknown address: browsers get a page, programs get the usual error."""
    if "text/html" in request.headers.get("accept", ""):
        said = "There is no page at this address."
        return refusal(request, 404, said, "start from your own page.")
    return await answer_error(request, error)

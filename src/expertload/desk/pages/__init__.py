"""The pages that people see: plain HTML and forms, a little script, nothing from other sites."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from expertload.desk.api.access import answer_error
from expertload.desk.pages import audit, manage, page, review, sign_in


def install_pages(app: FastAPI) -> None:
    """Add the pages to an app whose `state.desk` is the desk and that `sign_in` has prepared."""
    for part in (sign_in, review, manage, audit, page):
        app.include_router(part.router, include_in_schema=False)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _wrong_method)


def _is_browser(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


async def _not_found(request: Request, error: Exception) -> Response:
    """Answer an unknown address: browsers get a page, programs get the usual error."""
    if _is_browser(request):
        message = "There is no page at this address."
        return page.refusal(request, 404, message, "start from your own page.")
    return await answer_error(request, error)


async def _wrong_method(request: Request, error: Exception) -> Response:
    """Answer a form's address that is opened as a page: browsers get the page with the form."""
    if request.method == "GET" and _is_browser(request):
        return page.go(page.page_of(request.url.path))
    return await answer_error(request, error)

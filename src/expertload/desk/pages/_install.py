"""The routes of every page, added to an app."""

from __future__ import annotations

from fastapi import FastAPI

from expertload.desk.pages import _audit, _manage, _people_page, _review, _sign_in, _single
from expertload.desk.pages._files import router as files
from expertload.desk.people import OpenIdConnect, TrustedProxy

__all__ = ["install_pages"]


def install_pages(
    app: FastAPI, *, proxy: TrustedProxy | None = None, provider: OpenIdConnect | None = None
) -> None:
    """Add the pages to an app whose `state.desk` is the desk."""
    _sign_in.prepare(app, proxy, provider)
    for part in (_sign_in, _single, _review, _people_page, _manage, _audit):
        app.include_router(part.router, include_in_schema=False)
    app.include_router(files, include_in_schema=False)

"""The routes of every page, added to an app."""

from __future__ import annotations

from fastapi import FastAPI

from expertload.desk.pages import _review, _sign_in
from expertload.desk.pages._files import router as files

__all__ = ["install_pages"]


def install_pages(app: FastAPI) -> None:
    """Add the pages to an app whose `state.desk` is the desk."""
    _sign_in.prepare(app)
    for router in (files, _sign_in.router, _review.router):
        app.include_router(router, include_in_schema=False)

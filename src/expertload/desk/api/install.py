"""Adds the routes and errors of the interface to an app."""

from __future__ import annotations

from fastapi import FastAPI

from expertload.desk.api import cases, claims, management, policies, state
from expertload.desk.api.errors import install_errors
from expertload.desk.api.gathering import Gathering
from expertload.desk.api.single import SingleCases
from expertload.desk.desk import Desk
from expertload.desk.people import find_tokens

__all__ = ["install_api"]


def install_api(app: FastAPI) -> None:
    """Add the interface to an app whose `state.desk` is the desk."""
    desk: Desk = app.state.desk
    app.state.tokens = Gathering(lambda tokens: desk.aread(find_tokens, tokens))
    app.state.single = SingleCases(desk, app.state.tokens)
    install_errors(app)
    for part in (cases, claims, policies, management, state):
        app.include_router(part.router)

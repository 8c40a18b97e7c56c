"""The JSON interface, under `/api`."""

from __future__ import annotations

from fastapi import FastAPI

from expertload.desk.api import challengers, claims, management, team
from expertload.desk.api.access import install_errors
from expertload.desk.api.cases import install_cases


def install_api(app: FastAPI) -> None:
    """Add the interface to an app whose `state.desk` is the desk."""
    install_errors(app)
    install_cases(app)
    for part in (claims, management, team, challengers):
        app.include_router(part.router)

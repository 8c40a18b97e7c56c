"""The JSON interface, under `/api`."""

from __future__ import annotations

from fastapi import FastAPI

from expertload.desk.api import claims, management
from expertload.desk.api.access import install_errors
from expertload.desk.api.cases import install_cases


def install_api(app: FastAPI) -> None:
    """Add the interface to an app whose `state.desk` is the desk."""
    install_errors(app)
    install_cases(app)
    app.include_router(claims.router)
    app.include_router(management.router)

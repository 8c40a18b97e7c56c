"""The JSON interface, under `/api`."""

from expertload.desk.api.app import create_app

__all__ = ["create_app"]

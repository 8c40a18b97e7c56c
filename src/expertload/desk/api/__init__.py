"""The JSON interface, under `/api`."""

from expertload.desk.api.app import create_app
from expertload.desk.api.serving import serve

__all__ = ["create_app", "serve"]

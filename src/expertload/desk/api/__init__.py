"""The JSON interface, under `/api`."""

from expertload.desk.api.install import install_api

__all__ = ["install_api"]

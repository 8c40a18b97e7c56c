"""Downloads files, checks them, and unpacks archives."""

from expertload.lab.data.fetching.files import fetch_files

__all__ = ["fetch_files"]

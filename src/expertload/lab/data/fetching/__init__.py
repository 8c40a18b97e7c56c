"""Bringing files to this machine: download, check, unpack."""

from expertload.lab.data.fetching.files import fetch_files

__all__ = ["fetch_files"]

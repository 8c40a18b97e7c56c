"""Lease tokens: a new one for every claim, still recognised after the lease has run out.

A token contains the number of its reading, signed together with the reader. So a late answer still
finds its case, and nobody can forge a token.
"""

from __future__ import annotations

import hmac
import secrets

from expertload.desk.store import Project

__all__ = ["new_lease", "reading_of"]


def new_lease(project: Project, reading: int, reader: int) -> str:
    """Return a new token for a reading that a reader takes."""
    nonce = secrets.token_hex(8)
    return f"{reading}-{nonce}-{_signature(project, reading, reader, nonce)}"


def reading_of(project: Project, lease: str, reader: int) -> int | None:
    """Return the reading that a token was made for; None if this reader never got such a token."""
    parts = lease.split("-")
    if len(parts) != 3 or not (parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 19):
        return None
    reading, nonce, signature = int(parts[0]), parts[1], parts[2]
    expected = _signature(project, reading, reader, nonce)
    return reading if hmac.compare_digest(signature.encode(), expected.encode()) else None


def _signature(project: Project, reading: int, reader: int, nonce: str) -> str:
    signed = f"lease\x1f{project.name}\x1f{reading}\x1f{reader}\x1f{nonce}".encode()
    return hmac.digest(project.secret, signed, "sha256").hex()[:32]

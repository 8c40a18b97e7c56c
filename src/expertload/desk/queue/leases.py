"""Lease tokens: fresh for every claim, and known again after they have run out.

A token carries the reading it was made for and a seal over that reading and its reader. So an
answer that comes after the lease was lost still finds its case, and nobody can make one up.
"""

from __future__ import annotations

import hmac
import secrets

from expertload.desk.store import Project

__all__ = ["new_lease", "reading_of"]


def new_lease(project: Project, reading: int, reader: int) -> str:
    """Return a new token for a reading that a reader takes."""
    nonce = secrets.token_hex(8)
    return f"{reading}-{nonce}-{_seal(project, reading, reader, nonce)}"


def reading_of(project: Project, lease: str, reader: int) -> int | None:
    """Return the reading that a token was made for, None if this reader was given no such token."""
    parts = lease.split("-")
    if len(parts) != 3 or not (parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 19):
        return None
    reading, nonce, seal = int(parts[0]), parts[1], parts[2]
    right = _seal(project, reading, reader, nonce)
    return reading if hmac.compare_digest(seal.encode(), right.encode()) else None


def _seal(project: Project, reading: int, reader: int, nonce: str) -> str:
    said = f"lease\x1f{project.name}\x1f{reading}\x1f{reader}\x1f{nonce}".encode()
    return hmac.digest(project.secret, said, "sha256").hex()[:32]

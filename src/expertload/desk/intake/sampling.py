"""Who is in the quality sample: decided by a keyed hash of the case's name.

Sending a case again cannot reroll it, senders cannot foresee it, and a higher rate includes every
case that a lower one did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from expertload.desk.store import Project

__all__ = ["draw", "drawing"]

BLOCK = 64  # bytes that SHA-256 takes at a time


def draw(secret: bytes, purpose: str, project: str, key: str) -> float:
    """Return a number in [0, 1) that belongs to a case and a purpose, and is uniform over cases."""
    return _drawing(secret, purpose, project)(key)


def drawing(project: Project, purpose: str) -> Callable[[str], float]:
    """Return `draw` for many cases of one project: what they share is hashed once."""
    return _drawing(project.secret, purpose, project.name)


def _drawing(secret: bytes, purpose: str, project: str) -> Callable[[str], float]:
    """Take HMAC-SHA-256 with its two keyed states computed once, which is most of its cost."""
    inner, outer = _keyed(secret, 0x36), _keyed(secret, 0x5C)
    inner.update(f"{purpose}\x1f{project}\x1f".encode())  # keys hold no control characters

    def drawn(key: str) -> float:
        within, without = inner.copy(), outer.copy()
        within.update(key.encode())
        without.update(within.digest())
        # The bits that a float can hold.
        return (int.from_bytes(without.digest()[:8], "big") >> 11) / 2**53

    return drawn


def _keyed(secret: bytes, mask: int) -> Any:
    key = hashlib.sha256(secret).digest() if len(secret) > BLOCK else secret
    return hashlib.sha256(bytes(byte ^ mask for byte in key.ljust(BLOCK, b"\0")))

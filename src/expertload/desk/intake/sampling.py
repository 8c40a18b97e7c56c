"""Which cases are in the quality sample: decided by a keyed hash of the case's key.

Sending a case again does not draw again, senders cannot foresee the draw, and a higher rate
includes every case that a lower rate includes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from expertload.desk.store import Project

__all__ = ["draw", "drawing"]

BLOCK = 64  # bytes in a block of SHA-256


def draw(secret: bytes, purpose: str, project: str, key: str) -> float:
    """Return a number in [0, 1), fixed for a case and a purpose, and uniform over cases."""
    return _keyed_draw(secret, purpose, project)(key)


def drawing(project: Project, purpose: str) -> Callable[[str], float]:
    """Return `draw` for many cases of one project; their common prefix is hashed only once."""
    return _keyed_draw(project.secret, purpose, project.name)


def _keyed_draw(secret: bytes, purpose: str, project: str) -> Callable[[str], float]:
    """Return HMAC-SHA-256 as a draw; its two keyed states, most of the cost, are computed once."""
    inner, outer = _keyed_state(secret, 0x36), _keyed_state(secret, 0x5C)
    inner.update(f"{purpose}\x1f{project}\x1f".encode())  # keys hold no control characters

    def drawn(key: str) -> float:
        within, without = inner.copy(), outer.copy()
        within.update(key.encode())
        without.update(within.digest())
        # As many bits as a float can hold.
        return (int.from_bytes(without.digest()[:8], "big") >> 11) / 2**53

    return drawn


def _keyed_state(secret: bytes, mask: int) -> Any:
    key = hashlib.sha256(secret).digest() if len(secret) > BLOCK else secret
    return hashlib.sha256(bytes(byte ^ mask for byte in key.ljust(BLOCK, b"\0")))

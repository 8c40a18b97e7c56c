"""Who is in the quality sample: decided by a keyed hash of the case's name.

Sending a case again cannot reroll it, senders cannot foresee it, and a higher rate includes every
case that a lower one did.
"""

from __future__ import annotations

import hmac

__all__ = ["draw"]


def draw(secret: bytes, purpose: str, project: str, key: str) -> float:
    """Return a number in [0, 1) that belongs to a case and a purpose, and is uniform over cases."""
    name = "\x1f".join((purpose, project, key)).encode()  # keys hold no control characters
    digest = hmac.digest(secret, name, "sha256")
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53  # the bits that a float can hold

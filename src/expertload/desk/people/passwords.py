"""Passwords, hashed with scrypt, so that a stolen database does not reveal them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import unicodedata

from expertload.exceptions import DeskRefusedError

__all__ = ["SHORTEST", "check_password", "hash_password"]

SHORTEST, LONGEST = 10, 1_000
# 32 MB and about a tenth of a second for each guess.
COST, BLOCK, LANES = 2**15, 8, 1
MEMORY = 64 * 2**20


def hash_password(password: str) -> str:
    """Return what is stored for a password: the parameters, the salt and the digest."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise DeskRefusedError(
            "bad_password", f"A password must have {SHORTEST} to {LONGEST} characters."
        )
    salt = secrets.token_bytes(16)
    digest = _stretched(password, salt, COST, BLOCK, LANES)
    return "$".join(["scrypt", str(COST), str(BLOCK), str(LANES), _text(salt), _text(digest)])


def check_password(stored: str | None, password: str) -> bool:
    """Whether a password is the stored one; takes the same time if nothing is stored."""
    kept = stored or _NOBODY
    _, cost, block, lanes, salt, digest = kept.split("$")
    if len(password) > LONGEST:
        return False
    tried = _stretched(password, _bytes(salt), int(cost), int(block), int(lanes))
    return hmac.compare_digest(tried, _bytes(digest)) and stored is not None


def _stretched(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    # Some keyboards send é as one character, others as two.
    same = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(same, salt=salt, n=cost, r=block, p=lanes, maxmem=MEMORY, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


_NOBODY = "$".join(
    ["scrypt", str(COST), str(BLOCK), str(LANES), _text(bytes(16)), _text(bytes(32))]
)

"""Reads request bodies up to a limit, so that an endless request cannot fill the memory."""

from __future__ import annotations

from fastapi import Request

from expertload.exceptions import DeskRefusedError

__all__ = ["MOST_BYTES", "read_limited"]

MOST_BYTES = 64_000_000


async def read_limited(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return a request's body, or refuse it as soon as it is too long."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise DeskRefusedError(
                "too_large", f"A request must have at most {most} bytes.", "send smaller batches."
            )
        parts.append(part)
    return b"".join(parts)

"""HTTP with a limit on the head of a request, so that endless headers cannot fill the memory.

uvicorn's fast parser has no such limit (its slow one has), and a head is read before the sender is
known.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["LimitedProtocol"]

MOST_BYTES = 64_000


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed if the head of a request is too long."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._heads_ended = 0
        self._in_head = True
        self._bytes = 0

    def data_received(self, data: bytes) -> None:
        """Handle some bytes; count them if they continue a head that has not ended."""
        began = self._heads_ended if self._in_head else None
        super().data_received(data)
        if not self._in_head or self._heads_ended != began:
            self._bytes = 0
            return
        self._bytes += len(data)
        if self._bytes > MOST_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of a request may have at most {MOST_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """Record that a head has ended."""
        self._heads_ended += 1
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Record that the next bytes belong to a new head."""
        self._in_head = True
        super().on_message_complete()

"""HTTP with a limit on the head of a request: nobody fills the memory by naming headers for ever.

The quick parser, unlike the slow one, has no limit of its own, and a head is read before anybody
knows who sends it.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["LimitedProtocol"]

MOST_BYTES = 64_000


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed when the head of a request does not end."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._heads_ended = 0
        self._in_head = True
        self._bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take what came; count it while it belongs to a head that has begun before."""
        began = self._heads_ended if self._in_head else None
        super().data_received(data)
        if not self._in_head or self._heads_ended != began:
            self._bytes = 0
            return
        self._bytes += len(data)
        if self._bytes > MOST_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of a request has at most {MOST_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """Note that a head has ended."""
        self._heads_ended += 1
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the next head may begin."""
        self._in_head = True
        super().on_message_complete()

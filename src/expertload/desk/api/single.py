"""A fast path for one small case: `POST /api/cases` without routing.

Finding a route and its arguments takes several times as long as storing a case in a batch. So
requests with one small case are answered here, and all others go on to the routes. The answers are
the same, byte for byte.

Waiting cases of the same token are stored together, and the transaction that stores them checks the
token. A token that was not valid before is checked first, so that nothing from strangers is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from expertload.desk.api.errors import answer_to
from expertload.desk.api.gathering import Gathering
from expertload.desk.desk import Desk
from expertload.desk.intake import Outcome, SentCase, read_line, receive
from expertload.desk.people import Principal, find_token, require
from expertload.desk.store import Transaction
from expertload.exceptions import DeskError, DeskRefusedError

__all__ = ["SMALL", "SingleCases", "receive_from"]

SMALL = 50_000  # bytes; a case below this size is parsed without another thread
PATH = "/api/cases"
JSON = b"application/json"

Waiting = Gathering[SentCase, Outcome | DeskRefusedError]


class SingleCases:
    """Answers requests with one small case, and leaves all others alone.

    Parameters
    ----------
    desk : Desk
        The desk that stores the cases.
    tokens : Gathering
        Finds who a token belongs to.
    """

    def __init__(self, desk: Desk, tokens: Gathering[str, Principal | None]) -> None:
        self._desk = desk
        self._tokens = tokens
        self._waiting: dict[str, Waiting] = {}  # by token, if it was valid when last used

    async def take(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request if it has one small case; return whether it has."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            return False
        headers = dict(reversed(scope["headers"]))  # if one is repeated, the first counts
        token = _small_with_token(headers)
        if token is None:
            return False
        try:
            content = await self._received(token, receive)
        except DeskError as error:
            await answer_to(error)(scope, receive, send)
            return True
        except Exception as error:
            await answer_to(error)(scope, receive, send)
            raise  # so that it is logged
        if content is not None:
            await send(_start(content))
            await send({"type": "http.response.body", "body": content})
        return True

    async def _received(self, token: str, receive: Receive) -> bytes | None:
        """Return the answer to a case; None if the sender has hung up."""
        waiting = self._waiting.get(token) or await self._checked_queue(token)
        data = await _body(receive)
        if data is None:
            return None
        try:
            case = read_line(data)
        except DeskRefusedError:
            await self._check(token)  # if the token is no longer valid, say that instead
            raise
        try:
            outcome = await waiting.send(case)
        except DeskRefusedError:
            self._waiting.pop(token, None)
            raise
        if isinstance(outcome, DeskRefusedError):
            raise outcome
        return orjson.dumps(outcome._asdict())

    async def _checked_queue(self, token: str) -> Waiting:
        """Check a token; return the queue in which its cases wait."""
        await self._check(token)

        async def work(sent: list[SentCase]) -> Sequence[Outcome | DeskRefusedError]:
            return await self._desk.awrite(receive_from, token, sent)

        return self._waiting.setdefault(token, Gathering(work))

    async def _check(self, token: str) -> Principal:
        return require(await self._tokens.send(token), "api")


def receive_from(
    transaction: Transaction, token: str, sent: Sequence[SentCase]
) -> list[Outcome | DeskRefusedError]:
    """Store cases as the user who has the token at this time; refuse if the token has ended."""
    transaction.actor = require(find_token(transaction, token), "api").user
    return receive(transaction, sent)


def _small_with_token(headers: dict[bytes, bytes]) -> str | None:
    """Return the token of a request with one small case; None for every other request."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON:
        return None
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 9 or int(length) >= SMALL:
        return None
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


async def _body(receive: Receive) -> bytes | None:
    """Return a request's body; None if the sender hung up before its end."""
    data = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        data += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(data)


def _start(content: bytes) -> dict[str, Any]:
    return {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-length", b"%d" % len(content)),
            (b"content-type", JSON),
        ],
    }

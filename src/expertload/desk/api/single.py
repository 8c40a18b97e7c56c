"""A small case by the shortest way: `POST /api/cases` before any routing.

To find the route and its arguments takes several times as long as to store a case among others. So
requests with one small case are taken here, and all others go on to the routes. The answers are
the same, to the byte.

Cases of one token that wait go together, and the token is checked in the transaction that stores
them. A token that has not been good before is checked first: strangers get nothing parsed.
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

SMALL = 50_000  # bytes that are read without moving to another thread
PATH = "/api/cases"
JSON = b"application/json"

Waiting = Gathering[SentCase, Outcome | DeskRefusedError]


class SingleCases:
    """Takes single cases, and leaves every other request alone.

    Parameters
    ----------
    desk : Desk
        Where they go.
    tokens : Gathering
        From a token to who it belongs to.
    """

    def __init__(self, desk: Desk, tokens: Gathering[str, Principal | None]) -> None:
        self._desk = desk
        self._tokens = tokens
        self._waiting: dict[str, Waiting] = {}  # by tokens that were good when last seen

    async def take(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request if it is one small case; say whether it was."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            return False
        headers = dict(reversed(scope["headers"]))  # of several, the first counts
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
            raise  # into the log
        if content is not None:
            await send(_start(content))
            await send({"type": "http.response.body", "body": content})
        return True

    async def _received(self, token: str, receive: Receive) -> bytes | None:
        """Return the answer to a case; None if its sender has hung up."""
        waiting = self._waiting.get(token) or await self._welcomed(token)
        data = await _body(receive)
        if data is None:
            return None
        try:
            case = read_line(data)
        except DeskRefusedError:
            await self._check(token)  # one that is no longer good is told so first
            raise
        try:
            outcome = await waiting.send(case)
        except DeskRefusedError:
            self._waiting.pop(token, None)
            raise
        if isinstance(outcome, DeskRefusedError):
            raise outcome
        return orjson.dumps(outcome._asdict())

    async def _welcomed(self, token: str) -> Waiting:
        """Return where the cases of a token wait, after a look at whose it is."""
        await self._check(token)

        async def work(sent: list[SentCase]) -> Sequence[Outcome | DeskRefusedError]:
            return await self._desk.awrite(receive_from, token, sent)

        return self._waiting.setdefault(token, Gathering(work))

    async def _check(self, token: str) -> Principal:
        return require(await self._tokens.send(token), "api")


def receive_from(
    transaction: Transaction, token: str, sent: Sequence[SentCase]
) -> list[Outcome | DeskRefusedError]:
    """Store cases in the name of whoever a token belongs to at this moment."""
    transaction.actor = require(find_token(transaction, token), "api").user
    return receive(transaction, sent)


def _small_with_token(headers: dict[bytes, bytes]) -> str | None:
    """Return the token of a request that is one small case; None if it is something else."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON:
        return None
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 9 or int(length) >= SMALL:
        return None
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


async def _body(receive: Receive) -> bytes | None:
    """Return a request's body, of the length that it has said; None if it did not come."""
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

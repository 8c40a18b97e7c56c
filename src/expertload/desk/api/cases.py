"""`/api/cases` and `/api/shadow`: the model's side of the desk.

Every request with cases takes the same way, whether it has one case or 5,000. The transaction that
stores the cases also checks the token, so a token that has ended stores nothing. A token that this
server has not seen yet is checked before the request is read, so nothing from strangers is parsed.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import orjson
from fastapi import APIRouter, Depends, FastAPI, Request, Response

from expertload.desk.api.access import (
    Gate,
    body_of,
    desk_of,
    error_body,
    needs,
    token_of,
)
from expertload.desk.desk import Desk
from expertload.desk.intake.case import (
    MOST_CASES,
    SentCase,
    Shadow,
    key_of,
    read_line,
    read_shadow,
)
from expertload.desk.intake.images import PROCESSES
from expertload.desk.intake.receiving import Outcome, decisions_of, find_case, receive
from expertload.desk.intake.shadows import receive_shadows
from expertload.desk.people.accounts import find_token, require
from expertload.desk.store.database import Transaction
from expertload.exceptions import DeskRefusedError

router = APIRouter(prefix="/api")
JSON = "application/json"
NDJSON = "application/x-ndjson"
SMALL = 50_000  # bytes; a smaller request is parsed without another thread
# JSON may spell the letters of "image" as \u0069 and so on.
MAY_HAVE_IMAGES = re.compile(rb'"image"|\\u006')
# Parsing holds up everything else, and takes as long as there are values, with commas between them.
# A text of digits and commas has half a million, a list of numbers or a table fewer.
MOST_COMMAS = 650_000
MOST_TOGETHER = 500

Result = Outcome | DeskRefusedError
T = TypeVar("T")
Lines: TypeAlias = dict[int, T | DeskRefusedError]  # of a request, by their numbers


class Intake:
    """Stores the cases of all requests to one server.

    A batch is one transaction. Single cases that wait while a commit is being written are stored
    together by the next one, because a commit takes longer than storing a hundred cases.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seen: set[str] = set()  # tokens that were valid when they were last used
        # The single cases of each token and where their results go, and who works them off.
        self._waiting = defaultdict[str, list[tuple[SentCase, asyncio.Future[Result]]]](list)
        self._working: dict[str, asyncio.Task[None]] = {}
        # Several that parse at once would be no faster, and everything else would wait for each.
        self._parsing = ThreadPoolExecutor(1, thread_name_prefix="desk-parsing")
        self._with_images = ThreadPoolExecutor(PROCESSES, thread_name_prefix="desk-images")

    async def admit(self, token: str) -> None:
        """Refuse a token that this server has not seen yet and that is not valid."""
        if token not in self._seen:
            require(await self._desk.aread(find_token, token), "api")
            self._seen.add(token)

    async def read(self, data: bytes, kind: str, read: Callable[[bytes], T]) -> Lines[T]:
        """Read the lines of a request; only those with images wait for one another."""
        has_images = MAY_HAVE_IMAGES.search(data) is not None
        if len(data) < SMALL and not has_images:
            return read_lines(data, kind, read)
        threads = self._with_images if has_images else self._parsing
        reading = asyncio.get_running_loop().run_in_executor
        return await reading(threads, read_lines, data, kind, read)

    async def store(self, token: str, sent: Sequence[SentCase]) -> Sequence[Result]:
        """Store cases; return the outcome of each, or why it was refused."""
        try:
            if len(sent) == 1:
                return [await self._store_with_others(token, sent[0])]
            return await self._desk.awrite(receive_from, token, sent)
        except DeskRefusedError:
            self._seen.discard(token)
            raise

    async def _store_with_others(self, token: str, case: SentCase) -> Result:
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[token].append((case, result))
        working = self._working.get(token)
        if working is None or working.done():
            self._working[token] = asyncio.create_task(self._work_off(token))
        return await result

    async def _work_off(self, token: str) -> None:
        """Store what waits with a token until nothing does."""
        waiting = self._waiting[token]
        while group := waiting[:MOST_TOGETHER]:
            del waiting[:MOST_TOGETHER]
            stored = self._desk.awrite(receive_from, token, [case for case, _ in group])
            (results,) = await asyncio.gather(stored, return_exceptions=True)
            for number, (_, result) in enumerate(group):
                if result.done():  # its sender has hung up
                    continue
                if isinstance(results, BaseException):
                    result.set_exception(results)
                else:
                    result.set_result(results[number])


def receive_from(transaction: Transaction, token: str, sent: Sequence[SentCase]) -> list[Result]:
    """Store cases as the user who has the token at this time; refuse if the token has ended."""
    transaction.actor = require(find_token(transaction, token), "api").user
    return receive(transaction, sent)


# ------------------------------------------------------------------ the interface

_NAME = {"type": ["string", "integer", "null"], "maxLength": 200}
_KEY = {"type": "string", "minLength": 1, "maxLength": 200}
_PROBABILITIES = {"type": "object", "additionalProperties": {"type": ["number", "null"]}}
_BODY = {
    "type": "object",
    "required": ["kind", "content"],
    "properties": {"kind": {"enum": ["image", "text", "table", "json"]}, "content": {}},
}
_CASE = {
    "required": ["key"],
    "additionalProperties": False,
    "properties": {
        "key": _KEY,
        "probabilities": _PROBABILITIES,
        "confidence": {"type": ["number", "null"]},
        **dict.fromkeys(("label", "group", "cluster", "model"), _NAME),
        "due": {"type": ["string", "number", "null"]},
        "shadow": {"type": "object", "additionalProperties": {"type": "object"}},
        "body": _BODY,
    },
}
_SHADOW = {
    "required": ["key", "model", "probabilities"],
    "properties": {"key": _KEY, "model": _KEY, "probabilities": _PROBABILITIES},
}


def lines_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a request that is one JSON object, or a line of JSON for each."""
    one = {"schema": {"type": "object", **schema}}
    content = {JSON: one, NDJSON: {"schema": {"type": "string"}}}
    return {"requestBody": {"required": True, "content": content}}


async def send(request: Request) -> Response:
    """Store and route cases; the answer has the decision about each."""
    intake: Intake = request.app.state.intake
    token = token_of(request)
    await intake.admit(token)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, NDJSON):
        raise DeskRefusedError(
            "wrong_media_type", "Send cases as application/json or application/x-ndjson."
        )
    read = await intake.read(await request.body(), kind, read_line)
    return _answer(kind, read, await intake.store(token, _good(read)))


send.roles = ("api",)  # type: ignore[attr-defined]  # for the test that walks every route


def install_cases(app: FastAPI) -> None:
    """Add the endpoint, which `Gate` answers; its route is for the description."""
    app.state.intake = Intake(app.state.desk)
    app.add_middleware(Gate, direct={("POST", "/api/cases"): send})
    app.router.add_api_route(
        "/api/cases",
        send,
        methods=["POST"],
        summary="Send a case, or up to 5,000 as NDJSON",
        openapi_extra=lines_of(_CASE),
    )
    app.include_router(router)


@router.post(
    "/shadow",
    summary="Send an answer of a model that decides nothing, or up to 5,000 as NDJSON",
    dependencies=[Depends(needs("api"))],
    openapi_extra=lines_of(_SHADOW),
)
async def send_shadows(request: Request) -> Response:
    """Store answers to known cases, a line each; a bad line does not affect the others."""
    kind = JSON if request.headers.get("content-type", "").startswith(JSON) else NDJSON
    read = await request.app.state.intake.read(await body_of(request), kind, read_shadow)
    return _answer(kind, read, await desk_of(request).awrite(receive_shadows, _good(read)))


def read_lines(data: bytes, kind: str, read: Callable[[bytes], T]) -> Lines[T]:
    """Read the lines of a request; a bad one becomes an error and does not affect the others."""
    numbered = enumerate([data] if kind == JSON else data.split(b"\n"), start=1)
    lines = {number: line for number, line in numbered if line.strip() or kind == JSON}
    if len(lines) > MOST_CASES:
        raise DeskRefusedError(
            "too_large", f"A batch may have at most {MOST_CASES} cases. Got {len(lines)}."
        )
    return {number: _read_or_refuse(line, read) for number, line in lines.items()}


def _read_or_refuse(line: bytes, read: Callable[[bytes], T]) -> T | DeskRefusedError:
    if line.count(b",") > MOST_COMMAS:
        return DeskRefusedError("too_large", f"A case may have at most {MOST_COMMAS} values.")
    try:
        return read(line)
    except DeskRefusedError as error:
        error.key = key_of(line)
        return error


def _good(read: Lines[T]) -> list[T]:
    return [line for line in read.values() if not isinstance(line, DeskRefusedError)]


def _answer(kind: str, read: Lines[Any], stored: Sequence[Any]) -> Response:
    """Answer every line of a request; `stored` are the results of the good ones."""
    left = iter(stored)
    results = [line if isinstance(line, DeskRefusedError) else next(left) for line in read.values()]
    if kind == JSON and isinstance(results[0], DeskRefusedError):
        raise results[0]
    return Response(b"".join(map(_line, read, read.values(), results)), media_type=kind)


def _line(number: int, read: Any, result: Any) -> bytes:
    if isinstance(result, DeskRefusedError):
        named: dict[str, Any] = {"key": read.key, "line": number}
        if isinstance(read, Shadow):
            named["model"] = read.model
        result = named | error_body(result)
    line = result._asdict() if isinstance(result, Outcome) else result
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


@router.get(
    "/cases/{key:path}",
    summary="What became of a case",
    dependencies=[Depends(needs("api", "manager", "auditor"))],
)
async def show(key: str, request: Request) -> dict[str, Any]:
    """Return a case's status, its label, and all decisions that led to it."""
    return await desk_of(request).aread(_show, key)


def _show(transaction: Transaction, key: str) -> dict[str, Any]:
    case = find_case(transaction, key, locked=False)
    made = decisions_of(transaction, case.id)
    label = made[-1].label if made else None
    return {
        "key": case.key,
        "status": "delegated" if label is None else "decided",
        "state": case.state,
        "label": label,
        "policy": case.policy_id,
        "cause": case.cause,
        "received": case.received,
        "due": case.due,
        "decisions": [
            {"kind": d.kind, "label": d.label, "policy": d.policy_id, "made": d.made} for d in made
        ],
    }

"""`/api/cases`: the model's side of the desk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from sqlalchemy import select

from expertload.desk.api.access import desk_of, needs, token_of
from expertload.desk.api.bodies import read_limited
from expertload.desk.api.errors import error_body
from expertload.desk.api.single import receive_from
from expertload.desk.intake import Outcome, SentCase, read_line
from expertload.desk.intake.case import CONTROL, MOST_CASES
from expertload.desk.people import Principal
from expertload.desk.store import Transaction
from expertload.desk.store.tables import cases, decisions
from expertload.exceptions import DeskRefusedError

__all__ = ["router"]

router = APIRouter(prefix="/api/cases")
Sender = Annotated[Principal, Depends(needs("api"))]
NDJSON = "application/x-ndjson"


_NAME = {"type": ["string", "integer", "null"], "maxLength": 200}
_CASE = {
    "type": "object",
    "required": ["key"],
    "additionalProperties": False,
    "properties": {
        "key": {"type": "string", "minLength": 1, "maxLength": 200},
        "probabilities": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        "confidence": {"type": ["number", "null"]},
        "label": _NAME,
        "group": _NAME,
        "cluster": _NAME,
        "model": _NAME,
        "due": {"type": ["string", "number", "null"]},
        "body": {
            "type": "object",
            "required": ["kind", "content"],
            "properties": {
                "kind": {"enum": ["image", "text", "table", "json"]},
                "content": {},
            },
        },
    },
}
_SENT = {
    "required": True,
    "content": {"application/json": {"schema": _CASE}, NDJSON: {"schema": {"type": "string"}}},
}


@router.post(
    "",
    summary="Send a case, or up to 5,000 as NDJSON",
    openapi_extra={"requestBody": _SENT},
)
async def send(request: Request, sender: Sender) -> Response:
    """Store and route cases; the answer has the decision about each."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return await _send_one(request)
    if kind == NDJSON:
        return await _send_many(request)
    raise DeskRefusedError(
        "wrong_media_type", "Send cases as application/json or application/x-ndjson."
    )


async def _send_one(request: Request) -> Response:
    """Receive a large case; `SingleCases` receives small ones."""
    case = await asyncio.to_thread(read_line, await read_limited(request))
    (outcome,) = await desk_of(request).awrite(receive_from, token_of(request), [case])
    if isinstance(outcome, DeskRefusedError):
        raise outcome
    return Response(orjson.dumps(outcome._asdict()), media_type="application/json")


async def _send_many(request: Request) -> Response:
    data = await read_limited(request)
    read = await asyncio.to_thread(_read_lines, data)
    sent = [case for case in read if isinstance(case, SentCase)]
    received: Iterator[Outcome | DeskRefusedError] = iter(())
    if sent:  # the token is checked again, because slow senders take long
        desk = desk_of(request)
        received = iter(await desk.awrite(receive_from, token_of(request), sent))
    outcomes = [next(received) if isinstance(each, SentCase) else each for each in read]
    content = await asyncio.to_thread(_write_lines, outcomes, read)
    return Response(content, media_type=NDJSON)


def _read_lines(data: bytes) -> list[SentCase | DeskRefusedError]:
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(lines) > MOST_CASES:
        raise DeskRefusedError(
            "too_large", f"A batch may have at most {MOST_CASES} cases. Got {len(lines)}."
        )
    return [_read_line(line) for line in lines]


def _read_line(line: bytes) -> SentCase | DeskRefusedError:
    """Read a line; a bad one becomes an error line and does not affect the others."""
    try:
        return read_line(line)
    except DeskRefusedError as error:
        return error


def _write_lines(
    outcomes: list[Outcome | DeskRefusedError], read: list[SentCase | DeskRefusedError]
) -> bytes:
    lines = []
    for number, (outcome, case) in enumerate(zip(outcomes, read, strict=True), start=1):
        if isinstance(outcome, Outcome):
            line: dict[str, Any] = outcome._asdict()
        else:
            key = case.key if isinstance(case, SentCase) else None
            error = error_body(outcome.code, outcome.said, outcome.hint)
            line = {"key": key, "line": number, **error}
        lines.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    return b"".join(lines)


@router.get("/{key:path}", summary="What became of a case")
async def show(key: str, request: Request, sender: Sender) -> dict[str, Any]:
    """Return a case's status, its label, and all decisions that led to it."""
    return await desk_of(request).aread(_show, key)


def _show(transaction: Transaction, key: str) -> dict[str, Any]:
    if CONTROL.search(key):  # no key has these, and PostgreSQL refuses to search for some of them
        raise DeskRefusedError("not_found", "There is no such case.")
    case = transaction.connection.execute(
        select(cases).where(cases.c.project_id == transaction.project.id, cases.c.key == key)
    ).first()
    if case is None:
        raise DeskRefusedError("not_found", f"There is no case '{key[:60]}'.")
    made = transaction.connection.execute(
        select(decisions).where(decisions.c.case_id == case.id).order_by(decisions.c.version)
    ).all()
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

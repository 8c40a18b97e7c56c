"""Models in shadow: their answers come in, the evidence goes out, a manager lets one take over."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from expertload.desk.api.access import desk_of, error_body, failure_of, needs
from expertload.desk.api.cases import JSON, NDJSON, read_lines
from expertload.desk.intake.case import Shadow, read_shadow
from expertload.desk.intake.shadows import Stored, receive_shadows
from expertload.desk.watch import challengers
from expertload.desk.watch.anew import decide_all_waiting
from expertload.exceptions import DeskRefusedError

router = APIRouter(prefix="/api")
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_SHADOW = {
    "type": "object",
    "required": ["key", "model", "probabilities"],
    "properties": {
        "key": _NAME,
        "model": _NAME,
        "probabilities": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
    },
}
_SENT = {
    "required": True,
    "content": {JSON: {"schema": _SHADOW}, NDJSON: {"schema": {"type": "string"}}},
}


class AdoptBody(BaseModel, extra="forbid", populate_by_name=True):
    """The share of cases to decide, and the share that was seen before."""

    share: Annotated[float, Field(ge=0, le=1)]
    seen: Annotated[float | None, Field(alias="from", ge=0, le=1)] = None


@router.post(
    "/shadow",
    summary="Send an answer of a model that decides nothing, or up to 5,000 as NDJSON",
    dependencies=[Depends(needs("api"))],
    openapi_extra={"requestBody": _SENT},
)
async def send(request: Request) -> Response:
    """Store answers to known cases, a line each; a bad line does not affect the others."""
    is_one = request.headers.get("content-type", "").startswith(JSON)
    data, kind = await request.body(), JSON if is_one else NDJSON
    read = await asyncio.to_thread(read_lines, data, kind, read_shadow)
    given = [each for each in read if isinstance(each, Shadow)]
    stored = iter(await desk_of(request).awrite(receive_shadows, given))
    results = [next(stored) if isinstance(each, Shadow) else each for each in read]
    if is_one and isinstance(results[0], DeskRefusedError):
        raise results[0]
    return Response(b"".join(map(_line, results, read)), media_type=kind)


def _line(result: Stored | DeskRefusedError, read: Shadow | DeskRefusedError) -> bytes:
    line: dict[str, Any] = {"key": None, "model": None}
    if isinstance(read, Shadow):
        line = {"key": read.key, "model": read.model}
    line |= error_body(failure_of(result)) if isinstance(result, DeskRefusedError) else result
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


@router.get(
    "/challengers",
    summary="Models in shadow, and whether one may take over",
    dependencies=[Depends(needs("manager", "auditor"))],
)
async def show(request: Request) -> dict[str, list[dict[str, Any]]]:
    """Return the evidence for each model in shadow."""
    found = await desk_of(request).aread(challengers.challengers_of)
    return {"challengers": [each.to_dict() for each in found]}


@router.post(
    "/challengers/{model:path}/adopt",
    summary="Let a model in shadow decide a share of the cases",
    dependencies=[Depends(needs("manager"))],
)
async def adopt(model: str, body: AdoptBody, request: Request) -> dict[str, Any]:
    """Decide a share of the cases by this model: raised to 1 in steps, 0 is the way back."""
    desk = desk_of(request)
    policy = await desk.awrite(challengers.adopt, model, body.share, seen=body.seen)
    decided = await asyncio.to_thread(decide_all_waiting, desk)
    return {"model": model, "share": body.share, "policy": policy, "decided_anew": decided}

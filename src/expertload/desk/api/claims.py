"""`/api/claims`: the reader's side of the desk. Nothing here shows the model's answer."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import Field

from expertload.desk.api.access import Body, Label, Reason, ReasonBody, desk_of, needs, seconds
from expertload.desk.intake.case import Body as CaseBody
from expertload.desk.people.accounts import Principal
from expertload.desk.queue import answers, claims
from expertload.desk.queue.claims import Claim

router = APIRouter(prefix="/api")
Reader = Annotated[Principal, Depends(needs("reader", "arbiter"))]


class AnswerBody(Body):
    """An answer, and the sender's own name for it."""

    label: Label
    submission: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$")]


class CorrectionBody(Body):
    """The right answer, and why the first one was not."""

    label: Label
    reason: Reason


@router.post("/claims", summary="Take the case that is due first")
async def take(request: Request, reader: Reader) -> Response:
    """Return the case that the reader holds, or else a new one; 204 if nothing waits."""
    is_arbiter = "arbiter" in reader.roles
    held = await desk_of(request).awrite(claims.claim, reader.user, arbiter=is_arbiter)
    return Response(status_code=204) if held is None else _shown(held)


@router.post("/claims/{lease}/answer", summary="Answer a case")
async def give(lease: str, body: AnswerBody, request: Request, reader: Reader) -> dict[str, Any]:
    """Store an answer; return whether it counts, came late, or was sent before."""
    given = await desk_of(request).awrite(answers.answer, reader.user, lease, **body.model_dump())
    return asdict(given) | {"undo_until": seconds(given.undo_until)}


@router.post("/claims/{lease}/skip", summary="Pass a case on, with a reason")
async def pass_on(lease: str, body: ReasonBody, request: Request, reader: Reader) -> dict[str, str]:
    """Put a case back for other readers."""
    held = await desk_of(request).awrite(claims.skip, reader.user, lease, body.reason)
    return {"outcome": "skipped" if held else "lost"}


@router.post("/claims/{lease}/return", summary="Put a case back")
async def put_back(lease: str, request: Request, reader: Reader) -> dict[str, str]:
    """Put a case back without an answer."""
    held = await desk_of(request).awrite(claims.hand_back, reader.user, lease)
    return {"outcome": "returned" if held else "lost"}


@router.post("/claims/{lease}/extend", summary="Hold a case for longer")
async def hold(lease: str, request: Request, reader: Reader) -> dict[str, Any]:
    """Extend a lease that is still held."""
    until = await desk_of(request).awrite(claims.extend, reader.user, lease)
    return {"outcome": "lost" if until is None else "extended", "until": seconds(until)}


@router.post("/answers/{submission}/undo", summary="Take an answer back")
async def take_back(submission: str, request: Request, reader: Reader) -> Response:
    """Take an answer back while nothing depends on it; the reader holds the case again."""
    return _shown(await desk_of(request).awrite(answers.undo, reader.user, submission))


@router.post("/answers/{submission}/correct", summary="Correct your answer")
async def correct(
    submission: str, body: CorrectionBody, request: Request, reader: Reader
) -> dict[str, str]:
    """Correct an answer after the time to undo it, with a reason."""
    await desk_of(request).awrite(answers.correct_own, reader.user, submission, **body.model_dump())
    return {"outcome": "corrected"}


def _shown(held: Claim) -> Response:
    """Write a case; its body is already JSON, and is not parsed again, because it may be large."""
    content = {
        "lease": held.lease,
        "until": seconds(held.until),
        "key": held.key,
        "body": None if held.body is None else _body(held.body),
        "classes": held.classes,
    }
    return Response(orjson.dumps(content), media_type="application/json")


def _body(body: CaseBody) -> dict[str, Any]:
    content: Any = orjson.Fragment(body.content)
    if body.kind == "image":
        content = base64.b64encode(body.content).decode()
    elif body.kind == "text":
        content = body.content.decode()
    return {"kind": body.kind, "media_type": body.media_type, "content": content}

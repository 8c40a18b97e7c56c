"""What concerns readers: how good they are, golden cases, corrections, cases opened again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from expertload.desk.api.access import desk_of, needs
from expertload.desk.api.cases import JSON, NDJSON
from expertload.desk.api.claims import Reader
from expertload.desk.api.management import Text
from expertload.desk.intake.golden import add_golden, read_golden
from expertload.desk.people.accounts import Principal
from expertload.desk.queue import corrections
from expertload.desk.watch import readers
from expertload.desk.watch.combining import start_combining, stop_combining

router = APIRouter(prefix="/api")
Manager = Annotated[Principal, Depends(needs("manager"))]
Reason = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^[^\x00]+$")]
_LINES = {
    "required": True,
    "content": {
        JSON: {"schema": {"type": "object"}},
        NDJSON: {"schema": {"type": "string"}},
    },
}


class CorrectionBody(BaseModel, extra="forbid", strict=True):
    """The right answer, and why the first one was not."""

    label: Annotated[str, Field(min_length=1, max_length=200)]
    reason: Reason


class CorrectionOfBody(CorrectionBody, extra="forbid", strict=True):
    """The same, of a reader's answer to a case."""

    key: Text
    reader: Text


class CombineBody(BaseModel, extra="forbid", strict=True):
    """Whether the answers of experts and model are combined."""

    on: bool


class ReopenBody(BaseModel, extra="forbid", strict=True):
    """The case, and why it is read again."""

    key: Text
    reason: Reason


@router.get(
    "/readers",
    summary="How good and how fast each reader is",
    dependencies=[Depends(needs("manager", "auditor"))],
)
async def show(request: Request) -> dict[str, Any]:
    """Return each reader's accuracy with its interval, confusions and pace."""
    return {"readers": await desk_of(request).aread(readers.readers_of)}


@router.post(
    "/golden",
    status_code=201,
    summary="Add cases whose truth is known",
    openapi_extra={"requestBody": _LINES},
)
async def add(request: Request, who: Manager) -> dict[str, int]:
    """Store golden cases, a line of JSON each, whose 'label' is the truth; all or none."""
    return {"added": await add_lines(request, await request.body())}


async def add_lines(request: Request, data: bytes) -> int:
    """Store the golden cases of a file; return how many are new."""
    sent = [read_golden(line) for line in data.split(b"\n") if line.strip()]
    return await desk_of(request).awrite(add_golden, sent)


@router.post("/answers/{submission}/correct", summary="Correct your answer")
async def correct_own(
    submission: str, body: CorrectionBody, request: Request, reader: Reader
) -> dict[str, str]:
    """Correct an answer after the time to undo it, with a reason."""
    await desk_of(request).awrite(
        corrections.correct_own, reader.user, submission, body.label, reason=body.reason
    )
    return {"outcome": "corrected"}


@router.post("/correct", summary="Correct a reader's answer")
async def correct_of(body: CorrectionOfBody, request: Request, who: Manager) -> dict[str, str]:
    """Correct what a reader answered to a case, unless the case checks the promise."""
    await desk_of(request).awrite(
        corrections.correct_of, who.user, body.key, body.reader, body.label, reason=body.reason
    )
    return {"outcome": "corrected"}


@router.post("/combine", summary="Combine the answers of experts and model, or stop")
async def combine(body: CombineBody, request: Request, who: Manager) -> dict[str, str]:
    """Close a delegated case after one answer only if both answers together are sure enough."""
    await desk_of(request).awrite(start_combining if body.on else stop_combining)
    return {"outcome": "started" if body.on else "stopped"}


@router.post("/reopen", summary="Let somebody else read a case again")
async def reopen(body: ReopenBody, request: Request, who: Manager) -> dict[str, str]:
    """Open a case again that is decided, closed or void."""
    await desk_of(request).awrite(corrections.reopen, body.key, reason=body.reason)
    return {"outcome": "reopened"}

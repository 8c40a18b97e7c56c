"""What managers and auditors do: policies, challengers, readers, webhooks, numbers, exports."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from pydantic import AfterValidator, Field, StrictBool
from sqlalchemy import select

from expertload._names import Which
from expertload.desk.api.access import (
    Body,
    Name,
    Number,
    Reason,
    ReasonBody,
    body_of,
    desk_of,
    needs,
    seconds,
)
from expertload.desk.api.cases import JSON, NDJSON, lines_of
from expertload.desk.api.claims import CorrectionBody
from expertload.desk.intake.golden import add_golden, read_golden
from expertload.desk.intake.routing import read_policy
from expertload.desk.queue import managing
from expertload.desk.settings import Share
from expertload.desk.store.database import AnyRow
from expertload.desk.trail.export import Format, export_bytes
from expertload.desk.trail.webhooks import add_webhook, end_webhook, send_again
from expertload.desk.watch import challengers, policies, readers
from expertload.desk.watch.combining import start_combining, stop_combining
from expertload.desk.watch.recertify import recertify
from expertload.desk.watch.state import state_of
from expertload.exceptions import DeskRefusedError

router = APIRouter()
manager = APIRouter(prefix="/api", dependencies=[Depends(needs("manager"))])
onlooker = APIRouter(prefix="/api", dependencies=[Depends(needs("manager", "auditor"))])
# Programs send seconds, and the desk counts in microseconds.
Moment = Annotated[
    float,
    Field(ge=0, le=253_402_300_799, allow_inf_nan=False),
    AfterValidator(lambda seconds: int(seconds * 1e6)),
]


# ------------------------------------------------------------------ policies


@onlooker.get("/policies", summary="All policies, the newest first")
async def show_policies(request: Request) -> list[dict[str, Any]]:
    """Return every policy and its state."""
    return [_shown(row) for row in await desk_of(request).aread(policies.all_policies)]


@manager.post(
    "/policies",
    status_code=201,
    summary="Add a certified policy as a draft",
    openapi_extra={
        "requestBody": {"required": True, "content": {JSON: {"schema": {"type": "object"}}}}
    },
)
async def add(request: Request) -> dict[str, Any]:
    """Store a policy that 'expertload evaluate --save-policy' wrote."""
    return await _policy(request, await add_document(request, await body_of(request)))


async def add_document(request: Request, data: bytes) -> int:
    """Store an uploaded policy as a draft; return its number."""
    # A byte that is no text becomes an escape that is no JSON, so the policy is refused.
    return await desk_of(request).awrite(
        policies.add_policy, data.decode(errors="backslashreplace")
    )


@manager.post("/policies/{number}/activate", summary="Let a draft decide from now on")
async def begin(number: int, request: Request) -> dict[str, Any]:
    """Activate a draft; the policy before it ends."""
    desk = desk_of(request)
    await desk.awrite(policies.activate, number)
    await asyncio.to_thread(policies.decide_all_waiting, desk)
    return await _policy(request, number)


@manager.post("/policies/{number}/withdraw", summary="End a policy for good")
async def end(number: int, body: ReasonBody, request: Request) -> dict[str, Any]:
    """Withdraw a policy: from now on everything goes to experts."""
    await desk_of(request).awrite(policies.withdraw, number, reason=body.reason)
    return await _policy(request, number)


async def _policy(request: Request, number: int) -> dict[str, Any]:
    return _shown(await desk_of(request).aread(policies.find_policy, number))


def _shown(row: AnyRow) -> dict[str, Any]:
    policy = read_policy(row.document)
    point = policy.point
    return {
        "id": row.id,
        "state": row.state,
        "sha256": row.sha256,
        "source": row.source,
        "share": row.share,
        "target_accuracy": point.target_accuracy,
        "expert_load": point.expert_load,
        "model": policy.model,
        "guarantee": point.guarantee,
        "created": seconds(row.created),
        "activated": seconds(row.activated),
        "withdrawn": seconds(row.withdrawn),
        "reason": row.reason,
    }


# ------------------------------------------------------------------ after an alarm


class LookBackBody(Body):
    """The policy whose decisions are read again, since when, and which share of them."""

    policy: Number
    since: Moment = 0
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class RecertifyBody(Body):
    """What to promise, and for which model."""

    target_accuracy: Annotated[float, Field(gt=0, lt=1)]
    confidence_level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    model: Name | None = None


@manager.post("/look-back", summary="Read again what a withdrawn policy decided")
async def again(body: LookBackBody, request: Request) -> dict[str, int]:
    """Queue up to 2,000 decisions for experts; call again until 0 are queued."""
    return {"queued": await desk_of(request).awrite(policies.look_back, **body.model_dump())}


@manager.post("/recertify", status_code=201, summary="A new draft from blind labels")
async def certify_again(body: RecertifyBody, request: Request) -> dict[str, int]:
    """Certify by the evidence so far; the policy is a draft until it is activated."""
    return {"policy": await desk_of(request).awrite(recertify, **body.model_dump())}


# ------------------------------------------------------------------ models in shadow


class AdoptBody(Body, populate_by_name=True):
    """The share of cases to decide, and the share that was seen before."""

    share: Share
    seen: Annotated[Share | None, Field(alias="from")] = None


@onlooker.get("/challengers", summary="Models in shadow, and whether one may take over")
async def show_challengers(request: Request) -> dict[str, list[dict[str, Any]]]:
    """Return the evidence for each model in shadow."""
    models = await desk_of(request).aread(challengers.challengers_of)
    return {"challengers": [model.to_dict() for model in models]}


@manager.post(
    "/challengers/{model:path}/adopt", summary="Let a model in shadow decide a share of the cases"
)
async def adopt(model: Name, body: AdoptBody, request: Request) -> dict[str, Any]:
    """Decide a share of the cases by this model: raised to 1 in steps, 0 is the way back."""
    desk = desk_of(request)
    policy = await desk.awrite(challengers.adopt, model, body.share, seen=body.seen)
    decided = await asyncio.to_thread(policies.decide_all_waiting, desk)
    return {"model": model, "share": body.share, "policy": policy, "decided_anew": decided}


# ------------------------------------------------------------------ readers


class CombineBody(Body):
    """Whether the answers of experts and model are combined."""

    on: StrictBool


@onlooker.get("/readers", summary="How good and how fast each reader is")
async def show_readers(request: Request) -> dict[str, Any]:
    """Return each reader's accuracy with its interval, confusions and pace."""
    return {"readers": await desk_of(request).aread(readers.readers_of)}


@manager.post(
    "/golden", status_code=201, summary="Add cases whose truth is known", openapi_extra=lines_of({})
)
async def add_truths(request: Request) -> dict[str, int]:
    """Store golden cases, a line of JSON each, whose 'label' is the truth; all or none."""
    return {"added": await add_lines(request, await body_of(request))}


async def add_lines(request: Request, data: bytes) -> int:
    """Store the golden cases of a file; return how many are new."""
    sent = await request.app.state.intake.read(data, NDJSON, read_golden)
    for refused in sent.values():
        if isinstance(refused, DeskRefusedError):
            raise refused
    return await desk_of(request).awrite(add_golden, list(sent.values()))


@manager.post("/combine", summary="Combine the answers of experts and model, or stop")
async def combine(body: CombineBody, request: Request) -> dict[str, str]:
    """Close a delegated case after one answer only if both answers together are sure enough."""
    await desk_of(request).awrite(start_combining if body.on else stop_combining)
    return {"outcome": "started" if body.on else "stopped"}


# ------------------------------------------------------------------ single cases


class CorrectionOfBody(CorrectionBody):
    """The right answer to a case, whose reader's it replaces, and why."""

    key: Name
    reader: Name


class CaseBody(Body):
    """The case, and why it is changed."""

    key: Name
    reason: Reason


class VoidBody(Body):
    """The case, and in a few words why it ends without a decision."""

    key: Name
    reason: Name


@manager.post("/correct", summary="Correct a reader's answer")
async def correct(body: CorrectionOfBody, request: Request) -> dict[str, str]:
    """Correct what a reader answered to a case, unless the case checks the promise."""
    await desk_of(request).awrite(managing.correct_of, request.state.who.user, **body.model_dump())
    return {"outcome": "corrected"}


@manager.post("/reopen", summary="Let somebody else read a case again")
async def reopen(body: CaseBody, request: Request) -> dict[str, str]:
    """Open a case again that is decided, closed or void."""
    await desk_of(request).awrite(managing.reopen, **body.model_dump())
    return {"outcome": "reopened"}


@manager.post("/void", summary="Take an open case out of the queue")
async def void(body: VoidBody, request: Request) -> dict[str, str]:
    """End an open case without a decision."""
    await desk_of(request).awrite(managing.void_case, **body.model_dump())
    return {"outcome": "void"}


# ------------------------------------------------------------------ webhooks


class WebhookBody(Body):
    """The address that receives messages."""

    url: Annotated[str, Field(min_length=8, max_length=2000, pattern=r"^https?://[\x21-\x7e]+$")]


class ReplayBody(Body):
    """The time since which messages are sent again."""

    since: Moment = 0


@manager.post("/webhooks", status_code=201, summary="Send messages to an address")
async def add_hook(body: WebhookBody, request: Request) -> dict[str, Any]:
    """Send messages to an address; the secret that signs them is shown once."""
    number, secret = await desk_of(request).awrite(add_webhook, body.url)
    return {"id": number, "secret": secret}


@manager.post("/webhooks/{number}/end", summary="Stop sending messages to an address")
async def end_hook(number: Number, request: Request) -> dict[str, str]:
    """End a webhook; messages that wait for it are dropped."""
    await desk_of(request).awrite(end_webhook, number)
    return {"outcome": "ended"}


@manager.post("/webhooks/{number}/replay", summary="Send past messages again")
async def replay_hook(number: Number, body: ReplayBody, request: Request) -> dict[str, int]:
    """Send the messages since a given time again."""
    return {"queued": await desk_of(request).awrite(send_again, number, **body.model_dump())}


# ------------------------------------------------------------------ the desk in numbers


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="Whether the desk can work")
async def health(request: Request) -> dict[str, str]:
    """Answer after the database has answered."""
    await desk_of(request).aread(lambda transaction: transaction.value(select(1)))
    return {"status": "ok"}


@onlooker.get("/state", summary="Counts, load, backlog and the promise")
async def show(request: Request) -> dict[str, Any]:
    """Return the state of the desk."""
    return await desk_of(request).aread(state_of)


@router.get(
    "/metrics",
    summary="The same for Prometheus",
    dependencies=[Depends(needs("reader", "arbiter", "manager", "auditor", "api"))],
)
async def metrics(request: Request) -> Response:
    """Return the counters in Prometheus' text format."""
    state = await desk_of(request).aread(state_of)
    return PlainTextResponse(_as_text(state), media_type="text/plain; version=0.0.4")


def _as_text(state: dict[str, Any]) -> str:
    lines = []
    for name, kind, description in _METRICS:
        value: Any = state
        for part in name.split("."):
            value = value[part] if value is not None else None
        if value is None:
            continue
        full = "expertload_desk_" + name.replace(".", "_")
        lines += [f"# HELP {full} {description}", f"# TYPE {full} {kind}", f"{full} {value}"]
    return "\n".join(lines) + "\n"


_METRICS = (
    ("counts.received", "counter", "Cases received."),
    ("counts.decided", "counter", "Cases decided automatically."),
    ("counts.answers", "counter", "Answers that count."),
    ("counts.late", "counter", "Answers that came after their lease was lost."),
    ("backlog.waiting", "gauge", "Readings that wait for a reader."),
    ("backlog.leased", "gauge", "Readings that readers hold."),
    ("backlog.disputed", "gauge", "Cases in dispute."),
    ("backlog.oldest_seconds", "gauge", "Age of the oldest waiting reading."),
    ("backlog.stuck", "gauge", "Readings due first that nobody may take."),
    ("load", "gauge", "Share of received cases that went to experts."),
    ("sampling_rate", "gauge", "Share of cases that are read blind."),
    ("monitor.evidence", "gauge", "Evidence against the promise."),
    ("monitor.audited", "gauge", "Audited decisions of the policy."),
    ("monitor.errors", "gauge", "Audited decisions that were wrong."),
    ("monitor.bound", "gauge", "Lower bound of the accuracy of automatic decisions."),
)


# ------------------------------------------------------------------ exports

MEDIA_TYPES = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


@onlooker.get("/export", summary="The cases, one row each, streamed")
async def stream(
    request: Request,
    format: Format = "jsonl",  # noqa: A002 - what the interface calls it
    cases: Which = "all",
) -> Response:
    """Return all cases, those with an expert's label, or those that audit the policies."""
    return export_response(request, format, cases, f"desk.{format}")


def export_response(request: Request, kind: Format, which: Which, name: str) -> Response:
    """Stream cases as a file with this name."""
    return StreamingResponse(
        export_bytes(desk_of(request), kind, which=which),
        media_type=MEDIA_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


router.include_router(manager)
router.include_router(onlooker)

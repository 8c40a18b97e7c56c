"""What managers do besides policies: look back, recertify, void a case, add webhooks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from expertload.desk.api.access import desk_of, needs
from expertload.desk.people import Principal
from expertload.desk.trail import add_webhook, end_webhook, send_again
from expertload.desk.watch import look_back, recertify, void_case

__all__ = ["router"]

router = APIRouter(prefix="/api")
Manager = Annotated[Principal, Depends(needs("manager"))]
Number = Annotated[int, Field(ge=1, lt=2**62)]
Seconds = Annotated[float, Field(ge=0, le=253_402_300_799, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LookBackBody(_Body):
    """The policy whose decisions are read again, since when, and which share of them."""

    policy: Number
    since: Seconds = 0
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class RecertifyBody(_Body):
    """What to promise, and the period from which blind labels are used."""

    target_accuracy: Annotated[float, Field(gt=0, lt=1)]
    confidence_level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    since: Seconds = 0
    until: Seconds | None = None
    model: Text | None = None


class VoidBody(_Body):
    """The case, and why it ends without a decision."""

    key: Text
    reason: Text


class WebhookBody(_Body):
    """The address that receives messages."""

    url: Annotated[str, Field(min_length=8, max_length=2000, pattern=r"^https?://[\x21-\x7e]+$")]


class ReplayBody(_Body):
    """The time since which messages are sent again."""

    since: Seconds = 0


@router.post("/look-back", summary="Read again what a withdrawn policy decided")
async def again(body: LookBackBody, request: Request, manager: Manager) -> dict[str, int]:
    """Queue up to 2,000 decisions for experts; call again until 0 are queued."""
    desk = desk_of(request).acting(manager.user)
    since = int(body.since * 1e6)
    return {"queued": await desk.awrite(look_back, body.policy, since=since, share=body.share)}


@router.post("/recertify", status_code=201, summary="A new draft from blind labels")
async def certify_again(body: RecertifyBody, request: Request, manager: Manager) -> dict[str, int]:
    """Certify on the fair sample of a period; the policy is a draft until it is activated."""
    until = None if body.until is None else int(body.until * 1e6)
    number = (
        await desk_of(request)
        .acting(manager.user)
        .awrite(
            recertify,
            target_accuracy=body.target_accuracy,
            confidence_level=body.confidence_level,
            since=int(body.since * 1e6),
            until=until,
            model=body.model,
        )
    )
    return {"policy": number}


@router.post("/void", summary="Take an open case out of the queue")
async def void(body: VoidBody, request: Request, manager: Manager) -> dict[str, str]:
    """End an open case without a decision."""
    desk = desk_of(request).acting(manager.user)
    await desk.awrite(void_case, body.key, reason=body.reason)
    return {"outcome": "void"}


@router.post("/webhooks", status_code=201, summary="Send messages to an address")
async def add_hook(body: WebhookBody, request: Request, manager: Manager) -> dict[str, Any]:
    """Send messages to an address; the secret that signs them is shown once."""
    desk = desk_of(request).acting(manager.user)
    number, secret = await desk.awrite(add_webhook, body.url)
    return {"id": number, "secret": secret}


@router.post("/webhooks/{number}/end", summary="Stop sending messages to an address")
async def end_hook(number: Number, request: Request, manager: Manager) -> dict[str, str]:
    """End a webhook; messages that wait for it are dropped."""
    await desk_of(request).acting(manager.user).awrite(end_webhook, number)
    return {"outcome": "ended"}


@router.post("/webhooks/{number}/replay", summary="Send past messages again")
async def replay_hook(
    number: Number, body: ReplayBody, request: Request, manager: Manager
) -> dict[str, int]:
    """Send the messages since a given time again."""
    desk = desk_of(request).acting(manager.user)
    return {"queued": await desk.awrite(send_again, number, since=int(body.since * 1e6))}

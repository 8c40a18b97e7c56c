"""The manager's pages: overview, policies, downloads."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile
from fastapi.responses import StreamingResponse

from expertload.desk.api.access import desk_of
from expertload.desk.api.management import MEDIA_TYPES, policy_text
from expertload.desk.pages.figures import history, overview
from expertload.desk.pages.render import go, render
from expertload.desk.pages.route import HEADERS, PageRoute
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people import Principal
from expertload.desk.trail.export import Format, Which, export_bytes
from expertload.desk.watch import (
    activate,
    add_policy,
    blind_sample_size,
    look_back,
    recertify,
    withdraw,
)

__all__ = ["router"]

router = APIRouter(prefix="/manage", route_class=PageRoute)
Manager = Annotated[Principal, Depends(signed_in("manager"))]
Onlooker = Annotated[Principal, Depends(signed_in("manager", "auditor"))]
Share = Annotated[float, Form(gt=0, lt=1)]
SAID = {
    "added": "The policy is stored as a draft. It decides nothing until you activate it.",
    "active": "The policy decides from now on.",
    "withdrawn": "The policy has ended. Every case now goes to experts.",
    "certified": "A new policy is certified from blind labels. Activate it to let it decide.",
}


@router.get("")
async def show(request: Request, who: Onlooker) -> Response:
    """Show how the desk is doing."""
    return render(request, "overview.html.j2", who=who, view=await desk_of(request).aread(overview))


@router.get("/export")
async def export(
    request: Request,
    who: Onlooker,
    format: Format = "csv",  # noqa: A002 - what the interface calls it
    cases: Which = "labelled",
) -> Response:
    """Send cases as a file."""
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="desk-{cases}.{format}"'}
    lines = export_bytes(desk_of(request), format, which=cases)
    return StreamingResponse(lines, media_type=MEDIA_TYPES[format], headers=headers)


# ------------------------------------------------------------------ policies


@router.get("/policies")
async def show_policies(request: Request, who: Manager, said: str = "", n: int = 0) -> Response:
    """Show every policy, and what can be done with it."""
    message = f"{n} decisions wait to be read again." if said == "queued" else SAID.get(said, "")
    desk = desk_of(request)
    values: dict[str, Any] = {
        "policies": await desk.aread(history),
        "sample": await desk.aread(blind_sample_size),
        "said": message,
    }
    return render(request, "policies.html.j2", who=who, **values)


@router.post("/policies")
async def upload(request: Request, who: Manager, policy: Annotated[UploadFile, File()]) -> Response:
    """Store a policy as a draft."""
    document = policy_text(await policy.read())
    await desk_of(request).awrite(add_policy, document)
    return go("/manage/policies?said=added")


@router.post("/policies/{number}/activate")
async def begin(number: int, request: Request, who: Manager) -> Response:
    """Let a draft decide from now on."""
    await desk_of(request).acting(who.user).awrite(activate, number)
    return go("/manage/policies?said=active")


@router.post("/policies/{number}/withdraw")
async def end(
    number: int,
    request: Request,
    who: Manager,
    reason: Annotated[str, Form(min_length=1, max_length=2_000)],
) -> Response:
    """End a policy for good."""
    await desk_of(request).acting(who.user).awrite(withdraw, number, reason=reason)
    return go("/manage/policies?said=withdrawn")


@router.post("/policies/{number}/look-back")
async def again(
    number: int, request: Request, who: Manager, percent: Annotated[float, Form(gt=0, le=100)]
) -> Response:
    """Have experts read again what a withdrawn policy decided."""
    desk, total = desk_of(request).acting(who.user), 0
    while queued := await desk.awrite(look_back, number, share=percent / 100):
        total += queued
    return go(f"/manage/policies?said=queued&n={total}")


@router.post("/recertify")
async def certify_again(
    request: Request, who: Manager, target_accuracy: Share, confidence_level: Share = 0.95
) -> Response:
    """Certify a new policy from blind labels."""
    desk = desk_of(request).acting(who.user)
    await desk.awrite(recertify, target_accuracy=target_accuracy, confidence_level=confidence_level)
    return go("/manage/policies?said=certified")

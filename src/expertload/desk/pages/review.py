"""The reader's page: one case at a time.

Nothing here reads what the model answered, how sure it was, or why the case came: the page is made
only from the claim. Opening the page takes no case; only a form does.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import select

from expertload.desk.api.access import desk_of
from expertload.desk.pages.page import HEADERS, PageRoute, go, render
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people.accounts import Principal
from expertload.desk.queue import claims
from expertload.desk.queue.answers import answer, correct_own, own_answers, undo
from expertload.desk.queue.claims import Claim
from expertload.desk.store.database import SECOND, AnyRow, Transaction
from expertload.desk.store.tables import bodies, cases
from expertload.exceptions import DeskRefusedError

router = APIRouter(prefix="/review", route_class=PageRoute)
Reader = Annotated[Principal, Depends(signed_in("reader", "arbiter"))]
Text = Annotated[str, Form(max_length=2_000)]
MOST_BUTTONS = 12  # with more classes than this, readers find a class by typing
DIGITS = "1234567890"
NOTICES = {
    "late": "Your time for that case was over, and it has gone back to the queue. Your answer is "
    "kept, and marked as late.",
    "twice": "You had answered that case already, in another window. The first answer stands.",
    "lost": "Your time for that case was over, and it has gone back to the queue.",
    "skipped": "The case goes to somebody else.",
    "returned": "The case is back in the queue.",
    "undone": "Your answer is taken back. Here is the case again.",
    "longer": "You have more time for this case.",
    "corrected": "Your answer is corrected.",
}
REASONS = (
    "I cannot tell from what is shown",
    "Not my field",
    claims.WRONG,
    "I know this case from elsewhere",
)


@router.get("")
async def show(request: Request, reader: Reader, notice: str = "") -> Response:
    """Show the case that the reader holds, or a page to take one."""
    page = await desk_of(request).aread(_page, reader)
    held: Claim | None = page["held"]
    values: dict[str, Any] = {"page": page, "notice": NOTICES.get(notice, "")}
    if held is None:
        return render(request, "idle.html.j2", **values)
    values |= {
        "held": held,
        "content": content_of(held),
        # Of the lease, so that sending from two windows gives one answer.
        "submission": hashlib.sha256(held.lease.encode()).hexdigest()[:32],
        "reasons": REASONS,
        "keys": _keys(held.classes),
    }
    # In a thread, because a table of a hundred thousand cells takes seconds.
    return await asyncio.to_thread(render, request, "review.html.j2", **values)


def _page(transaction: Transaction, reader: Principal) -> dict[str, Any]:
    """Read what the reader's page shows."""
    held, following = claims.holding(transaction, reader.user), _upcoming(transaction, reader)
    kind = select(bodies.c.kind).where(bodies.c.id == following)
    return {
        "held": held,
        "seconds_left": 0 if held is None else (held.until - transaction.now) // SECOND,
        "lease_seconds": transaction.project.rules.lease_seconds,
        "next_image": following if transaction.value(kind) == "image" else None,
        "waits": following is not None,
        "taken_back": _can_undo(transaction, reader.user),
    }


def _upcoming(transaction: Transaction, reader: Principal) -> int | None:
    return claims.upcoming(transaction, reader.user, arbiter="arbiter" in reader.roles)


def _can_undo(transaction: Transaction, reader: int) -> dict[str, Any] | None:
    """Return the reader's last answer while it can be taken back."""
    undo_seconds = transaction.project.rules.undo_seconds
    given = own_answers(transaction, reader, since=transaction.now - undo_seconds * SECOND)
    if not given or not transaction.is_within(undo_seconds, given[0].given):
        return None
    last = given[0]
    left = undo_seconds - (transaction.now - last.given) / SECOND
    return {"submission": last.submission, "label": last.label, "left": max(1, int(left))}


def content_of(held: Claim) -> Any:
    """Return the content of a body, as the template needs it."""
    if held.body is None:
        return None
    if held.body.kind == "table":
        return json.loads(held.body.content)
    return held.body.content.decode() if held.body.kind == "text" else held.body.content


def _keys(classes: tuple[str, ...]) -> dict[str, str]:
    """Return the key for each class: a digit for itself, otherwise 1 to 9 and 0 in order."""
    if len(classes) > MOST_BUTTONS:
        return {}
    if all(len(name) == 1 and name in DIGITS for name in classes):
        return {name: name for name in classes}
    return dict(zip(classes, DIGITS, strict=False))


# ------------------------------------------------------------------ bodies


@router.get("/body/{case}")
async def body(case: int, request: Request, reader: Reader) -> Response:
    """Send the image of a case that the reader holds, would get next, or has answered."""
    await desk_of(request).aread(_check_may_see, reader, case)
    return await send_image(request, case)


def _check_may_see(transaction: Transaction, reader: Principal, case: int) -> None:
    held = claims.holding(transaction, reader.user)
    if (
        (held is None or held.case != case)
        and _upcoming(transaction, reader) != case
        and not any(row.case_id == case for row in own_answers(transaction, reader.user))
    ):
        raise DeskRefusedError("not_found", "You hold no such case.")


async def send_image(request: Request, case: int) -> Response:
    """Send the image of a case to somebody who may see it."""
    row = await desk_of(request).aread(_image, case)
    if row is None:
        raise DeskRefusedError("not_found", "This case has no image.")
    headers = {
        **HEADERS,
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, max-age=600",
    }
    return Response(row.content, media_type=row.media_type, headers=headers)


def _image(transaction: Transaction, case: int) -> AnyRow | None:
    ours = select(bodies).join(cases, cases.c.id == bodies.c.id)
    ours = ours.where(transaction.in_project(cases), cases.c.id == case, bodies.c.kind == "image")
    return transaction.first(ours)


@router.get("/waiting")
async def waiting(request: Request, reader: Reader) -> Response:
    """Return whether a case waits; the idle page asks this."""
    page = await desk_of(request).aread(_page, reader)
    return JSONResponse({"waiting": page["waits"]}, headers=HEADERS)


# ------------------------------------------------------------------ earlier answers


@router.get("/answers")
async def show_answers(request: Request, reader: Reader, n: int = 0) -> Response:
    """Show the reader's own latest answers, and one of their cases."""
    page = await desk_of(request).aread(_answers, reader, n)
    return await asyncio.to_thread(render, request, "answers.html.j2", **page)


def _answers(transaction: Transaction, reader: Principal, number: int) -> dict[str, Any]:
    given = own_answers(transaction, reader.user)
    chosen = next((row for row in given if row.id == number), None)
    # What the reader saw: a claim without a lease, so that both pages show a case alike.
    seen = None if chosen is None else claims.claim_of(transaction, chosen.case_id)
    return {
        "given": given,
        "chosen": chosen,
        "held": seen,
        "content": None if seen is None else content_of(seen),
    }


@router.post("/correct")
async def correct(
    request: Request, reader: Reader, submission: Text, label: Text, reason: Text
) -> Response:
    """Correct an answer after the time to undo it."""
    await desk_of(request).awrite(correct_own, reader.user, submission, label, reason=reason)
    return go("/review?notice=corrected")


# ------------------------------------------------------------------ forms


@router.post("/next")
async def take(request: Request, reader: Reader) -> Response:
    """Take the case that is due first."""
    await _claim(request, reader)
    return go("/review")


async def _claim(request: Request, reader: Principal) -> None:
    await desk_of(request).awrite(claims.claim, reader.user, arbiter="arbiter" in reader.roles)


@router.post("/answer")
async def give(
    request: Request, reader: Reader, lease: Text, submission: Text, label: Text
) -> Response:
    """Store an answer and take the next case."""
    try:
        given = await desk_of(request).awrite(answer, reader.user, lease, label, submission)
    except DeskRefusedError as error:
        if error.code != "conflict":
            raise
        notice = "twice"
    else:
        notice = "late" if given.outcome == "late" else ""
    await _claim(request, reader)
    return go(f"/review?notice={notice}" if notice else "/review")


@router.post("/skip")
async def pass_on(
    request: Request, reader: Reader, lease: Text, reason: Text, more: Text = ""
) -> Response:
    """Pass a case on to other readers, and take the next one."""
    why = f"{reason}: {more.strip()}"[:2_000] if more.strip() else reason
    held = await desk_of(request).awrite(claims.skip, reader.user, lease, why)
    await _claim(request, reader)
    return go(f"/review?notice={'skipped' if held else 'lost'}")


@router.post("/return")
async def put_back(request: Request, reader: Reader, lease: Text) -> Response:
    """Put a case back and take no other, to stop working."""
    held = await desk_of(request).awrite(claims.hand_back, reader.user, lease)
    return go(f"/review?notice={'returned' if held else 'lost'}")


@router.post("/extend")
async def hold(request: Request, reader: Reader, lease: Text) -> Response:
    """Hold a case for longer; the script asks for this while the reader works."""
    desk = desk_of(request)
    until = await desk.awrite(claims.extend, reader.user, lease)
    if "application/json" in request.headers.get("accept", ""):
        seconds = None if until is None else (until - desk.clock()) / SECOND
        return JSONResponse({"seconds": seconds}, headers=HEADERS)
    return go(f"/review?notice={'lost' if until is None else 'longer'}")


@router.post("/undo")
async def take_back(request: Request, reader: Reader, submission: Text) -> Response:
    """Take the last answer back; the reader holds its case again."""
    await desk_of(request).awrite(undo, reader.user, submission)
    return go("/review?notice=undone")

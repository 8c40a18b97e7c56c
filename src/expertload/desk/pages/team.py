"""The manager's pages about readers and about single cases."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Path, Request, Response, UploadFile
from sqlalchemy import func, select

from expertload.desk.api.access import desk_of
from expertload.desk.api.team import add_lines
from expertload.desk.intake.receiving import find_case
from expertload.desk.pages.page import PageRoute, go, render
from expertload.desk.pages.review import content_of, send_image
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.queue import corrections
from expertload.desk.queue.claims import Held, claim_of, classes_of
from expertload.desk.store.database import Transaction
from expertload.desk.store.tables import cases, decisions
from expertload.desk.watch import policies, readers
from expertload.desk.watch.combining import combiner_of, start_combining, stop_combining

router = APIRouter(
    prefix="/manage", route_class=PageRoute, dependencies=[Depends(signed_in("manager"))]
)
Reason = Annotated[str, Form(min_length=1, max_length=2_000)]
Number = Annotated[int, Path(ge=1, lt=2**62)]
Text = Annotated[str, Form(min_length=1, max_length=200)]
NOTICES = {
    "corrected": "The answer is corrected, and the case settled again.",
    "reopened": "The case waits for somebody who has not read it.",
    "void": "The case is out of the queue.",
}


@router.get("/readers")
async def show_readers(request: Request, added: int | None = None) -> Response:
    """Show how good and how fast the readers are."""
    view = await desk_of(request).aread(_readers)
    return render(request, "readers.html.j2", view=view, added=added)


def _readers(transaction: Transaction) -> dict[str, Any]:
    golden = select(func.count()).where(transaction.in_project(cases), cases.c.state == "golden")
    return {
        "readers": readers.readers_of(transaction),
        "golden": transaction.value(golden),
        "combines": combiner_of(transaction) is not None,
    }


@router.post("/readers/golden")
async def add(request: Request, golden: Annotated[UploadFile, File()]) -> Response:
    """Store the golden cases of a file."""
    return go(f"/manage/readers?added={await add_lines(request, await golden.read())}")


@router.post("/readers/combine")
async def combine(request: Request, on: Annotated[bool, Form()]) -> Response:
    """Combine the answers of experts and model, or stop."""
    await desk_of(request).awrite(start_combining if on else stop_combining)
    return go("/manage/readers")


@router.get("/cases")
async def show_case(request: Request, key: str = "", notice: str = "") -> Response:
    """Show what readers have reported, and one case if it is named."""
    view = await desk_of(request).aread(_case, key.strip())
    return render(request, "cases.html.j2", view=view, key=key, notice=NOTICES.get(notice, ""))


def _case(transaction: Transaction, key: str) -> dict[str, Any]:
    view: dict[str, Any] = {"reported": corrections.reported(transaction), "case": None}
    if key:
        case = find_case(transaction, key, locked=False)
        made = select(decisions).where(decisions.c.case_id == case.id)
        view |= {
            "case": case,
            "decisions": transaction.all(made.order_by(decisions.c.version)),
            "answers": corrections.answers_to(transaction, case.id),
            "classes": classes_of(transaction),
            "held": (seen := claim_of(transaction, Held(case.id, "", 0))),
            "content": content_of(seen),
        }
    return view


@router.get("/cases/body/{case}")
async def show_image(case: Number, request: Request) -> Response:
    """Send the image of a case."""
    return await send_image(request, case)


def _back(key: str, notice: str) -> Response:
    return go(f"/manage/cases?key={quote(key, safe='')}&notice={notice}")


@router.post("/cases/correct")
async def correct(
    request: Request, key: Text, reader: Text, label: Text, reason: Reason
) -> Response:
    """Correct an answer."""
    who = request.state.who.user
    work = corrections.correct_of
    await desk_of(request).awrite(work, who, key, reader, label, reason=reason)
    return _back(key, "corrected")


@router.post("/cases/reopen")
async def reopen(request: Request, key: Text, reason: Reason) -> Response:
    """Let somebody else read a case."""
    await desk_of(request).awrite(corrections.reopen, key, reason=reason)
    return _back(key, "reopened")


@router.post("/cases/void")
async def void(request: Request, key: Text, reason: Reason) -> Response:
    """Take an open case out of the queue."""
    await desk_of(request).awrite(policies.void_case, key, reason=reason)
    return _back(key, "void")

"""The auditor's page: all events, and whether any was changed."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request, Response
from sqlalchemy import select

from expertload.desk.api.access import desk_of
from expertload.desk.intake.case import CONTROL
from expertload.desk.pages.render import render
from expertload.desk.pages.route import PageRoute
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people import Principal
from expertload.desk.store import Transaction
from expertload.desk.store.tables import cases, events, seals, users
from expertload.desk.trail import verify

__all__ = ["router"]

router = APIRouter(prefix="/audit", route_class=PageRoute)
Auditor = Annotated[Principal, Depends(signed_in("auditor", "manager"))]
EVENTS_PER_PAGE = 50


@router.get("")
async def show(request: Request, who: Auditor, before: int = 2**62, case: str = "") -> Response:
    """Show events, newest first; only those of one case if it is named."""
    desk = desk_of(request)
    rows = await desk.aread(_events, min(max(before, 0), 2**62), case.strip())
    head = await desk.aread(_head)
    return render(
        request,
        "audit.html.j2",
        who=who,
        events=rows[:EVENTS_PER_PAGE],
        more=rows[EVENTS_PER_PAGE - 1]["id"] if len(rows) > EVENTS_PER_PAGE else None,
        case=case,
        head=head,
        verdict=None,
    )


@router.post("/verify")
async def check(
    request: Request, who: Auditor, head: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    """Compute the whole chain again."""
    desk = desk_of(request)
    verdict = await desk.aread(verify, head=head.strip() or None)
    rows = await desk.aread(_events, 2**62, "")
    return render(
        request,
        "audit.html.j2",
        who=who,
        events=rows[:EVENTS_PER_PAGE],
        more=rows[EVENTS_PER_PAGE - 1]["id"] if len(rows) > EVENTS_PER_PAGE else None,
        case="",
        head=verdict.head,
        verdict=verdict,
    )


def _head(transaction: Transaction) -> str | None:
    newest = select(seals.c.sha256).order_by(seals.c.id.desc()).limit(1)
    found: str | None = transaction.connection.execute(newest).scalar()
    return found


def _events(transaction: Transaction, before: int, case: str) -> list[dict[str, Any]]:
    query = (
        select(events, users.c.name, cases.c.key)
        .select_from(
            events.outerjoin(users, users.c.id == events.c.actor).outerjoin(
                cases, cases.c.id == events.c.case_id
            )
        )
        .where(events.c.project_id == transaction.project.id, events.c.id < before)
        .order_by(events.c.id.desc())
        .limit(EVENTS_PER_PAGE + 1)
    )
    if CONTROL.search(case):  # no key has these, and PostgreSQL refuses to search for some of them
        return []
    if case:
        named = select(cases.c.id).where(
            cases.c.project_id == transaction.project.id, cases.c.key == case
        )
        query = query.where(events.c.case_id == named.scalar_subquery())
    return [_shown(row) for row in transaction.connection.execute(query)]


def _shown(row: Any) -> dict[str, Any]:
    changes = [
        f"{table} {number}: " + ", ".join(f"{name} = {value}" for name, value in values.items())
        for table, number, values in json.loads(row.changes)
    ]
    return {
        "id": row.id,
        "at": row.at,
        "kind": row.kind,
        "who": row.name or "the desk",
        "key": row.key,
        "changes": changes,
    }

"""The auditor's page: all events, and whether any was changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request, Response
from sqlalchemy import BigInteger, select

from expertload.desk.api.access import desk_of
from expertload.desk.intake.case import CONTROL
from expertload.desk.pages.render import render
from expertload.desk.pages.route import PageRoute
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people import Principal
from expertload.desk.store import Transaction
from expertload.desk.store.tables import Id, cases, counters, events, metadata, seals, users
from expertload.desk.trail import Verdict, read_changes, verify

__all__ = ["router"]

router = APIRouter(prefix="/audit", route_class=PageRoute)
Auditor = Annotated[Principal, Depends(signed_in("auditor", "manager"))]
EVENTS_PER_PAGE = 50
LATEST = 253_402_300_799_000_000  # the end of the year 9999
# The kinds of events to show alone: among millions of cases, the few acts of those in charge.
ABOUT = {
    "policies": (
        "policy.added",
        "policy.activated",
        "policy.withdrawn",
        "monitor.warning",
        "monitor.alarm",
        "rules.changed",
    ),
    "people": (
        "user.added",
        "user.roles_set",
        "user.password_set",
        "user.disabled",
        "user.enabled",
        "token.added",
        "token.revoked",
        "link.made",
        "link.used",
        "webhook.added",
        "webhook.ended",
    ),
}
MOMENTS = frozenset(
    column.name
    for table in metadata.sorted_tables
    for column in table.columns
    if isinstance(column.type, BigInteger) and column.type is not Id and table is not counters
)


@router.get("")
async def show(
    request: Request, who: Auditor, before: int = 2**62, case: str = "", about: str = ""
) -> Response:
    """Show events, newest first; only those of one case, or about one subject, if it is named."""
    desk = desk_of(request)
    about = about if about in ABOUT else ""
    rows = await desk.aread(_events, min(max(before, 0), 2**62), case.strip(), about)
    return _page(request, who, rows, head=await desk.aread(_head), case=case, about=about)


@router.post("/verify")
async def check(
    request: Request, who: Auditor, head: Annotated[str, Form(max_length=100)] = ""
) -> Response:
    """Compute the whole chain again."""
    desk = desk_of(request)
    verdict = await desk.aread(verify, head=head.strip() or None)
    rows = await desk.aread(_events, 2**62, "", "")
    return _page(request, who, rows, head=verdict.head, verdict=verdict)


def _page(
    request: Request,
    who: Principal,
    rows: list[dict[str, Any]],
    *,
    head: str | None,
    case: str = "",
    about: str = "",
    verdict: Verdict | None = None,
) -> Response:
    more = rows[EVENTS_PER_PAGE - 1]["id"] if len(rows) > EVENTS_PER_PAGE else None
    values: dict[str, Any] = {"head": head, "verdict": verdict, "case": case, "about": about}
    shown = rows[:EVENTS_PER_PAGE]
    return render(request, "audit.html.j2", who=who, events=shown, more=more, **values)


def _head(transaction: Transaction) -> str | None:
    newest = select(seals.c.sha256).order_by(seals.c.id.desc()).limit(1)
    found: str | None = transaction.connection.execute(newest).scalar()
    return found


def _events(transaction: Transaction, before: int, case: str, about: str) -> list[dict[str, Any]]:
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
    elif about:
        query = query.where(events.c.case_id.is_(None), events.c.kind.in_(ABOUT[about]))
    return [_shown(row) for row in transaction.connection.execute(query)]


def _shown(row: Any) -> dict[str, Any]:
    found = read_changes(row.changes)
    changes = [row.changes] if found is None else [_change(*change) for change in found]
    return {
        "id": row.id,
        "at": row.at,
        "kind": row.kind,
        "who": row.name or "the desk",
        "key": row.key,
        "changes": changes,
    }


def _change(table: str, number: int, values: dict[str, Any]) -> str:
    written = ", ".join(f"{name} = {_written(name, values[name])}" for name in values)
    return f"{table} {number}: {written}"


def _written(name: str, value: Any) -> str:
    """Return a value as text; moments have all their microseconds."""
    if name in MOMENTS and isinstance(value, int) and 0 <= value <= LATEST:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        return f"{when:%Y-%m-%d %H:%M:%S.%f} UTC"
    return str(value)

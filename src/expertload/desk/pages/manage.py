"""The pages of managers and auditors: overview, policies, people, downloads, and all events."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile
from sqlalchemy import BigInteger, select

from expertload._names import Role, Which
from expertload.desk.api.access import desk_of
from expertload.desk.api.management import export_response, policy_text
from expertload.desk.intake.case import CONTROL
from expertload.desk.intake.routing import read_policy
from expertload.desk.pages.overview import overview
from expertload.desk.pages.page import HEADERS, PageRoute, go, render
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people import accounts, sessions
from expertload.desk.store.database import Transaction
from expertload.desk.store.tables import Id, cases, counters, events, metadata, seals, users
from expertload.desk.trail.chain import Verdict, read_changes, verify
from expertload.desk.trail.export import Format
from expertload.desk.watch import policies
from expertload.desk.watch.anew import decide_all_waiting
from expertload.desk.watch.recertify import blind_labels, recertify
from expertload.exceptions import DeskRefusedError

router = APIRouter()
manager = APIRouter(
    prefix="/manage", route_class=PageRoute, dependencies=[Depends(signed_in("manager"))]
)
onlooker = APIRouter(route_class=PageRoute, dependencies=[Depends(signed_in("manager", "auditor"))])
Text = Annotated[str, Form(max_length=200)]
Roles = Annotated[list[str], Form()]
Share = Annotated[float, Form(gt=0, lt=1)]
NOTICES = {
    "added": "The policy is stored as a draft. It decides nothing until you activate it.",
    "active": "The policy decides from now on.",
    "withdrawn": "The policy has ended. Every case now goes to experts.",
    "certified": "A new policy is certified from blind labels. Activate it to let it decide.",
}


@onlooker.get("/manage")
async def show(request: Request) -> Response:
    """Show how the desk is doing."""
    return render(request, "overview.html.j2", view=await desk_of(request).aread(overview))


@onlooker.get("/manage/export")
async def export(
    request: Request,
    format: Format = "csv",  # noqa: A002 - what the interface calls it
    cases: Which = "labelled",
) -> Response:
    """Send cases as a file."""
    answer = export_response(request, format, cases, f"desk-{cases}.{format}")
    answer.headers.update(HEADERS)
    return answer


# ------------------------------------------------------------------ policies


@manager.get("/policies")
async def show_policies(request: Request, notice: str = "", n: int = 0) -> Response:
    """Show every policy, and what can be done with it."""
    queued = f"{n} decisions wait to be read again."
    desk = desk_of(request)
    rows = await desk.aread(policies.all_policies)
    return render(
        request,
        "policies.html.j2",
        policies=[{"row": row, "point": read_policy(row.document).point} for row in rows],
        sample=await desk.aread(blind_labels),
        notice=queued if notice == "queued" else NOTICES.get(notice, ""),
    )


@manager.post("/policies")
async def upload(request: Request, policy: Annotated[UploadFile, File()]) -> Response:
    """Store a policy as a draft."""
    document = policy_text(await policy.read())
    await desk_of(request).awrite(policies.add_policy, document)
    return go("/manage/policies?notice=added")


@manager.post("/policies/{number}/activate")
async def begin(number: int, request: Request) -> Response:
    """Let a draft decide from now on."""
    desk = desk_of(request)
    await desk.awrite(policies.activate, number)
    await asyncio.to_thread(decide_all_waiting, desk)
    return go("/manage/policies?notice=active")


@manager.post("/policies/{number}/withdraw")
async def end(
    number: int,
    request: Request,
    reason: Annotated[str, Form(min_length=1, max_length=2_000)],
) -> Response:
    """End a policy for good."""
    await desk_of(request).awrite(policies.withdraw, number, reason=reason)
    return go("/manage/policies?notice=withdrawn")


@manager.post("/policies/{number}/look-back")
async def again(
    number: int, request: Request, percent: Annotated[float, Form(gt=0, le=100)]
) -> Response:
    """Have experts read again what a withdrawn policy decided."""
    desk, total = desk_of(request), 0
    while queued := await desk.awrite(policies.look_back, number, share=percent / 100):
        total += queued
    return go(f"/manage/policies?notice=queued&n={total}")


@manager.post("/recertify")
async def certify_again(
    request: Request, target_accuracy: Share, confidence_level: Share = 0.95
) -> Response:
    """Certify a new policy from blind labels."""
    desk = desk_of(request)
    await desk.awrite(recertify, target_accuracy=target_accuracy, confidence_level=confidence_level)
    return go("/manage/policies?notice=certified")


# ------------------------------------------------------------------ people and programs


async def _people(request: Request, **once: Any) -> Response:
    """Show the page; a new secret is shown only in the answer to the form that made it."""
    desk = desk_of(request)
    return render(
        request,
        "people.html.j2",
        people=await desk.aread(accounts.people_of),
        tokens=await desk.aread(accounts.all_tokens),
        roles=accounts.PERSONAL,
        once=once,
    )


@manager.get("/people")
async def show_people(request: Request) -> Response:
    """Show everybody."""
    return await _people(request)


@manager.post("/people")
async def add_person(request: Request, name: Text, roles: Roles = []) -> Response:  # noqa: B006
    """Add somebody; show the link for the first sign-in."""
    desk = desk_of(request)
    user = await desk.awrite(accounts.add_user, name.strip(), roles)
    return await _people(request, name=name, link=await _link(request, user))


async def _link(request: Request, user: int) -> str:
    secret = await desk_of(request).awrite(sessions.make_link, user)
    return str(request.base_url) + f"welcome/{secret}"


@manager.post("/people/{user}/link")
async def new_link(user: int, request: Request) -> Response:
    """Make a new one-time link, for example after a lost password."""
    name = await _name(request, user)
    return await _people(request, name=name, link=await _link(request, user))


@manager.post("/people/{user}/roles")
async def change(user: int, request: Request, roles: Roles = []) -> Response:  # noqa: B006
    """Give somebody exactly these roles."""
    await _name(request, user)
    if user == request.state.who.user and "manager" not in roles:
        raise DeskRefusedError("conflict", "You cannot take the role of manager from yourself.")
    await desk_of(request).awrite(accounts.set_roles, user, roles)
    return go("/manage/people")


@manager.post("/people/{user}/disable")
async def disable(user: int, request: Request) -> Response:
    """Disable a person's access."""
    await _name(request, user)
    if user == request.state.who.user:
        raise DeskRefusedError("conflict", "You cannot disable your own account.")
    await desk_of(request).awrite(accounts.disable_user, user)
    return go("/manage/people")


@manager.post("/people/{user}/away")
async def away(
    user: int, request: Request, until: Annotated[date | None, Form()] = None
) -> Response:
    """Note until when somebody is away, or that they are back."""
    await _name(request, user)
    moment = None if until is None else accounts.end_of(until)
    await desk_of(request).awrite(accounts.set_away, user, moment)
    return go("/manage/people")


@manager.post("/people/{user}/enable")
async def enable(user: int, request: Request) -> Response:
    """Enable a disabled person's access again."""
    await _name(request, user)
    await desk_of(request).awrite(accounts.enable_user, user)
    return go("/manage/people")


async def _name(request: Request, user: int) -> str:
    for person in await desk_of(request).aread(accounts.people_of):
        if person.id == user:
            return person.name
    raise DeskRefusedError("not_found", f"There is no user {user} in this project.")


@manager.post("/people/tokens")
async def give_token(
    request: Request,
    name: Text,
    role: Annotated[Role, Form()],
    days: Annotated[int | None, Form(ge=1, le=36_500)] = None,
) -> Response:
    """Make a token for a program; show it this one time."""
    token = await desk_of(request).awrite(accounts.add_token, name, role, days=days)
    return await _people(request, name=name, token=token)


@manager.post("/people/tokens/{number}/revoke")
async def end_token(number: int, request: Request) -> Response:
    """End a token at once."""
    if not 0 <= number < 2**63:
        raise DeskRefusedError("not_found", f"There is no token {number}.")
    await desk_of(request).awrite(accounts.revoke_token, number)
    return go("/manage/people")


# ------------------------------------------------------------------ the audit

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
        "combining.started",
        "combining.stopped",
    ),
    "people": (
        "user.added",
        "user.roles_set",
        "user.password_set",
        "user.disabled",
        "user.enabled",
        "user.away",
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


@onlooker.get("/audit")
async def show_events(
    request: Request, before: int = 2**62, case: str = "", about: str = ""
) -> Response:
    """Show events, newest first; only those of one case, or about one subject, if it is named."""
    desk = desk_of(request)
    about = about if about in ABOUT else ""
    rows = await desk.aread(_events, min(max(before, 0), 2**62), case.strip(), about)
    return _audit(request, rows, head=await desk.aread(_head), case=case, about=about)


@onlooker.post("/audit/verify")
async def check(request: Request, head: Annotated[str, Form(max_length=100)] = "") -> Response:
    """Compute the whole chain again."""
    desk = desk_of(request)
    verdict = await desk.aread(verify, head=head.strip() or None)
    rows = await desk.aread(_events, 2**62, "", "")
    return _audit(request, rows, head=verdict.head, verdict=verdict)


def _audit(
    request: Request,
    rows: list[dict[str, Any]],
    *,
    head: str | None,
    case: str = "",
    about: str = "",
    verdict: Verdict | None = None,
) -> Response:
    values: dict[str, Any] = {"head": head, "case": case, "about": about, "verdict": verdict}
    shown = rows[:EVENTS_PER_PAGE]
    more = shown[-1]["id"] if len(rows) > EVENTS_PER_PAGE else None
    return render(request, "audit.html.j2", events=shown, more=more, **values)


def _head(transaction: Transaction) -> str | None:
    newest = select(seals.c.sha256).order_by(seals.c.id.desc()).limit(1)
    head: str | None = transaction.value(newest)
    return head


def _events(transaction: Transaction, before: int, case: str, about: str) -> list[dict[str, Any]]:
    query = (
        select(events, users.c.name, cases.c.key)
        .select_from(
            events.outerjoin(users, users.c.id == events.c.actor).outerjoin(
                cases, cases.c.id == events.c.case_id
            )
        )
        .where(transaction.in_project(events), events.c.id < before)
        .order_by(events.c.id.desc())
        .limit(EVENTS_PER_PAGE + 1)
    )
    if CONTROL.search(case):  # no key has these, and PostgreSQL refuses to search for some of them
        return []
    if case:
        named = select(cases.c.id).where(transaction.in_project(cases), cases.c.key == case)
        query = query.where(events.c.case_id == named.scalar_subquery())
    elif about:
        query = query.where(events.c.case_id.is_(None), events.c.kind.in_(ABOUT[about]))
    return [_shown(row) for row in transaction.connection.execute(query)]


def _shown(row: Any) -> dict[str, Any]:
    read = read_changes(row.changes)
    changes = [row.changes] if read is None else [_change(*change) for change in read]
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


router.include_router(manager)
router.include_router(onlooker)

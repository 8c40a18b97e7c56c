"""For auditors: all events on a page, and the oversight file for an inspector or a risk officer.

Every statement of the file names the events that record it. They are in `events.jsonl` as they were
sealed, and `desk verify` checks them against the chain and the tables.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Form, Request, Response
from sqlalchemy import BigInteger, Select, func, not_, or_, select

import expertload
from expertload._files import new_folder
from expertload.desk.api.access import desk_of
from expertload.desk.desk import Desk
from expertload.desk.intake.case import CONTROL
from expertload.desk.intake.routing import read_policy
from expertload.desk.pages.page import PageRoute, environment, render
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people.accounts import all_tokens
from expertload.desk.store.database import AnyRow, Transaction
from expertload.desk.store.tables import (
    Id,
    cases,
    counters,
    decisions,
    events,
    memberships,
    metadata,
    monitors,
    seals,
    users,
)
from expertload.desk.trail.chain import SEALED, read_changes, seal_events, verify
from expertload.desk.watch.policies import all_policies
from expertload.desk.watch.readers import readers_of
from expertload.desk.watch.state import state_of

router = APIRouter(route_class=PageRoute, dependencies=[Depends(signed_in("manager", "auditor"))])
EVENTS_PER_PAGE = 50
LATEST = 253_402_300_799_000_000  # the end of the year 9999
# The kinds of events to show alone: among millions of cases, the few acts of those in charge.
ABOUT = {
    "policies": (
        *("policy.added", "policy.activated", "policy.shared", "policy.withdrawn"),
        *("monitor.warning", "monitor.alarm", "combining.started", "combining.stopped"),
        "rules.changed",
    ),
    "people": (
        *("user.added", "user.roles_set", "user.password_set", "user.away"),
        *("user.disabled", "user.enabled", "token.added", "token.revoked"),
        *("link.made", "link.used", "webhook.added", "webhook.ended"),
    ),
}
MOMENTS = frozenset(
    column.name
    for table in metadata.sorted_tables
    for column in table.columns
    if isinstance(column.type, BigInteger) and column.type is not Id and table is not counters
)


@router.get("/audit")
async def show_events(
    request: Request, before: int = 2**62, case: str = "", about: str = ""
) -> Response:
    """Show events, newest first; only those of one case, or about one subject, if it is named."""
    about = about if about in ABOUT else ""
    before = min(max(before, 0), 2**62)
    page = await desk_of(request).aread(_page, _reads(request), before, case.strip(), about)
    return render(request, "audit.html.j2", verdict=None, case=case, about=about, **page)


@router.post("/audit/verify")
async def check(request: Request, head: Annotated[str, Form(max_length=100)] = "") -> Response:
    """Compute the whole chain again."""
    desk = desk_of(request)
    verdict = await desk.aread(verify, head=head.strip() or None)
    page = await desk.aread(_page, _reads(request))
    return render(request, "audit.html.j2", verdict=verdict, case="", about="", **page)


def _reads(request: Request) -> bool:
    """Whether who asks may also be given cases to read."""
    return bool(request.state.who.roles & {"reader", "arbiter"})


def _page(
    transaction: Transaction, blind: bool, before: int = 2**62, case: str = "", about: str = ""
) -> dict[str, Any]:
    rows = events_before(transaction, before, case, about, blind=blind)
    shown = rows[:EVENTS_PER_PAGE]
    newest = select(seals.c.sha256).order_by(seals.c.id.desc()).limit(1)
    more = shown[-1]["id"] if len(rows) > EVENTS_PER_PAGE else None
    return {"events": shown, "more": more, "head": transaction.value(newest), "blind": blind}


def events_before(
    transaction: Transaction, before: int, case: str = "", about: str = "", *, blind: bool = False
) -> list[dict[str, Any]]:
    """Return the events of a page, and one more if there are more; `blind` without open cases."""
    if CONTROL.search(case):  # no key has these, and PostgreSQL refuses to search for some of them
        return []
    query = _newest_first(transaction).where(events.c.id < before).limit(EVENTS_PER_PAGE + 1)
    if blind:  # they name the model's answer, and those of others
        unread = cases.c.state.in_(("waiting", "disputed", "golden"))
        is_open = or_(unread, func.coalesce(cases.c.audit, "") == "open")
        query = query.where(or_(events.c.case_id.is_(None), not_(is_open)))
    if case:
        named = select(cases.c.id).where(transaction.in_project(cases), cases.c.key == case)
        query = query.where(events.c.case_id == named.scalar_subquery())
    elif about:
        query = query.where(events.c.case_id.is_(None), events.c.kind.in_(ABOUT[about]))
    return [_shown(row) for row in transaction.connection.execute(query)]


def _newest_first(transaction: Transaction) -> Select[Any]:
    """Return the query for events as they are sealed, with who acted and the key of the case."""
    actors = events.outerjoin(users, users.c.id == events.c.actor)
    return (
        select(*SEALED, users.c.name, cases.c.key)
        .select_from(actors.outerjoin(cases, cases.c.id == events.c.case_id))
        .where(transaction.in_project(events))
        .order_by(events.c.id.desc())
    )


def _shown(row: Any) -> dict[str, Any]:
    read = read_changes(row.changes)
    return {
        "id": row.id,
        "at": row.at,
        "kind": row.kind,
        "who": row.name or "the desk",
        "key": row.key,
        "changes": [row.changes] if read is None else [_change(*change) for change in read],
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


# ------------------------------------------------------------------ the oversight file

# Events of single cases that an inspector asks for; all others are about the whole desk.
OF_CASES = ("answer.corrected", "case.reopened:", "case.voided", "case.erased")
NOT_SHOWN = ("session.", "link.", "user.password_set", "case.golden")
MOST_OF_CASES = 50


def write_dossier(desk: Desk, folder: str | os.PathLike[str]) -> Path:
    """Write the oversight file into a new folder, completely or not at all; return its page."""
    with new_folder(folder) as draft:
        seal_events(desk)
        content = desk.read(_gather)
        page = environment().get_template("dossier.html.j2").render(content)
        Path(draft, "index.html").write_text(page, encoding="utf-8")
        for row in (policy["row"] for policy in content["policies"]):
            Path(draft, f"policy-{row.id}.json").write_text(row.document, encoding="utf-8")
        for name, columns, rows in (
            ("events.jsonl", SEALED, content["records"]),
            ("seals.jsonl", seals.c, content["blocks"]),
        ):
            names = [str(column.name) for column in columns]
            lines = (orjson.dumps(dict(zip(names, row, strict=False))) + b"\n" for row in rows)
            Path(draft, name).write_bytes(b"".join(lines))
        figures = {name: content[name] for name in ("state", "readers")}
        Path(draft, "figures.json").write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    return Path(folder, "index.html")


def _gather(transaction: Transaction) -> dict[str, Any]:
    """Return what the page says, and the events that record it."""
    blocks = transaction.all(select(seals).order_by(seals.c.id))
    ends = [block.last_event for block in blocks]
    numbers = [*(block.id for block in blocks), None]  # events after the last block have none
    records = _records(transaction)
    sources: dict[tuple[str, int], list[int]] = defaultdict(list)
    for event in records:
        for table, row, _ in read_changes(event.changes) or ():
            sources[table, row].append(event.id)
    rows = all_policies(transaction)
    watching = select(monitors).where(transaction.in_project(monitors)).order_by(monitors.c.id)
    watched = {row.policy_id: row for row in transaction.all(watching)}
    return {
        "version": expertload.__version__,
        "now": transaction.now,
        "project": transaction.project,
        "state": state_of(transaction),
        "policies": [_policy(row, rows, watched.get(row.id), sources) for row in rows],
        "people": _people(transaction, sources),
        "readers": readers_of(transaction),
        "corrections": transaction.value(
            select(func.count())
            .select_from(decisions.join(cases, cases.c.id == decisions.c.case_id))
            .where(transaction.in_project(cases), decisions.c.kind == "correction")
        ),
        "rules_events": sources["projects", transaction.project.id],
        "records": records,
        "verdict": verify(transaction),
        "blocks": blocks,
        "block_of": {event.id: numbers[bisect_left(ends, event.id)] for event in records},
    }


def _records(transaction: Transaction) -> list[AnyRow]:
    """Return the events about the whole desk, and the latest of those about single cases."""
    of_cases = or_(*(events.c.kind.startswith(kind) for kind in OF_CASES))
    mine = _newest_first(transaction)
    general = transaction.all(mine.where(events.c.case_id.is_(None)))
    chosen = transaction.all(
        mine.where(events.c.case_id.is_not(None), of_cases).limit(MOST_OF_CASES)
    )
    latest: dict[Any, AnyRow] = {}
    for event in general:  # the newest first
        if not event.kind.startswith(NOT_SHOWN):
            latest.setdefault(_subject(event), event)
    return sorted([*chosen, *latest.values()], key=lambda event: int(event.id))


def _subject(event: AnyRow) -> Any:
    """Return what an event is quoted for: there is one of a monitor after each audit."""
    if event.kind != "monitor.moved":
        return event.id
    (_, monitor, _), *_ = read_changes(event.changes) or [("", 0, {})]
    return "monitor", monitor


def _policy(
    row: AnyRow,
    rows: list[AnyRow],
    monitor: AnyRow | None,
    sources: dict[tuple[str, int], list[int]],
) -> dict[str, Any]:
    # A restored policy is one that was added before: it was certified where that one was.
    first = min((r for r in rows if r.sha256 == row.sha256), key=lambda r: int(r.id))
    return {
        "row": row,
        "first": first,
        "policy": read_policy(row.document),
        "events": sources["policies", row.id],
        "monitor": monitor,
        "monitor_events": [] if monitor is None else sources["monitors", monitor.id],
    }


def _people(
    transaction: Transaction, sources: dict[tuple[str, int], list[int]]
) -> list[dict[str, Any]]:
    """Return who may do what today, people and tokens, with the events that gave the roles."""
    rows = transaction.all(
        select(memberships.c.id, users.c.name, memberships.c.role)
        .join_from(memberships, users)
        .where(transaction.in_project(memberships), memberships.c.ended.is_(None))
        .where(users.c.disabled.is_(None))
        .order_by(users.c.name, memberships.c.role)
    )
    given = [("memberships", *row) for row in rows]
    valid = [token for token in all_tokens(transaction) if token.ended is None]
    given += [("tokens", token.id, f"{token.name} (token)", token.role) for token in valid]
    people: dict[str, dict[str, Any]] = {}
    for table, number, name, role in given:
        person = people.setdefault(name, {"name": name, "roles": [], "events": []})
        person["roles"].append(role)
        person["events"] += sources[table, number]
    return list(people.values())

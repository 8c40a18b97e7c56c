"""The pages of managers and auditors: overview, policies, challengers, readers, cases, people.

A form does what the interface does: where both have the same fields, they share the function.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Path, Request, Response, UploadFile
from sqlalchemy import func, select

from expertload._names import Role, Which
from expertload.desk.api import management
from expertload.desk.api.access import Name, Number, ReasonBody, desk_of
from expertload.desk.intake.receiving import classes_of, decisions_of, find_case
from expertload.desk.intake.routing import read_policy
from expertload.desk.pages.overview import evidence_chart, overview
from expertload.desk.pages.page import HEADERS, PageRoute, go, render
from expertload.desk.pages.page import number as written
from expertload.desk.pages.review import content_of, send_image
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people import accounts, sessions
from expertload.desk.queue import managing
from expertload.desk.queue.claims import claim_of
from expertload.desk.store.database import Transaction
from expertload.desk.store.tables import cases
from expertload.desk.trail.export import Format
from expertload.desk.watch import policies, readers
from expertload.desk.watch.challengers import Challenger, challengers_of
from expertload.desk.watch.combining import combiner_of
from expertload.desk.watch.recertify import blind_labels
from expertload.exceptions import DeskRefusedError

router = APIRouter()
manager = APIRouter(
    prefix="/manage", route_class=PageRoute, dependencies=[Depends(signed_in("manager"))]
)
onlooker = APIRouter(
    prefix="/manage", route_class=PageRoute, dependencies=[Depends(signed_in("manager", "auditor"))]
)
Text = Annotated[str, Form(max_length=200)]
Roles = Annotated[list[str], Form()]
Upload = Annotated[UploadFile, File()]
NOTICES = {
    "added": "The policy is stored as a draft. It decides nothing until you activate it.",
    "active": "The policy decides from now on.",
    "withdrawn": "The policy has ended. Every case now goes to experts.",
    "certified": "A new policy is certified from blind labels. Activate it to let it decide.",
    "queued": "{} decisions wait to be read again.",
    "shared": "The model decides this share of the cases from now on.",
    "switched": "The model decides every case that it is sure of from now on.",
    "back": "The model decides nothing any more.",
    "corrected": "The answer is corrected, and the case settled again.",
    "reopened": "The case waits for somebody who has not read it.",
    "void": "The case is out of the queue.",
}
STEPS = (0.1, 0.5, 1.0)  # the shares that a manager lets a challenger decide


@onlooker.get("")
async def show(request: Request) -> Response:
    """Show how the desk is doing."""
    return render(request, "overview.html.j2", view=await desk_of(request).aread(overview))


@onlooker.get("/export")
async def export(
    request: Request,
    format: Format = "csv",  # noqa: A002 - what the interface calls it
    cases: Which = "labelled",
) -> Response:
    """Send cases as a file."""
    answer = management.export_response(request, format, cases, f"desk-{cases}.{format}")
    answer.headers.update(HEADERS)
    return answer


# ------------------------------------------------------------------ policies


@manager.get("/policies")
async def show_policies(request: Request, notice: str = "", n: int = 0) -> Response:
    """Show every policy, and what can be done with it."""
    desk = desk_of(request)
    rows = await desk.aread(policies.all_policies)
    return render(
        request,
        "policies.html.j2",
        policies=[{"row": row, "point": read_policy(row.document).point} for row in rows],
        sample=await desk.aread(blind_labels),
        notice=NOTICES.get(notice, "").format(n),
    )


@manager.post("/policies")
async def upload(request: Request, policy: Upload) -> Response:
    """Store a policy as a draft."""
    await management.add_document(request, await policy.read())
    return go("/manage/policies?notice=added")


@manager.post("/policies/{number}/activate")
async def begin(number: int, request: Request) -> Response:
    """Let a draft decide from now on."""
    await management.begin(number, request)
    return go("/manage/policies?notice=active")


@manager.post("/policies/{number}/withdraw")
async def end(number: int, request: Request, body: Annotated[ReasonBody, Form()]) -> Response:
    """End a policy for good."""
    await management.end(number, body, request)
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
    request: Request, body: Annotated[management.RecertifyBody, Form()]
) -> Response:
    """Certify a new policy from blind labels."""
    await management.certify_again(body, request)
    return go("/manage/policies?notice=certified")


# ------------------------------------------------------------------ challengers


@onlooker.get("/challengers")
async def show_challengers(request: Request, notice: str = "", n: int = 0) -> Response:
    """Show every model in shadow: its evidence over time, and the steps to take over."""
    challengers = await desk_of(request).aread(challengers_of)
    text = NOTICES.get(notice, "")
    if text and n > 0:
        text += f" {written(n)} waiting {'case was' if n == 1 else 'cases were'} decided anew."
    views = [{"it": c, "chart": evidence_chart(c), "steps": _steps(c)} for c in challengers]
    return render(request, "challengers.html.j2", challengers=views, notice=text)


def _steps(challenger: Challenger) -> list[float]:
    """Return the shares that a manager may choose next."""
    if challenger.share == 0 and not challenger.may_switch:
        return []
    return [share for share in STEPS if share > challenger.share]


class AdoptForm(management.AdoptBody):
    """The same fields, and the model, which the interface has in its address."""

    model: Name


@manager.post("/challengers/adopt")
async def adopt(request: Request, form: Annotated[AdoptForm, Form()]) -> Response:
    """Let a model decide a share of the cases; 0 is the way back."""
    done = await management.adopt(form.model, form, request)
    notice = {0.0: "back", 1.0: "switched"}.get(form.share, "shared")
    return go(f"/manage/challengers?notice={notice}&n={done['decided_anew']}")


# ------------------------------------------------------------------ readers and single cases


@manager.get("/readers")
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


@manager.post("/readers/golden")
async def add_golden(request: Request, golden: Upload) -> Response:
    """Store the golden cases of a file."""
    return go(f"/manage/readers?added={await management.add_lines(request, await golden.read())}")


@manager.post("/readers/combine")
async def combine(request: Request, on: Annotated[bool, Form()]) -> Response:
    """Combine the answers of experts and model, or stop."""
    await management.combine(management.CombineBody(on=on), request)
    return go("/manage/readers")


@manager.get("/cases")
async def show_case(request: Request, key: str = "", notice: str = "") -> Response:
    """Show what readers have reported, and one case if it is named."""
    view = await desk_of(request).aread(_case, key.strip())
    return render(request, "cases.html.j2", view=view, key=key, notice=NOTICES.get(notice, ""))


def _case(transaction: Transaction, key: str) -> dict[str, Any]:
    view: dict[str, Any] = {"reported": managing.reported(transaction), "case": None}
    if key:
        case = find_case(transaction, key, locked=False)
        view |= {
            "case": case,
            "decisions": decisions_of(transaction, case.id),
            "answers": managing.answers_to(transaction, case.id),
            "classes": classes_of(transaction),
            "held": (seen := claim_of(transaction, case.id)),
            "content": content_of(seen),
        }
    return view


@manager.get("/cases/body/{case}")
async def show_image(case: Annotated[Number, Path()], request: Request) -> Response:
    """Send the image of a case."""
    return await send_image(request, case)


def _changed(key: str, done: dict[str, str]) -> Response:
    return go(f"/manage/cases?key={quote(key, safe='')}&notice={done['outcome']}")


@manager.post("/cases/correct")
async def correct(
    request: Request, body: Annotated[management.CorrectionOfBody, Form()]
) -> Response:
    """Correct an answer."""
    return _changed(body.key, await management.correct(body, request))


@manager.post("/cases/reopen")
async def reopen(request: Request, body: Annotated[management.CaseBody, Form()]) -> Response:
    """Let somebody else read a case."""
    return _changed(body.key, await management.reopen(body, request))


@manager.post("/cases/void")
async def void(request: Request, body: Annotated[management.VoidBody, Form()]) -> Response:
    """Take an open case out of the queue."""
    return _changed(body.key, await management.void(body, request))


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


async def _person(user: int, request: Request) -> accounts.Person:
    for person in await desk_of(request).aread(accounts.people_of):
        if person.id == user:
            return person
    raise DeskRefusedError("not_found", f"There is no user {user} in this project.")


Person = Annotated[accounts.Person, Depends(_person)]


@manager.get("/people")
async def show_people(request: Request) -> Response:
    """Show everybody."""
    return await _people(request)


@manager.post("/people")
async def add_person(request: Request, name: Text, roles: Roles = []) -> Response:  # noqa: B006
    """Add somebody; show the link for the first sign-in."""
    user = await desk_of(request).awrite(accounts.add_user, name.strip(), roles)
    return await _people(request, name=name, link=await _link(request, user))


async def _link(request: Request, user: int) -> str:
    secret = await desk_of(request).awrite(sessions.make_link, user)
    return str(request.base_url) + f"welcome/{secret}"


@manager.post("/people/{user}/link")
async def new_link(person: Person, request: Request) -> Response:
    """Make a new one-time link, for example after a lost password."""
    return await _people(request, name=person.name, link=await _link(request, person.id))


@manager.post("/people/{user}/roles")
async def change(person: Person, request: Request, roles: Roles = []) -> Response:  # noqa: B006
    """Give somebody exactly these roles."""
    if person.id == request.state.who.user and "manager" not in roles:
        raise DeskRefusedError("conflict", "You cannot take the role of manager from yourself.")
    await desk_of(request).awrite(accounts.set_roles, person.id, roles)
    return go("/manage/people")


@manager.post("/people/{user}/disable")
async def disable(person: Person, request: Request) -> Response:
    """Disable a person's access."""
    if person.id == request.state.who.user:
        raise DeskRefusedError("conflict", "You cannot disable your own account.")
    await desk_of(request).awrite(accounts.disable_user, person.id)
    return go("/manage/people")


@manager.post("/people/{user}/away")
async def away(
    person: Person, request: Request, until: Annotated[date | None, Form()] = None
) -> Response:
    """Note until when somebody is away, or that they are back."""
    moment = None if until is None else accounts.end_of(until)
    await desk_of(request).awrite(accounts.set_away, person.id, moment)
    return go("/manage/people")


@manager.post("/people/{user}/enable")
async def enable(person: Person, request: Request) -> Response:
    """Enable a disabled person's access again."""
    await desk_of(request).awrite(accounts.enable_user, person.id)
    return go("/manage/people")


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
    await desk_of(request).awrite(accounts.revoke_token, number)
    return go("/manage/people")


router.include_router(manager)
router.include_router(onlooker)

"""The manager's page about people, their roles and links, and the tokens of programs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request, Response
from sqlalchemy import select

from expertload.desk.api.access import desk_of
from expertload.desk.pages.render import go, render
from expertload.desk.pages.route import PageRoute
from expertload.desk.pages.sign_in import signed_in
from expertload.desk.people import (
    PERSONAL,
    Principal,
    Role,
    add_token,
    add_user,
    disable_user,
    enable_user,
    make_link,
    people_of,
    revoke_token,
    set_roles,
)
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import tokens
from expertload.exceptions import DeskRefusedError

__all__ = ["router"]

router = APIRouter(prefix="/manage/people", route_class=PageRoute)
Manager = Annotated[Principal, Depends(signed_in("manager"))]
Text = Annotated[str, Form(max_length=200)]
Roles = Annotated[list[str], Form()]


async def _page(request: Request, who: Principal, **once: Any) -> Response:
    """Show the page; a new secret is shown only in the answer to the form that made it."""
    desk = desk_of(request)
    return render(
        request,
        "people.html.j2",
        who=who,
        people=await desk.aread(people_of),
        tokens=await desk.aread(_tokens),
        roles=PERSONAL,
        once=once,
    )


def _tokens(transaction: Transaction) -> list[AnyRow]:
    return list(
        transaction.connection.execute(
            select(tokens.c.id, tokens.c.name, tokens.c.role, tokens.c.created, tokens.c.revoked)
            .where(tokens.c.project_id == transaction.project.id)
            .order_by(tokens.c.id.desc())
        ).all()
    )


@router.get("")
async def show(request: Request, who: Manager) -> Response:
    """Show everybody."""
    return await _page(request, who)


@router.post("")
async def add(request: Request, who: Manager, name: Text, roles: Roles = []) -> Response:  # noqa: B006
    """Add somebody; show the link for the first sign-in."""
    desk = desk_of(request).acting(who.user)
    user = await desk.awrite(add_user, name.strip(), roles)
    return await _page(request, who, name=name, link=await _link(request, who, user))


async def _link(request: Request, who: Principal, user: int) -> str:
    secret = await desk_of(request).acting(who.user).awrite(make_link, user)
    return str(request.base_url) + f"welcome/{secret}"


@router.post("/{user}/link")
async def new_link(user: int, request: Request, who: Manager) -> Response:
    """Make a new one-time link, for example after a lost password."""
    name = await _name(request, user)
    return await _page(request, who, name=name, link=await _link(request, who, user))


@router.post("/{user}/roles")
async def change(user: int, request: Request, who: Manager, roles: Roles = []) -> Response:  # noqa: B006
    """Give somebody exactly these roles."""
    await _name(request, user)
    if user == who.user and "manager" not in roles:
        raise DeskRefusedError("conflict", "You cannot take the role of manager from yourself.")
    await desk_of(request).acting(who.user).awrite(set_roles, user, roles)
    return go("/manage/people")


@router.post("/{user}/disable")
async def disable(user: int, request: Request, who: Manager) -> Response:
    """Disable a person's access."""
    await _name(request, user)
    if user == who.user:
        raise DeskRefusedError("conflict", "You cannot disable your own account.")
    await desk_of(request).acting(who.user).awrite(disable_user, user)
    return go("/manage/people")


@router.post("/{user}/enable")
async def let_in(user: int, request: Request, who: Manager) -> Response:
    """Enable a disabled person's access again."""
    await _name(request, user)
    await desk_of(request).acting(who.user).awrite(enable_user, user)
    return go("/manage/people")


async def _name(request: Request, user: int) -> str:
    people = await desk_of(request).aread(people_of)
    for person in people:
        if person.id == user:
            return person.name
    raise DeskRefusedError("not_found", f"There is no user {user} in this project.")


@router.post("/tokens")
async def give_token(
    request: Request, who: Manager, name: Text, role: Annotated[Role, Form()]
) -> Response:
    """Make a token for a program; show it this one time."""
    token = await desk_of(request).acting(who.user).awrite(add_token, name, role)
    return await _page(request, who, name=name, token=token)


@router.post("/tokens/{number}/revoke")
async def end_token(number: int, request: Request, who: Manager) -> Response:
    """End a token at once."""
    if not 0 <= number < 2**63:
        raise DeskRefusedError("not_found", f"There is no token {number}.")
    await desk_of(request).acting(who.user).awrite(revoke_token, number)
    return go("/manage/people")

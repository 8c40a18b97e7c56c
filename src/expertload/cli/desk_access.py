"""`expertload desk user` and `desk token`: who gets in."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload._names import Role
from expertload.cli.desk import HERE, SERVED_AT, Address, Data, open_desk
from expertload.cli.screen import console, one_line

if TYPE_CHECKING:
    from expertload.desk import Desk

Name = Annotated[str, typer.Argument(help="The name to sign in with.")]
Site = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="URL",
        envvar="EXPERTLOAD_DESK_ADDRESS",
        help="The desk's address, for the link; by default, where it was served last.",
    ),
]


def add_token(
    name: Annotated[str, typer.Argument(help="The program or person that uses the token.")],
    role: Annotated[Role, typer.Option(help="What it may do.")],
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=36_500, help="How long it is valid; else until it is revoked.", metavar="N"
        ),
    ] = None,
    data: Data = None,
    database: Address = None,
) -> None:
    """Make a bearer token; it is printed once, and only its digest is stored."""
    with open_desk(data, database) as desk:
        from expertload.desk.people import accounts

        typer.echo(desk.write(accounts.add_token, name, role, days=days))


def revoke_token(
    number: Annotated[int, typer.Argument(help="Its number, which 'desk token list' shows.")],
    data: Data = None,
    database: Address = None,
) -> None:
    """Revoke a token: the next request with it is refused."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.people import accounts

        desk.write(accounts.revoke_token, number)
    console().print(f"Token {number} is revoked.")


def list_tokens(data: Data = None, database: Address = None) -> None:
    """List the tokens: number, name, role, and whether it has ended."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.people import accounts

        for row in desk.read(accounts.all_tokens):
            ended = "" if row.revoked is None else "  ended"
            console().print(f"{row.id}  {one_line(row.name)}  {row.role}{ended}", markup=False)


# ------------------------------------------------------------------ people


def add_user(
    name: Name,
    role: Annotated[
        list[str],
        typer.Option(
            metavar="ROLE", help="The role: reader, arbiter, manager or auditor. May be repeated."
        ),
    ],
    data: Data = None,
    database: Address = None,
    address: Site = None,
) -> None:
    """Add a person; print a link that signs them in once and lets them choose a password."""
    with open_desk(data, database) as desk:
        from expertload.desk.people import accounts, sessions

        user = desk.write(accounts.add_user, name, role)
        _print_link(data, address, desk.write(sessions.make_link, user))


def link_user(
    name: Name, data: Data = None, database: Address = None, address: Site = None
) -> None:
    """Print a new one-time link for somebody, for example after a lost password."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.people import sessions

        _print_link(data, address, desk.write(sessions.make_link, _user(desk, name)))


def disable_user(name: Name, data: Data = None, database: Address = None) -> None:
    """Disable a person's access; their work is kept."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.people import accounts

        desk.write(accounts.disable_user, _user(desk, name))
        console().print(f"{name} cannot sign in any more.")


def enable_user(name: Name, data: Data = None, database: Address = None) -> None:
    """Let a disabled person sign in again."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.people import accounts

        desk.write(accounts.enable_user, _user(desk, name))
        console().print(f"{name} can sign in again.")


def away_user(
    name: Name,
    until: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            metavar="DAY",
            help="The last day, such as 2027-01-06; leave it out if they are back.",
        ),
    ] = None,
    data: Data = None,
    database: Address = None,
) -> None:
    """Note until when a person is away; their access stays."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.people import accounts

        moment = None if until is None else accounts.end_of(until)
        desk.write(accounts.set_away, _user(desk, name), moment)
        console().print(f"{name} is {'back' if until is None else f'away until {until:%Y-%m-%d}'}.")


def list_users(data: Data = None, database: Address = None) -> None:
    """List the people: name, roles, and whether they are disabled or away."""
    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk.people import accounts

        for person in desk.read(accounts.people_of):
            state = "  disabled" if person.is_disabled else "  away" if person.away else ""
            roles = ", ".join(sorted(person.roles)) or "no role"
            console().print(f"{one_line(person.name)}  {roles}{state}", markup=False)


def _user(desk: Desk, name: str) -> int:
    from expertload.desk.people import accounts
    from expertload.exceptions import ParameterError

    row = desk.read(accounts.find_user, name)
    if row is None:
        raise ParameterError(
            f"There is no user '{name}'. Hint: expertload desk user add '{name}' --role reader"
        )
    return int(row.id)


def _print_link(data: Path | None, address: str | None, secret: str) -> None:
    served = None if data is None else data / SERVED_AT
    if address is None:
        address = served.read_text() if served is not None and served.is_file() else HERE
    console(stderr=True).print("This link works once, for a day:")
    typer.echo(f"{address.rstrip('/')}/welcome/{secret}")

"""`expertload desk user` and `desk token`: the people and programs that get in."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload._names import Role
from expertload.cli.desk import DESK, EXISTING, HERE, OPEN, SERVED_AT, Place, open_desk
from expertload.cli.options import takes
from expertload.cli.screen import console, one_line
from expertload.exceptions import ParameterError

if TYPE_CHECKING:
    from expertload.desk import Desk

Name = Annotated[str, typer.Argument(help="The name to sign in with.")]
Site = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="EXPERTLOAD_DESK_ADDRESS",
        help="The desk's address, for the link; by default, where it was served last.",
    ),
]

# ------------------------------------------------------------------ programs


@takes(desk=OPEN)
def add_token(
    name: str,
    role: Annotated[Role, typer.Option()],
    days: Annotated[int | None, typer.Option(min=1, max=36_500)] = None,
    *,
    desk: Desk,
) -> None:
    """Make a bearer token; it is printed once, and only its digest is stored.

    Parameters
    ----------
    name
        The program or person that uses the token.
    role
        What it may do.
    days : N
        How long it is valid; else until it is revoked.
    """
    from expertload.desk.people import accounts

    typer.echo(desk.write(accounts.add_token, name, role, days=days))


@takes(desk=EXISTING)
def revoke_token(number: int, *, desk: Desk) -> None:
    """Revoke a token: the next request with it is refused.

    Parameters
    ----------
    number
        Its number, which 'desk token list' shows.
    """
    from expertload.desk.people import accounts

    desk.write(accounts.revoke_token, number)
    console().print(f"Token {number} is revoked.")


@takes(desk=EXISTING)
def list_tokens(*, desk: Desk) -> None:
    """List the tokens: number, name, role, and whether it has ended."""
    from expertload.desk.people import accounts

    for row in desk.read(accounts.all_tokens):
        ended = "" if row.ended is None else "  ended"
        console().print(f"{row.id}  {one_line(row.name)}  {row.role}{ended}")


# ------------------------------------------------------------------ people


@takes(place=DESK)
def add_user(
    name: Name, role: Annotated[list[str], typer.Option()], address: Site = None, *, place: Place
) -> None:
    """Add a person; print a link that signs them in once and lets them choose a password.

    Parameters
    ----------
    role : ROLE
        The role: reader, arbiter, manager or auditor. May be repeated.
    """
    with open_desk(place) as desk:
        from expertload.desk.people import accounts, sessions

        user = desk.write(accounts.add_user, name, role)
        _print_link(place, address, desk.write(sessions.make_link, user))


@takes(place=DESK)
def link_user(name: Name, address: Site = None, *, place: Place) -> None:
    """Print a new one-time link for somebody, for example after a lost password."""
    with open_desk(place, may_make=False) as desk:
        from expertload.desk.people import sessions

        _print_link(place, address, desk.write(sessions.make_link, _user(desk, name)))


@takes(desk=EXISTING)
def disable_user(name: Name, *, desk: Desk) -> None:
    """Disable a person's access; their work is kept."""
    from expertload.desk.people import accounts

    desk.write(accounts.disable_user, _user(desk, name))
    console().print(f"{name} cannot sign in any more.")


@takes(desk=EXISTING)
def enable_user(name: Name, *, desk: Desk) -> None:
    """Let a disabled person sign in again."""
    from expertload.desk.people import accounts

    desk.write(accounts.enable_user, _user(desk, name))
    console().print(f"{name} can sign in again.")


def _day(written: str) -> date:
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise typer.BadParameter(f"'{written}' is no day as YYYY-MM-DD: 2027-01-06.") from None


@takes(desk=EXISTING)
def away_user(
    name: Name,
    until: Annotated[date | None, typer.Option(parser=_day, metavar="DAY")] = None,
    *,
    desk: Desk,
) -> None:
    """Note until when a person is away; their access stays.

    Parameters
    ----------
    until : DAY
        The last day, such as 2027-01-06; leave it out if they are back.
    """
    from expertload.desk.people import accounts

    moment = None if until is None else accounts.end_of(until)
    desk.write(accounts.set_away, _user(desk, name), moment)
    console().print(f"{name} is {'back' if until is None else f'away until {until:%Y-%m-%d}'}.")


@takes(desk=EXISTING)
def list_users(*, desk: Desk) -> None:
    """List the people: name, roles, and whether they are disabled or away."""
    from expertload.desk.people import accounts

    for person in desk.read(accounts.people_of):
        state = "  disabled" if person.is_disabled else "  away" if person.away else ""
        roles = ", ".join(sorted(person.roles)) or "no role"
        console().print(f"{one_line(person.name)}  {roles}{state}")


def _user(desk: Desk, name: str) -> int:
    from expertload.desk.people import accounts

    row = desk.read(accounts.find_user, name)
    if row is None:
        raise ParameterError(
            f"There is no user '{name}'. Hint: expertload desk user add '{name}' --role reader"
        )
    return int(row.id)


def _print_link(place: Place, address: str | None, secret: str) -> None:
    served = Path(place, SERVED_AT)
    if address is None:
        address = served.read_text() if served.is_file() else HERE
    console(stderr=True).print("This link works once, for a day:")
    typer.echo(f"{address.rstrip('/')}/welcome/{secret}")

"""`expertload desk user`: people who sign in."""

from __future__ import annotations

from typing import Annotated

import typer

from expertload.cli.desk import Address, Data, open_desk
from expertload.cli.screen import console

__all__ = ["add_user", "disable_user", "link_user"]

Name = Annotated[str, typer.Argument(help="The name to sign in with.")]
Site = Annotated[
    str, typer.Option("--address", metavar="URL", help="The desk's address, for the link.")
]
HERE = "http://127.0.0.1:8765"


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
    address: Site = HERE,
) -> None:
    """Add a person; print a link that signs them in once and lets them choose a password."""
    with open_desk(data, database) as desk:
        from expertload.desk import people

        user = desk.write(people.add_user, name, role)
        _print_link(address, desk.write(people.make_link, user))


def link_user(
    name: Name, data: Data = None, database: Address = None, address: Site = HERE
) -> None:
    """Print a new one-time link for somebody, for example after a lost password."""
    from expertload.exceptions import ParameterError

    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk import people

        row = desk.read(people.find_user, name)
        if row is None:
            raise ParameterError(
                f"There is no user '{name}'. Hint: expertload desk user add '{name}' --role reader"
            )
        _print_link(address, desk.write(people.make_link, row.id))


def disable_user(name: Name, data: Data = None, database: Address = None) -> None:
    """Disable a person's access; their work is kept."""
    from expertload.exceptions import ParameterError

    with open_desk(data, database, may_make=False) as desk:
        from expertload.desk import people

        row = desk.read(people.find_user, name)
        if row is None:
            raise ParameterError(f"There is no user '{name}'.")
        desk.write(people.disable_user, row.id)
        console().print(f"{name} cannot sign in any more.")


def _print_link(address: str, secret: str) -> None:
    console(stderr=True).print("This link works once, for a day:")
    typer.echo(f"{address.rstrip('/')}/welcome/{secret}")

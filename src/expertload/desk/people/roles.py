"""Roles, each a kind of work at the desk, and who has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from expertload.exceptions import DeskRefusedError

__all__ = ["ROLES", "Principal", "Role", "require"]

Role = Literal["reader", "arbiter", "manager", "auditor", "api"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Principal:
    """Somebody who acts: a person or a program.

    Attributes
    ----------
    user : int
        The row in `users`.
    name : str
        As people know them.
    roles : frozenset of str
        What they may do in this project.
    """

    user: int
    name: str
    roles: frozenset[str]


def require(principal: Principal | None, *roles: Role) -> Principal:
    """Return who acts, if they have one of these roles; refuse otherwise."""
    if principal is None:
        raise DeskRefusedError(
            "unauthorized",
            "This needs a valid token.",
            "send 'Authorization: Bearer TOKEN'; expertload desk token add NAME --role ROLE",
        )
    if principal.roles.isdisjoint(roles):
        raise DeskRefusedError(
            "forbidden", f"This needs the role {' or '.join(roles)}, which {principal.name} lacks."
        )
    return principal

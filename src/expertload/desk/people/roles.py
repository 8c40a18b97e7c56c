"""Roles: each allows one kind of work at the desk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from expertload.exceptions import DeskRefusedError

__all__ = ["ROLES", "Principal", "Role", "require"]

Role = Literal["reader", "arbiter", "manager", "auditor", "api"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Principal:
    """A person or a program that acts at the desk.

    Attributes
    ----------
    user : int
        The id in the table `users`.
    name : str
        The user's name.
    roles : frozenset of str
        The user's roles in this project.
    """

    user: int
    name: str
    roles: frozenset[str]


def require(principal: Principal | None, *roles: Role) -> Principal:
    """Return who acts if they have one of these roles; refuse otherwise."""
    if principal is None:
        raise DeskRefusedError(
            "unauthorized",
            "This needs a valid token.",
            "send 'Authorization: Bearer TOKEN'; 'expertload desk token add' makes a token.",
        )
    if principal.roles.isdisjoint(roles):
        raise DeskRefusedError(
            "forbidden",
            f"This needs the role {' or '.join(roles)}, which {principal.name} does not have.",
        )
    return principal

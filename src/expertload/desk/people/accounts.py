"""People: their names, passwords and roles in this project."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select

from expertload.desk.people.roles import ROLES
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import memberships, users
from expertload.exceptions import DeskRefusedError

__all__ = [
    "Person",
    "add_user",
    "check_enabled",
    "disable_user",
    "enable_user",
    "find_user",
    "people_of",
    "roles_of",
    "set_password",
    "set_roles",
]

# The roles of people; "api" is for tokens of programs only.
PERSONAL = tuple(role for role in ROLES if role != "api")


@dataclass(frozen=True)
class Person:
    """A user as shown to managers."""

    id: int
    name: str
    roles: frozenset[str]
    is_disabled: bool
    has_password: bool


def add_user(transaction: Transaction, name: str, roles: Collection[str]) -> int:
    """Add a person, or give roles to a user who so far has only a token; return the id."""
    if not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip():
        raise DeskRefusedError(
            "bad_name", "A name must have 1 to 100 printable characters, without spaces around it."
        )
    if not roles:
        raise DeskRefusedError("bad_role", "Choose at least one role.", ", ".join(PERSONAL))
    row = find_user(transaction, name)
    if row is not None and roles_of(transaction, row.id):
        raise DeskRefusedError("conflict", f"There is already a user '{name}'.")
    event = transaction.event("user.added")
    number = row.id if row else transaction.insert(users, event, name=name, created=transaction.now)
    set_roles(transaction, number, roles)
    return int(number)


def find_user(transaction: Transaction, name: str) -> AnyRow | None:
    """Return a user's row by name."""
    if not name.isprintable():  # names are, and PostgreSQL refuses to search for a null character
        return None
    return transaction.connection.execute(select(users).where(users.c.name == name)).first()


def roles_of(transaction: Transaction, user: int) -> frozenset[str]:
    """Return the roles of a user in this project."""
    return frozenset(row.role for row in _current(transaction, user))


def set_roles(transaction: Transaction, user: int, roles: Collection[str]) -> None:
    """Give a user exactly these roles."""
    for role in roles:
        if role not in PERSONAL:
            raise DeskRefusedError("bad_role", f"'{role}' is not a role.", ", ".join(PERSONAL))
    person = _user(transaction, user)
    current = _current(transaction, user)
    if "manager" in {row.role for row in current} - set(roles):
        _check_replaceable(transaction, person)
    event = transaction.event("user.roles_set")
    for row in current:
        if row.role not in roles:
            transaction.update(memberships, row.id, event, ended=transaction.now)
    for role in sorted(set(roles) - {row.role for row in current}):
        transaction.insert(
            memberships,
            event,
            user_id=user,
            project_id=transaction.project.id,
            role=role,
            created=transaction.now,
        )


def set_password(transaction: Transaction, user: int, stretched: str) -> None:
    """Store a password, as returned by `hash_password`."""
    event = transaction.event("user.password_set")
    transaction.update(users, user, event, password=stretched)


def disable_user(transaction: Transaction, user: int) -> None:
    """Disable a user: their sessions, links and tokens are refused from now on."""
    _check_replaceable(transaction, _user(transaction, user))
    event = transaction.event("user.disabled")
    transaction.update(users, user, event, disabled=transaction.now)


def _check_replaceable(transaction: Transaction, user: AnyRow) -> None:
    """Refuse to lose the last manager; two of them may shut each other out at the same time."""
    transaction.require_alone()
    people = people_of(transaction)
    if [p.id for p in people if "manager" in p.roles and not p.is_disabled] == [user.id]:
        raise DeskRefusedError(
            "conflict",
            f"Without {user.name}, nobody could manage the desk.",
            "make somebody else a manager first.",
        )


def enable_user(transaction: Transaction, user: int) -> None:
    """Let a disabled user in again."""
    _user(transaction, user)
    event = transaction.event("user.enabled")
    transaction.update(users, user, event, disabled=None)


def check_enabled(transaction: Transaction, user: int) -> None:
    """Refuse if the user is shut out."""
    row = _user(transaction, user)
    if row.disabled is not None:
        raise DeskRefusedError("conflict", f"{row.name} is shut out.", "let them in again first.")


def people_of(transaction: Transaction) -> list[Person]:
    """Return everybody who has or had a role in this project, ordered by name."""
    rows = transaction.connection.execute(select(users).order_by(users.c.name)).all()
    current: dict[int, set[str]] = {}
    for row in transaction.connection.execute(
        select(memberships.c.user_id, memberships.c.role, memberships.c.ended).where(
            memberships.c.project_id == transaction.project.id
        )
    ):
        kept = current.setdefault(row.user_id, set())
        if row.ended is None:
            kept.add(row.role)
    return [
        Person(
            row.id,
            row.name,
            frozenset(current[row.id]),
            row.disabled is not None,
            row.password is not None,
        )
        for row in rows
        if row.id in current
    ]


def _user(transaction: Transaction, user: int) -> AnyRow:
    row = transaction.connection.execute(select(users).where(users.c.id == user)).first()
    if row is None:
        raise DeskRefusedError("not_found", f"There is no user {user}.")
    return row


def _current(transaction: Transaction, user: int) -> list[AnyRow]:
    return list(
        transaction.connection.execute(
            select(memberships.c.id, memberships.c.role).where(
                memberships.c.user_id == user,
                memberships.c.project_id == transaction.project.id,
                memberships.c.ended.is_(None),
            )
        ).all()
    )

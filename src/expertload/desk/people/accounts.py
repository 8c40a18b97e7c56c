"""Who may do what: people and programs, their roles, and the tokens of programs.

A token has 256 random bits. Nobody can guess it, so a fast digest is as safe as a slow one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, get_args

from sqlalchemy import ColumnElement, Select, case, func, select, union, update

from expertload._names import Role
from expertload.desk.store.database import SECOND, AnyRow, Event, Transaction
from expertload.desk.store.tables import memberships, sessions, tokens, users
from expertload.exceptions import DeskRefusedError

ROLES: tuple[Role, ...] = get_args(Role)
# The roles of people; "api" is for tokens of programs only.
PERSONAL = tuple(role for role in ROLES if role != "api")
TOKEN_PREFIX = "eld_"


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


# ------------------------------------------------------------------ people


@dataclass(frozen=True)
class Person:
    """A user as shown to managers."""

    id: int
    name: str
    roles: frozenset[str]
    is_disabled: bool
    has_password: bool
    away: int | None


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
    number = row.id if row else _insert(transaction, event, name)
    _change_roles(transaction, number, {}, roles)
    return int(number)


def _insert(transaction: Transaction, event: Event, name: str) -> int:
    """Add a user; names are unique in a database, but people belong to one project."""
    if transaction.first(select(users.c.id).where(users.c.name == name)) is not None:
        raise DeskRefusedError(
            "conflict",
            f"The name '{name}' is taken in another project of this database.",
            "choose another name.",
        )
    return transaction.insert(users, event, name=name)


def find_user(transaction: Transaction, name: str) -> AnyRow | None:
    """Return the row of a user of this project by name."""
    if not name.isprintable():  # names are, and PostgreSQL refuses to search for a null character
        return None
    return transaction.first(_users_here(transaction).where(users.c.name == name))


def _users_here(transaction: Transaction) -> Select[Any]:
    """Select the users who have, or had, a role or a token in this project."""
    of = [select(t.c.user_id).where(transaction.in_project(t)) for t in (memberships, tokens)]
    return select(users).where(users.c.id.in_(union(*of)))


def find_named(transaction: Transaction, name: str) -> Principal | None:
    """Return a user by name; None if they are unknown or disabled."""
    row = find_user(transaction, name)
    if row is None or row.disabled is not None:
        return None
    return Principal(row.id, row.name, roles_of(transaction, row.id))


def people_of(transaction: Transaction) -> list[Person]:
    """Return everybody who has or had a role in this project, ordered by name."""
    current: dict[int, set[str]] = {}
    of_project = transaction.in_project(memberships)
    for row in transaction.connection.execute(select(memberships).where(of_project)):
        roles = current.setdefault(row.user_id, set())
        if row.ended is None:
            roles.add(row.role)
    return [
        Person(
            id=row.id,
            name=row.name,
            roles=frozenset(current[row.id]),
            is_disabled=row.disabled is not None,
            has_password=row.password is not None,
            away=None if row.away is None or row.away <= transaction.now else row.away,
        )
        for row in transaction.all(select(users).order_by(users.c.name))
        if row.id in current
    ]


def roles_of(transaction: Transaction, user: int) -> frozenset[str]:
    """Return the roles of a user in this project."""
    return frozenset(row.role for row in _memberships(transaction, user))


def _memberships(transaction: Transaction, user: int) -> Sequence[AnyRow]:
    current = select(memberships).where(transaction.in_project(memberships))
    return transaction.all(current.filter_by(user_id=user, ended=None))


def set_roles(transaction: Transaction, user: int, roles: Collection[str]) -> None:
    """Give a user exactly these roles."""
    person = _user(transaction, user)
    current = {row.role: row.id for row in _memberships(transaction, user)}
    if "manager" in current.keys() - set(roles):
        _check_replaceable(transaction, person)
    _change_roles(transaction, user, current, roles)


def _change_roles(
    transaction: Transaction, user: int, current: dict[str, int], roles: Collection[str]
) -> None:
    for role in roles:
        if role not in PERSONAL:
            raise DeskRefusedError("bad_role", f"'{role}' is not a role.", ", ".join(PERSONAL))
    event = transaction.event("user.roles_set")
    for role, number in current.items():
        if role not in roles:
            transaction.update(memberships, number, event, ended=transaction.now)
    for role in sorted(set(roles) - current.keys()):
        transaction.insert(memberships, event, user_id=user, role=role)


def set_password(transaction: Transaction, user: int, stretched: str) -> None:
    """Store a password, as returned by `hash_password`."""
    transaction.update(users, user, transaction.event("user.password_set"), password=stretched)


def disable_user(transaction: Transaction, user: int) -> None:
    """Disable a user: their tokens are refused from now on; their sessions and links end for good.

    Examples
    --------
    >>> import tempfile
    >>> from expertload.desk import Desk
    >>> from expertload.desk.people.accounts import add_user, disable_user, find_named
    >>> with tempfile.TemporaryDirectory() as folder, Desk.open(folder) as desk:
    ...     desk.write(disable_user, desk.write(add_user, "ann", ["reader"]))
    ...     print(desk.read(find_named, "ann"))
    None
    """
    _check_replaceable(transaction, _user(transaction, user))
    transaction.update(users, user, transaction.event("user.disabled"), disabled=transaction.now)
    end_sessions(transaction, user)


def enable_user(transaction: Transaction, user: int) -> None:
    """Let a disabled user sign in again."""
    _user(transaction, user)
    transaction.update(users, user, transaction.event("user.enabled"), disabled=None)


def set_away(transaction: Transaction, user: int, until: int | None) -> None:
    """Note that somebody is away until a time, in microseconds since 1970; None: they are back.

    They may still sign in and read. Until then nobody waits for them: work that only they could
    do counts as work that nobody may take.
    """
    _user(transaction, user)
    if until is not None and until <= transaction.now:
        raise DeskRefusedError("bad_day", "The day is over.", "name today or a later day.")
    transaction.update(users, user, transaction.event("user.away"), away=until)


def end_of(day: date) -> int:
    """Return the end of a day in UTC, in microseconds since 1970."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() + 86_400) * SECOND


def all_tokens(transaction: Transaction) -> list[AnyRow]:
    """Return the tokens of this project, without their digests, the newest first.

    `ended` is when a token was revoked or has expired; None while it is valid.
    """
    shown = [column for column in tokens.c if column is not tokens.c.digest]
    expired = case((tokens.c.expires <= transaction.now, tokens.c.expires))
    ours = select(*shown, func.coalesce(tokens.c.revoked, expired).label("ended")).where(
        transaction.in_project(tokens)
    )
    return transaction.all(ours.order_by(tokens.c.id.desc()))


def end_sessions(transaction: Transaction, user: int) -> None:
    """End all sessions and links of a user, on all machines."""
    transaction.event("session.all_ended")
    end_rows(transaction, sessions.c.user_id == user)


def end_rows(transaction: Transaction, *which: ColumnElement[bool]) -> int:
    """End the sessions and links for which all conditions hold; return how many."""
    going_on = update(sessions).where(*which, sessions.c.ended.is_(None))
    return transaction.connection.execute(going_on.values(ended=transaction.now)).rowcount


def check_enabled(transaction: Transaction, user: int) -> str:
    """Return a user's name; refuse if the user is disabled."""
    row = _user(transaction, user)
    if row.disabled is not None:
        raise DeskRefusedError("conflict", f"{row.name} is disabled.", "enable the account first.")
    return str(row.name)


def _user(transaction: Transaction, user: int) -> AnyRow:
    row = transaction.first(_users_here(transaction).where(users.c.id == user))
    if row is None:
        raise DeskRefusedError("not_found", f"There is no user {user}.")
    return row


def _check_replaceable(transaction: Transaction, user: AnyRow) -> None:
    """Refuse to lose the last manager; two managers may disable each other at the same time."""
    transaction.require_alone()
    people = people_of(transaction)
    if [p.id for p in people if "manager" in p.roles and not p.is_disabled] == [user.id]:
        raise DeskRefusedError(
            "conflict",
            f"Without {user.name}, nobody could manage the desk.",
            "make somebody else a manager first.",
        )


# ------------------------------------------------------------------ tokens


def add_token(transaction: Transaction, name: str, role: Role, *, days: int | None = None) -> str:
    """Make a token for a user, who is added if new; return it. It cannot be shown again.

    It is valid for some days, or until it is revoked.
    """
    if role not in ROLES:
        raise DeskRefusedError("bad_role", f"'{role}' is not a role.", ", ".join(ROLES))
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise DeskRefusedError("bad_name", "A name must have 1 to 100 printable characters.")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    row = find_user(transaction, name)
    if row is not None and transaction.first(select(memberships).filter_by(user_id=row.id)):
        raise DeskRefusedError(
            "conflict",
            f"'{name}' is a person, and a token would act in their name.",
            "name the token after its program.",
        )
    event = transaction.event("token.added")
    transaction.insert(
        tokens,
        event,
        user_id=row.id if row else _insert(transaction, event, name),
        name=name,
        role=role,
        digest=digest_of(token),
        expires=None if days is None else transaction.now + days * 86_400 * SECOND,
    )
    return token


def find_token(transaction: Transaction, token: str) -> Principal | None:
    """Return who a token belongs to; None if it is not valid now."""
    held = {"digest": digest_of(token), "project": transaction.project.id}
    rows = transaction.rows(_FIND_TOKEN, **held, now=transaction.now)
    return next((Principal(user, name, frozenset([role])) for user, name, role in rows), None)


_FIND_TOKEN = (
    "SELECT users.id, users.name, tokens.role "
    "FROM tokens JOIN users ON users.id = tokens.user_id "
    "WHERE tokens.digest = :digest AND tokens.project_id = :project AND tokens.revoked IS NULL "
    "AND (tokens.expires IS NULL OR tokens.expires > :now) AND users.disabled IS NULL"
)


def revoke_token(transaction: Transaction, number: int) -> None:
    """End a token; the next request with it is refused."""
    transaction.find(tokens, number, "token")
    transaction.update(tokens, number, transaction.event("token.revoked"), revoked=transaction.now)


def digest_of(secret: str) -> str:
    """Return the digest that is stored instead of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()

"""Sessions of browsers and one-time links: random, stored as digests, can be ended any time."""

from __future__ import annotations

import secrets

from sqlalchemy import ColumnElement, insert, select, update

from expertload.desk.people.accounts import (
    add_user,
    check_enabled,
    disable_user,
    find_user,
    people_of,
    roles_of,
    set_password,
)
from expertload.desk.people.roles import Principal
from expertload.desk.people.tokens import digest_of
from expertload.desk.store import CLOCK_SLACK, SECOND, AnyRow, Transaction
from expertload.desk.store.tables import sessions, users
from expertload.exceptions import DeskRefusedError

__all__ = [
    "FIRST",
    "LINK_SECONDS",
    "SESSION_SECONDS",
    "begin_session",
    "end_session",
    "end_sessions",
    "find_session",
    "first_link",
    "make_link",
    "peek_link",
    "shut_out",
    "use_link",
]

SESSION_SECONDS = 12 * 3_600  # a working day
LINK_SECONDS = 24 * 3_600
FIRST = "admin"  # the name of the first user


def begin_session(transaction: Transaction, user: int) -> str:
    """Start a session; return its secret, which cannot be shown again."""
    transaction.event("session.begun")
    return _add(transaction, user, "session", SESSION_SECONDS)


def find_session(transaction: Transaction, secret: str) -> Principal | None:
    """Return whose session it is, with all their roles; None if it is not valid now."""
    row = _find(transaction, secret, "session")
    if row is None:
        return None
    return Principal(row.user_id, row.name, roles_of(transaction, row.user_id))


def end_session(transaction: Transaction, secret: str) -> None:
    """End a session; its secret is not valid any more."""
    row = _find(transaction, secret, "session")
    if row is not None:
        transaction.event("session.ended")
        _end(transaction, sessions.c.id == row.id)


def end_sessions(transaction: Transaction, user: int) -> None:
    """End all sessions and links of a user, on all machines."""
    transaction.event("session.all_ended")
    _end(transaction, sessions.c.user_id == user)


def shut_out(transaction: Transaction, user: int) -> None:
    """Disable a user, whose sessions and links stay ended if they are let in again."""
    disable_user(transaction, user)
    end_sessions(transaction, user)


# ------------------------------------------------------------------ one-time links


def make_link(transaction: Transaction, user: int) -> str:
    """Return the secret of a link that signs a user in once; the user's earlier links end."""
    check_enabled(transaction, user)
    transaction.event("link.made")
    _end(transaction, sessions.c.user_id == user, sessions.c.kind == "link")
    return _add(transaction, user, "link", LINK_SECONDS)


def peek_link(transaction: Transaction, secret: str) -> Principal:
    """Return whose link it is, without using it up."""
    row = _find(transaction, secret, "link")
    if row is None:
        raise DeskRefusedError(
            "not_found",
            "This link was already used, or has expired.",
            "ask a manager for a new one.",
        )
    return Principal(row.user_id, row.name, roles_of(transaction, row.user_id))


def use_link(transaction: Transaction, secret: str, *, stretched: str | None = None) -> str:
    """Use a link up; return the secret of a new session.

    The password is set only if this use of the link is the first.
    """
    who = peek_link(transaction, secret)
    used = transaction.connection.execute(
        update(sessions)
        .where(sessions.c.digest == digest_of(secret), sessions.c.ended.is_(None))
        .values(ended=transaction.now)
    )
    if used.rowcount != 1:
        raise DeskRefusedError("not_found", "This link was used a moment ago.")
    transaction.event("link.used")
    if stretched is not None:
        set_password(transaction, who.user, stretched)
    return begin_session(transaction, who.user)


def first_link(transaction: Transaction) -> str | None:
    """Return the secret of a link for the first user; None if somebody has ever signed in."""
    began = select(sessions.c.id).where(sessions.c.kind == "session").limit(1)
    if transaction.connection.execute(began).first() is not None:
        return None
    transaction.require_alone()  # several servers may start together; only one adds the user
    known = find_user(transaction, FIRST)
    if people_of(transaction) if known is None else known.disabled is not None:
        return None
    user = known.id if known else add_user(transaction, FIRST, ("manager", "auditor", "reader"))
    return make_link(transaction, int(user))


# There are thousands of sessions, so events do not record their rows. That a session started or
# ended is an event, without its digest.


def _add(transaction: Transaction, user: int, kind: str, seconds: int) -> str:
    secret = secrets.token_urlsafe(32)
    row = {
        "id": transaction.new_ids(sessions, 1)[0],
        "user_id": user,
        "digest": digest_of(secret),
        "kind": kind,
        "created": transaction.now,
        "expires": transaction.now + seconds * SECOND,
    }
    transaction.connection.execute(insert(sessions), [row])
    return secret


def _find(transaction: Transaction, secret: str, kind: str) -> AnyRow | None:
    return transaction.connection.execute(
        select(sessions.c.id, sessions.c.user_id, users.c.name)
        .select_from(sessions.join(users, users.c.id == sessions.c.user_id))
        .where(
            sessions.c.digest == digest_of(secret),
            sessions.c.kind == kind,
            sessions.c.ended.is_(None),
            sessions.c.expires > transaction.now,
            # started in the future: the clock was set back, and the session would last too long
            sessions.c.created <= transaction.now + CLOCK_SLACK,
            users.c.disabled.is_(None),
        )
    ).first()


def _end(transaction: Transaction, *where: ColumnElement[bool]) -> None:
    transaction.connection.execute(
        update(sessions).where(sessions.c.ended.is_(None), *where).values(ended=transaction.now)
    )

"""Bearer tokens: shown once, stored as a digest, can be revoked any time.

A token has 256 random bits. Nobody can guess it, so a fast digest is as safe as a slow one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import get_args

from sqlalchemy import select

from expertload.desk.people.roles import Principal, Role
from expertload.desk.store import Transaction
from expertload.desk.store.tables import tokens, users
from expertload.exceptions import DeskRefusedError

__all__ = ["add_token", "digest_of", "find_token", "find_tokens", "revoke_token"]

PREFIX = "eld_"


def add_token(
    transaction: Transaction, name: str, role: Role, *, expires: int | None = None
) -> str:
    """Make a token for a user, who is added if new; return it. It cannot be shown again."""
    if role not in get_args(Role):
        raise DeskRefusedError("bad_role", f"'{role}' is not a role.", ", ".join(get_args(Role)))
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise DeskRefusedError("bad_name", "A name must have 1 to 100 printable characters.")
    token = PREFIX + secrets.token_urlsafe(32)
    event = transaction.event("token.added")
    user = transaction.connection.execute(select(users.c.id).where(users.c.name == name)).scalar()
    if user is None:
        user = transaction.insert(users, event, name=name, created=transaction.now)
    transaction.insert(
        tokens,
        event,
        user_id=user,
        project_id=transaction.project.id,
        name=name,
        role=role,
        digest=digest_of(token),
        created=transaction.now,
        expires=expires,
    )
    return token


def find_token(transaction: Transaction, token: str) -> Principal | None:
    """Return who a token belongs to; None if it is not valid now."""
    return find_tokens(transaction, [token])[0]


def find_tokens(transaction: Transaction, given: Sequence[str]) -> list[Principal | None]:
    """Return who each of these tokens belongs to, in one query."""
    digests = [digest_of(token) for token in given]
    rows = transaction.rows(
        _FIND + transaction.among("digests"),
        digests=list(set(digests)),
        project=transaction.project.id,
        now=transaction.now,
    )
    found = {digest: Principal(user, name, frozenset([role])) for digest, user, name, role in rows}
    return [found.get(digest) for digest in digests]


_FIND = (
    "SELECT tokens.digest, users.id, users.name, tokens.role "
    "FROM tokens JOIN users ON users.id = tokens.user_id "
    "WHERE tokens.project_id = :project AND tokens.revoked IS NULL "
    "AND (tokens.expires IS NULL OR tokens.expires > :now) AND users.disabled IS NULL "
    "AND tokens.digest "
)


def revoke_token(transaction: Transaction, number: int) -> None:
    """End a token; the next request with it is refused."""
    row = transaction.connection.execute(select(tokens).where(tokens.c.id == number)).first()
    if row is None or row.project_id != transaction.project.id:
        raise DeskRefusedError("not_found", f"There is no token {number}.")
    event = transaction.event("token.revoked")
    transaction.update(tokens, number, event, revoked=transaction.now)


def digest_of(token: str) -> str:
    """Return the digest that is stored instead of a secret."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()

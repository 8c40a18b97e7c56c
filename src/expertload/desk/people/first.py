"""The first sign-in of a new desk: a link that is printed once, where the desk was started."""

from __future__ import annotations

from sqlalchemy import select

from expertload.desk.people.accounts import add_user, find_user, people_of
from expertload.desk.people.sessions import make_link
from expertload.desk.store import Transaction
from expertload.desk.store.tables import sessions

__all__ = ["FIRST", "first_link"]

FIRST = "admin"


def first_link(transaction: Transaction) -> str | None:
    """Return a link's secret while nobody has ever signed in; None after that."""
    began = select(sessions.c.id).where(sessions.c.kind == "session").limit(1)
    if transaction.connection.execute(began).first() is not None:
        return None
    known = find_user(transaction, FIRST)
    if known is None and people_of(transaction):
        return None
    user = known.id if known else add_user(transaction, FIRST, ("manager", "auditor", "reader"))
    return make_link(transaction, int(user))

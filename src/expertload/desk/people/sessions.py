"""Signing in: passwords, sessions of browsers, and one-time links.

Passwords are hashed with scrypt, so that a stolen database does not reveal them. Sessions and links
are random, stored as digests, and can be ended any time. There are thousands of sessions, so events
do not record their rows; that a session started or ended is an event, without its digest.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import unicodedata
from collections import OrderedDict, deque

from sqlalchemy import insert, select, update

from expertload.desk.people.accounts import (
    Principal,
    add_user,
    check_enabled,
    digest_of,
    find_user,
    people_of,
    roles_of,
    set_password,
)
from expertload.desk.store.database import CLOCK_SLACK, SECOND, AnyRow, Transaction
from expertload.desk.store.tables import sessions, users
from expertload.exceptions import DeskRefusedError

SESSION_SECONDS = 12 * 3_600  # a working day
LINK_SECONDS = 24 * 3_600
FIRST = "admin"  # the name of the first user
SHORTEST, LONGEST = 10, 1_000
# scrypt: 32 MB and about a tenth of a second for each guess.
COST, BLOCK, LANES = 2**15, 8, 1
MEMORY = 64 * 2**20


# ------------------------------------------------------------------ passwords


def hash_password(password: str) -> str:
    """Return what is stored for a password: the parameters, the salt and the digest."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise DeskRefusedError(
            "bad_password", f"A password must have {SHORTEST} to {LONGEST} characters."
        )
    salt = secrets.token_bytes(16)
    return _written(salt, _stretched(password, salt, COST, BLOCK, LANES))


def check_password(stored: str | None, password: str) -> bool:
    """Whether a password is the stored one; takes the same time if nothing is stored."""
    if len(password) > LONGEST:
        return False
    _, *numbers, salt, digest = (stored or _NOBODY).split("$")
    tried = _stretched(password, base64.b64decode(salt), *map(int, numbers))
    return hmac.compare_digest(tried, base64.b64decode(digest)) and stored is not None


def _stretched(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    # Some keyboards send é as one character, others as two.
    same = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(same, salt=salt, n=cost, r=block, p=lanes, maxmem=MEMORY, dklen=32)


def _written(salt: bytes, digest: bytes) -> str:
    encoded = (base64.b64encode(part).decode() for part in (salt, digest))
    return "$".join(["scrypt", str(COST), str(BLOCK), str(LANES), *encoded])


_NOBODY = _written(bytes(16), bytes(32))


class Throttle:
    """Limits wrong passwords: counts recent failures, by name or by address.

    Parameters
    ----------
    most : int
        How many failures are allowed within this time.
    seconds : float
        The length of the time.
    kept : int
        How many names are remembered. The oldest are forgotten first, so that made-up names cannot
        fill the memory.
    """

    def __init__(self, most: int, *, seconds: float = 300.0, kept: int = 10_000) -> None:
        self.most, self.seconds, self.kept = most, seconds, kept
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, who: str, now: float) -> None:
        """Refuse if there were too many failures recently."""
        with self._lock:
            recent = self._recent(who, now)
        if len(recent) >= self.most:
            wait = max(1, round(recent[0] + self.seconds - now))
            raise DeskRefusedError("too_many", f"Too many attempts. Try again in {wait} seconds.")

    def fail(self, who: str, now: float) -> None:
        """Count a failure."""
        with self._lock:
            self._recent(who, now).append(now)
            self._failures.move_to_end(who)
            while len(self._failures) > self.kept:
                self._failures.popitem(last=False)

    def forget(self, who: str) -> None:
        """Forget all failures, after a success."""
        with self._lock:
            self._failures.pop(who, None)

    def _recent(self, who: str, now: float) -> deque[float]:
        times = self._failures.setdefault(who, deque(maxlen=self.most))
        while times and times[0] <= now - self.seconds:
            times.popleft()
        return times


# ------------------------------------------------------------------ sessions


def begin_session(transaction: Transaction, user: int) -> str:
    """Start a session; return its secret, which cannot be shown again."""
    transaction.event("session.begun")
    return _add(transaction, user, "session", SESSION_SECONDS)


def find_session(transaction: Transaction, secret: str) -> Principal | None:
    """Return whose session it is, with all their roles; None if it is not valid now."""
    return _owner(transaction, secret, "session")


def end_session(transaction: Transaction, secret: str) -> None:
    """End a session; its secret is not valid any more."""
    if find_session(transaction, secret) is not None:
        transaction.event("session.ended")
        _use_up(transaction, secret)


# ------------------------------------------------------------------ one-time links


def make_link(transaction: Transaction, user: int) -> str:
    """Return the secret of a link that signs a user in once; the user's earlier links end."""
    check_enabled(transaction, user)
    transaction.event("link.made")
    transaction.connection.execute(
        update(sessions)
        .where(sessions.c.user_id == user, sessions.c.kind == "link", sessions.c.ended.is_(None))
        .values(ended=transaction.now)
    )
    return _add(transaction, user, "link", LINK_SECONDS)


def peek_link(transaction: Transaction, secret: str) -> Principal:
    """Return whose link it is, without using it up."""
    owner = _owner(transaction, secret, "link")
    if owner is None:
        raise DeskRefusedError(
            "not_found",
            "This link was already used, or has expired.",
            "ask a manager for a new one.",
        )
    return owner


def use_link(transaction: Transaction, secret: str, *, stretched: str | None = None) -> str:
    """Use a link up; return the secret of a new session.

    The password is set only if this use of the link is the first.
    """
    owner = peek_link(transaction, secret)
    if not _use_up(transaction, secret):
        raise DeskRefusedError("not_found", "This link was used a moment ago.")
    transaction.event("link.used")
    if stretched is not None:
        set_password(transaction, owner.user, stretched)
    return begin_session(transaction, owner.user)


def first_link(transaction: Transaction) -> str | None:
    """Return the secret of a link for the first user; None if somebody has ever signed in."""
    began = select(sessions.c.id).where(sessions.c.kind == "session").limit(1)
    if transaction.first(began) is not None:
        return None
    transaction.require_alone()  # several servers may start together; only one adds the user
    known = find_user(transaction, FIRST)
    if people_of(transaction) if known is None else known.disabled is not None:
        return None
    user = known.id if known else add_user(transaction, FIRST, ("manager", "auditor", "reader"))
    return make_link(transaction, int(user))


# ------------------------------------------------------------------ rows of both


def _add(transaction: Transaction, user: int, kind: str, seconds: int) -> str:
    secret = secrets.token_urlsafe(32)
    row = {
        "user_id": user,
        "digest": digest_of(secret),
        "kind": kind,
        "created": transaction.now,
        "expires": transaction.now + seconds * SECOND,
    }
    transaction.connection.execute(insert(sessions), [row])
    return secret


def _owner(transaction: Transaction, secret: str, kind: str) -> Principal | None:
    row: AnyRow | None = transaction.first(
        select(sessions.c.user_id, users.c.name)
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
    )
    if row is None:
        return None
    return Principal(row.user_id, row.name, roles_of(transaction, row.user_id))


def _use_up(transaction: Transaction, secret: str) -> bool:
    """End a session or link; return False if another request has just done so."""
    ended = transaction.connection.execute(
        update(sessions)
        .where(sessions.c.digest == digest_of(secret), sessions.c.ended.is_(None))
        .values(ended=transaction.now)
    )
    return ended.rowcount == 1

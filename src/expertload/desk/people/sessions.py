"""Signing in: passwords, sessions of browsers, and one-time links.

Passwords are hashed with scrypt, so that a stolen database does not reveal them. Sessions and links
are random, stored as digests, and can be ended any time. There are thousands of sessions, so events
do not record their rows; that a session started or ended is an event, without its digest.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import unicodedata
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from sqlalchemy import case, insert, select, update

from expertload.desk.people import accounts
from expertload.desk.people.accounts import Principal
from expertload.desk.store.database import CLOCK_SLACK, SECOND, AnyRow, Transaction
from expertload.desk.store.tables import memberships, sessions, users
from expertload.exceptions import DeskRefusedError

P = ParamSpec("P")
T = TypeVar("T")

SESSION_SECONDS = 12 * 3_600  # a working day
IDLE_SECONDS = 3_600
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
            "bad_password",
            f"A password must have {SHORTEST} to {LONGEST} characters. Got {len(password)}.",
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
    """Limits wrong passwords: counts recent attempts by name and address, or by address.

    Parameters
    ----------
    most : int
        How many attempts are allowed within this time.
    seconds : float
        The length of the time.
    kept : int
        How many names are remembered. The oldest are forgotten first, so that made-up names cannot
        fill the memory.
    """

    def __init__(self, most: int, *, seconds: float = 300.0, kept: int = 10_000) -> None:
        self.most, self.seconds, self.kept = most, seconds, kept
        self._attempts: OrderedDict[str, deque[float]] = OrderedDict()

    def attempt(self, who: str, now: float) -> None:
        """Count an attempt, before its password is checked; refuse it if there were too many."""
        times = self._attempts.setdefault(who, deque(maxlen=self.most))
        while times and times[0] <= now - self.seconds:
            times.popleft()
        if len(times) >= self.most:
            wait = max(1, round(times[0] + self.seconds - now))
            raise DeskRefusedError("too_many", f"Too many attempts. Try again in {wait} seconds.")
        times.append(now)
        self._attempts.move_to_end(who)
        while len(self._attempts) > self.kept:
            self._attempts.popitem(last=False)

    def forgive(self, who: str) -> None:
        """Forget the last attempt, which has succeeded."""
        if times := self._attempts.get(who):
            times.pop()


class SignInThreads:
    """Threads that stretch passwords, or ask a provider, and that few may wait for.

    Stretching takes 32 MB and a tenth of a second, and a provider may take ten seconds to answer.
    In the threads that everything shares, some hundred attempts at once would hold up the cases.
    """

    def __init__(self, *, threads: int = 2, most_waiting: int = 20) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="desk-sign-in")
        self._free = most_waiting

    async def run(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Run work in one of these threads; refuse if too many already wait."""
        if not self._free:
            raise DeskRefusedError("too_many", "Too many people are signing in. Try again soon.")
        self._free -= 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, lambda: work(*arguments, **options))
        finally:
            self._free += 1


# ------------------------------------------------------------------ sessions


def begin_session(transaction: Transaction, user: int) -> str:
    """Start a session; return its secret, which cannot be shown again."""
    transaction.event("session.begun")
    return _add(transaction, user, "session", IDLE_SECONDS)


def find_session(transaction: Transaction, secret: str) -> Principal | None:
    """Return whose session it is, with all their roles; None if it is not valid now."""
    return _owner(transaction, secret, "session")


def is_idle(transaction: Transaction, secret: str) -> bool:
    """Whether a session was not used for some minutes, so that `keep_session` is due."""
    digest = _digest(transaction, secret)
    expires = transaction.value(select(sessions.c.expires).where(sessions.c.digest == digest))
    return expires is not None and expires < transaction.now + (IDLE_SECONDS - 300) * SECOND


def keep_session(transaction: Transaction, secret: str) -> None:
    """Let a session that is used last longer, but never more than a working day."""
    latest = sessions.c.created + SESSION_SECONDS * SECOND
    wanted = transaction.now + IDLE_SECONDS * SECOND
    transaction.connection.execute(
        update(sessions)
        .where(sessions.c.digest == _digest(transaction, secret), sessions.c.ended.is_(None))
        .values(expires=case((latest < wanted, latest), else_=wanted))
    )


def refuse_session(transaction: Transaction, name: str) -> None:
    """Record that a sign-in with a wrong password was tried."""
    event = transaction.event("session.refused")
    if (user := accounts.find_user(transaction, name)) is not None:
        event.note(users, user.id, {"name": user.name})


def end_session(transaction: Transaction, secret: str) -> None:
    """End a session; its secret is not valid any more."""
    if find_session(transaction, secret) is not None:
        transaction.event("session.ended")
        _use_up(transaction, secret)


# ------------------------------------------------------------------ one-time links


def make_link(transaction: Transaction, user: int) -> str:
    """Return the secret of a link that signs a user in once; the user's earlier links end."""
    name = accounts.check_enabled(transaction, user)
    transaction.event("link.made").note(users, user, {"name": name})
    accounts.end_rows(transaction, sessions.c.user_id == user, sessions.c.kind == "link")
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
        accounts.set_password(transaction, owner.user, stretched)
        accounts.end_sessions(transaction, owner.user)
    return begin_session(transaction, owner.user)


def first_link(transaction: Transaction) -> str | None:
    """Return the secret of a link for the first user; None if somebody has ever signed in."""
    here = select(memberships.c.user_id).where(transaction.in_project(memberships))
    began = select(sessions.c.id).where(sessions.c.kind == "session", sessions.c.user_id.in_(here))
    if transaction.first(began.limit(1)) is not None:
        return None
    transaction.require_alone()  # several servers may start together; only one adds the user
    project = transaction.project.name
    name = FIRST if project == "main" else f"{FIRST} of {project}"
    known = accounts.find_user(transaction, name)
    if accounts.people_of(transaction) if known is None else known.disabled is not None:
        return None
    roles = ("manager", "auditor", "reader")
    user = known.id if known else accounts.add_user(transaction, name, roles)
    return make_link(transaction, int(user))


# ------------------------------------------------------------------ rows of both


def _add(transaction: Transaction, user: int, kind: str, seconds: int) -> str:
    secret = secrets.token_urlsafe(32)
    row = {
        "user_id": user,
        "digest": _digest(transaction, secret),
        "kind": kind,
        "created": transaction.now,
        "expires": transaction.now + seconds * SECOND,
    }
    transaction.connection.execute(insert(sessions), [row])
    return secret


def _digest(transaction: Transaction, secret: str) -> str:
    """Return what is stored instead of a secret; that of another project is another digest."""
    return accounts.digest_of(f"{transaction.project.name}\x1f{secret}")


def _owner(transaction: Transaction, secret: str, kind: str) -> Principal | None:
    row: AnyRow | None = transaction.first(
        select(sessions.c.user_id, users.c.name)
        .select_from(sessions.join(users, users.c.id == sessions.c.user_id))
        .where(
            sessions.c.digest == _digest(transaction, secret),
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
    return Principal(row.user_id, row.name, accounts.roles_of(transaction, row.user_id))


def _use_up(transaction: Transaction, secret: str) -> bool:
    """End a session or link; return False if another request has just done so."""
    return accounts.end_rows(transaction, sessions.c.digest == _digest(transaction, secret)) == 1

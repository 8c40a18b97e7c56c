"""Gives a reader the case that is due first, in one statement, the same on both databases.

A lease is stored in the row of its reading. Whoever claims next also ends the leases that have run
out, so there is no cleaning process that could die. Readers never get a case they have read before,
and nothing here tells them the model's answer or why the case came to them.

Every claim has a new lease token, which is still recognised after the lease has run out: it holds
the number of its reading, signed together with the reader. So a late answer still finds its case,
and nobody can forge a token.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from expertload.desk.intake.case import Body
from expertload.desk.intake.golden import PEOPLE
from expertload.desk.intake.receiving import classes_of
from expertload.desk.store.database import CLOCK_SLACK, SECOND, AnyRow, Project, Transaction
from expertload.desk.store.tables import readings, skips
from expertload.exceptions import DeskRefusedError

LONGEST_REASON = 2_000
# A case that is passed on for this reason is shown to managers.
WRONG = "Something is wrong with the case"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A case that a reader holds.

    Attributes
    ----------
    lease : str
        The token to answer with.
    until : int
        When the lease runs out, in microseconds since 1970.
    key : str
        The case.
    case : int
        Its number.
    body : Body or None
        What to read.
    classes : tuple of str
        The answers that are allowed; if empty, any answer is.
    """

    lease: str
    until: int
    key: str
    case: int
    body: Body | None
    classes: tuple[str, ...]


# With OFFSET, PostgreSQL asks for each case in turn. Without it, NOT EXISTS becomes a join that
# reads every reading there is.
# A second reading is not for the last person who could settle a dispute about the case, if somebody
# else may read it: then nobody could settle it.
_CANDIDATE = f"""
    SELECT r.id, r.case_id FROM readings AS r
    WHERE r.project_id = :project AND r.state = 'waiting'
      AND (r.barred IS NULL OR r.barred <> :reader)
      AND (r.why <> 'arbiter' OR :arbiter)
      AND (r.why <> 'second' OR NOT :arbiter OR coalesce((
        SELECT max(CASE WHEN other.role = 'arbiter' THEN 1 ELSE 0 END) FROM ({PEOPLE}) AS other
        WHERE other.id <> :reader AND (r.barred IS NULL OR r.barred <> other.id)
          AND NOT EXISTS (
            SELECT 1 FROM readings AS theirs
            WHERE theirs.case_id = r.case_id AND theirs.reader = other.id)), 1) = 1)
      AND NOT EXISTS (
        SELECT 1 FROM readings AS mine WHERE mine.case_id = r.case_id AND mine.reader = :reader
        LIMIT 1 OFFSET 0)
      AND NOT EXISTS (
        SELECT 1 FROM skips WHERE skips.reading_id = r.id AND skips.reader = :reader
          AND skips.skipped > :rested AND skips.skipped <= :latest
        LIMIT 1 OFFSET 0)
    ORDER BY r.due, r.id LIMIT 1
"""
# SQLite has one writer, and PostgreSQL gives to each of several another reading.
_LOCKED = {"sqlite": _CANDIDATE, "postgresql": f"{_CANDIDATE} FOR UPDATE OF r SKIP LOCKED"}
_HOLD = (
    "UPDATE readings SET state = 'leased', reader = :reader, lease = :lease, leased = :leased, "
    "until = :until WHERE id = :number RETURNING id"
)
_EXPIRE = (
    "UPDATE readings SET state = 'waiting', reader = NULL, lease = NULL, leased = NULL, "
    "until = NULL WHERE project_id = :project AND state = 'leased' "
    "AND (until <= :now OR until > :latest "
    "OR reader IN (SELECT id FROM users WHERE disabled IS NOT NULL)) RETURNING id, case_id"
)
_HELD = (
    "SELECT case_id, lease, until FROM readings "
    "WHERE project_id = :project AND reader = :reader AND state = 'leased'"
)
_SHOWN = (
    "SELECT cases.key, bodies.kind, bodies.media_type, bodies.content "
    "FROM cases LEFT JOIN bodies ON bodies.id = cases.id WHERE cases.id = :number"
)


def claim(transaction: Transaction, reader: int, *, arbiter: bool = False) -> Claim | None:
    """Return the case that a reader holds, or else the case due first; None if nothing waits.

    Parameters
    ----------
    transaction : Transaction
        A transaction for writing.
    reader : int
        The user.
    arbiter : bool, default=False
        Whether the user may settle disputes.
    """
    return_expired(transaction)
    held = held_by(transaction, reader) or _take(transaction, reader, arbiter)
    return claim_of(transaction, *held) if held else None


def holding(transaction: Transaction, reader: int) -> Claim | None:
    """Return the case that a reader holds, without taking one."""
    held = held_by(transaction, reader)
    return claim_of(transaction, *held) if held and held[2] > transaction.now else None


def return_expired(transaction: Transaction) -> int:
    """Put readings whose lease has run out back into the queue; return how many.

    This includes leases that end later than a lease given now would: the clock has been set back
    since, or the rules have been changed to a shorter time. It also includes the leases of people
    who have been disabled since.
    """
    latest = lease_end(transaction) + CLOCK_SLACK
    ours = {"project": transaction.project.id, "now": transaction.now}
    lost = transaction.rows(_EXPIRE, **ours, latest=latest)
    for number, case in lost:
        event = transaction.event("reading.expired", case_id=case)
        event.note(readings, number, {"state": "waiting", **FREE})
        transaction.moved(readings, "leased", "waiting")
    return len(lost)


# The values of a reading that nobody holds.
FREE: dict[str, Any] = {"reader": None, "leased": None, "until": None}


def upcoming(transaction: Transaction, reader: int, *, arbiter: bool = False) -> int | None:
    """Return the id of the case that the next claim would probably return, without taking it."""
    rows = transaction.rows(_CANDIDATE, **_for_reader(transaction, reader, arbiter))
    return rows[0][1] if rows else None


def _for_reader(transaction: Transaction, reader: int, arbiter: bool) -> dict[str, Any]:
    """Return the parameters of `_CANDIDATE`."""
    return {
        "project": transaction.project.id,
        "reader": reader,
        "arbiter": arbiter,
        "now": transaction.now,
        "rested": transaction.now - transaction.project.rules.skip_rest_seconds * SECOND,
        "latest": transaction.now + CLOCK_SLACK,
    }


def held_by(transaction: Transaction, reader: int) -> tuple[int, str, int] | None:
    """Return the case that somebody holds, the lease, and when it runs out, also if it has."""
    rows = transaction.rows(_HELD, project=transaction.project.id, reader=reader)
    return next(((case, lease, until) for case, lease, until in rows), None)


def _take(transaction: Transaction, reader: int, arbiter: bool) -> tuple[int, str, int] | None:
    query = _LOCKED[transaction.connection.dialect.name]
    rows = transaction.rows(query, **_for_reader(transaction, reader, arbiter))
    if not rows:
        return None
    ((number, case),) = rows
    lease, until = new_lease(transaction.project, number, reader), lease_end(transaction)
    event = transaction.event("reading.leased", case_id=case)
    held = {"reader": reader, "lease": lease, "leased": transaction.now, "until": until}
    transaction.rows(_HOLD, number=number, **held)
    event.note(readings, number, {"state": "leased", **held})
    transaction.moved(readings, "waiting", "leased")
    return case, lease, until


def claim_of(transaction: Transaction, case: int, lease: str = "", until: int = 0) -> Claim:
    """Return what a reader sees of a case, also without a lease."""
    ((key, *shown),) = transaction.rows(_SHOWN, number=case)
    return Claim(
        lease=lease,
        until=until,
        key=key,
        case=case,
        body=None if shown[0] is None else Body(*shown),
        classes=classes_of(transaction),
    )


# ------------------------------------------------------------------ leases


def lease_end(transaction: Transaction) -> int:
    """Return when a lease that is given now runs out."""
    return transaction.now + transaction.project.rules.lease_seconds * SECOND


def new_lease(project: Project, reading: int, reader: int) -> str:
    """Return a new token for a reading that a reader takes."""
    nonce = secrets.token_hex(8)
    return f"{reading}-{nonce}-{_signature(project, reading, reader, nonce)}"


def own_reading(transaction: Transaction, reader: int, lease: str) -> int:
    """Return the reading that a lease was made for; refuse if it was not given to this reader."""
    number, _, rest = lease.partition("-")
    nonce, _, signature = rest.partition("-")
    if number.isascii() and number.isdigit() and len(number) < 19:
        expected = _signature(transaction.project, int(number), reader, nonce)
        if hmac.compare_digest(signature.encode(), expected.encode()):
            return int(number)
    raise DeskRefusedError(
        "no_such_lease",
        "This lease was not given to you.",
        "claim a case and answer with the lease that comes with it.",
    )


def _signature(project: Project, reading: int, reader: int, nonce: str) -> str:
    signed = f"lease\x1f{project.name}\x1f{reading}\x1f{reader}\x1f{nonce}".encode()
    return hmac.digest(project.secret, signed, "sha256").hex()[:32]


def leased_reading(transaction: Transaction, reading: int, lease: str) -> AnyRow | None:
    """Return a reading, locked until this transaction ends; None if the lease was lost."""
    query = select(readings).filter_by(id=reading, lease=lease, state="leased")
    return transaction.first(query.with_for_update())


def extend(transaction: Transaction, reader: int, lease: str) -> int | None:
    """Extend a lease that is still held; return its new end, or None if it was lost."""
    held = leased_reading(transaction, own_reading(transaction, reader, lease), lease)
    if held is None:
        return None
    event = transaction.event("reading.extended", case_id=held.case_id)
    until = lease_end(transaction)
    leased = min(held.leased, transaction.now)  # the clock may have been set back
    transaction.update(readings, held.id, event, until=until, leased=leased)
    return until


def hand_back(transaction: Transaction, reader: int, lease: str) -> bool:
    """Put a case back without an answer; return False if the lease was lost before."""
    number = own_reading(transaction, reader, lease)
    return _give_back(transaction, number, lease, "reading.returned") is not None


def check_reason(reason: str) -> None:
    """Refuse a reason that says nothing, is too long, or cannot be stored."""
    if not reason.strip() or len(reason) > LONGEST_REASON or "\0" in reason:
        raise DeskRefusedError(
            "bad_reason", f"'reason' must have 1 to {LONGEST_REASON} characters."
        )


def skip(transaction: Transaction, reader: int, lease: str, reason: str) -> bool:
    """Pass a case on to other readers, with a reason; return False if the lease was lost before."""
    check_reason(reason)
    number = own_reading(transaction, reader, lease)
    case = _give_back(transaction, number, lease, "reading.skipped")
    if case is None:
        return False
    event = transaction.event("skip.noted", case_id=case)
    values = {"reader": reader, "reason": reason, "skipped": transaction.now}
    transaction.insert(skips, event, reading_id=number, **values)
    transaction.count("skips")
    return True


def _give_back(transaction: Transaction, reading: int, lease: str, kind: str) -> int | None:
    """Put a reading back into the queue; return its case, or None if the lease was lost before."""
    held = leased_reading(transaction, reading, lease)
    if held is None:
        return None
    event = transaction.event(kind, case_id=held.case_id)
    transaction.move(readings, held, "waiting", event, **FREE, lease=None)
    return int(held.case_id)

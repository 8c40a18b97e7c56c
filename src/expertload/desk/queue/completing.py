"""A reader answers: the answer, its consequences and the event are stored in one commit.

An answer that comes after its lease was lost is kept and marked late. A submission that is sent
twice is one answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select, text

from expertload.desk.queue.claiming import FREE, classes_of
from expertload.desk.queue.leases import reading_of
from expertload.desk.queue.settling import settle
from expertload.desk.store import SECOND, AnyRow, Transaction
from expertload.desk.store.tables import answers, readings, skips
from expertload.exceptions import DeskRefusedError

__all__ = ["Answered", "answer", "extend", "hand_back", "skip"]

LONGEST_SUBMISSION = 100
LONGEST_REASON = 2_000


@dataclass(frozen=True)
class Answered:
    """The result of an answer.

    Attributes
    ----------
    outcome : {"counted", "late", "replayed"}
        Whether it counts, came after the lease was lost, or was sent before.
    standing : {"counted", "late"}
        Whether the stored answer counts or is late.
    undo_until : int or None
        The time until which it can be taken back, in microseconds since 1970.
    """

    outcome: str
    standing: str
    undo_until: int | None


def answer(
    transaction: Transaction, reader: int, lease: str, label: str, submission: str
) -> Answered:
    """Answer the case of a lease.

    Parameters
    ----------
    transaction : Transaction
        A transaction for writing.
    reader : int
        The user.
    lease : str
        From `claim`.
    label : str
        The answer.
    submission : str
        The sender's own name for this answer, so that sending it again does not count twice.
    """
    reading_id = _own_reading(transaction, reader, lease)
    if not 1 <= len(submission) <= LONGEST_SUBMISSION or not submission.isprintable():
        raise DeskRefusedError(
            "bad_submission",
            f"'submission' must have 1 to {LONGEST_SUBMISSION} printable characters.",
        )
    before = _given_before(transaction, reader, submission)
    if before is not None:
        return _replay(transaction, before, reading_id, label)
    _check_label(transaction, label)
    taken = _finish(transaction, reading_id, lease)
    reading = _reading(transaction, reading_id)
    event = transaction.event("answer.given", case_id=reading.case_id)
    standing = "late" if taken is None else "counted"
    number = transaction.insert(
        answers,
        event,
        reading_id=reading_id,
        case_id=reading.case_id,
        reader=reader,
        label=label,
        submission=submission,
        standing=standing,
        seconds=None if taken is None else _seconds(transaction, taken),
        given=transaction.now,
    )
    transaction.count(f"answers.{standing}")
    transaction.count_hourly("answers")
    if taken is None:
        return Answered("late", "late", None)
    values = {"answer_id": number, "finished": transaction.now, "until": None}
    transaction.update(readings, reading_id, event, **values, state="done")
    transaction.moved(readings, "leased", "done")
    settle(transaction, _reading(transaction, reading_id))
    return Answered("counted", "counted", _undo_until(transaction, transaction.now))


def _seconds(transaction: Transaction, taken: AnyRow) -> float | None:
    """Return how long a reader took; None if the clock was set meanwhile, so nobody can tell."""
    is_known = taken.leased <= transaction.now <= taken.until
    return (transaction.now - taken.leased) / SECOND if is_known else None


def _undo_until(transaction: Transaction, given: int) -> int:
    return given + transaction.project.rules.undo_seconds * SECOND


def _own_reading(transaction: Transaction, reader: int, lease: str) -> int:
    number = reading_of(transaction.project, lease, reader)
    if number is None:
        raise DeskRefusedError(
            "no_such_lease",
            "This lease was not given to you.",
            "claim a case and answer with the lease that comes with it.",
        )
    return number


def _given_before(transaction: Transaction, reader: int, submission: str) -> AnyRow | None:
    return transaction.connection.execute(
        select(answers).where(answers.c.reader == reader, answers.c.submission == submission)
    ).first()


def _replay(transaction: Transaction, before: AnyRow, reading: int, label: str) -> Answered:
    if (before.reading_id, before.label) != (reading, label):
        raise DeskRefusedError(
            "conflict",
            "This submission was used for another answer.",
            "give every answer its own submission.",
        )
    until = _undo_until(transaction, before.given) if before.standing == "counted" else None
    return Answered("replayed", before.standing, until)


def _check_label(transaction: Transaction, label: str) -> None:
    classes = classes_of(transaction)
    if classes and label not in classes:
        raise DeskRefusedError("bad_label", f"'{label[:60]}' is not one of the classes.")
    if not 1 <= len(label) <= 200 or not label.isprintable():
        raise DeskRefusedError("bad_label", "A label must have 1 to 200 printable characters.")


def _finish(transaction: Transaction, reading: int, lease: str) -> AnyRow | None:
    """End a lease if the reading still has it; return None if it was lost before."""
    return transaction.connection.execute(
        text(
            "UPDATE readings SET lease = NULL WHERE id = :reading AND lease = :lease "
            "AND state = 'leased' RETURNING id, case_id, leased, until"
        ),
        {"reading": reading, "lease": lease},
    ).first()


def _reading(transaction: Transaction, number: int) -> AnyRow:
    return transaction.connection.execute(select(readings).where(readings.c.id == number)).one()


# ------------------------------------------------------------------ without an answer


def skip(transaction: Transaction, reader: int, lease: str, reason: str) -> bool:
    """Pass a case on to other readers, with a reason; return False if the lease was lost before."""
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise DeskRefusedError(
            "bad_reason", f"'reason' must have 1 to {LONGEST_REASON} characters."
        )
    reading = _give_back(transaction, reader, lease, "reading.skipped")
    if reading is None:
        return False
    event = transaction.event("skip.noted", case_id=reading.case_id)
    transaction.insert(
        skips,
        event,
        reading_id=reading.id,
        reader=reader,
        reason=reason,
        skipped=transaction.now,
    )
    transaction.count("skips")
    return True


def hand_back(transaction: Transaction, reader: int, lease: str) -> bool:
    """Put a case back without an answer; return False if the lease was lost before."""
    return _give_back(transaction, reader, lease, "reading.returned") is not None


def _give_back(transaction: Transaction, reader: int, lease: str, kind: str) -> AnyRow | None:
    number = _own_reading(transaction, reader, lease)
    row = _finish(transaction, number, lease)
    if row is not None:
        event = transaction.event(kind, case_id=row.case_id)
        transaction.update(readings, number, event, **FREE)
        transaction.moved(readings, "leased", "waiting")
    return row


def extend(transaction: Transaction, reader: int, lease: str) -> int | None:
    """Extend a lease that is still held; return its new end, or None if it was lost."""
    number = _own_reading(transaction, reader, lease)
    until = transaction.now + transaction.project.rules.lease_seconds * SECOND
    row = transaction.connection.execute(
        text(
            "UPDATE readings SET until = :until, leased = CASE WHEN leased > :now THEN :now "
            "ELSE leased END WHERE id = :reading AND lease = :lease AND state = 'leased' "
            "RETURNING case_id, leased"
        ),
        {"until": until, "now": transaction.now, "reading": number, "lease": lease},
    ).first()
    if row is None:
        return None
    event = transaction.event("reading.extended", case_id=row.case_id)
    event.note(readings, number, {"until": until, "leased": row.leased})
    return until

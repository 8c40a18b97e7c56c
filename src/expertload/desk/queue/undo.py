"""Taking an answer back: for a limited time, and only while nothing depends on it."""

from __future__ import annotations

from sqlalchemy import select

from expertload.desk.queue.claiming import FREE, Claim, claim
from expertload.desk.queue.leases import new_lease
from expertload.desk.queue.settling import decide, live_decision, locked_case
from expertload.desk.store import SECOND, AnyRow, Transaction
from expertload.desk.store.tables import answers, cases, decisions, in_state, policies, readings
from expertload.desk.trail import take_back
from expertload.desk.watch.quality import settle_audit
from expertload.exceptions import DeskRefusedError

__all__ = ["undo"]


def undo(transaction: Transaction, reader: int, submission: str) -> Claim:
    """Take an answer back; the reader holds its case again, and returns any other.

    Parameters
    ----------
    transaction : Transaction
        A transaction for writing.
    reader : int
        The user who gave the answer.
    submission : str
        The submission of the answer.
    """
    given = _find(transaction, reader, submission)
    case = locked_case(transaction, given.case_id)
    reading = _reading_of(transaction, given)
    _check_in_time(transaction, given)
    _remove_what_follows(transaction, case, reading)
    _release(transaction, reader)
    until = transaction.now + transaction.project.rules.lease_seconds * SECOND
    event = transaction.event("answer.undone", case_id=case.id)
    transaction.move(
        readings,
        reading,
        "leased",
        event,
        answer_id=None,
        finished=None,
        leased=transaction.now,
        until=until,
        lease=new_lease(transaction.project, reading.id, reader),
    )
    transaction.count("answers.undone")
    _reopen(transaction, case, reading)
    held = claim(transaction, reader)
    if held is None:
        raise DeskRefusedError("cannot_undo", "The case could not be taken again.")
    return held


def _find(transaction: Transaction, reader: int, submission: str) -> AnyRow:
    given = None
    if submission.isprintable():  # all are, and PostgreSQL refuses to search for a null character
        given = transaction.connection.execute(
            select(answers).where(answers.c.reader == reader, answers.c.submission == submission)
        ).first()
    if given is None:
        raise DeskRefusedError("not_found", "You gave no such answer.")
    return given


def _reading_of(transaction: Transaction, given: AnyRow) -> AnyRow:
    """Return the reading that an answer finished; refuse if the answer no longer counts."""
    reading = transaction.connection.execute(
        select(readings).where(readings.c.id == given.reading_id)
    ).one()
    if reading.answer_id != given.id or reading.state != "done":
        raise DeskRefusedError("cannot_undo", "This answer does not count, or was taken back.")
    return reading


def _check_in_time(transaction: Transaction, given: AnyRow) -> None:
    seconds = transaction.project.rules.undo_seconds
    if not transaction.is_within(seconds, given.given):
        raise DeskRefusedError(
            "cannot_undo", f"An answer can be taken back for {seconds} seconds. That time is over."
        )


def _remove_what_follows(transaction: Transaction, case: AnyRow, reading: AnyRow) -> None:
    """Void the readings that this answer asked for; refuse if somebody has started one.

    Nobody can start one before this transaction ends.
    """
    following = transaction.connection.execute(
        select(readings)
        .where(
            readings.c.case_id == reading.case_id,
            readings.c.root == reading.root,
            readings.c.id > reading.id,
            readings.c.state != "void",
        )
        .with_for_update()
    ).all()
    if any(row.state != "waiting" for row in following):
        raise DeskRefusedError("cannot_undo", "Another reader already works on this case.")
    if not take_back(transaction, case.id):
        raise DeskRefusedError("cannot_undo", "The decision has been sent on already.")
    alarmed = transaction.connection.execute(
        select(policies.c.state).where(policies.c.id == case.policy_id)
    ).scalar()
    if case.audit is not None and alarmed == "withdrawn":
        raise DeskRefusedError("cannot_undo", "The policy has been withdrawn since.")
    event = transaction.event("reading.voided", case_id=case.id)
    for row in following:
        transaction.move(readings, row, "void", event, finished=transaction.now)


def _release(transaction: Transaction, reader: int) -> None:
    """Return the case that the reader has taken since: a reader holds only one."""
    held = transaction.connection.execute(
        select(readings)
        .where(readings.c.reader == reader, in_state(readings, "leased"))
        .with_for_update()
    ).first()
    if held is not None:
        event = transaction.event("reading.returned", case_id=held.case_id)
        free = {name: value for name, value in FREE.items() if name != "state"}
        transaction.move(readings, held, "waiting", event, **free, lease=None)


def _reopen(transaction: Transaction, case: AnyRow, reading: AnyRow) -> None:
    """Restore the case to its state before the answer; a new decision supersedes the answer's."""
    live = live_decision(transaction, case.id)
    if live is not None and live.reading_id == reading.id:
        before = _label_before(transaction, live)
        decide(transaction, case, before, "correction", reading.id, live)
    state = _state_before(transaction, reading)
    if case.state != state:
        event = transaction.event("case.reopened", case_id=case.id)
        transaction.move(cases, case, state, event)
    if case.audit not in (None, "open"):
        settle_audit(transaction, case, None)


def _state_before(transaction: Transaction, reading: AnyRow) -> str:
    """Return the state of a case before an answer; a case that was only checked stays decided."""
    why = transaction.connection.execute(
        select(readings.c.why).where(readings.c.id == reading.root)
    ).scalar()
    if why == "quality":
        return "auto"
    return "disputed" if reading.why == "arbiter" else "waiting"


def _label_before(transaction: Transaction, live: AnyRow) -> str | None:
    """Return the label of the superseded decision: an automatic decision is valid again."""
    label: str | None = transaction.connection.execute(
        select(decisions.c.label).where(decisions.c.id == live.supersedes)
    ).scalar()
    return label

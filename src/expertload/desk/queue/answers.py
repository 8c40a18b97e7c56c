"""Stores answers, and does what follows: a second reader, an arbiter, a decision, or undoing it.

An answer, its consequences and the event are stored in one commit. An answer that comes after its
lease was lost is kept and marked late. A submission that is sent twice is one answer. An answer can
be taken back for a limited time, and only while nothing depends on it.

After that time, a correction is a new answer that supersedes the old one, with a reason. The case
is then settled again from all answers of the round. A reader may correct their own answers, because
they still do not know what the model said. A manager may correct any answer, except of a case that
checks the promise: managers see too much to be blind. Such a case can be opened again, which
changes its decision and leaves its audit alone, or else managers could have audits repeated until
they fit.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select

from expertload.desk.intake.golden import ask_next_reader
from expertload.desk.intake.receiving import Wanted, check_label, decisions_of, open_readings
from expertload.desk.intake.sampling import draw
from expertload.desk.intake.shadows import opinions_of
from expertload.desk.queue import claims
from expertload.desk.queue.claims import Claim, check_reason
from expertload.desk.store.database import SECOND, AnyRow, Event, Transaction
from expertload.desk.store.tables import answers, cases, decisions, policies, readings
from expertload.desk.trail.webhooks import announce, take_back
from expertload.desk.watch.combining import is_doubtful
from expertload.desk.watch.quality import settle_audit
from expertload.exceptions import DeskRefusedError

LONGEST_SUBMISSION = 100
MOST_SHOWN = 50


@dataclass(frozen=True)
class Answered:
    """The result of an answer.

    Attributes
    ----------
    outcome : {"counted", "late", "replayed"}
        Whether it counts, came after the lease was lost, or was sent before.
    standing : {"counted", "late", "undone"}
        Whether the stored answer counts, is late, or was taken back: then answer the case under
        another submission.
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
    reading_id = claims.own_reading(transaction, reader, lease)
    if not 1 <= len(submission) <= LONGEST_SUBMISSION or not submission.isprintable():
        raise DeskRefusedError(
            "bad_submission",
            f"'submission' must have 1 to {LONGEST_SUBMISSION} printable characters.",
        )
    before = given_before(transaction, reader, submission)
    if before is not None:
        return _replay(transaction, before, reading_id, label)
    check_label(transaction, label)
    held = claims.leased_reading(transaction, reading_id, lease)
    reading = held or reading_of(transaction, reading_id)
    event = transaction.event("answer.given", case_id=reading.case_id)
    standing = "late" if held is None else "counted"
    seconds = None if held is None else _seconds(transaction, held)
    row = {"submission": submission, "standing": standing, "seconds": seconds}
    number = store_answer(transaction, event, reading, reader, label, **row)
    transaction.count(f"answers.{standing}")
    transaction.count_hourly("answers")
    if held is None:
        return Answered("late", "late", None)
    values = {"answer_id": number, "finished": transaction.now, "until": None, "lease": None}
    transaction.move(readings, held, "done", event, **values)
    _settle(transaction, reading_of(transaction, reading_id))
    return Answered("counted", "counted", _undo_until(transaction, transaction.now))


def store_answer(
    transaction: Transaction, event: Event, reading: AnyRow, reader: int, label: str, **more: Any
) -> int:
    """Store an answer to a reading; return its number."""
    whose = {"reading_id": reading.id, "case_id": reading.case_id, "reader": reader}
    return transaction.insert(answers, event, **whose, label=label, given=transaction.now, **more)


def _seconds(transaction: Transaction, held: AnyRow) -> float | None:
    """Return how long a reader took; None if the clock was set meanwhile, so nobody can tell."""
    is_known = held.leased <= transaction.now <= held.until
    return (transaction.now - held.leased) / SECOND if is_known else None


def _undo_until(transaction: Transaction, given: int) -> int:
    return given + transaction.project.rules.undo_seconds * SECOND


def given_before(transaction: Transaction, reader: int, submission: str) -> AnyRow | None:
    """Return the answer that a reader gave under this name, or None."""
    if not submission.isprintable():  # all are, and PostgreSQL refuses to search for a NUL
        return None
    return transaction.first(
        select(answers).where(answers.c.reader == reader, answers.c.submission == submission)
    )


def own_answer(transaction: Transaction, reader: int, submission: str) -> AnyRow:
    """Return the answer that a reader gave under this name; refuse if there is none."""
    given = given_before(transaction, reader, submission)
    if given is None:
        raise DeskRefusedError("not_found", "You gave no such answer.")
    return given


def _replay(transaction: Transaction, before: AnyRow, reading: int, label: str) -> Answered:
    if (before.reading_id, before.label) != (reading, label):
        raise DeskRefusedError(
            "conflict",
            "This submission was used for another answer.",
            "give every answer its own submission.",
        )
    # It counts as long as it, or a correction of it, is the one that its reading has.
    number = reading_of(transaction, before.reading_id).answer_id
    while number not in (None, before.id):
        number = transaction.value(select(answers.c.supersedes).where(answers.c.id == number))
    standing = "undone" if number is None and before.standing == "counted" else before.standing
    until = _undo_until(transaction, before.given) if standing == "counted" else None
    return Answered("replayed", standing, until)


def reading_of(transaction: Transaction, number: int) -> AnyRow:
    """Return the row of a reading."""
    return transaction.connection.execute(select(readings).where(readings.c.id == number)).one()


# ------------------------------------------------------------------ what follows from an answer


def next_reading(
    opinions: Sequence[str], *, wanted: int, arbitrated: bool, beside: Sequence[str] = ()
) -> str | None:
    """Return who must read next, "second" or "arbiter"; None if the last opinion is the label.

    Parameters
    ----------
    opinions : sequence of str
        In order. If a decision of the model is being checked, the model's opinion comes first.
    wanted : int
        How many opinions must agree.
    arbitrated : bool
        Whether the last opinion is an arbiter's, which ends the dispute.
    beside : sequence of str
        Opinions of models that decide nothing: a difference from them is a dispute too. A second
        reading comes before it, so that what was drawn for one gets one, whatever was answered:
        the readers are measured by these cases.
    """
    if arbitrated:
        return None
    if len({*opinions}) > 1:
        return "arbiter"
    if len(opinions) < wanted:
        return "second"
    return None if {*opinions} >= {*beside} else "arbiter"


def _settle(transaction: Transaction, reading: AnyRow) -> None:
    """Continue after an answer that counts: ask for another reading, or close the case."""
    case = locked_case(transaction, reading.case_id)
    if case.state == "golden":
        ask_next_reader(transaction, case)
    elif case.state not in ("closed", "void"):
        follow(transaction, case, reading)


def follow(transaction: Transaction, case: AnyRow, reading: AnyRow) -> None:
    """Do what the answers of a round say; `reading` is its last one."""
    who, label = next_step(transaction, case, reading)
    if who is None:
        _close(transaction, case, label, reading)
        _audit(transaction, case, reading, label)
        return
    event = transaction.event("reading.wanted", case_id=case.id)
    wanted = Wanted(case.id, case.due, event, who)
    open_readings(transaction, [wanted], barred=reading.reader, root=reading.root)
    if who == "arbiter" and case.state == "waiting":
        transaction.move(cases, case, "disputed", event)


def _audit(transaction: Transaction, case: AnyRow, reading: AnyRow, label: str | None) -> None:
    """Settle the audit of a case, unless a manager has opened the case again."""
    if reading_of(transaction, reading.root).why != "reopened":
        done = _done(select(readings.c.why), reading)
        settle_audit(transaction, case, label, transaction.values(done))


def locked_case(transaction: Transaction, number: int) -> AnyRow:
    """Return a case's row, locked against other transactions until this one ends."""
    query = select(cases).where(cases.c.id == number).with_for_update()
    return transaction.connection.execute(query).one()


def next_step(transaction: Transaction, case: AnyRow, reading: AnyRow) -> tuple[str | None, str]:
    """Return who must read after the last reading of a round, or None; and the last label."""
    given = transaction.values(_done(select(answers.c.label), reading))
    # If a decision of the model is being checked, the model is one of those who must agree.
    model = [case.predicted] if case.accepted else []
    project = transaction.project
    is_audit = case.audit is not None and case.twice is not None
    share = case.twice if is_audit else project.rules.second_share
    second = draw(project.secret, "second", project.name, case.key) < share
    who = next_reading(
        [*model, *given],
        wanted=len(model) + 1 + second,
        arbitrated=reading.why == "arbiter",
        beside=opinions_of(transaction, case.id),
    )
    alone = who is None and reading.why == "delegated" and not model
    if alone and is_doubtful(transaction, case, given[0]):
        who = "doubt"
    return who, given[-1]


def _done(wanted: Select[Any], reading: AnyRow) -> Select[Any]:
    """Return the query for the answered readings of a round, in order."""
    return (
        wanted.select_from(readings.join(answers, answers.c.id == readings.c.answer_id))
        .where(
            readings.c.case_id == reading.case_id,  # follows from the root, but has an index
            readings.c.root == reading.root,
            readings.c.state == "done",
        )
        .order_by(readings.c.id)
    )


def _close(transaction: Transaction, case: AnyRow, label: str, reading: AnyRow) -> None:
    """Decide a case, unless its decision was only checked, and confirmed."""
    live = _live_decision(transaction, case.id)
    if case.state in ("auto", "closed") and live is not None and live.label == label:
        return
    corrects = live is not None and live.label is not None and live.label != label
    _decide(transaction, reading, label, "correction" if corrects else "expert", live)
    transaction.move(cases, case, "closed", transaction.event("case.closed", case_id=case.id))
    delay = transaction.project.rules.undo_seconds * SECOND
    payload = {"key": case.key, "label": label, "corrects": corrects}
    announce(transaction, "case.decided", payload, case_id=case.id, delay=delay)


def _live_decision(transaction: Transaction, case: int) -> AnyRow | None:
    """Return the current decision of a case, which no later one supersedes."""
    made = decisions_of(transaction, case)
    return made[-1] if made else None


def _decide(
    transaction: Transaction, reading: AnyRow, label: str | None, kind: str, live: AnyRow | None
) -> None:
    """Add a decision that supersedes the one before it."""
    event = transaction.event("decision.made", case_id=reading.case_id)
    version, before = (1, None) if live is None else (live.version + 1, live.id)
    made = {"kind": kind, "label": label, "made": transaction.now, "reading_id": reading.id}
    place = {"case_id": reading.case_id, "version": version, "supersedes": before}
    transaction.insert(decisions, event, **place, **made)


# ------------------------------------------------------------------ taking an answer back


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
    given = own_answer(transaction, reader, submission)
    case = locked_case(transaction, given.case_id)
    reading = reading_of(transaction, given.reading_id)
    _check_can_undo(transaction, given, reading)
    _remove_what_follows(transaction, case, reading)
    other = claims.held_by(transaction, reader)
    if other is not None:  # taken since: a reader holds only one
        claims.hand_back(transaction, reader, lease=other[1])
    lease = claims.new_lease(transaction.project, reading.id, reader)
    until = claims.lease_end(transaction)
    held = {"leased": transaction.now, "until": until, "lease": lease}
    event = transaction.event("answer.undone", case_id=case.id)
    transaction.move(readings, reading, "leased", event, answer_id=None, finished=None, **held)
    transaction.count("answers.undone")
    take_decision_back(transaction, case, reading)
    return claims.claim_of(transaction, case.id, lease, until)


def _check_can_undo(transaction: Transaction, given: AnyRow, reading: AnyRow) -> None:
    """Refuse an answer that does not count, or that was given too long ago."""
    if reading.answer_id != given.id or reading.state != "done":
        raise DeskRefusedError("cannot_undo", "This answer does not count, or was taken back.")
    seconds = transaction.project.rules.undo_seconds
    if not transaction.is_within(seconds, given.given):
        raise DeskRefusedError(
            "cannot_undo", f"An answer can be taken back for {seconds} seconds. That time is over."
        )


def _remove_what_follows(transaction: Transaction, case: AnyRow, reading: AnyRow) -> None:
    """Void the readings that this answer asked for; refuse if somebody has started one.

    Nobody can start one before this transaction ends.
    """
    following = following_readings(transaction, reading)
    if any(row.state != "waiting" for row in following):
        raise DeskRefusedError("cannot_undo", "Another reader already works on this case.")
    if not take_back(transaction, case.id):
        raise DeskRefusedError("cannot_undo", "The decision has been sent on already.")
    alarmed = transaction.value(select(policies.c.state).where(policies.c.id == case.policy_id))
    if case.audit is not None and alarmed == "withdrawn":
        raise DeskRefusedError("cannot_undo", "The policy has been withdrawn since.")
    event = transaction.event("reading.voided", case_id=case.id)
    for row in following:
        transaction.move(readings, row, "void", event, finished=transaction.now)


def following_readings(transaction: Transaction, reading: AnyRow) -> list[AnyRow]:
    """Return the later readings of the same round, locked until this transaction ends."""
    return transaction.all(
        select(readings)
        .where(
            readings.c.case_id == reading.case_id,
            readings.c.root == reading.root,
            readings.c.id > reading.id,
            readings.c.state != "void",
        )
        .with_for_update()
    )


def take_decision_back(transaction: Transaction, case: AnyRow, reading: AnyRow) -> None:
    """Restore the case to its state before the answer; a new decision supersedes the answer's."""
    live = _live_decision(transaction, case.id)
    if live is not None and live.reading_id == reading.id:
        before = select(decisions.c.label).where(decisions.c.id == live.supersedes)
        _decide(transaction, reading, transaction.value(before), "correction", live)
    state = _state_before(transaction, reading)
    if case.state != state:
        transaction.move(cases, case, state, transaction.event("case.reopened", case_id=case.id))
    if case.audit not in (None, "open"):
        _audit(transaction, case, reading, None)


def _state_before(transaction: Transaction, reading: AnyRow) -> str:
    """Return the state of a case before an answer; a case that was only checked stays decided."""
    why = reading_of(transaction, reading.root).why
    if why in ("quality", "golden"):
        return "auto" if why == "quality" else "golden"
    return "disputed" if reading.why == "arbiter" else "waiting"


# ------------------------------------------------------------------ correcting an answer


def correct_own(
    transaction: Transaction, reader: int, submission: str, label: str, *, reason: str
) -> None:
    """Correct an answer that the reader gave.

    Parameters
    ----------
    transaction : Transaction
        A transaction for writing.
    reader : int
        The user.
    submission : str
        The submission of the answer.
    label, reason : str
        The right answer, and why the first one was not.
    """
    given = own_answer(transaction, reader, submission)
    correct(transaction, given, label, by=reader, reason=reason)


def current_answers() -> Select[Any]:
    """Return the query for answers that count now, with their cases and readings."""
    # The second condition follows from the first, but has an index.
    its_reading = (readings.c.answer_id == answers.c.id) & (readings.c.id == answers.c.reading_id)
    counted = answers.join(readings, its_reading)
    return select(answers, cases.c.key).select_from(
        counted.join(cases, cases.c.id == answers.c.case_id)
    )


def own_answers(transaction: Transaction, reader: int, *, since: int = 0) -> list[AnyRow]:
    """Return a reader's latest answers that count, with the keys of their cases."""
    own = current_answers().where(transaction.in_project(cases), answers.c.reader == reader)
    own = own.where(answers.c.given >= since)
    return transaction.all(own.order_by(answers.c.id.desc()).limit(MOST_SHOWN))


def correct(transaction: Transaction, given: AnyRow, label: str, *, by: int, reason: str) -> None:
    """Store a correction of an answer, by its reader or a manager, and settle the case again."""
    check_reason(reason)
    check_label(transaction, label)
    case = locked_case(transaction, given.case_id)
    reading = reading_of(transaction, given.reading_id)
    _check_can_correct(case, reading, given, label, by)
    event = transaction.event("answer.corrected", case_id=case.id)
    row = {"submission": secrets.token_hex(16), "standing": "correction", "reason": reason}
    number = store_answer(transaction, event, reading, by, label, supersedes=given.id, **row)
    transaction.update(readings, reading.id, event, answer_id=number)
    if case.state != "golden":
        _settle_again(transaction, case, reading)


def _check_can_correct(case: AnyRow, reading: AnyRow, given: AnyRow, label: str, by: int) -> None:
    if reading.answer_id != given.id or reading.state != "done":
        raise DeskRefusedError(
            "conflict", "This answer does not count: it was taken back, corrected, or late."
        )
    if label == given.label:
        raise DeskRefusedError("conflict", "This is the answer already.")
    if case.state == "void":
        raise DeskRefusedError("conflict", "The case is void.", "open it again first.")
    if by != reading.reader and case.audit is not None:
        raise DeskRefusedError(
            "conflict",
            "This case checks the promise, so only its readers, who are blind, may correct it.",
            "open the case again, for another reader.",
        )


def _settle_again(transaction: Transaction, case: AnyRow, reading: AnyRow) -> None:
    """Settle a case from the answers of a round, unless a later round is about it."""
    rounds = readings.c.case_id == case.id, readings.c.state != "void"
    if transaction.value(select(func.max(readings.c.root)).where(*rounds)) != reading.root:
        return
    later = following_readings(transaction, reading)
    if any(row.state == "leased" for row in later):
        raise DeskRefusedError(
            "conflict", "Another reader works on this case.", "try again when they are done."
        )
    last = max((row for row in later if row.state == "done"), key=lambda r: r.id, default=reading)
    event = transaction.event("reading.voided", case_id=case.id)
    for row in later:
        if row.state == "waiting":
            transaction.move(readings, row, "void", event, finished=transaction.now)
    who, _ = next_step(transaction, case, last)
    if who is not None:
        take_decision_back(transaction, case, last)
    follow(transaction, locked_case(transaction, case.id), last)

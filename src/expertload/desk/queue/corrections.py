"""Corrects answers after the time to undo them, and opens closed cases again.

A correction is a new answer that supersedes the old one, with a reason. The case is then settled
again from all answers of the round. A reader may correct their own answers, because they still do
not know what the model said. A manager may correct any answer, except of a case that checks the
promise: managers see too much to be blind. Such a case can be opened again, which changes its
decision and leaves its audit alone, or else managers could have audits repeated until they fit.
"""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import Select, func, select

from expertload.desk.intake.receiving import Wanted, find_case, open_readings
from expertload.desk.queue.answers import (
    Settled,
    check_label,
    follow,
    following_readings,
    locked_case,
    next_step,
    own_answer,
    reading_of,
    store_answer,
    take_decision_back,
)
from expertload.desk.queue.claims import WRONG, check_reason
from expertload.desk.store.database import AnyRow, Transaction
from expertload.desk.store.tables import answers, cases, readings, skips, users
from expertload.exceptions import DeskRefusedError

MOST_SHOWN = 50


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
    _correct(transaction, given, label, by=reader, reason=reason)


def correct_of(
    transaction: Transaction, manager: int, key: str, reader: str, label: str, *, reason: str
) -> None:
    """Correct the answer of any reader to a case, as a manager."""
    given = transaction.first(
        _current()
        .join(users, users.c.id == readings.c.reader)
        .where(transaction.in_project(cases), cases.c.key == key, users.c.name == reader)
    )
    if given is None:
        raise DeskRefusedError("not_found", "There is no such answer.")
    _correct(transaction, given, label, by=manager, reason=reason)


def _current() -> Select[Any]:
    """Return the query for answers that count now, with their cases and readings."""
    return select(answers, cases.c.key).select_from(
        answers.join(readings, readings.c.answer_id == answers.c.id).join(
            cases, cases.c.id == answers.c.case_id
        )
    )


def _correct(transaction: Transaction, given: AnyRow, label: str, *, by: int, reason: str) -> None:
    check_reason(reason)
    check_label(transaction, label)
    case = locked_case(transaction, given.case_id)
    reading = reading_of(transaction, given.reading_id)
    _check_can_correct(case, reading, given, label, by)
    event = transaction.event("answer.corrected", case_id=case.id)
    told = {"submission": secrets.token_hex(16), "standing": "correction", "reason": reason}
    corrected = {"supersedes": given.id, **told}
    number = store_answer(transaction, event, reading, by, label, **corrected)
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
    if not isinstance(next_step(transaction, case, last), Settled):
        take_decision_back(transaction, case, last)
    follow(transaction, locked_case(transaction, case.id), last)


# ------------------------------------------------------------------ opening cases again


def reopen(transaction: Transaction, key: str, *, reason: str) -> None:
    """Let somebody who has not read it read a case that is decided, closed or void.

    Its decision stands until another supersedes it. Its audit, if it has one, stays as it is.
    """
    check_reason(reason)
    case = find_case(transaction, key)
    still_open = readings.c.state.in_(("waiting", "leased"))
    waiting = select(readings.c.id).where(readings.c.case_id == case.id, still_open)
    if case.state not in ("auto", "closed", "void") or transaction.first(waiting) is not None:
        raise DeskRefusedError("conflict", "Somebody still has to read this case.")
    event = transaction.event(f"case.reopened: {reason[:200]}", case_id=case.id)
    transaction.move(cases, case, "waiting", event)
    open_readings(transaction, [Wanted(case.id, case.due, event, "reopened")])


# ------------------------------------------------------------------ looking


def own_answers(transaction: Transaction, reader: int) -> list[AnyRow]:
    """Return a reader's latest answers that count, with the keys of their cases."""
    own = _current().where(transaction.in_project(cases), answers.c.reader == reader)
    return transaction.all(own.order_by(answers.c.id.desc()).limit(MOST_SHOWN))


def answers_to(transaction: Transaction, case: int) -> list[AnyRow]:
    """Return every answer to a case, in order, with who gave it and whether it counts now."""
    counts = (readings.c.answer_id == answers.c.id).label("counts")
    first = users.alias("first")
    return transaction.all(
        select(answers, users.c.name, first.c.name.label("first_reader"), counts)
        .select_from(
            answers.join(users, users.c.id == answers.c.reader)
            .join(readings, readings.c.id == answers.c.reading_id)
            .outerjoin(first, first.c.id == readings.c.reader)
        )
        .where(answers.c.case_id == case)
        .order_by(answers.c.id)
    )


def reported(transaction: Transaction) -> list[AnyRow]:
    """Return the open readings of which a reader says that something is wrong with the case."""
    query = (
        select(skips.c.skipped, skips.c.reason, cases.c.key, users.c.name)
        .select_from(
            skips.join(readings, readings.c.id == skips.c.reading_id)
            .join(cases, cases.c.id == readings.c.case_id)
            .join(users, users.c.id == skips.c.reader)
        )
        .where(
            transaction.in_project(cases),
            readings.c.state.in_(("waiting", "leased")),
            skips.c.reason.startswith(WRONG),
        )
    )
    return transaction.all(query.order_by(skips.c.id.desc()).limit(MOST_SHOWN))

"""What managers do with a single case: correct an answer, open it again, void it, erase it."""

from __future__ import annotations

from sqlalchemy import exists, select

from expertload.desk.intake.receiving import Wanted, find_case, open_readings
from expertload.desk.queue.answers import correct, current_answers
from expertload.desk.queue.claims import WRONG, check_reason
from expertload.desk.store.database import AnyRow, Transaction
from expertload.desk.store.tables import answers, bodies, cases, readings, shadows, skips, users
from expertload.desk.watch.quality import settle_audit
from expertload.exceptions import DeskRefusedError

MOST_REPORTS = 50
ERASED = b"Erased."
_IS_OPEN = readings.c.state.in_(("waiting", "leased"))
_HAS_TO_BE_READ = exists().where(readings.c.case_id == cases.c.id, _IS_OPEN)


def correct_of(
    transaction: Transaction, manager: int, key: str, reader: str, label: str, *, reason: str
) -> None:
    """Correct the answer of any reader to a case, as a manager."""
    given = transaction.first(
        current_answers()
        .join(users, users.c.id == readings.c.reader)
        .where(transaction.in_project(cases), cases.c.key == key, users.c.name == reader)
    )
    if given is None:
        raise DeskRefusedError("not_found", "There is no such answer.")
    correct(transaction, given, label, by=manager, reason=reason)


def reopen(transaction: Transaction, key: str, *, reason: str) -> None:
    """Let somebody who has not read it read a case that is decided, closed or void.

    Its decision stands until another supersedes it. Its audit, if it has one, stays as it is.
    """
    check_reason(reason)
    case = find_case(transaction, key)
    if case.state not in ("auto", "closed", "void") or _has_to_be_read(transaction, case):
        raise DeskRefusedError("conflict", "Somebody still has to read this case.")
    event = transaction.event(f"case.reopened: {reason}", case_id=case.id)
    transaction.move(cases, case, "waiting", event)
    open_readings(transaction, [Wanted(case.id, case.due, event, "reopened")])


def _has_to_be_read(transaction: Transaction, case: AnyRow) -> bool:
    query = select(_HAS_TO_BE_READ).select_from(cases).where(cases.c.id == case.id)
    return bool(transaction.value(query))


def void_case(transaction: Transaction, key: str, *, reason: str) -> None:
    """Take an open case out of the queue, for example if it was sent by mistake.

    If the case is in the quality sample, its audit stays open for good, so it never counts in
    favour of the promise. If readers disagreed about it, it counts as wrong: nobody can make such
    a case vanish.
    """
    case = find_case(transaction, key)
    if case.state not in ("waiting", "disputed", "golden"):
        raise DeskRefusedError(
            "conflict", f"The case is {case.state}, and only an open case can be voided."
        )
    event = transaction.event(f"case.voided: {reason[:200]}", case_id=case.id)
    transaction.move(cases, case, "void", event)
    # Nobody can take these readings before this transaction ends.
    its = select(readings).where(readings.c.case_id == case.id, _IS_OPEN).with_for_update()
    for reading in transaction.all(its):
        transaction.move(readings, reading, "void", event, finished=transaction.now)
    if case.state == "disputed":
        settle_audit(transaction, case, "", ())


def erase(transaction: Transaction, key: str) -> bool:
    """Erase a case's body and probabilities; return False if that was done before.

    Decisions, answers and digests stay, so the trail can still be verified. The case is no longer
    used to certify policies.
    """
    case = find_case(transaction, key)
    if _has_to_be_read(transaction, case):
        raise DeskRefusedError(
            "conflict", "Somebody still has to read this case.", "void it first, or wait."
        )
    body = transaction.first(select(bodies.c.content).where(bodies.c.id == case.id))
    beside = select(shadows.c.id).filter_by(case_id=case.id)
    kept = transaction.values(beside.where(shadows.c.probabilities.is_not(None)))
    if case.probabilities is None and not kept and (body is None or body.content == ERASED):
        return False
    event = transaction.event("case.erased", case_id=case.id)
    transaction.update(cases, case.id, event, probabilities=None)
    for shadow in kept:
        transaction.update(shadows, shadow, event, probabilities=None)
    if body is not None:
        shown = {"kind": "text", "media_type": "text/plain; charset=utf-8"}
        transaction.update(bodies, case.id, event, content=ERASED, **shown)
    return True


def keys_before(transaction: Transaction, moment: int) -> list[str]:
    """Return the keys of cases that were received before a time and can be erased."""
    left = cases.outerjoin(bodies, bodies.c.id == cases.c.id)
    has_content = cases.c.probabilities.is_not(None) | (bodies.c.content != ERASED)
    old = transaction.in_project(cases), cases.c.received < moment
    return transaction.values(
        select(cases.c.key)
        .select_from(left)
        .where(*old, has_content, ~_HAS_TO_BE_READ)
        .order_by(cases.c.id)
    )


def answers_to(transaction: Transaction, case: int) -> list[AnyRow]:
    """Return every answer to a case, in order, with who gave it and whether it counts now."""
    counts = (readings.c.answer_id == answers.c.id).label("counts")
    first = users.alias("first")
    return transaction.all(
        select(answers, users.c.name, first.c.name.label("first_reader"), counts)
        .join(users, users.c.id == answers.c.reader)
        .join(readings, readings.c.id == answers.c.reading_id)
        .outerjoin(first, first.c.id == readings.c.reader)
        .where(answers.c.case_id == case)
        .order_by(answers.c.id)
    )


def reported(transaction: Transaction) -> list[AnyRow]:
    """Return the open readings of which a reader says that something is wrong with the case."""
    query = (
        select(skips.c.skipped, skips.c.reason, cases.c.key, users.c.name)
        .join_from(skips, readings)
        .join(cases, cases.c.id == readings.c.case_id)
        .join(users, users.c.id == skips.c.reader)
        .where(transaction.in_project(cases), _IS_OPEN, skips.c.reason.startswith(WRONG))
    )
    return transaction.all(query.order_by(skips.c.id.desc()).limit(MOST_REPORTS))

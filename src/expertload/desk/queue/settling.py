"""What follows from an answer: a second reader, an arbiter, or a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select

from expertload.desk.intake import Wanted, draw, open_readings
from expertload.desk.store import SECOND, AnyRow, Transaction
from expertload.desk.store.tables import answers, cases, decisions, readings
from expertload.desk.trail import announce
from expertload.desk.watch.quality import settle_audit

__all__ = ["Settled", "decide", "live_decision", "locked_case", "next_reading", "settle"]


class Settled(NamedTuple):
    """The final label: nobody needs to read the case again."""

    label: str


def next_reading(opinions: Sequence[str], *, wanted: int, arbitrated: bool) -> Settled | str:
    """Return the final label, or who must read next: "second" or "arbiter".

    Parameters
    ----------
    opinions : sequence of str
        In order. If a decision of the model is being checked, the model's opinion comes first.
    wanted : int
        How many opinions must agree.
    arbitrated : bool
        Whether the last opinion is an arbiter's, which ends the dispute.
    """
    if arbitrated:
        return Settled(opinions[-1])
    if len(set(opinions)) > 1:
        return "arbiter"
    if len(opinions) < wanted:
        return "second"
    return Settled(opinions[0])


def settle(transaction: Transaction, reading: AnyRow) -> None:
    """Continue after an answer that counts: ask for another reading, or close the case."""
    case = locked_case(transaction, reading.case_id)
    if case.state in ("closed", "void"):
        return
    step = _next(transaction, case, reading)
    if isinstance(step, Settled):
        _close(transaction, case, step.label, reading)
        settle_audit(transaction, case, step.label)
        return
    event = transaction.event("reading.wanted", case_id=case.id)
    wanted = Wanted(case.id, case.due, event)
    open_readings(transaction, [wanted], step, barred=reading.reader, root=reading.root)
    if step == "arbiter" and case.state == "waiting":
        transaction.move(cases, case, "disputed", event)


def locked_case(transaction: Transaction, number: int) -> AnyRow:
    """Return a case's row, locked against other transactions until this one ends."""
    query = select(cases).where(cases.c.id == number)
    if transaction.connection.dialect.name == "postgresql":
        query = query.with_for_update()
    return transaction.connection.execute(query).one()


def _next(transaction: Transaction, case: AnyRow, reading: AnyRow) -> Settled | str:
    given = transaction.connection.execute(
        select(answers.c.label)
        .select_from(readings.join(answers, answers.c.id == readings.c.answer_id))
        .where(
            readings.c.case_id == reading.case_id,  # follows from the root, but has an index
            readings.c.root == reading.root,
            readings.c.state == "done",
        )
        .order_by(readings.c.id)
    ).scalars()
    # If a decision of the model is being checked, the model is one of those who must agree.
    model = [case.predicted] if case.accepted else []
    project = transaction.project
    second = draw(project.secret, "second", project.name, case.key) < project.rules.second_share
    return next_reading(
        [*model, *given],
        wanted=len(model) + 1 + second,
        arbitrated=reading.why == "arbiter",
    )


def _close(transaction: Transaction, case: AnyRow, label: str, reading: AnyRow) -> None:
    """Decide a case, unless its automatic decision was only checked, and confirmed."""
    live = live_decision(transaction, case.id)
    if case.state == "auto" and live is not None and live.label == label:
        return
    corrects = live is not None and live.label is not None and live.label != label
    decide(transaction, case, label, "correction" if corrects else "expert", reading.id, live)
    event = transaction.event("case.closed", case_id=case.id)
    transaction.move(cases, case, "closed", event)
    delay = transaction.project.rules.undo_seconds * SECOND
    payload = {"key": case.key, "label": label, "corrects": corrects}
    announce(transaction, "case.decided", payload, case_id=case.id, delay=delay)


def live_decision(transaction: Transaction, case: int) -> AnyRow | None:
    """Return the current decision of a case, which no later one supersedes."""
    return transaction.connection.execute(
        select(decisions)
        .where(decisions.c.case_id == case)
        .order_by(decisions.c.version.desc())
        .limit(1)
    ).first()


def decide(
    transaction: Transaction,
    case: AnyRow,
    label: str | None,
    kind: str,
    reading: int,
    live: AnyRow | None,
) -> None:
    """Add a decision that supersedes the one before it."""
    event = transaction.event("decision.made", case_id=case.id)
    transaction.insert(
        decisions,
        event,
        case_id=case.id,
        version=1 if live is None else live.version + 1,
        kind=kind,
        label=label,
        reading_id=reading,
        made=transaction.now,
        supersedes=None if live is None else live.id,
    )

"""Golden cases: a manager knows the truth, and readers do not know which cases these are.

They wait in the queue like all others, and each is read once by everybody who reads. They are in a
state of their own, so that they neither train nor certify, are never counted by a monitor, and are
no part of the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import select

from expertload.desk.intake.case import SentCase, parsed, read_case
from expertload.desk.intake.receiving import Wanted, check_label, open_readings
from expertload.desk.intake.sampling import draw
from expertload.desk.store.database import SECOND, AnyRow, Transaction
from expertload.desk.store.tables import bodies, cases
from expertload.exceptions import DeskRefusedError


def read_golden(line: bytes | str) -> SentCase:
    """Read one golden case in JSON: the fields of a case, with the true class as its label."""
    content = parsed(line)
    if not isinstance(content, dict) or content.get("label") is None:
        raise DeskRefusedError(
            "bad_case",
            "A golden case must be a line of JSON with a 'label', the true class.",
            '{"key": "x-17", "label": "cat", "body": {"kind": "text", "content": "…"}}',
        )
    return read_case({**content, "confidence": 1.0})  # nobody needs a model to know the truth


def add_golden(transaction: Transaction, sent: Sequence[SentCase]) -> int:
    """Store cases whose `label` is the truth; return how many are new. All are stored, or none.

    A case that was sent before with the same content is left as it is.
    """
    due = transaction.now + transaction.project.rules.due_seconds * SECOND
    wanted = []
    for case in {case.key: case for case in sent}.values():
        known = select(cases.c.digest).where(transaction.in_project(cases), cases.c.key == case.key)
        if (digest := transaction.value(known)) is not None:
            if digest != case.digest:
                raise DeskRefusedError(
                    "conflict", f"The key '{case.key}' belongs to a case with other content."
                )
            continue
        check_label(transaction, case.label or "")
        wanted.append(_store(transaction, case, due if case.due is None else case.due))
    open_readings(transaction, wanted)
    return len(wanted)


def _store(transaction: Transaction, case: SentCase, due: int) -> Wanted:
    project = transaction.project
    event = transaction.event("case.golden")
    event.case_id = transaction.insert(
        cases,
        event,
        key=case.key,
        digest=case.digest,
        state="golden",
        truth=case.label,
        accepted=False,
        cause="golden",
        draw=draw(project.secret, "quality", project.name, case.key),
        rate=0.0,
        received=transaction.now,
        due=due,
    )
    if case.body is not None:
        transaction.insert(bodies, event, id=event.case_id, **asdict(case.body))
    return Wanted(event.case_id, due, event, "golden")


def ask_next_reader(transaction: Transaction, case: AnyRow) -> None:
    """Ask for another reading of a golden case if there is somebody who has not read it."""
    values = {"project": transaction.project.id, "case": case.id, "now": transaction.now}
    if not transaction.rows(_SOMEBODY_ELSE, **values):
        return
    event = transaction.event("reading.wanted", case_id=case.id)
    due = transaction.now + transaction.project.rules.due_seconds * SECOND
    open_readings(transaction, [Wanted(case.id, due, event, "golden")])


# Everybody who may read in a project: people and programs, who are neither disabled nor away.
PEOPLE = """
    SELECT users.id, roles.role FROM users JOIN (
      SELECT m.user_id, m.role FROM memberships AS m
      WHERE m.project_id = :project AND m.ended IS NULL
      UNION
      SELECT t.user_id, t.role FROM tokens AS t
      WHERE t.project_id = :project AND t.revoked IS NULL
        AND (t.expires IS NULL OR t.expires > :now)
    ) AS roles ON roles.user_id = users.id
    WHERE users.disabled IS NULL AND (users.away IS NULL OR users.away <= :now)
      AND roles.role IN ('reader', 'arbiter')
"""
_SOMEBODY_ELSE = f"""
    SELECT people.id FROM ({PEOPLE}) AS people
    WHERE NOT EXISTS (
        SELECT 1 FROM readings AS theirs
        WHERE theirs.case_id = :case AND theirs.reader = people.id)
      AND NOT EXISTS (
        SELECT 1 FROM readings AS waits
        WHERE waits.case_id = :case AND waits.state IN ('waiting', 'leased'))
    LIMIT 1
"""

"""Exports a desk's cases and answers for Label Studio or Argilla.

Every answer that counts is exported with its reader's name, a correction in place of what it
corrects. Images become data addresses; the content of erased cases stays erased.
"""

from __future__ import annotations

import base64
import os
from typing import Any

from sqlalchemy import text

from expertload._names import Tool
from expertload.desk.desk import Desk
from expertload.desk.store.database import AnyRow, Transaction
from expertload.desk.trail.training import features
from expertload.desk.watch.policies import ERASED
from expertload.io.annotations import Answered, write_annotations

_CASES = text("""
    SELECT c.id, c.key, c.predicted, c.confidence, c.model, b.kind, b.media_type, b.content
    FROM cases AS c LEFT JOIN bodies AS b ON b.id = c.id
    WHERE c.project_id = :project ORDER BY c.id
""")
_ANSWERS = text("""
    SELECT a.case_id, u.name, a.label
    FROM answers AS a JOIN users AS u ON u.id = a.reader JOIN cases AS c ON c.id = a.case_id
    WHERE c.project_id = :project AND a.standing = 'counted'
      AND NOT EXISTS (SELECT 1 FROM answers AS later WHERE later.supersedes = a.id)
    ORDER BY a.id
""")


def export_annotations(desk: Desk, path: str | os.PathLike[str], *, tool: Tool) -> int:
    """Write all cases and answers, completely or not at all; return the number of cases."""
    cases = desk.read(answered_cases)
    write_annotations(path, cases, tool=tool)
    return len(cases)


def answered_cases(transaction: Transaction) -> list[Answered]:
    """Return the cases of one point in time; of a reader's answers to a case, the last."""
    project, answers = {"project": transaction.project.id}, dict[int, dict[str, str]]()
    for case, reader, label in transaction.connection.execute(_ANSWERS, project):
        answers.setdefault(case, {})[reader] = label
    return [
        Answered(
            row.key,
            _shown(row),
            tuple(answers.get(row.id, {}).items()),
            row.predicted,
            row.confidence,
            row.model,
        )
        for row in transaction.connection.execute(_CASES, project)
    ]


def _shown(row: AnyRow) -> dict[str, Any]:
    if row.kind is None or row.content == ERASED:
        return {}
    if row.kind == "image":
        content = base64.b64encode(row.content).decode()
        return {"image": f"data:{row.media_type};base64,{content}"}
    return dict(features(row))

"""What a reader may answer."""

from __future__ import annotations

from sqlalchemy import select

from expertload.desk.intake import read_policy
from expertload.desk.store import Transaction
from expertload.desk.store.tables import policies

__all__ = ["classes_of"]


def classes_of(transaction: Transaction) -> tuple[str, ...]:
    """Return the project's classes: its rules', or those of its latest policy that names some.

    A withdrawn policy's classes remain, for its cases are read after it has ended.
    """
    if transaction.project.rules.classes:
        return transaction.project.rules.classes
    documents = transaction.connection.execute(
        select(policies.c.document)
        .where(policies.c.project_id == transaction.project.id, policies.c.state != "draft")
        .order_by(policies.c.activated.desc(), policies.c.id.desc())
        .limit(1)
    ).scalars()
    return next((read_policy(document).classes for document in documents), ())

"""Changes the rules of a project while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import select

from expertload.desk.settings import Rules
from expertload.desk.store import Transaction
from expertload.desk.store.tables import monitors, projects
from expertload.desk.watch.quality import recount

__all__ = ["change_rules"]


def change_rules(transaction: Transaction, rules: Rules) -> None:
    """Change the rules of the project; everything follows them at once."""
    transaction.require_alone()
    before = transaction.project
    event = transaction.event("rules.changed")
    values: dict[str, Any] = {"rules": rules.model_dump_json()}
    if rules.quality_rate != before.rules.quality_rate:
        values["sampling_rate"] = rules.quality_rate
    transaction.update(projects, before.id, event, **values)
    rate = values.get("sampling_rate", before.sampling_rate)
    transaction.project = replace(before, rules=rules, sampling_rate=rate)
    if rules.alarm_level != before.rules.alarm_level:
        _judge_anew(transaction)


def _judge_anew(transaction: Transaction) -> None:
    """Update the latest monitor, whose bound and alarm depend on the level."""
    audited = transaction.connection.execute(
        select(monitors.c.policy_id)
        .where(monitors.c.project_id == transaction.project.id, monitors.c.audited > 0)
        .order_by(monitors.c.id.desc())
        .limit(1)
    ).scalar()
    if audited is not None:
        recount(transaction, audited)

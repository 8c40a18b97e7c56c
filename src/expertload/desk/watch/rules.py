"""Changes the rules of a project while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select

from expertload.desk.intake.case import CONTROL
from expertload.desk.settings import Rules
from expertload.desk.store import Transaction
from expertload.desk.store.tables import monitors, projects
from expertload.desk.watch.quality import recount
from expertload.exceptions import DeskRefusedError


def edit_rules(transaction: Transaction, changes: dict[str, Any]) -> Rules:
    """Change some rules and keep the others; return all of them."""
    transaction.require_alone()  # somebody else may change the others
    if unknown := sorted(changes.keys() - Rules.model_fields.keys()):
        raise DeskRefusedError(
            "bad_rule",
            f"There is no rule '{unknown[0]}'.",
            f"choose one of {', '.join(Rules.model_fields)}.",
        )
    try:
        rules = Rules.model_validate({**transaction.project.rules.model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise DeskRefusedError(
            "bad_rule", f"The rule '{name}' is not valid: {first['msg']}."
        ) from error
    change_rules(transaction, rules)
    return rules


def change_rules(transaction: Transaction, rules: Rules) -> None:
    """Change the rules of the project; everything follows them at once."""
    transaction.require_alone()
    before = transaction.project
    if rules.classes != before.rules.classes:
        _check_classes(rules.classes)
    event = transaction.event("rules.changed")
    values: dict[str, Any] = {"rules": rules.model_dump_json()}
    if rules.quality_rate != before.rules.quality_rate:
        values["sampling_rate"] = rules.quality_rate
    transaction.update(projects, before.id, event, **values)
    rate = values.get("sampling_rate", before.sampling_rate)
    transaction.project = replace(before, rules=rules, sampling_rate=rate)
    if rules.alarm_level != before.rules.alarm_level:
        _judge_anew(transaction)


def _check_classes(names: tuple[str, ...]) -> None:
    """Refuse names that no model has: an answer counts as right only if it has the same name."""
    if len(set(names)) < len(names) or not all(
        name.strip() == name != "" and not CONTROL.search(name) for name in names
    ):
        raise DeskRefusedError(
            "bad_rule",
            "'classes' must be different names, without blanks around them. "
            f"Got {', '.join(map(ascii, names))}.",
            "separate them by commas; 'classes=' takes those of the policy.",
        )


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

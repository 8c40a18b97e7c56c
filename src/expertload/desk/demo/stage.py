"""Prepares a desk for the demo: rules, the policy, people and programs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from expertload.desk.demo.digits import CLASSES, Digits
from expertload.desk.desk import Desk
from expertload.desk.people import add_token, add_user, find_user, make_link
from expertload.desk.settings import Rules
from expertload.desk.watch import activate, add_policy

__all__ = ["DEMO_RULES", "prepare"]

# Many cases are checked, so that results show within minutes.
DEMO_RULES = Rules(
    classes=CLASSES,
    quality_rate=0.3,
    raised_rate=0.5,
    second_share=0.1,
    lease_seconds=300,
    undo_seconds=20,
    due_seconds=600,
)
COLLEAGUES = (("Kim (simulated)", "reader"), ("Robin (simulated)", "arbiter"))
VISITOR = "you"


def prepare(desk: Desk, digits: Digits) -> tuple[str, str, list[str]]:
    """Activate the policy; return the visitor's link, and the tokens of sender and colleagues."""
    number = desk.write(add_policy, _document(digits))
    desk.write(activate, number)
    known = desk.read(find_user, VISITOR)
    roles = ("reader", "arbiter", "manager", "auditor")
    user = known.id if known is not None else desk.write(add_user, VISITOR, roles)
    sender = desk.write(add_token, "the model", "api")
    colleagues = [desk.write(add_token, name, role) for name, role in COLLEAGUES]  # type: ignore[arg-type]
    return desk.acting(user).write(make_link, user), sender, colleagues


def _document(digits: Digits) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "policy.json")
        digits.point.save(file)
        return file.read_text(encoding="utf-8")

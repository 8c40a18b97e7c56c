"""A desk to test on: a clock that the test turns, a certified policy, readers."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from sqlalchemy import select

from expertload import Cases
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import Outcome, receive
from expertload.desk.people.accounts import add_token, find_token
from expertload.desk.queue.answers import answer
from expertload.desk.queue.claims import claim
from expertload.desk.store.tables import cases, counters
from expertload.desk.watch.policies import activate, add_policy
from expertload.desk.watch.state import edit_rules
from expertload.operating_point import certify, certify_groups

SECOND = 1_000_000
CLASSES = ("cat", "dog")


class Clock:
    def __init__(self, now: int = 1_700_000_000 * SECOND) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


def _saved(point) -> str:
    with tempfile.TemporaryDirectory() as folder:
        point.save(Path(folder, "policy.json"))
        return Path(folder, "policy.json").read_text()


@cache
def policy_text(*, model_name: str | None = None, groups: bool = False) -> str:
    """A certified policy of cats and dogs, whose threshold is near 0.8."""
    rng = np.random.default_rng(0)
    proba = rng.uniform(0.5, 1, size=2000)
    wrong = rng.random(2000) < np.where(proba < 0.8, 0.4, 0.005)
    side = rng.integers(0, 2, size=2000)
    y_proba = np.where(side[:, None] == [0, 1], proba[:, None], 1 - proba[:, None])
    y_true = np.array(CLASSES)[np.where(wrong, 1 - side, side)]
    site = np.where(np.arange(2000) % 2, "north", "south")
    cases = Cases.from_predictions(y_true, y_proba, labels=list(CLASSES), groups=site)
    make = certify_groups if groups else certify
    return _saved(make(cases, target_accuracy=0.95, model_name=model_name))


def sent(key: str, cat: float = 0.99, **more) -> dict:
    return {"key": key, "probabilities": {"cat": cat, "dog": 1 - cat}, **more}


class World:
    def __init__(self, desk, clock) -> None:
        self.desk, self.clock = desk, clock
        self.tokens: dict[tuple[str, str], str] = {}
        self.users: dict[tuple[str, str], int] = {}

    def with_rules(self, **changes) -> World:
        """The same desk under other rules; after a warning, no fewer cases are read."""
        if "quality_rate" in changes:
            raised = self.desk.read(lambda transaction: transaction.project.rules.raised_rate)
            changes = {"raised_rate": max(raised, changes["quality_rate"])} | changes
        self.desk.write(edit_rules, changes)
        return self

    # people

    def token(self, name: str, role: str = "reader") -> str:
        if (name, role) not in self.tokens:
            self.tokens[name, role] = self.desk.write(add_token, name, role)
        return self.tokens[name, role]

    def user(self, name: str, role: str = "reader") -> int:
        if (name, role) not in self.users:
            self.users[name, role] = self.desk.read(find_token, self.token(name, role)).user
        return self.users[name, role]

    # policies

    def activate(self, document: str | None = None) -> int:
        number = self.desk.write(add_policy, document or policy_text())
        self.desk.write(activate, number)
        return number

    # cases

    def send(self, *contents) -> list:
        return self.desk.write(receive, [read_case(each) for each in contents])

    def send_one(self, key: str, cat: float = 0.99, **more) -> Outcome:
        (outcome,) = self.send(sent(key, cat, **more))
        assert isinstance(outcome, Outcome), outcome
        return outcome

    def claim(self, name: str = "ann", role: str = "reader"):
        return self.desk.write(claim, self.user(name, role), arbiter=role == "arbiter")

    def answer(self, held, label: str, name: str = "ann", role: str = "reader", submission=None):
        return self.desk.write(
            answer, self.user(name, role), held.lease, label, submission or held.lease
        )

    # looking

    def rows(self, query) -> list:
        return self.desk.database.read(lambda c: c.execute(query).all())

    def case(self, key: str):
        (row,) = self.rows(select(cases).where(cases.c.key == key))
        return row

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.rows(select(counters)):
            found[row.name] = found.get(row.name, 0) + row.value
        return {name: n for name, n in found.items() if n and "@" not in name}


def dumps(*contents) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in contents)

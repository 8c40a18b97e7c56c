"""A day at the demo's desk, played in seconds: experts' answers lower the load.

The sender, the readers and the manager use the desk's own functions, with a clock that starts a day
ago. The first network has learnt from few images, so experts read much. What they answer is
exported for training; a second network learns from it and answers in shadow. When the evidence is
there, the manager lets it decide some of the cases, then all.
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from expertload.desk.demo import LEARN_AFTER, SECOND, Digits, Network, spoil
from expertload.desk.desk import Desk
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import Outcome, receive
from expertload.desk.people.accounts import find_token
from expertload.desk.queue.answers import answer
from expertload.desk.queue.claims import claim
from expertload.desk.store.database import HOUR, Transaction
from expertload.desk.trail.training import export_for_training
from expertload.desk.watch.anew import decide_all_waiting
from expertload.desk.watch.challengers import adopt, find_challenger
from expertload.exceptions import DeskRefusedError

N_CASES, AT_ONCE, HOURS = 1300, 50, 22
STEPS = (0.3, 1.0)  # the share of cases that the new model decides


class Round(NamedTuple):
    """What happened to some cases.

    Attributes
    ----------
    load : float
        The share that experts read.
    right : float
        The share of automatic decisions that were right.
    news : str
        What the manager did afterwards, if anything.
    digits : Digits
        With the second network, once there is one.
    """

    load: float
    right: float
    news: str
    digits: Digits


def play(desk: Desk, digits: Digits, colleagues: list[str]) -> Iterator[Round]:
    """Play the day on a new desk, round by round."""
    day = _Day(desk, digits, [desk.read(_user, token) for token in colleagues])
    real, desk.clock = desk.clock, day.clock
    try:
        for first in range(0, N_CASES, AT_ONCE):
            yield day.play(first)
    finally:
        desk.clock = real


def _user(transaction: Transaction, token: str) -> int:
    found = find_token(transaction, token)
    if found is None:
        raise DeskRefusedError("not_found", "There is no such token.")
    return found.user


class _Day:
    def __init__(self, desk: Desk, digits: Digits, readers: list[int]) -> None:
        self.desk, self.digits, self.readers = desk, digits, readers
        self.behind = HOURS * HOUR
        self.labels: dict[str, str] = {}
        self.run = f"day{time.time_ns()}"
        self.steps = list(STEPS)

    def clock(self) -> int:
        return time.time_ns() // 1_000 - self.behind

    def play(self, first: int) -> Round:
        cases = self.digits.cases(run=f"{self.run}-{first:04d}", first=first)
        sent = list(islice(cases, AT_ONCE))
        self.labels |= {case["key"]: label for case, label in sent}
        outcomes = self.desk.write(receive, [read_case(case) for case, _ in sent])
        self.behind -= HOURS * HOUR * AT_ONCE // N_CASES
        while any(self.desk.write(_read_some, user, self.labels) for user in self.readers):
            pass
        decided = {
            each.key: each.label
            for each in outcomes
            if isinstance(each, Outcome) and each.status == "decided"
        }
        right = [label == self.labels[key] for key, label in decided.items()]
        news = self._manage(first + AT_ONCE)
        load = 1 - len(decided) / AT_ONCE
        return Round(load, sum(right) / max(len(right), 1), news, self.digits)

    def _manage(self, n_sent: int) -> str:
        """Train the second network; let it take over in steps when that is safe."""
        if n_sent == LEARN_AFTER:
            with tempfile.TemporaryDirectory() as folder:
                return self._learn(Path(folder, "answers"))
        if self.digits.challenger is None or not self.steps or n_sent % (2 * AT_ONCE):
            return ""
        challenger = self.desk.read(_find, SECOND)
        if challenger is None or not (challenger.share or challenger.may_switch):
            return ""
        share = self.steps.pop(0)
        self.desk.write(adopt, SECOND, share)
        decide_all_waiting(self.desk)
        return f"{challenger.summary()} It decides {share:.0%} of cases from now on."

    def _learn(self, folder: Path) -> str:
        """Train on what experts have answered, as anybody would: from the exported folder."""
        export_for_training(self.desk, folder)
        with Path(folder, "metadata.csv").open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        places = [_place(row["key"]) for row in rows]
        rng = np.random.default_rng(0)
        images = np.concatenate([spoil(self.digits.images[places], rng) for _ in range(2)])
        labels = np.tile([int(row["label"]) for row in rows], 2)
        self.digits = replace(self.digits, challenger=Network.trained(images, labels))
        return f"A second network has learnt from {len(rows)} answers and answers in shadow."


def _place(key: str) -> int:
    """Return the place of a case's image."""
    *_, first, number = key.split("-")
    return int(first) + int(number)


def _find(transaction: Transaction, model: str) -> Any:
    try:
        return find_challenger(transaction, model)
    except DeskRefusedError:
        return None


def _read_some(transaction: Transaction, user: int, labels: dict[str, str]) -> int:
    """Answer up to 25 cases; return how many."""
    for n in range(25):
        held = claim(transaction, user, arbiter=True)
        if held is None:
            return n
        answer(transaction, user, held.lease, labels[held.key], held.lease[:60])
    return 25

"""The invariants, whatever people do in whatever order: a Hypothesis state machine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from expertload.desk import Desk, Rules
from expertload.desk.intake.case import Shadow
from expertload.desk.intake.golden import add_golden, read_golden
from expertload.desk.intake.receiving import Outcome
from expertload.desk.intake.shadows import receive_shadows
from expertload.desk.queue.answers import answer, correct_own, undo
from expertload.desk.queue.claims import extend, hand_back, skip
from expertload.desk.queue.managing import correct_of, reopen, void_case
from expertload.desk.trail.chain import seal_events
from expertload.desk.trail.training import export_for_training
from expertload.desk.watch.policies import (
    active_policy,
    add_policy,
    begin,
    decide_all_waiting,
    trial_policy,
    withdraw,
)
from expertload.desk.watch.recertify import blind_labels
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.test_watch import read_all
from tests.desk.world import CLASSES, Clock, World, policy_text, sent
from tests.postgres import MEMORY

PEOPLE = [
    ("ann", "reader"),
    ("bob", "reader"),
    ("cleo", "reader"),
    ("zoe", "arbiter"),
    ("yan", "arbiter"),
]
people = st.sampled_from(PEOPLE)
labels = st.sampled_from(CLASSES)
keys = st.sampled_from([f"case-{i}" for i in range(12)])
confidences = st.sampled_from([0.55, 0.99, 0.01, float("nan")])


def patient_of(key: str) -> dict[str, str]:
    """Of three cases in a row, the first two are of one patient, the third has none."""
    number = int(key.rpartition("-")[2])
    return {} if number % 3 == 2 else {"cluster": f"patient-{number // 3}"}


MANAGED = ["activate", "withdraw", "seal", "golden", "golden", "try", "anew", "export"]
CORRECTIONS = ["own", "own", "manager", "reopen", "void"]
WAYS = ["answer"] * 6 + ["undo", "undo", "lose", "old", "extend", "return", "skip", "hold"]


class Day(RuleBasedStateMachine):
    """A day at the desk."""

    def open(self) -> World:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.world = self.open()
        self.desk = self.world.desk
        self.leases: list[tuple[str, str, str]] = []
        self.submissions: list[tuple[str, str, str]] = []
        self.told: dict[str, tuple] = {}
        self.trained: set[str] = set()
        self.certified: set[str] = set()
        self.steps = 0

    @initialize()
    def open_in_the_morning(self) -> None:
        """Begin with a policy and with cases on either side of its threshold."""
        self.world.activate()
        self._send([(f"case-{i}", 0.99 if i % 2 else 0.55) for i in range(6)])

    @rule(batch=st.lists(st.tuples(keys, confidences), min_size=1, max_size=6))
    def send(self, batch) -> None:
        self._send(batch)

    def _send(self, batch) -> None:
        contents = [sent(key, p, **patient_of(key)) for key, p in batch]
        for content, outcome in zip(contents, self.world.send(*contents), strict=True):
            if isinstance(outcome, Outcome):
                p = repr(content["probabilities"]["cat"])
                first = self.told.setdefault(outcome.key, (p, outcome))
                assert first == (p, outcome), "the same case has the same answer for ever"

    # Few rules, each with many ways: Hypothesis tries some rules only in every run, and a day
    # without answers shows little.
    @rule(who=people, other=people, label=labels, what=st.sampled_from(WAYS), data=st.data())
    def read(self, who, other, label, what, data) -> None:
        held = self.world.claim(*who)
        if held is None:
            return
        self.leases.append((*who, held.lease))
        if what == "lose":
            self.world.clock.turn(RULES.lease_seconds + 1)
            self._claim(other)
        if what in ("answer", "undo", "lose"):
            self._answer(*who, held.lease, label)
        if what == "undo":
            self._take_back(*self.submissions[-1])
        if what == "old":
            self._answer(*data.draw(st.sampled_from(self.leases)), label)
        if what in ("extend", "return", "skip"):
            work = {"extend": extend, "return": hand_back, "skip": skip}[what]
            name, role, lease = data.draw(st.sampled_from(self.leases))
            more = ["dark"] if what == "skip" else []
            self.desk.write(work, self.world.user(name, role), lease, *more)

    def _claim(self, who) -> None:
        held = self.world.claim(*who)
        if held is not None:
            self.leases.append((*who, held.lease))

    def _answer(self, name, role, lease, label) -> None:
        """Answer, and send the same answer again: it counts once."""
        submission = f"s{len(self.submissions)}"
        user = self.world.user(name, role)
        given = self.desk.write(answer, user, lease, label, submission)
        again = self.desk.write(answer, user, lease, label, submission)
        assert (again.outcome, again.standing) == ("replayed", given.standing)
        self.submissions.append((name, role, submission))

    @precondition(lambda self: self.submissions)
    @rule(data=st.data())
    def take_back(self, data) -> None:
        self._take_back(*data.draw(st.sampled_from(self.submissions[-3:])))

    def _take_back(self, name, role, submission) -> None:
        try:
            held = self.desk.write(undo, self.world.user(name, role), submission)
        except DeskRefusedError as refused:
            assert refused.code == "cannot_undo"  # noqa: PT017 - it may also work
        else:
            self.leases.append((name, role, held.lease))

    @precondition(lambda self: self.submissions)
    @rule(data=st.data(), label=labels, key=keys, what=st.sampled_from(CORRECTIONS))
    def correct(self, data, label, key, what) -> None:
        """Correct an answer, as its reader or as a manager; open a case again; or void it."""
        name, role, submission = data.draw(st.sampled_from(self.submissions))
        why = {"reason": "looked again"}
        work = {
            "own": (correct_own, self.world.user(name, role), submission, label),
            "manager": (correct_of, self.world.user("mia", "manager"), key, name, label),
            "reopen": (reopen, key),
            "void": (void_case, key),
        }[what]
        try:
            self.desk.write(*work, **why)
        except DeskRefusedError as refused:
            assert refused.code in ("conflict", "not_found")  # noqa: PT017 - it may also work

    @rule(seconds=st.sampled_from([1, 1, 20, 1_000, 100_000, -2, -100_000]))
    def turn(self, seconds) -> None:
        self.world.clock.turn(seconds)

    @rule(batch=st.lists(st.tuples(keys, confidences), min_size=1, max_size=4))
    def answer_in_shadow(self, batch) -> None:
        """B answers cases, some again with other numbers: its first answer stays."""
        given = [Shadow(key, "B", {"cat": p, "dog": 1 - p}) for key, p in batch]
        for result in self.desk.write(receive_shadows, given):
            assert isinstance(result, dict) or result.code in ("conflict", "not_found")

    def _try_out(self) -> None:
        """Let B decide a share, whatever the evidence says: that has its own tests."""
        trial = self.desk.read(trial_policy)
        if trial is not None:
            self.desk.write(withdraw, trial.id, reason="test")
        number = self.desk.write(add_policy, policy_text(model_name="B"), source="challenger")
        self.desk.write(begin, number, "trial", share=0.5)

    @precondition(lambda self: self.steps % 4 == 3)
    @rule(what=st.sampled_from(MANAGED))
    def manage(self, what) -> None:
        active = self.desk.read(active_policy)
        if what == "golden":
            golden = {"key": f"gold-{self.steps}", "label": "cat"}
            assert self.desk.write(add_golden, [read_golden(json.dumps(golden))] * 2) == 1
        elif what == "activate":
            self.world.activate()
        elif what == "try":
            self._try_out()
        elif what == "anew":
            decide_all_waiting(self.desk)
        elif what == "seal":
            seal_events(self.desk)
        elif what == "export":
            self._export()
        elif active is not None:
            self.desk.write(withdraw, active.id, reason="test")

    def _export(self) -> None:
        """Export for training: what trained never certifies, and the reverse."""
        self.certified |= {case.unit for case in self.desk.read(blind_labels).cases}
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            try:
                export_for_training(self.desk, Path(folder, "set"))
            except DeskRefusedError as refused:
                assert refused.code == "too_few"  # noqa: PT017 - it may also work
            else:
                found = pd.read_parquet(Path(folder, "set/train.parquet"))
                alone = "k:" + found.key
                self.trained |= {*("c:" + found.patient).fillna(alone)}
        assert not self.trained & self.certified

    def teardown(self) -> None:
        try:
            check_all(self.desk)
            names = [name for name, role in PEOPLE if role == "reader"]
            read_all(self.world, lambda key: "cat", names=names)
            self._export()
            check_all(self.desk)
        finally:
            self.desk.close()
            super().teardown()

    def check_invariants(self, *arguments, **options) -> None:
        """Look at all tables after every third step: looking is most of the time."""
        self.steps += 1
        if self.steps % 3 == 0:
            check_all(self.desk)
        super().check_invariants(*arguments, **options)


RULES = Rules(
    quality_rate=0.6, second_share=0.4, audit_second_share=0.5, undo_seconds=30, lease_seconds=600
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_day_at_the_desk(kind, request):
    cluster = request.getfixturevalue("cluster") if kind == "postgresql" else None

    class Machine(Day):
        def open(self) -> World:
            if cluster is not None:
                cluster.empty_desk()
                place = cluster.address("desk")
            else:
                self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
                place = self.folder.name
            clock = Clock()
            desk = Desk.open(place, rules=RULES, clock=clock, secret=b"test")
            return World(desk, clock)

        def teardown(self) -> None:
            super().teardown()
            if cluster is None:
                self.folder.cleanup()

    machine = Machine.TestCase
    machine.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
    machine("runTest").runTest()

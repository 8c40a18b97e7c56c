"""The invariants, whatever people do in whatever order: a Hypothesis state machine."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from expertload.desk import Desk, Rules
from expertload.desk.intake import Outcome
from expertload.desk.queue import answer, extend, hand_back, skip, undo
from expertload.desk.store._tables import metadata
from expertload.desk.trail import seal_events
from expertload.desk.watch import active_policy, withdraw
from expertload.exceptions import DeskRefusedError
from tests.desk.conftest import MEMORY
from tests.desk.invariants import check_all
from tests.desk.world import CLASSES, Clock, World, sent

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
        self.steps = 0

    @rule(batch=st.lists(st.tuples(keys, confidences), min_size=1, max_size=6))
    def send(self, batch) -> None:
        contents = [sent(key, p) for key, p in batch]
        for content, outcome in zip(contents, self.world.send(*contents), strict=True):
            if isinstance(outcome, Outcome):
                p = repr(content["probabilities"]["cat"])
                first = self.told.setdefault(outcome.key, (p, outcome))
                assert first == (p, outcome), "the same case has the same answer for ever"

    @rule(who=people)
    def claim(self, who) -> None:
        held = self.world.claim(*who)
        if held is not None:
            self.leases.append((*who, held.lease))

    @rule(who=people, label=labels)
    def work(self, who, label) -> None:
        """Take what is due and answer it."""
        held = self.world.claim(*who)
        if held is not None:
            self.leases.append((*who, held.lease))
            self._answer(*self.leases[-1], label)

    @rule(who=people, label=labels)
    def change_of_mind(self, who, label) -> None:
        """Answer, and take it back at once."""
        self.work(who, label)
        if self.submissions:
            self._take_back(*self.submissions[-1])

    @rule(who=people, other=people, label=labels)
    def lose_it(self, who, other, label) -> None:
        """Hold a case for too long, and answer it when somebody else has it."""
        held = self.world.claim(*who)
        if held is not None:
            self.world.clock.turn(RULES.lease_seconds + 1)
            self.claim(other)
            self._answer(*who, held.lease, label)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), label=labels, fresh=st.booleans())
    def answer(self, data, label, fresh) -> None:
        lease = self.leases[-1] if fresh else data.draw(st.sampled_from(self.leases))
        self._answer(*lease, label)

    def _answer(self, name, role, lease, label) -> None:
        """Answer, and send the same answer again: it counts once."""
        submission = f"s{len(self.submissions)}"
        user = self.world.user(name, role)
        given = self.desk.write(answer, user, lease, label, submission)
        again = self.desk.write(answer, user, lease, label, submission)
        assert (again.outcome, again.standing) == ("replayed", given.standing)
        self.submissions.append((name, role, submission))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), what=st.sampled_from([extend, hand_back, skip]))
    def let_go(self, data, what) -> None:
        name, role, lease = data.draw(st.sampled_from(self.leases))
        more = ["dark"] if what is skip else []
        self.desk.write(what, self.world.user(name, role), lease, *more)

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

    @rule(seconds=st.sampled_from([1, 1, 20, 1_000, 100_000, -2, -100_000]))
    def turn(self, seconds) -> None:
        self.world.clock.turn(seconds)

    @rule()
    def activate(self) -> None:
        self.world.activate()

    @rule()
    def withdraw(self) -> None:
        active = self.desk.read(active_policy)
        if active is not None:
            self.desk.write(withdraw, active.id, reason="test")

    @rule()
    def seal(self) -> None:
        seal_events(self.desk)

    def teardown(self) -> None:
        try:
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


RULES = Rules(quality_rate=0.6, second_share=0.4, undo_seconds=30, lease_seconds=600)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_day_at_the_desk(kind, request):
    cluster = request.getfixturevalue("cluster") if kind == "postgresql" else None

    class Machine(Day):
        def open(self) -> World:
            if cluster is not None:
                names = ", ".join(table.name for table in metadata.sorted_tables)
                cluster.sql(f"TRUNCATE {names} RESTART IDENTITY CASCADE", database="desk")
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
    machine.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
    machine("runTest").runTest()

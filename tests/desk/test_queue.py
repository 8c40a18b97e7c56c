"""One case for one reader, answers kept, disputes settled."""

from __future__ import annotations

import itertools

import pytest
from sqlalchemy import select

from expertload.desk.people.accounts import disable_user
from expertload.desk.queue.answers import Answered, correct_own, next_reading, undo
from expertload.desk.queue.claims import extend, hand_back, skip, upcoming
from expertload.desk.store.tables import answers, cases, decisions, readings
from expertload.desk.watch.state import state_of
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.world import CLASSES


def delegate(world, *keys, **more):
    world.send(*({"key": key, "confidence": 0.5, "label": "cat", **more} for key in keys))


def test_nothing_waits(world):
    assert world.claim() is None


def test_a_case_is_claimed_and_answered(world):
    delegate(world, "a")
    held = world.claim()
    assert held.key == "a"
    assert world.claim().lease == held.lease, "claiming twice gives the same case"
    assert world.claim("bob") is None
    assert world.answer(held, "dog").outcome == "counted"
    assert world.claim() is None
    assert world.case("a").state == "closed"
    (decision,) = world.rows(select(decisions))
    assert (decision.kind, decision.label, decision.version) == ("expert", "dog", 1)
    assert world.counts() == {
        "received": 1,
        "cases.closed": 1,
        "readings.done": 1,
        "answers.counted": 1,
    }


def test_earliest_due_first_then_in_order(world):
    delegate(world, "late", due="2040-01-01T00:00:00Z")
    delegate(world, "b", "a")
    delegate(world, "soon", due=1_000)
    keys = []
    while (held := world.claim()) is not None:
        keys.append(held.key)
        world.answer(held, "cat")
    assert keys == ["soon", "a", "b", "late"]


def test_an_expired_lease_is_returned_inside_the_next_claim(world):
    delegate(world, "a")
    held = world.claim("ann")
    world.clock.turn(899)
    assert world.claim("bob") is None
    world.clock.turn(2)
    again = world.claim("bob")
    assert again.key == "a"
    assert again.lease != held.lease
    late = world.answer(held, "dog", "ann")
    assert (late.outcome, late.undo_until) == ("late", None)
    assert world.answer(again, "cat", "bob").outcome == "counted"
    given = world.rows(select(answers.c.label, answers.c.standing).order_by(answers.c.id))
    assert [tuple(row) for row in given] == [("dog", "late"), ("cat", "counted")]
    assert world.rows(select(decisions.c.label))[0].label == "cat"


def test_an_answer_after_expiry_counts_while_nobody_took_the_case(world):
    delegate(world, "a")
    held = world.claim()
    world.clock.turn(10_000)
    assert world.answer(held, "cat").outcome == "counted"


def test_a_heartbeat_holds_the_case(world):
    delegate(world, "a")
    held = world.claim()
    world.clock.turn(800)
    until = world.desk.write(extend, world.user("ann"), held.lease)
    assert until == world.clock.now + 900_000_000
    world.clock.turn(800)
    assert world.claim("bob") is None
    world.clock.turn(101)
    assert world.claim("bob").key == "a"
    assert world.desk.write(extend, world.user("ann"), held.lease) is None


def test_a_clock_set_back_by_a_year_locks_no_case(world):
    delegate(world, "a")
    world.clock.turn(365 * 86_400)
    world.claim("ann")
    world.clock.turn(-365 * 86_400)
    assert world.claim("bob").key == "a"


def test_a_clock_set_back_by_a_second_takes_nothing_away(world):
    delegate(world, "a")
    held = world.claim("ann")
    world.clock.turn(-1)
    assert world.claim("bob") is None
    assert world.claim("ann").lease == held.lease


def test_the_same_submission_counts_once(world):
    delegate(world, "a", "b")
    held = world.claim()
    world.answer(held, "cat", submission="s1")
    again = world.answer(held, "cat", submission="s1")
    assert (again.outcome, again.standing) == ("replayed", "counted")
    with pytest.raises(DeskRefusedError, match="another answer"):
        world.answer(held, "dog", submission="s1")
    assert len(world.rows(select(answers))) == 1


def test_a_second_answer_to_the_same_lease_is_late(world):
    delegate(world, "a")
    held = world.claim()
    world.answer(held, "cat", submission="s1")
    assert world.answer(held, "dog", submission="s2").outcome == "late"
    assert world.case("a").state == "closed"


@pytest.mark.parametrize(
    "lease", ["", "1", "1-2-3", "x-y-z", "1-2-3-4", "9" * 30 + "-a-b", "-1-a-b"]
)
def test_a_made_up_lease_is_refused(world, lease):
    world.user("ann")
    for work in (extend, hand_back):
        with pytest.raises(DeskRefusedError, match="not given to you"):
            world.desk.write(work, world.user("ann"), lease)


def test_a_stolen_lease_is_refused(world):
    delegate(world, "a")
    held = world.claim("ann")
    with pytest.raises(DeskRefusedError, match="not given to you"):
        world.answer(held, "cat", "mallory")


def test_a_skipped_case_goes_to_others_and_rests_for_the_skipper(world):
    delegate(world, "a")
    held = world.claim("ann")
    assert world.desk.write(skip, world.user("ann"), held.lease, "too dark")
    assert world.case("a").state == "waiting"
    assert world.claim("ann") is None
    assert world.claim("bob").key == "a"
    world.clock.turn(1_801)
    assert world.claim("ann").key == "a"
    assert not world.desk.write(skip, world.user("ann"), held.lease, "again")


def test_a_case_handed_back_can_be_taken_by_anybody(world):
    delegate(world, "a")
    held = world.claim()
    assert world.desk.write(hand_back, world.user("ann"), held.lease)
    assert world.claim().lease != held.lease


def test_what_comes_next_is_foreseen_without_taking_it(world):
    delegate(world, "a", "b")
    world.claim("ann")
    ann, bob = world.user("ann"), world.user("bob")
    assert world.desk.read(upcoming, bob) == world.case("b").id
    assert world.desk.read(upcoming, ann) == world.case("b").id
    assert len(world.rows(select(readings).where(readings.c.state == "leased"))) == 1


# ------------------------------------------------------------------ second reading


def slow_next(model, given, second, arbitrated):
    """The same rule, written as people say it."""
    if arbitrated:
        return given[-1]
    everybody = ([model] if model else []) + given
    if any(opinion != everybody[0] for opinion in everybody):
        return "arbiter"
    if second and len(given) == 1:
        return "second"
    return everybody[0]


def test_who_reads_next():
    for model, second, arbitrated in itertools.product((None, "x"), (False, True), (False, True)):
        for n in (1, 2, 3):
            for given in itertools.product("xy", repeat=n):
                wanted = 1 + (model is not None) + second
                opinions = ([model] if model else []) + list(given)
                got = next_reading(opinions, wanted=wanted, arbitrated=arbitrated)
                reader_or_label = given[-1] if got is None else got
                assert reader_or_label == slow_next(model, list(given), second, arbitrated)


@pytest.fixture
def twice(world):
    """A world in which every case is read twice."""
    return world.with_rules(second_share=1.0)


def test_two_readers_agree(twice):
    delegate(twice, "a")
    twice.answer(twice.claim("ann"), "cat", "ann")
    assert twice.case("a").state == "waiting"
    assert twice.claim("ann") is None, "nobody reads a case twice"
    twice.answer(twice.claim("bob"), "cat", "bob")
    assert twice.case("a").state == "closed"


def test_a_dispute_is_for_an_arbiter_who_was_no_reader_of_it(twice):
    delegate(twice, "a")
    twice.answer(twice.claim("ann"), "cat", "ann")
    twice.answer(twice.claim("bob", "arbiter"), "dog", "bob", "arbiter")
    assert twice.case("a").state == "disputed"
    assert twice.claim("cleo") is None, "a reader does not settle disputes"
    assert twice.claim("bob", "arbiter") is None, "nor does one of its readers"
    twice.answer(twice.claim("dora", "arbiter"), "dog", "dora", "arbiter")
    assert twice.case("a").state == "closed"
    assert twice.rows(select(decisions.c.label))[0].label == "dog"


# ------------------------------------------------------------------ undo


def test_an_answer_is_taken_back(world):
    delegate(world, "a", "b")
    held = world.claim()
    world.answer(held, "cat", submission="s1")
    world.claim()  # the next one, which is given back
    again = world.desk.write(undo, world.user("ann"), "s1")
    assert again.key == "a"
    assert world.case("a").state == "waiting"
    world.answer(again, "dog", submission="s2")
    chain = world.rows(select(decisions.c.label, decisions.c.version).order_by(decisions.c.id))
    assert [tuple(row) for row in chain] == [("cat", 1), (None, 2), ("dog", 3)]
    assert world.claim("bob").key == "b"


def test_a_submission_that_was_taken_back_is_not_said_to_count(world):
    delegate(world, "a")
    held = world.claim()
    world.answer(held, "cat", submission="s1")
    again = world.desk.write(undo, world.user("ann"), "s1")
    replayed = world.answer(again, "cat", submission="s1")
    assert replayed == Answered("replayed", "undone", None)
    assert world.case("a").state == "waiting"
    assert world.answer(again, "cat", submission="s2").standing == "counted"
    world.desk.write(correct_own, world.user("ann"), "s2", "dog", reason="looked again")
    assert world.answer(held, "cat", submission="s1").standing == "undone"
    assert world.answer(again, "cat", submission="s2").standing == "counted", "as corrected"


def test_undo_ends_after_its_time(world):
    delegate(world, "a")
    world.answer(world.claim(), "cat", submission="s1")
    world.clock.turn(11)
    with pytest.raises(DeskRefusedError, match="That time is over"):
        world.desk.write(undo, world.user("ann"), "s1")


def test_undo_ends_where_another_reader_has_begun(twice):
    delegate(twice, "a")
    twice.answer(twice.claim("ann"), "cat", "ann", submission="s1")
    twice.claim("bob")
    with pytest.raises(DeskRefusedError, match="Another reader"):
        twice.desk.write(undo, twice.user("ann"), "s1")


def test_undo_takes_the_second_reading_back(twice):
    delegate(twice, "a")
    twice.answer(twice.claim("ann"), "cat", "ann", submission="s1")
    twice.desk.write(undo, twice.user("ann"), "s1")
    states = twice.rows(select(readings.c.state).order_by(readings.c.id))
    assert [row.state for row in states] == ["leased", "void"]
    with pytest.raises(DeskRefusedError, match="taken back"):
        twice.desk.write(undo, twice.user("ann"), "s1")


def test_nobody_takes_back_what_another_said(world):
    delegate(world, "a")
    world.answer(world.claim("ann"), "cat", "ann", submission="s1")
    with pytest.raises(DeskRefusedError, match="no such answer"):
        world.desk.write(undo, world.user("bob"), "s1")


def test_a_label_that_is_no_class_is_refused(world):
    world = world.with_rules(classes=("cat", "dog"))
    delegate(world, "a")
    held = world.claim()
    assert held.classes == ("cat", "dog")
    with pytest.raises(DeskRefusedError, match="not one of the classes"):
        world.answer(held, "cow")
    assert world.answer(held, "dog").outcome == "counted"


def test_open_cases_have_open_readings(world):
    delegate(world, *"abcdef")
    for name in ("ann", "bob"):
        world.claim(name)
    waiting = select(cases.c.id).where(cases.c.state == "waiting")
    is_open = select(readings.c.case_id).where(readings.c.state.in_(("waiting", "leased")))
    assert set(world.rows(waiting)) == set(world.rows(is_open))


def test_what_nobody_may_take_is_counted(twice):
    def stuck():
        return twice.desk.read(state_of)["backlog"]["stuck"]

    delegate(twice, "a")
    assert stuck() == 1, "there is no reader yet"
    twice.user("ann")
    assert stuck() == 0
    twice.answer(twice.claim("ann"), "cat", "ann")
    assert stuck() == 1, "she may not read it a second time"
    twice.answer(twice.claim("bob"), "dog", "bob")
    assert stuck() == 1, "there is no arbiter"
    twice.user("eve", "arbiter")
    assert stuck() == 0


def test_a_case_does_not_wait_for_somebody_who_is_disabled(world):
    world.with_rules(classes=("cat", "dog"), lease_seconds=86_400)
    world.send_one("a", 0.6)
    held = world.claim("ann")
    world.desk.write(disable_user, world.user("ann"))
    again = world.claim("ben")
    assert again.key == held.key
    assert world.answer(again, "cat", "ben").outcome == "counted"
    check_all(world.desk)


def test_the_last_arbiter_gets_no_second_reading_that_another_may_take(world):
    """Otherwise, nobody could settle a dispute about the case."""
    world.with_rules(classes=CLASSES, second_share=1.0)
    for name, role in (("ann", "reader"), ("bob", "reader"), ("zoe", "arbiter")):
        world.user(name, role)
    delegate(world, "a")
    world.answer(world.claim("ann"), "cat")
    assert world.claim("zoe", "arbiter") is None
    world.answer(world.claim("bob"), "dog", "bob")
    world.answer(world.claim("zoe", "arbiter"), "dog", "zoe", "arbiter")
    assert world.case("a").state == "closed"


def test_the_last_arbiter_gets_a_second_reading_that_nobody_else_may_take(world):
    world.with_rules(classes=CLASSES, second_share=1.0)
    delegate(world, "a")
    world.answer(world.claim("ann"), "cat")
    assert world.claim("zoe", "arbiter").key == "a"


def test_an_arbiter_gets_a_second_reading_if_another_can_settle_it(world):
    world.with_rules(classes=CLASSES, second_share=1.0)
    world.user("bob")
    world.user("yan", "arbiter")
    delegate(world, "a")
    world.answer(world.claim("ann"), "cat")
    assert world.claim("zoe", "arbiter").key == "a"

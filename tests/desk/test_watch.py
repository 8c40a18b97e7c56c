"""The promise is watched: warnings, the alarm in the same commit, strict mode."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import select

from expertload import Cases
from expertload.desk.queue.answers import undo
from expertload.desk.store.tables import cases, decisions, events, monitors, policies
from expertload.desk.watch.policies import activate, add_policy, withdraw
from expertload.exceptions import DeskRefusedError
from expertload.monitoring import AccuracyMonitor
from tests.desk.world import policy_text, sent


def monitor(world):
    return world.rows(select(monitors).order_by(monitors.c.id.desc()))[0]


def recounted(world, target=0.95):
    """The monitor from nothing but the cases and the decisions on them, the slow way."""
    rows = world.rows(
        select(cases)
        .where(cases.c.accepted, cases.c.draw < cases.c.rate, cases.c.policy_id.is_not(None))
        .order_by(cases.c.id)
    )
    slow = AccuracyMonitor(target_accuracy=target)
    label = {"open": None, "right": 1, "wrong": 0}
    if rows:
        slow.update([label[row.audit] for row in rows])
    return slow


def read_all(world, truth, names=("ann",), arbiters=("zoe", "yan")):
    """Let everybody answer until nothing waits; of two arbiters one has not read the case."""
    people = [*((name, "reader") for name in names), *((name, "arbiter") for name in arbiters)]
    progress = True
    while progress:
        progress = False
        for name, role in people:
            while (held := world.claim(name, role)) is not None:
                world.answer(held, truth(held.key), name, role)
                progress = True


@pytest.fixture
def audited(world):
    """Everything that is decided is audited too."""
    world.with_rules(quality_rate=1.0, raised_rate=1.0)
    world.activate()
    return world


@pytest.mark.slow
def test_right_decisions_confirm_the_promise(audited):
    audited.send(*(sent(f"case-{i}") for i in range(90)))
    assert monitor(audited).audited == 0, "the monitor moves with answers"
    read_all(audited, lambda key: "cat")
    row = monitor(audited)
    assert (row.audited, row.errors, row.open, row.state) == (90, 0, 0, "confirmed")
    slow = recounted(audited)
    assert row.evidence == pytest.approx(slow.evidence, rel=1e-12)
    assert row.bound == pytest.approx(slow.lower_bound, rel=1e-12)


@pytest.mark.slow
def test_open_reviews_count_against_the_confirmation(audited):
    audited.send(*(sent(f"case-{i}") for i in range(100)))
    for _ in range(90):
        audited.answer(audited.claim(), "cat")
    row = monitor(audited)
    assert (row.open, row.state) == (10, "not refuted")
    assert row.bound == pytest.approx(recounted(audited).lower_bound, rel=1e-12)


def test_a_disagreement_is_an_error_only_after_arbitration(audited):
    audited.send(sent("a"))
    audited.answer(audited.claim(), "dog")
    assert (monitor(audited).errors, audited.case("a").audit) == (0, "open")
    audited.answer(audited.claim("zoe", "arbiter"), "cat", "zoe", "arbiter")
    assert (monitor(audited).errors, audited.case("a").audit) == (0, "right")
    assert audited.case("a").state == "auto"
    assert len(audited.rows(select(decisions))) == 1


def test_an_error_is_corrected(audited):
    audited.send(sent("a"))
    audited.answer(audited.claim(), "dog")
    audited.answer(audited.claim("zoe", "arbiter"), "dog", "zoe", "arbiter")
    assert (monitor(audited).errors, audited.case("a").audit) == (1, "wrong")
    chain = audited.rows(select(decisions).order_by(decisions.c.id))
    assert [(d.kind, d.label) for d in chain] == [("auto", "cat"), ("correction", "dog")]
    assert chain[1].supersedes == chain[0].id


@pytest.mark.slow
def test_the_alarm_withdraws_the_policy_in_the_same_commit(audited):
    audited.send(*(sent(f"case-{i}") for i in range(30)))
    read_all(audited, lambda key: "dog")
    (policy,) = audited.rows(select(policies))
    assert policy.state == "withdrawn"
    assert "alarm" in policy.reason
    row = monitor(audited)
    assert row.state == "refuted"
    assert row.alarmed is not None
    told = {e.kind: e.id for e in audited.rows(select(events)) if e.kind != "case.received"}
    between = [
        e.kind
        for e in audited.rows(select(events).order_by(events.c.id))
        if told["monitor.alarm"] - 3 <= e.id <= told["monitor.alarm"]
    ]
    assert between == ["audit.settled", "monitor.moved", "policy.withdrawn", "monitor.alarm"]
    assert audited.send_one("later").status == "delegated"
    assert audited.case("later").cause == "no_policy"
    assert recounted(audited).state == "refuted"


def test_no_decision_lies_outside_its_policys_time_whatever_the_clock_does(audited):
    audited.clock.turn(-3_600)
    audited.send(sent("a"))
    audited.clock.turn(7_200)
    audited.send(sent("b"))
    audited.clock.turn(-7_200)
    audited.desk.write(withdraw, 1, reason="test")
    (policy,) = audited.rows(select(policies))
    made = [row.made for row in audited.rows(select(decisions.c.made))]
    assert len(made) == 2
    assert all(policy.activated <= moment <= policy.withdrawn for moment in made)


def test_a_warning_raises_the_share_that_is_read(world):
    world.with_rules(quality_rate=0.5, raised_rate=0.9)
    world.activate()
    world.send(*(sent(f"case-{i}") for i in range(20)))
    audited = world.rows(select(cases.c.key).where(cases.c.audit == "open").order_by(cases.c.id))
    # Evidence of 0.5, 1.1, 3.9, 3.1, 15.1: above the warning, below the alarm.
    truth = dict(
        zip([row.key for row in audited], ["cat", "dog", "dog", "cat", "dog"], strict=False)
    )
    for _ in truth:
        held = world.claim()
        world.answer(held, truth[held.key])
    assert world.desk.read(lambda t: t.project.sampling_rate) == 0.5
    read_all(world, lambda key: truth.get(key, "cat"))
    assert 5 < monitor(world).evidence < 20 or len(audited) > 5
    assert "monitor.warning" in [row.kind for row in world.rows(select(events.c.kind))]
    assert world.desk.read(lambda t: t.project.sampling_rate) == 0.9
    world.send_one("later")
    assert world.case("later").rate == 0.9
    world.activate()
    assert world.desk.read(lambda t: t.project.sampling_rate) == 0.5


def test_undo_opens_the_audit_again(audited):
    audited.send(sent("a"))
    held = audited.claim()
    audited.answer(held, "cat", submission="s1")
    assert (monitor(audited).audited, monitor(audited).open) == (1, 0)
    audited.desk.write(undo, audited.user("ann"), "s1")
    assert (monitor(audited).audited, monitor(audited).open) == (1, 1)
    assert audited.case("a").state == "auto"


@pytest.mark.slow
def test_what_is_settled_and_old_is_not_counted_again_and_the_numbers_are_the_same(audited):
    rng = np.random.default_rng(0)
    truth = {}
    for hour in range(6):
        keys = [f"case-{hour}-{i}" for i in range(20)]
        truth.update({key: "cat" if rng.random() < 0.97 else "dog" for key in keys})
        audited.send(*(sent(key) for key in keys))
        read_all(audited, truth.__getitem__)
        audited.clock.turn(5_000)
    row, slow = monitor(audited), recounted(audited)
    assert '"after": 0' not in row.memory
    assert (row.audited, row.errors) == (slow.n_audits, slow.n_errors)
    assert row.evidence == pytest.approx(slow.evidence, rel=1e-9)
    assert row.bound == pytest.approx(slow.lower_bound, rel=1e-9)
    assert row.state == slow.state


@pytest.mark.slow
def test_strict_mode_decides_once_the_promise_is_confirmed(world):
    world.with_rules(strict=True)
    world.activate()
    world.send(*(sent(f"case-{i}") for i in range(90)))
    read_all(world, lambda key: "cat")
    assert monitor(world).state == "confirmed"
    assert world.send_one("later").status == "decided"


def test_a_policy_lives_once(world):
    first = world.activate()
    second = world.activate()
    states = {p.id: (p.state, p.reason) for p in world.rows(select(policies))}
    assert states == {
        first: ("withdrawn", f"replaced by policy {second}"),
        second: ("active", None),
    }
    with pytest.raises(DeskRefusedError, match="only a draft"):
        world.desk.write(activate, first)
    with pytest.raises(DeskRefusedError, match="no policy 99"):
        world.desk.write(activate, 99)


def test_only_certified_policies_are_taken(world, tmp_path):
    from expertload.operating_point import certify, choose

    choose(Cases.from_predictions(["a", "b"], [[0.9, 0.1], [0.2, 0.8]]), target_accuracy=1).save(
        tmp_path / "p.json"
    )
    with pytest.raises(DeskRefusedError, match="needs a certified policy"):
        world.desk.write(add_policy, (tmp_path / "p.json").read_text())
    certify(Cases.from_correctness([0, 1], [1, 2]), target_accuracy=0.9).save(tmp_path / "p.json")
    with pytest.raises(DeskRefusedError, match="needs a certified policy"):
        world.desk.write(add_policy, (tmp_path / "p.json").read_text())
    edited = policy_text().replace("0.95", "0.5")
    with pytest.raises(DeskRefusedError, match="not a policy"):
        world.desk.write(add_policy, edited)

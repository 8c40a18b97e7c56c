"""Answers corrected after the time to undo them, cases opened again, and what managers see."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from expertload.desk.queue.answers import correct_own, own_answers
from expertload.desk.queue.claims import skip
from expertload.desk.queue.managing import correct_of, reopen, void_case
from expertload.desk.store.tables import answers, decisions
from expertload.desk.trail.chain import verify
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.people import visit


def decided(world, key):
    case = world.case(key)
    rows = world.rows(select(decisions).where(decisions.c.case_id == case.id))
    return [row.label for row in sorted(rows, key=lambda row: row.version)]


def read(world, label, name="ann", role="reader"):
    held = world.claim(name, role)
    world.answer(held, label, name, role, submission=f"{name}-{held.key}")
    return held.key


def test_a_reader_corrects_an_answer_long_after(world):
    world.send_one("a", 0.6)
    read(world, "cat")
    world.clock.turn(100_000)
    world.desk.write(correct_own, world.user("ann"), "ann-a", "dog", reason="wrong key")
    assert decided(world, "a") == ["cat", "dog"]
    (row,) = world.rows(select(answers).where(answers.c.supersedes.is_not(None)))
    assert (row.label, row.standing, row.reason) == ("dog", "correction", "wrong key")
    with pytest.raises(DeskRefusedError, match="does not count"):
        world.desk.write(correct_own, world.user("ann"), "ann-a", "cat", reason="again")
    check_all(world.desk)
    assert world.desk.read(verify).is_intact


def test_a_correction_brings_an_arbiter_and_another_sends_him_home(world):
    world.with_rules(second_share=1.0)
    world.send_one("a", 0.6)
    read(world, "cat")
    read(world, "cat", "bob")
    assert world.case("a").state == "closed"
    world.desk.write(correct_own, world.user("bob"), "bob-a", "dog", reason="looked again")
    assert world.case("a").state == "disputed"
    assert decided(world, "a") == ["cat", None]
    check_all(world.desk)
    given = world.desk.read(own_answers, world.user("bob"))[0]
    who = world.user("bob")
    world.desk.write(correct_own, who, given.submission, "cat", reason="looked a third time")
    assert world.case("a").state == "closed"
    assert decided(world, "a") == ["cat", None, "cat"]
    check_all(world.desk)


def test_nobody_corrects_under_another_readers_hands(world):
    world.with_rules(second_share=1.0)
    world.send_one("a", 0.6)
    read(world, "cat")
    world.claim("bob")
    with pytest.raises(DeskRefusedError, match="Another reader"):
        world.desk.write(correct_own, world.user("ann"), "ann-a", "dog", reason="x")


def test_a_manager_corrects_answers_but_not_those_that_check_the_promise(world):
    world.with_rules(quality_rate=1.0)
    world.activate()
    world.send_one("checked", 0.99)
    world.send_one("delegated", 0.6)
    read(world, "cat"), read(world, "cat")
    boss = world.user("mia", "manager")
    world.desk.write(correct_of, boss, "delegated", "ann", "dog", reason="told by phone")
    assert decided(world, "delegated") == ["cat", "dog"]
    with pytest.raises(DeskRefusedError, match="blind") as refused:
        world.desk.write(correct_of, boss, "checked", "ann", "dog", reason="told by phone")
    assert "open the case again" in refused.value.hint
    world.desk.write(reopen, "checked", reason="told by phone")
    read(world, "dog", "bob")
    read(world, "dog", "zoe", "arbiter")
    assert decided(world, "checked") == ["cat", "dog"]
    assert world.case("checked").audit == "right", "what was blind stays as it was"
    check_all(world.desk)


def test_a_blind_reader_corrects_an_audit_and_the_monitor_follows(world):
    world.with_rules(quality_rate=1.0)
    world.activate()
    world.send_one("a", 0.99)
    read(world, "cat")
    assert world.case("a").audit == "right"
    world.desk.write(correct_own, world.user("ann"), "ann-a", "dog", reason="slipped")
    assert world.case("a").audit == "open"
    read(world, "dog", "zoe", "arbiter")
    assert world.case("a").audit == "wrong"
    assert decided(world, "a") == ["cat", "dog"]
    check_all(world.desk)


def test_a_void_case_can_be_opened_again_and_an_open_one_cannot(world):
    world.send_one("a", 0.6)
    with pytest.raises(DeskRefusedError, match="still has to read"):
        world.desk.write(reopen, "a", reason="x")
    world.desk.write(void_case, "a", reason="sent twice")
    world.desk.write(reopen, "a", reason="it was not")
    assert read(world, "cat") == "a"
    assert world.case("a").state == "closed"
    with pytest.raises(DeskRefusedError, match="There is no case"):
        world.desk.write(reopen, "b\0", reason="x")
    check_all(world.desk)


# ------------------------------------------------------------------ pages


@pytest.mark.slow
def test_what_is_wrong_with_a_case_reaches_a_manager_who_voids_it(served):
    served.send_one("torn page", 0.6)
    reason = "Something is wrong with the case: a corner is missing"
    held = served.claim()
    served.desk.write(skip, served.user("ann"), held.lease, reason)
    with visit(served, "boss", "manager") as client:
        page = client.get("/manage/cases").text
        assert "a corner is missing" in page
        assert 'href="/manage/cases?key=torn%20page"' in page
        gone = client.form("/manage/cases/void", key="torn page", reason="torn")
        assert gone.headers["location"] == "/manage/cases?key=torn%20page&notice=void"
        page = client.get("/manage/cases", params={"key": "torn page", "notice": "void"}).text
        assert "out of the queue" in page
        assert "No reader has reported" in page
        assert client.form("/manage/cases/reopen", key="torn page", reason="x").status_code == 303
        assert client.get("/manage/cases", params={"key": "nothing"}).status_code == 404


@pytest.mark.slow
def test_readers_see_their_own_answers_and_correct_them(served):
    served.send_one("mine", 0.6, body={"kind": "text", "content": "a furry thing"})
    served.send_one("theirs", 0.6, body={"kind": "text", "content": "a barking thing"})
    read(served, "dog", "bob")
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        page = client.get("/review").text
        lease = page.split('name="lease" value="')[1].split('"')[0]
        client.form("/review/answer", lease=lease, submission="one", label="cat")
        own = client.get("/review/answers").text
        assert "theirs" in own
        assert "mine" not in own, "only what this reader has read"
        number = own.split("/review/answers?n=")[1].split('"')[0]
        case = client.get("/review/answers", params={"n": number}).text
        assert "a barking thing" in case
        client.form("/review/correct", submission="one", label="dog", reason="it barks")
        assert "Corrected" in client.get("/review/answers").text
        assert "furry" not in client.get("/review/answers", params={"n": 1}).text
    check_all(served.desk)

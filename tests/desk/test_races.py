"""Two people at one moment: on PostgreSQL, transactions run beside each other.

Each test lets the second one act at the worst moment of the first, by way of a function that the
first one calls there. SQLite has one writer, which makes such moments impossible.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from expertload.desk.pages import overview
from expertload.desk.people import accounts
from expertload.desk.people.accounts import (
    disable_user,
    find_token,
    find_user,
    revoke_token,
    roles_of,
    set_roles,
)
from expertload.desk.queue import answers as queue_answers
from expertload.desk.queue.answers import undo
from expertload.desk.queue.managing import void_case
from expertload.desk.store.database import Transaction
from expertload.desk.store.tables import cases, events, policies, readings, tokens
from expertload.desk.trail import chain
from expertload.desk.trail.chain import verify
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.people import person, visit
from tests.desk.world import dumps, policy_text, sent

on_postgresql = pytest.mark.parametrize("place", ["postgresql"], indirect=True)


def at(monkeypatch, module, name, act):
    """Let somebody act once, just before a function of a module is called."""
    called, todo = getattr(module, name), [act]

    def with_company(*args, **kwargs):
        if todo:
            todo.pop()()
        return called(*args, **kwargs)

    monkeypatch.setattr(module, name, with_company)


def after(monkeypatch, module, name, act):
    """Let somebody act once, just after a function of a module has returned."""
    called, todo = getattr(module, name), [act]

    def with_company(*args, **kwargs):
        result = called(*args, **kwargs)
        if todo:
            todo.pop()()
        return result

    monkeypatch.setattr(module, name, with_company)


@on_postgresql
def test_a_case_is_voided_while_a_reader_takes_it(world, monkeypatch):
    world.send(sent("a", 0.6))
    world.user("ben")
    after(monkeypatch, Transaction, "all", lambda: world.claim("ben"))
    world.desk.write(void_case, "a", reason="sent by mistake")
    assert world.case("a").state == "void"
    assert world.claim("ben") is None
    check_all(world.desk)


@on_postgresql
def test_a_case_is_voided_while_its_answer_is_stored(world, monkeypatch):
    world.with_rules(classes=("cat", "dog"))
    world.send(sent("a", 0.6))
    held = world.claim("ben")
    with ThreadPoolExecutor(1) as other:
        later = []

        def answered():
            later.append(other.submit(world.answer, held, "cat", "ben"))
            with contextlib.suppress(TimeoutError):
                later[0].result(timeout=1)  # it is done, or waits for us

        at(monkeypatch, Transaction, "all", answered)
        with contextlib.suppress(DeskRefusedError):
            world.desk.write(void_case, "a", reason="sent by mistake")
        later[0].result()
    assert world.case("a").state in ("void", "closed")
    check_all(world.desk)


@on_postgresql
def test_an_answer_is_taken_back_while_the_second_reader_begins(world, monkeypatch):
    world.with_rules(classes=("cat", "dog"), second_share=1)
    world.send(sent("a", 0.6))
    world.answer(world.claim(), "cat", submission="one")
    world.user("ben")
    at(monkeypatch, queue_answers, "take_back", lambda: world.claim("ben"))
    world.desk.write(undo, world.user("ann"), "one")
    assert [row.state for row in world.rows(select(readings).order_by(readings.c.id))] == [
        "leased",
        "void",
    ]
    check_all(world.desk)


@on_postgresql
def test_an_answer_is_taken_back_twice_at_once(world, monkeypatch):
    world.with_rules(classes=("cat", "dog"))
    world.send(sent("a", 0.6))
    world.answer(world.claim(), "cat", submission="one")
    ann = world.user("ann")
    at(monkeypatch, queue_answers, "locked_case", lambda: world.desk.write(undo, ann, "one"))
    with pytest.raises(DeskRefusedError, match="taken back"):
        world.desk.write(undo, ann, "one")
    check_all(world.desk)


def test_what_comes_while_somebody_verifies_is_no_tampering(world, monkeypatch):
    """Events and tables are compared as they were at one moment."""
    world.send(sent("before", 0.6))
    at(monkeypatch, chain, "_different", lambda: world.send_one("meanwhile", 0.6))
    verdict = world.desk.read(verify)
    assert verdict.problems == ()
    assert verdict.n_unsealed == len(world.rows(select(events))) - 1
    assert world.case("meanwhile")


def test_a_page_is_of_one_moment(world, monkeypatch):
    world.activate()
    at(monkeypatch, overview, "_news", lambda: world.send_one("meanwhile", 0.6))
    shown = world.desk.read(overview.overview)
    assert shown["state"]["counts"]["received"] == 0
    assert shown["bars"] is None, "the counters of hours are read after those of all time"


# ------------------------------------------------------------------ managers


@pytest.mark.slow
def test_two_managers_press_everything_at_once(served):
    """Whoever comes first, one policy at most is active, and every form gets a page."""
    served.send(*(sent(f"case-{i}", 0.99) for i in range(20)))
    with visit(served, "max", "manager") as max_, visit(served, "mia", "manager") as mia:

        def work(client, number):
            said = []
            for n in range(1, 9):
                file = {"policy": ("p.json", policy_text())}
                said.append(client.post("/manage/policies", files=file).status_code)
                for each in (n, n + number):
                    said.append(client.form(f"/manage/policies/{each}/activate").status_code)
                    form = client.form(f"/manage/policies/{each}/withdraw", reason="both")
                    said.append(form.status_code)
                    back = client.form(f"/manage/policies/{each}/look-back", percent="100")
                    said.append(back.status_code)
                served.send(sent(f"{number}-{n}", 0.99))
            return said

        with ThreadPoolExecutor(2) as both:
            said = [both.submit(work, client, n) for n, client in enumerate((max_, mia))]
            statuses = {status for future in said for status in future.result()}
    assert statuses <= {303, 404, 409}
    assert len(served.rows(select(policies).where(policies.c.state == "active"))) <= 1
    check_all(served.desk)


@pytest.mark.parametrize(("action", "fields"), [("disable", {}), ("roles", {"roles": "reader"})])
def test_two_managers_who_shut_each_other_out_do_not_leave_a_desk_without_one(
    served, monkeypatch, action, fields
):
    mia, max_ = (person(served.desk, name, "manager") for name in ("mia", "max"))
    with visit(served, "max") as client:
        demote = lambda: served.desk.write(set_roles, max_, ["reader"])  # noqa: E731
        at(monkeypatch, accounts, "people_of", demote)
        refused = client.form(f"/manage/people/{mia}/{action}", **fields)
    assert refused.status_code == 409
    assert "nobody could manage the desk" in refused.text
    assert served.desk.read(roles_of, mia) == {"manager"}
    assert served.desk.read(find_user, "mia").disabled is None


def test_two_commands_that_disable_two_managers_leave_one(world, monkeypatch):
    """Each looks when both are still there."""
    mia, max_ = (person(world.desk, name, "manager") for name in ("mia", "max"))
    both_looked = threading.Barrier(2)
    called = accounts._user

    def look_together(transaction, user):
        found = called(transaction, user)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_looked.wait(timeout=0.5)
        return found

    monkeypatch.setattr(accounts, "_user", look_together)
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(world.desk.write, disable_user, each) for each in (mia, max_)]
    assert [future.exception() is None for future in done].count(True) == 1
    out = [world.desk.read(find_user, name).disabled for name in ("mia", "max")]
    assert out.count(None) == 1
    check_all(world.desk)


# ------------------------------------------------------------------ tokens


def test_a_token_that_ends_while_its_cases_are_sent_stores_none(served, monkeypatch):
    """The cases of a slow sender come whole long after the request has begun."""
    import httpx

    token = served.token("scanner", "api")
    (number,) = (row.id for row in served.rows(select(tokens.c.id)))
    lines = dumps(*(sent(f"case-{i}") for i in range(50)))

    def slowly():
        yield lines[:1_000]
        served.desk.write(revoke_token, number)
        yield lines[1_000:]

    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
    answer = httpx.post(f"{served.address}/api/cases", headers=headers, content=slowly())
    assert answer.status_code == 401, answer.text
    assert served.desk.read(find_token, token) is None
    assert served.rows(select(cases)) == []

"""Clocks that jump, forward and back: nothing is locked for long, nothing outlives its time."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from sqlalchemy import select

from expertload.desk import Desk, Rules
from expertload.desk.people.sessions import begin_session, find_session
from expertload.desk.queue.answers import undo
from expertload.desk.queue.claims import extend, skip
from expertload.desk.store.tables import answers, cases, events, readings
from expertload.desk.trail.webhooks import add_webhook, deliver
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.people import visitor
from tests.desk.processes import serve
from tests.desk.world import Clock, World, sent

HOUR, DAY, YEAR = 3_600, 86_400, 365 * 86_400


def test_a_lease_lengthened_in_the_future_locks_no_case(world):
    world.send_one("a", cat=0.6)
    held = world.claim("ann")
    world.clock.turn(600)
    world.desk.write(extend, world.user("ann"), held.lease)
    world.clock.turn(-30)
    assert world.claim("bob") is None, "set back by a little: ann still works"
    world.clock.turn(YEAR)
    # Nobody else has claimed meanwhile, so the lease is still hers.
    assert world.desk.write(extend, world.user("ann"), held.lease) is not None
    world.clock.turn(-YEAR)
    assert world.claim("bob").key == "a"


def test_a_skip_in_the_future_does_not_hide_a_case_from_its_only_reader(world):
    world.send_one("a", cat=0.6)
    world.clock.turn(YEAR)
    held = world.claim("ann")
    world.desk.write(skip, world.user("ann"), held.lease, "dark")
    assert world.claim("ann") is None
    world.clock.turn(-YEAR)
    assert world.claim("ann").key == "a"


def test_a_session_begun_in_the_future_is_over_when_the_clock_is_right_again(world):
    user = world.user("mia", "manager")
    world.clock.turn(YEAR)
    ahead = world.desk.write(begin_session, user)
    assert world.desk.read(find_session, ahead) is not None
    world.clock.turn(-YEAR)
    assert world.desk.read(find_session, ahead) is None, "it would be valid for a year"
    now = world.desk.write(begin_session, user)
    world.clock.turn(-30)
    assert world.desk.read(find_session, now) is not None, "clocks of two servers differ a little"


@pytest.mark.parametrize("seconds", [-YEAR, -3_601, 11])
def test_an_answer_is_taken_back_for_the_stated_time_alone(world, seconds):
    world.send_one("a", cat=0.6)
    world.answer(world.claim(), "cat", submission="s")
    world.clock.turn(seconds)
    with pytest.raises(DeskRefusedError, match="That time is over"):
        world.desk.write(undo, world.user("ann"), "s")


@pytest.mark.parametrize("seconds", [-YEAR, YEAR])
def test_how_long_a_reader_took_is_unknown_if_the_clock_was_set(world, seconds):
    world.send_one("a", cat=0.6)
    held = world.claim()
    world.clock.turn(seconds)
    assert world.answer(held, "cat").outcome == "counted"
    assert [row.seconds for row in world.rows(select(answers.c.seconds))] == [None]


def test_an_audit_taken_back_long_after_its_case_came_is_counted_again(world):
    """The monitor keeps what is settled; an answer to an old case can still be taken back."""
    world.with_rules(quality_rate=1.0, second_share=0)
    world.activate()
    world.send_one("a")
    world.clock.turn(2 * HOUR)
    world.answer(world.claim("ann"), "cat", submission="s")
    check_all(world.desk)
    world.desk.write(undo, world.user("ann"), "s")
    check_all(world.desk)
    world.answer(world.claim("ann"), "dog")
    world.answer(world.claim("zoe", "arbiter"), "dog", "zoe", "arbiter")
    check_all(world.desk)
    assert world.desk.read(_state)["monitor"]["errors"] == 1


def _state(transaction):
    from expertload.desk.watch.state import state_of

    return state_of(transaction)


@contextlib.contextmanager
def listening():
    """An address that news are sent to, and what has come."""
    heard: list[str] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(self.headers["X-Desk-Delivery"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()
        thread.join()


def test_news_that_wait_for_the_future_are_sent_when_the_clock_is_right_again(world):
    with listening() as (url, heard):
        world.clock.turn(YEAR)
        world.desk.write(add_webhook, url)
        world.send_one("a", cat=0.6)
        world.answer(world.claim(), "cat")  # told when it can no longer be taken back
        assert deliver(world.desk) == 0
        world.clock.turn(-YEAR)
        assert deliver(world.desk) == 1
        assert len(heard) == 1


# ------------------------------------------------------------------ a running server


def set_clock(file, seconds: int) -> None:
    """Set a server's clock off by so much, at once: it never reads half a number."""
    aside = file.with_suffix(".new")
    aside.write_text(str(seconds))
    aside.replace(file)


@pytest.mark.processes
def test_a_running_server_whose_clock_jumps(place, tmp_path):
    """Forward by a year, back by two, and right again: all the while cases are sent and read."""
    clock = tmp_path / "clock"
    set_clock(clock, 0)
    server, tokens = serve(
        place, rules=Rules(quality_rate=0.5, second_share=0, audit_second_share=0), clock=clock
    )
    clients = {
        name: httpx.Client(
            base_url=server.address, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        for name, token in tokens.items()
    }
    told: dict[str, dict] = {}
    n_answers = 0
    with contextlib.ExitStack() as stack:
        for client in clients.values():
            stack.enter_context(client)
        for turn, offset in enumerate([0, YEAR, -YEAR, 0]):
            set_clock(clock, offset)
            for number in range(6):
                case = sent(f"{turn}-{number}", 0.99 if number % 2 else 0.6)
                answer = clients["model"].post("/api/cases", json=case)
                assert answer.status_code == 200
                told[case["key"]] = answer.json()
            for case in list(told)[:3]:  # asked again, under another clock
                again = sent(case, 0.99 if int(case[-1]) % 2 else 0.6)
                assert clients["model"].post("/api/cases", json=again).json() == told[case]
            held = clients["bob"].post("/api/claims")  # and walks away with it
            assert held.status_code == 200
            for number in range(3):
                held = clients["ann"].post("/api/claims")
                assert held.status_code == 200, "a case is locked"
                given = {"label": "cat", "submission": f"{turn}-{number}"}
                path = f"/api/claims/{held.json()['lease']}/answer"
                assert clients["ann"].post(path, json=given).json()["outcome"] == "counted"
                n_answers += 1
            assert httpx.get(f"{server.address}/healthz").status_code == 200
        with Desk.open(place) as desk, visitor(desk, server.address, "m", "manager") as manager:
            assert manager.get("/manage").status_code == 200
            set_clock(clock, DAY)
            assert manager.get("/manage").status_code == 303, "the session is over"
            set_clock(clock, -DAY)
            assert manager.get("/manage").status_code == 303, "it begins tomorrow"
    said = server.end()
    assert "Traceback" not in said, said
    with Desk.open(place) as desk:
        check_all(desk)  # the sample, the chain, the monitor, one live decision, policies' times
        world = World(desk, Clock())
        assert {row.key for row in world.rows(select(cases.c.key))} == told.keys()
        assert len(world.rows(select(answers))) == n_answers
        moments = [row.at for row in world.rows(select(events.c.at).order_by(events.c.id))]
        assert moments != sorted(moments), "the clock did jump"
        holders = world.rows(select(readings.c.reader).where(readings.c.state == "leased"))
        assert len(holders) <= 1

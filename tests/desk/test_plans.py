"""No statement of everyday work walks through a table that grows: each finds its rows by an index.

What a person or a sender waits for is run once on SQLite, and every statement of it is explained.
The page of policies is not among it: it counts the fair sample of all cases, which is a walk.
"""

from __future__ import annotations

import re

import pytest
from sqlalchemy import event

from expertload.desk import Desk, Rules
from expertload.desk.app import create_app
from expertload.desk.queue.answers import undo
from expertload.desk.queue.claims import _CANDIDATE, extend, hand_back, skip, upcoming
from expertload.desk.trail.chain import seal_events
from expertload.desk.trail.webhooks import deliver
from expertload.desk.watch.state import state_of
from tests.desk.people import visitor
from tests.desk.serving import serving
from tests.desk.world import Clock, World, sent

PAGES = [
    ("ida", "reader", "/review"),
    ("ida", "reader", "/review/answers"),
    ("max", "manager", "/manage"),
    ("eve", "auditor", "/audit"),
    ("eve", "auditor", "/audit?about=policies"),
]
GROWING = "answers|bodies|cases|decisions|events|outbox|readings|skips|seals"
WALK = re.compile(rf"SCAN ({GROWING}|r|c|mine|its|theirs|second|first)\b")


def is_walk(statement: str, plan: list[str]) -> bool:
    """Whether a plan walks through a table; to take the last rows of all is no walk."""
    takes_the_last = " WHERE " not in statement.replace("\n", " ") and "LIMIT" in statement
    return any(map(WALK.search, plan)) and not takes_the_last


@pytest.fixture
def world(tmp_path):
    rules = Rules(quality_rate=0.5, second_share=1, audit_second_share=1)
    with Desk.open(tmp_path, rules=rules, clock=Clock(), secret=b"test") as desk:
        yield World(desk, desk.clock)


@pytest.fixture
def plans(world, monkeypatch):
    """Explain every statement that is run from now on, by whichever way it is."""
    found: dict[str, list[str]] = {}
    database = world.desk.database

    def explain(connection, cursor, statement, parameters, context, executemany):
        if statement in found or not re.match(r"\s*(SELECT|UPDATE|DELETE|WITH)", statement):
            return
        rows = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
        found[statement] = [row[-1] for row in rows]

    def by_the_driver(connection, query, values):
        if query not in found and not query.startswith("EXPLAIN"):
            rows = ask(connection, f"EXPLAIN QUERY PLAN {query}", values)
            found[query] = [row[-1] for row in rows]
        return ask(connection, query, values)

    ask = database.rows
    monkeypatch.setattr(database, "rows", by_the_driver)
    event.listen(database.engine, "before_cursor_execute", explain)
    yield found
    event.remove(database.engine, "before_cursor_execute", explain)


@pytest.mark.slow
def test_everyday_work_walks_through_no_table(world, plans):
    world.activate()
    world.send(*(sent(f"case-{i}", 0.99 if i % 2 else 0.6) for i in range(20)))
    desk, ann = world.desk, world.user("ann")
    held = world.claim()
    desk.write(extend, ann, held.lease)
    desk.write(skip, ann, held.lease, "dark")
    desk.write(hand_back, ann, world.claim().lease)
    world.answer(world.claim(), "cat", submission="one")
    desk.write(undo, ann, "one")
    world.answer(world.claim(), "cat", submission="two")
    world.answer(world.claim("bob"), "dog", "bob")
    world.answer(world.claim("zoe", "arbiter"), "dog", "zoe", "arbiter")
    desk.read(upcoming, ann)
    desk.read(state_of)
    seal_events(desk)
    deliver(desk)
    with serving(create_app(desk)) as address:
        for name, role, path in PAGES:
            with visitor(desk, address, name, role) as client:
                assert client.get(path).status_code == 200
    assert len(plans) > 30
    assert [statement for statement, plan in plans.items() if is_walk(statement, plan)] == []


@pytest.mark.parametrize("by_the_driver", [False, True])
def test_a_walk_is_noticed(world, plans, by_the_driver):
    query, database = "SELECT * FROM readings WHERE root = 1", world.desk.database
    if by_the_driver:
        database.read(lambda c: database.rows(c, query, {}))
    else:
        database.read(lambda c: c.exec_driver_sql(query))
    assert any(is_walk(statement, plan) for statement, plan in plans.items())


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_claim_on_postgresql_asks_for_each_case_in_turn(place):
    """A join would read all readings to give one."""
    with Desk.open(place, clock=Clock(), secret=b"test") as desk:
        world = World(desk, desk.clock)
        world.send(*(sent(f"case-{i}", 0.6) for i in range(2000)))
        values = {"project": 1, "reader": 1, "arbiter": False, "now": 0, "rested": 0, "latest": 0}

        def explain(connection):
            connection.exec_driver_sql("ANALYZE readings, skips")
            return desk.database.rows(connection, f"EXPLAIN {_CANDIDATE}", values)

        plan = "\n".join(line for (line,) in desk.database.write(explain))
    assert "ix_readings_waiting" in plan
    assert "SubPlan" in plan
    assert "Join" not in plan

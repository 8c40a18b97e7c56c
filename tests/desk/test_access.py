"""Whom every route refuses, found from the app itself; and what readers never see."""

from __future__ import annotations

import json
from contextlib import contextmanager

import httpx
import pytest
from fastapi.routing import APIRoute
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import Desk, Rules
from expertload.desk.app import create_app
from expertload.desk.people.accounts import ROLES, all_tokens, find_token, revoke_token
from tests.desk.serving import Caller, serving
from tests.desk.test_watch import read_all
from tests.desk.world import Clock, World, sent

OPEN = {("GET", "/healthz"), ("GET", "/api/openapi.json")}


@contextmanager
def calling(world):
    with (
        serving(create_app(world.desk)) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield Caller(world, client)


def every_route(routes):
    """(method, path, roles) of all routes, those of included routers too."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from every_route(inner.routes)
            continue
        roles = getattr(route.endpoint, "roles", None)
        if isinstance(route, APIRoute):
            for dependency in route.dependant.dependencies:
                roles = getattr(dependency.call, "roles", roles)
        for method in sorted(route.methods - {"HEAD"}):
            yield method, route.path, roles


def filled(path):
    for name in ("{key:path}", "{lease}", "{submission}", "{number}"):
        path = path.replace(name, "1")
    return path


@pytest.mark.slow
def test_every_route_refuses_those_it_is_not_for(world):
    app = create_app(world.desk)
    api = ("/api", "/metrics", "/healthz")
    routes = [route for route in every_route(app.routes) if route[1].startswith(api)]
    assert len(routes) >= 20
    tokens = {role: world.token(role, role) for role in ROLES}
    old = world.token("somebody", "manager")
    world.desk.write(revoke_token, 6)
    with calling(world) as call:

        def status(method, path, token):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return call.client.request(method, filled(path), headers=headers, json={}).status_code

        for method, path, roles in routes:
            if (method, path) in OPEN:
                assert status(method, path, None) == 200
                continue
            assert roles, f"{method} {path} says for whom it is"
            for token in (None, "nonsense", old, "eld_" + "x" * 43):
                assert status(method, path, token) == 401, (method, path, token)
            for role in ROLES:
                got = status(method, path, tokens[role])
                assert (got == 403) == (role not in roles), (method, path, role, got)
                assert got != 401
                assert got < 500


def test_other_ways_to_say_who_one_is_are_no_ways(world):
    token = world.token("boss", "manager")
    with calling(world) as call:
        for headers in (
            {"Authorization": token},
            {"Authorization": f"Basic {token}"},
            {"Cookie": f"token={token}"},
            {"X-Remote-User": "boss"},
            {"Authorization": f"Bearer {token}x"},
        ):
            assert call.client.get("/api/state", headers=headers).status_code == 401
        assert call.client.get(f"/api/state?token={token}").status_code == 401
        lower = {"Authorization": f"bearer  {token}"}
        assert call.client.get("/api/state", headers=lower).status_code == 200


def test_a_token_ends_when_it_expires_or_its_user_is_disabled(world):
    from sqlalchemy import text

    from expertload.desk.people.accounts import add_token

    token = world.desk.write(add_token, "ann", "reader", days=1)
    assert world.desk.read(find_token, token).name == "ann"
    assert world.desk.read(all_tokens)[0].ended is None
    world.clock.turn(86_401)
    assert world.desk.read(find_token, token) is None
    (row,) = world.desk.read(all_tokens)
    assert row.ended == row.expires, "and lists say so"
    token = world.desk.write(add_token, "ann", "reader")
    world.desk.database.write(lambda c: c.execute(text("UPDATE users SET disabled = 1")))
    assert world.desk.read(find_token, token) is None


def test_a_token_is_valid_for_as_many_days_as_its_command_says(tmp_path):
    place = ["--data", str(tmp_path / "desk")]
    run = CliRunner().invoke

    def end(*options):
        """The days until a new token ends, None without an end."""
        made = run(app, ["desk", "token", "add", "model", "--role", "api", *options, *place])
        assert made.exit_code == 0, made.output
        with Desk.open(tmp_path / "desk") as desk:
            assert desk.read(find_token, made.stdout.strip()).roles == {"api"}
            newest = desk.read(all_tokens)[0]
            return newest.expires and (newest.expires - newest.created) / 86_400e6

    assert end("--days", "30") == 30
    assert end() is None
    for wrong in ("0", "36501", "soon"):
        refused = run(app, ["desk", "token", "add", "x", "--role", "api", "--days", wrong, *place])
        assert refused.exit_code == 2
    with Desk.open(tmp_path / "desk") as desk:
        assert len(desk.read(all_tokens)) == 2


# ------------------------------------------------------------------ blindness


BODY = {"kind": "text", "content": "what the reader sees"}


def seen_by_readers(place, prepare):
    """All bytes that a reader and an arbiter get for a case before they answer it."""
    clock = Clock()
    rules = Rules(quality_rate=1.0, second_share=0, audit_second_share=0, classes=("cat", "dog"))
    with Desk.open(place, rules=rules, clock=clock, secret=b"test") as desk:
        world = World(desk, clock)
        world.token("eve", "reader")
        world.token("ada", "arbiter")
        prepare(world)
        seen = []
        with calling(world) as call:
            for name, role in (("eve", "reader"), ("ada", "arbiter")):
                held = call("POST", "/api/claims", role, name=name)
                assert held.status_code == 200, held.text
                lease = held.json()["lease"]
                answers = [
                    held,
                    call("POST", f"/api/claims/{lease}/extend", role, name=name),
                    call("POST", f"/api/claims/{lease}/answer", role, name=name, json={}),
                    call(
                        "POST", f"/api/claims/{lease}/skip", role, name=name, json={"reason": "x"}
                    ),
                    call("POST", "/api/claims", role, name=name),
                ]
                for answer in answers:
                    text = answer.text.replace(lease, "LEASE")
                    headers = sorted(k for k in answer.headers if k != "date")
                    seen.append((answer.status_code, headers, text))
        return seen


def delegated(world):
    world.send(sent("the case", 0.6, body=BODY))


def delegated_the_other_way(world):
    world.send(sent("the case", 0.3, body=BODY, model="m2", group="g"))


def audited(world):
    world.activate()
    world.send(sent("the case", 0.99, body=BODY))


def looked_back(world):
    from expertload.desk.watch.policies import look_back, withdraw

    world.with_rules(quality_rate=0.0)
    number = world.activate()
    world.send(sent("the case", 0.99, body=BODY))
    world.desk.write(withdraw, number, reason="test")
    world.desk.write(look_back, number)


@pytest.mark.slow
def test_nothing_tells_a_reader_what_the_model_said_or_why_the_case_came(tmp_path):
    worlds = (delegated, delegated_the_other_way, audited, looked_back)
    seen = [seen_by_readers(tmp_path / w.__name__, w) for w in worlds]
    first = json.dumps(seen[0])
    for other in seen[1:]:
        assert json.dumps(other) == first
    assert "what the reader sees" in first
    for word in ("0.6", "confidence", "predicted", "quality", "delegated", "policy", "second"):
        assert word not in first


@pytest.mark.slow
def test_a_second_reader_and_an_arbiter_see_no_more(tmp_path):
    """What the first readers said does not show either."""

    def texts(place, label):
        clock = Clock()
        rules = Rules(second_share=1.0, classes=("cat", "dog"))
        with Desk.open(place, rules=rules, clock=clock, secret=b"test") as desk:
            world = World(desk, clock)
            world.send(sent("the case", 0.6, body=BODY))
            world.answer(world.claim("ann"), label, "ann")
            with calling(world) as call:
                held = call("POST", "/api/claims", "reader", name="bob")
                return held.text.replace(held.json()["lease"], "LEASE")

    assert texts(tmp_path / "a", "cat") == texts(tmp_path / "b", "dog")


@pytest.mark.parametrize("role", ["reader", "arbiter"])
def test_readers_cannot_look_elsewhere(world, role):
    world.activate()
    world.send(sent("a"))
    read_all(world, lambda key: "cat")
    with calling(world) as call:
        for path in ("/api/cases/a", "/api/state", "/api/export", "/api/policies"):
            assert call("GET", path, role).status_code == 403

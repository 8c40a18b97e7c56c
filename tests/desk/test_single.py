"""Single cases by the short way: answered as by the routes, and checked no less."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from sqlalchemy import select, text

from expertload.desk.api import single
from expertload.desk.app import create_app
from expertload.desk.people import revoke_token
from expertload.desk.store.tables import cases, events
from expertload.exceptions import DeskUnavailableError
from tests.desk.world import sent

JSON = {"Content-Type": "application/json"}
BODIES = [
    json.dumps(sent("sure")).encode(),
    json.dumps(sent("unsure", 0.6)).encode(),
    json.dumps(sent("named", 0.9, group="north", model="net", due="2026-05-01T12:00:00Z")).encode(),
    b'{"key": "nan", "probabilities": {"cat": NaN, "dog": 0.1}}',
    b'{"key": "surrogate \\ud800", "confidence": 0.5, "label": "cat"}',
    b'{"key": "no prediction"}',
    b'{"key": "more", "confidence": 0.5, "label": "cat", "more": 1}',
    b'{"key": "deep", "probabilities": ' + b"[" * 9_000 + b"]" * 9_000 + b"}",
    b"[]",
    b"",
    b"\xff\xfe",
    b'{"key": "text", "confidence": 0.5, "label": "cat", "body": {"kind": "text", "content": "x"}}',
    b'{"key": "svg", "confidence": 0.5, "label": "cat", '
    b'"body": {"kind": "image", "content": "PHN2Zy8+"}}',
]


def signed(world, role="api", **more):
    return {"Authorization": f"Bearer {world.token(role, role)}", **JSON, **more}


def pieces(data):
    """Without a length, a request goes to the routes."""
    yield data


def told(answer):
    kept = ("content-type", "content-length", "www-authenticate", "connection")
    return answer.status_code, answer.content, {k: answer.headers.get(k) for k in kept}


@pytest.mark.parametrize("data", BODIES, ids=range(len(BODIES)))
def test_both_ways_give_one_answer(served, data):
    served.activate()
    with httpx.Client(base_url=served.address) as client:
        for headers in (
            signed(served),
            signed(served, "reader"),
            {**JSON, "Authorization": "Bearer nobody"},
            {**JSON, "Authorization": "Basic x"},
            JSON,
        ):
            first = client.post("/api/cases", content=data, headers=headers)
            again = client.post("/api/cases", content=pieces(data), headers=headers)
            assert told(first) == told(again)
            assert first.status_code < 500


def test_what_is_not_one_small_case_goes_to_the_routes(served, monkeypatch):
    async def never(self, token, receive):
        raise AssertionError("taken")

    monkeypatch.setattr(single.SingleCases, "_received", never)
    data = json.dumps(sent("a")).encode()
    padded = data + b" " * single.SMALL
    with httpx.Client(base_url=served.address, headers=signed(served)) as client:
        for content, headers in (
            (pieces(data), JSON),
            (padded, JSON),
            (data, {"Content-Type": "application/x-ndjson"}),
        ):
            assert client.post("/api/cases", content=content, headers=headers).status_code == 200
        assert client.post("/api/cases", content=data, headers={"Content-Type": ""}).is_error
        assert client.get("/api/cases/a").status_code == 200
        assert client.put("/api/cases", content=data, headers=JSON).status_code == 405


def test_of_strangers_nothing_is_read(served, monkeypatch):
    monkeypatch.setattr(single, "read_line", lambda data: pytest.fail("read"))
    for token in ("nonsense", "eld_" + "x" * 43, served.token("ann", "reader")):
        headers = {**JSON, "Authorization": f"Bearer {token}"}
        answer = httpx.post(f"{served.address}/api/cases", content=BODIES[0], headers=headers)
        assert answer.status_code in (401, 403)


def test_a_token_ends_with_the_next_request_whatever_it_says(served):
    token = served.token("model", "api")
    headers = {**JSON, "Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=served.address, headers=headers) as client:
        assert client.post("/api/cases", content=BODIES[0]).status_code == 200
        served.desk.write(revoke_token, 1)
        assert client.post("/api/cases", content=b"nonsense").status_code == 401
        assert client.post("/api/cases", content=BODIES[1]).status_code == 401
        served.desk.database.write(lambda c: c.execute(text("UPDATE tokens SET revoked = NULL")))
        assert client.post("/api/cases", content=BODIES[1]).status_code == 200
    assert {row.key for row in served.rows(select(cases.c.key))} == {"sure", "unsure"}


def test_the_events_name_each_of_several_senders(served):
    def send(name):
        headers = {**JSON, "Authorization": f"Bearer {served.token(name, 'api')}"}
        with httpx.Client(base_url=served.address, headers=headers) as client:
            for number in range(20):
                case = json.dumps(sent(f"{name}-{number}")).encode()
                assert client.post("/api/cases", content=case).status_code == 200

    names = ("one", "two", "three")
    users = {served.user(name, "api"): name for name in names}
    threads = [threading.Thread(target=send, args=(name,)) for name in names for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    query = select(cases.c.key, events.c.actor).join(events, events.c.case_id == cases.c.id)
    found = served.rows(query)
    assert len(found) == 60
    for key, actor in found:
        assert key.startswith(users[actor])


@pytest.mark.parametrize(
    ("error", "status"), [(DeskUnavailableError("gone"), 503), (ZeroDivisionError(), 500)]
)
def test_errors_inside_are_told_in_the_one_form(served, monkeypatch, error, status):
    def fail(*_):
        raise error

    monkeypatch.setattr(single, "receive", fail)
    answer = httpx.post(f"{served.address}/api/cases", content=BODIES[0], headers=signed(served))
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "hint"}


def test_a_sender_who_hangs_up_is_answered_nothing(world):
    app = create_app(world.desk)
    said = []

    async def hang_up():
        return {"type": "http.disconnect"}

    async def say(message):
        said.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in signed(world).items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/cases",
        "headers": [*headers, (b"content-length", b"100")],
    }
    with ThreadPoolExecutor(1) as apart:  # a browser's test may have left its loop in this thread
        taken = apart.submit(asyncio.run, app.state.single.take(scope, hang_up, say)).result()
    assert taken
    assert said == []


def test_of_two_headers_the_first_counts_on_both_ways(served):
    names = [("Authorization", f"Bearer {served.token('m', 'api')}"), ("Authorization", "Bearer x")]
    data = BODIES[0]
    for headers in (names, names[::-1]):
        both = [
            httpx.post(
                f"{served.address}/api/cases", content=content, headers=[*headers, *JSON.items()]
            )
            for content in (data, pieces(data))
        ]
        assert told(both[0]) == told(both[1])

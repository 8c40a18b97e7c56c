"""POST /api/cases: one case or many take the same way, and every request is checked."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from sqlalchemy import select, text

from expertload.desk.api import cases as endpoint
from expertload.desk.people.accounts import revoke_token
from expertload.desk.store.tables import cases, events
from expertload.exceptions import DeskUnavailableError
from tests.desk.world import sent

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
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
    """A body without a stated length."""
    yield data


def told(answer):
    """The answer without `Connection`: a refused body of unknown length closes it."""
    kept = ("content-type", "content-length", "www-authenticate")
    return answer.status_code, answer.content, {k: answer.headers.get(k) for k in kept}


@pytest.mark.parametrize("data", BODIES, ids=range(len(BODIES)))
def test_the_length_of_a_request_does_not_change_the_answer(served, data):
    """Large requests are parsed in another thread, and some requests state no length."""
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
            padded = data + b" " * endpoint.SMALL
            large = client.post("/api/cases", content=padded, headers=headers)
            assert told(first) == told(again)
            assert first.status_code == large.status_code < 500
            if first.status_code == 200:
                assert told(first) == told(large)


@pytest.mark.parametrize("data", [body for body in BODIES if body], ids=range(len(BODIES) - 1))
def test_a_line_is_answered_as_the_same_case_alone(served, data):
    served.activate()
    lines = b"\n".join([data, json.dumps(sent("another")).encode(), data])
    with httpx.Client(base_url=served.address, headers=signed(served)) as client:
        alone = client.post("/api/cases", content=data)
        batch = client.post("/api/cases", content=lines, headers=NDJSON)
        one_line = client.post("/api/cases", content=data, headers=NDJSON)
    assert batch.status_code == one_line.status_code == 200
    first, other, last = map(json.loads, batch.content.splitlines())
    assert other["status"] == "decided"
    assert json.loads(one_line.content) == first
    if alone.status_code == 200:
        assert alone.json() == first == last
    else:
        assert alone.json()["error"] == first["error"] == last["error"]
        assert (first["line"], last["line"]) == (1, 3)


def test_other_media_types_and_methods_are_refused(served):
    data = json.dumps(sent("a")).encode()
    with httpx.Client(base_url=served.address, headers=signed(served)) as client:
        for kind in ("", "text/plain", "application/jsonl"):
            answer = client.post("/api/cases", content=data, headers={"Content-Type": kind})
            assert answer.status_code == 415
        with_charset = {"Content-Type": "Application/JSON; charset=utf-8"}
        assert client.post("/api/cases", content=data, headers=with_charset).status_code == 200
        assert client.get("/api/cases/a").status_code == 200
        assert client.put("/api/cases", content=data, headers=JSON).status_code == 405


def test_the_schema_tells_of_the_endpoint(served):
    schema = httpx.get(f"{served.address}/api/openapi.json").json()
    post = schema["paths"]["/api/cases"]["post"]
    assert set(post["requestBody"]["content"]) == {"application/json", "application/x-ndjson"}
    assert post["summary"].startswith("Send a case")


def test_of_strangers_nothing_is_read(served, monkeypatch):
    monkeypatch.setattr(endpoint, "read_line", lambda data: pytest.fail("read"))
    for token in ("nonsense", "eld_" + "x" * 43, served.token("ann", "reader")):
        for kind in (JSON, NDJSON):
            headers = {**kind, "Authorization": f"Bearer {token}"}
            answer = httpx.post(f"{served.address}/api/cases", content=BODIES[0], headers=headers)
            assert answer.status_code in (401, 403)


@pytest.mark.parametrize("kind", [JSON, NDJSON], ids=["json", "ndjson"])
def test_a_token_ends_with_the_next_request_whatever_it_says(served, kind):
    token = served.token("model", "api")
    headers = {**kind, "Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=served.address, headers=headers) as client:
        assert client.post("/api/cases", content=BODIES[0]).status_code == 200
        served.desk.write(revoke_token, 1)
        assert client.post("/api/cases", content=b"nonsense").status_code == 401
        assert client.post("/api/cases", content=b"").status_code == 401
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

    monkeypatch.setattr(endpoint, "receive", fail)
    answer = httpx.post(f"{served.address}/api/cases", content=BODIES[0], headers=signed(served))
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "hint"}
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_single_cases_share_a_transaction(served, monkeypatch):
    """While one group is being stored, the cases that come in wait and are stored together."""
    groups, started, go_on = [], threading.Event(), threading.Event()
    real = endpoint.receive

    def receive(transaction, sent):
        groups.append(len(sent))
        started.set()
        go_on.wait(30)
        return real(transaction, sent)

    monkeypatch.setattr(endpoint, "receive", receive)
    headers = signed(served)

    def post(number):
        case = json.dumps(sent(f"case-{number}")).encode()
        return httpx.post(f"{served.address}/api/cases", content=case, headers=headers).status_code

    with ThreadPoolExecutor(9) as senders:
        first = senders.submit(post, 0)
        assert started.wait(30)
        others = [senders.submit(post, number) for number in range(1, 9)]
        waiting = served.app.state.intake._waiting
        while sum(map(len, waiting.values())) < 8:
            time.sleep(0.01)
        go_on.set()
        assert {each.result() for each in (first, *others)} == {200}
    assert groups == [1, 8]


def test_of_two_headers_the_first_counts(served):
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

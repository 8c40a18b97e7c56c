"""Senders and receivers who never end: they fill no memory and hold nobody up."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvicorn

from expertload.desk.app import MOST_HEAD_BYTES, create_app, listen, serve
from expertload.desk.client import DeskClient
from expertload.desk.trail.webhooks import add_webhook, deliver
from tests.desk.world import dumps, policy_text, sent


@pytest.fixture
def line(served):
    """A bare connection to a served desk."""
    host, _, port = served.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        yield connection


def answer(line) -> bytes:
    """What comes first on a line; nothing if it was cut."""
    try:
        return line.recv(65_536)
    except ConnectionResetError:
        return b""


def test_a_head_that_never_ends_is_cut(line):
    line.sendall(b"GET /healthz HTTP/1.1\r\nHost: desk\r\nX-Long: ")
    sent_bytes, cut = 0, False
    while sent_bytes < 50 * MOST_HEAD_BYTES and not cut:
        try:
            sent_bytes += line.send(b"a" * 1_000)
        except (BrokenPipeError, ConnectionResetError):
            cut = True
        time.sleep(0.0005)
    assert cut, f"{sent_bytes} bytes of a head were taken"


def test_a_long_body_and_many_requests_on_one_line_are_no_long_head(served, line):
    head = f"Host: desk\r\nAuthorization: Bearer {served.token('model', 'api')}\r\n"
    for number in range(3):
        cases = [
            sent(f"{number}-{i}", body={"kind": "text", "content": "x" * 900}) for i in range(99)
        ]
        body = dumps(*cases)
        assert len(body) > MOST_HEAD_BYTES
        kind = "Content-Type: application/x-ndjson\r\n"
        start = f"POST /api/cases HTTP/1.1\r\n{head}{kind}Content-Length: {len(body)}\r\n\r\n"
        line.sendall(start.encode() + body[:10])
        time.sleep(0.05)
        line.sendall(body[10:])
        got = answer(line)
        assert got.startswith(b"HTTP/1.1 200"), got
        while got.count(b"\n{") + got.count(b"\r\n\r\n{") < len(cases):
            got += answer(line)


def test_a_sender_who_hangs_up_is_no_fault_of_the_desk(world):
    """What escapes from the app would be a traceback in the server's log."""
    messages = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    told: list[dict] = []
    headers = {
        "authorization": f"Bearer {world.token('model', 'api')}",
        "content-type": "application/json",
    }
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/api/cases",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive():
        return messages.pop(0)

    async def send(message):
        told.append(message)

    with ThreadPoolExecutor(1) as apart:  # a browser of another test may have a loop in this thread
        apart.submit(asyncio.run, create_app(world.desk)(scope, receive, send)).result()
    assert told[0]["status"] == 400


@pytest.mark.parametrize(
    "key", ["a\u2028b", "a\u2029b", "..", ".", "a/../b", "%2e", "a?b#c", "a+ b"]
)
def test_every_key_that_is_taken_is_answered_and_found(served, key):
    """Some characters end a line for Python, and some names are folders of an address."""
    served.activate()
    token = served.token("model", "api")
    with DeskClient(served.address, token, attempts=1) as desk:
        outcomes = list(desk.send_many([sent("before"), sent(key), sent("after")]))
        assert [each.status for each in outcomes] == ["decided"] * 3, outcomes
        assert desk.find(key)["key"] == key


def test_every_answer_says_why(served):
    served.activate(policy_text(model_name="net"))
    cases = [sent("a", model="net"), sent("b", 0.6, model="net"), sent("c"), sent("d", model="x")]
    causes = ["above_threshold", "below_threshold", "model_not_named", "unknown_model"]
    with DeskClient(served.address, served.token("model", "api"), attempts=1) as desk:
        assert [each.cause for each in desk.send_many(cases)] == causes
        assert [desk.send(each).cause for each in cases] == causes  # stored ones, one at a time
        assert [desk.find(each["key"])["cause"] for each in cases] == causes
    served.with_rules(strict=True)
    assert served.send_one("e", model="net").cause == "not_confirmed_yet"


@pytest.mark.slow
def test_a_connection_waits_for_more_than_a_moment(world, monkeypatch):
    """Many clients do not notice that a server has closed an idle connection."""
    listening = listen("127.0.0.1", 0)
    ended, servers = [], []

    class Stoppable(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Stoppable)
    with ThreadPoolExecutor(1) as apart:  # a browser of another test may have a loop in this thread
        served = apart.submit(serve, create_app(world.desk), listening)
        try:
            with socket.create_connection(listening.getsockname(), timeout=30) as line:
                for wait in (6, 0):
                    line.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: desk\r\n\r\n")
                    ended.append(line.recv(65_536).partition(b"\r\n")[0])
                    time.sleep(wait)
        finally:
            for server in servers:
                server.should_exit = True
        served.result()
    assert ended == [b"HTTP/1.1 200 OK"] * 2


def test_what_a_receiver_says_for_ever_is_not_listened_to(world):
    listening = socket.create_server(("127.0.0.1", 0))
    ending = threading.Event()

    def speak() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while not ending.wait(0.05):
                try:
                    connection.sendall(b"and ")
                except OSError:
                    return

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    world.desk.write(add_webhook, f"http://127.0.0.1:{listening.getsockname()[1]}")
    world.activate()
    arrived: list[int] = []
    sending = threading.Thread(target=lambda: arrived.append(deliver(world.desk)), daemon=True)
    sending.start()
    sending.join(20)
    has_ended = not sending.is_alive()
    ending.set()
    thread.join()
    sending.join()
    listening.close()
    assert has_ended
    assert arrived == [1]

"""What a review tried against a desk that is open to a network; every attack fails."""

from __future__ import annotations

import asyncio
import base64
import io
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from PIL import Image

from expertload.desk import app as server
from expertload.desk.api.access import MOST_BYTES_ELSEWHERE
from expertload.desk.app import create_app
from expertload.desk.intake import images
from expertload.desk.intake.case import read_body
from expertload.exceptions import DeskRefusedError
from tests.desk.world import sent


def ask(world, method, path, *, token="", parts=()):
    """Send a request to the app itself; return the status, and how many parts it has read."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    waiting, told, read = list(parts), [], []

    async def receive():
        if not waiting:
            return {"type": "http.disconnect"}
        read.append(waiting.pop(0))
        return {"type": "http.request", "body": read[-1], "more_body": bool(waiting)}

    async def send(message):
        told.append(message)

    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, create_app(world.desk)(scope, receive, send)).result()
    return told[0]["status"], len(read)


# ------------------------------------------------------------------ bodies before tokens

CALLS = ["/api/look-back", "/api/policies", "/api/cases", "/api/webhooks", "/api/claims/1/answer"]


@pytest.mark.parametrize("path", CALLS)
def test_nothing_that_a_stranger_sends_is_read(world, path):
    for token in ("", "eld_" + "x" * 43):
        assert ask(world, "POST", path, token=token, parts=[b"[" * 1000]) == (401, 0)


@pytest.mark.parametrize("path", ["/api/look-back", "/api/void", "/api/webhooks"])
def test_a_long_body_is_refused_before_it_is_read_to_its_end(world, path):
    parts = [b"[[],[],[]," * 1_000] * 1_000
    status, n_read = ask(world, "POST", path, token=world.token("eve", "manager"), parts=parts)
    assert status == 413
    assert n_read <= MOST_BYTES_ELSEWHERE // len(parts[0]) + 1


def test_a_long_form_is_refused_before_it_is_read_to_its_end(world):
    status, n_read = ask(world, "POST", "/sign-in", parts=[b"a" * 10_000] * 1_000)
    assert status in (403, 413)
    assert n_read <= MOST_BYTES_ELSEWHERE // 10_000 + 1


@pytest.fixture
def line(served):
    """A bare connection to a served desk."""
    host, _, port = served.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        yield connection


def is_cut(line, data=b""):
    """Whether a connection ends although data is still being sent."""
    try:
        for _ in range(3_000):
            line.sendall(data or b"")
            if not data:
                return line.recv(65_536) == b""
            time.sleep(0.0005)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_headers_after_a_body_end_the_connection(served, line):
    head = f"Host: desk\r\nAuthorization: Bearer {served.token('model', 'api')}\r\n"
    kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    line.sendall(f"POST /api/cases HTTP/1.1\r\n{head}{kind}\r\n2\r\n{{}}\r\n0\r\n".encode())
    assert is_cut(line, b"X-Long: " + b"a" * 1_000 + b"\r\n")


# ------------------------------------------------------------------ slow senders and receivers


@pytest.fixture
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(server, "MOST_SECONDS", 0.2)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /heal",
        b"POST /sign-in HTTP/1.1\r\nHost: desk\r\nContent-Length: 100\r\n\r\na",
        b"POST /healthz HTTP/1.1\r\nHost: desk\r\nContent-Length: 100\r\n\r\na",
    ],
)
def test_a_request_that_does_not_go_on_ends_the_connection(in_a_hurry, line, begun):
    line.sendall(begun)
    line.settimeout(10)
    while line.recv(65_536):  # an answer may come before the request has ended
        pass


def test_a_receiver_who_takes_nothing_ends_the_connection(in_a_hurry, served, line):
    served.activate()
    served.send(*(sent(f"{i}", model="m" * 190) for i in range(3_000)))
    head = f"Host: desk\r\nAuthorization: Bearer {served.token('eve', 'auditor')}\r\n"
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    line.sendall(f"GET /api/export?format=jsonl HTTP/1.1\r\n{head}\r\n".encode() * 8)
    time.sleep(1.5)
    got = b""
    try:
        while part := line.recv(65_536):
            got += part
    except ConnectionResetError:
        pass
    assert not got.endswith(b"0\r\n\r\n")
    assert httpx.get(f"{served.address}/healthz").status_code == 200


# ------------------------------------------------------------------ images


def jpeg_of_many_scans(n):
    """A small progressive JPEG whose last scan is repeated; each repeats a pass over all pixels."""
    out = io.BytesIO()
    Image.new("RGB", (640, 640), "white").save(out, "JPEG", progressive=True)
    data = out.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * n + data[-2:]


def body_of(data):
    return {"kind": "image", "content": base64.b64encode(data).decode()}


def test_a_jpeg_of_many_scans_is_refused():
    with pytest.raises(DeskRefusedError, match="scans"):
        read_body(body_of(jpeg_of_many_scans(1_000)))


def test_an_image_that_takes_too_long_is_refused_and_the_next_is_read(monkeypatch):
    out = io.BytesIO()
    Image.new("RGB", (6_000, 6_000)).save(out, "PNG")
    monkeypatch.setattr(images, "SECONDS", 0.02)
    with pytest.raises(DeskRefusedError, match="within"):
        read_body(body_of(out.getvalue()))
    monkeypatch.undo()
    assert read_body(body_of(jpeg_of_many_scans(1))).media_type == "image/jpeg"


def test_an_image_that_would_grow_out_of_proportion_is_refused():
    noise = Image.effect_noise((200, 200), 90).resize((2_500, 2_500)).convert("RGB")
    out = io.BytesIO()
    noise.save(out, "WEBP", quality=1)
    assert len(out.getvalue()) < 300_000
    with pytest.raises(DeskRefusedError, match="drawn again"):
        read_body(body_of(out.getvalue()))

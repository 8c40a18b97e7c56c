"""How long `/healthz` takes while somebody attacks the desk; 250 ms are wanted.

A client on a busy machine also measures how long it waits itself for a core. So the server measures
the pauses of its own event loop too (`benchmarks.desk.watched`).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import cache
from typing import Any

from benchmarks.desk.places import Place, server
from expertload.desk import Desk
from expertload.desk.people.accounts import add_token

WANTED = 0.25
Attack = Callable[[int, dict[str, str]], None]


def measure(place: Place, sizes: Any) -> None:
    """Print the median and the longest time of `/healthz`, in peace and under each attack."""
    name = f"attacks-{place.kind}"
    with Desk.open(place.desk(name)) as desk:
        roles = ("api", "manager", "reader")
        tokens = {role: desk.write(add_token, role, role) for role in roles}
    with server(place, name, watched=True) as (_, port):
        _deep_case(port, tokens)
        _slow_image()  # made before anything is measured
        _photograph()
        for title, attack in ATTACKS.items():
            _pauses(port)  # forgets those before
            times = _health_under(attack, port, tokens, sizes.client_seconds)
            longest, pause = max(times), _pauses(port)
            print(
                f"  /healthz, {title}: median {1e3 * statistics.median(times):.0f} ms, longest "
                f"{1e3 * longest:.0f} ms{'' if longest < WANTED else ', more than wanted'}; the "
                f"loop paused for at most {1e3 * pause['longest']:.0f} ms; at a time, it computed "
                f"for {1e3 * pause['loop']:.0f} ms, and the whole desk {1e3 * pause['desk']:.0f} ms"
            )


def _pauses(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/pauses") as answer:
        found: dict[str, float] = json.load(answer)
    return found


def _health_under(attack: Attack, port: int, tokens: dict[str, str], seconds: float) -> list[float]:
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                attack(port, tokens)

    attackers = [threading.Thread(target=repeat, daemon=True) for _ in range(4)]
    for attacker in attackers:
        attacker.start()
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        _ask(port, "GET", "/healthz")
        times.append(time.monotonic() - began)
        time.sleep(0.02)
    over.set()
    for attacker in attackers:
        attacker.join(60)
    return times


def _ask(port: int, method: str, path: str, body: bytes = b"", token: str = "") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


# ------------------------------------------------------------------ the attacks


def _nothing(port: int, tokens: dict[str, str]) -> None:
    time.sleep(0.1)


def _long_bodies(port: int, tokens: dict[str, str]) -> None:
    _ask(port, "POST", "/api/look-back", b"[" + b"[]," * 10_000_000)


@cache
def _slow_image() -> str:
    """A JPEG of many scans, each of which is a pass over all pixels."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (3_000, 3_000)).save(out, "JPEG", progressive=True)
    data = out.getvalue()
    last = data.rindex(b"\xff\xda")
    return base64.b64encode(data[:last] + data[last:-2] * 40 + data[-2:]).decode()


def _images(port: int, tokens: dict[str, str]) -> None:
    body = {"kind": "image", "content": _slow_image()}
    case = {"key": str(time.monotonic_ns()), "confidence": 0.5, "label": "a", "body": body}
    _ask(port, "POST", "/api/cases", json.dumps(case).encode(), tokens["api"])


@cache
def _photograph() -> str:
    """A JPEG of 5 MB, as a camera makes it."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (2_000, 3_000, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "JPEG", quality=75)
    return base64.b64encode(out.getvalue()).decode()


def _photographs(port: int, tokens: dict[str, str]) -> None:
    body = {"kind": "image", "content": _photograph()}
    case = {"key": str(time.monotonic_ns()), "confidence": 0.5, "label": "a", "body": body}
    _ask(port, "POST", "/api/cases", json.dumps(case).encode(), tokens["api"])


def _guesses(port: int, tokens: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": f"http://127.0.0.1:{port}",
        "X-Forwarded-For": f"10.{time.monotonic_ns() % 65_536 >> 8}.{time.monotonic_ns() % 256}.1",
    }
    connection.request("POST", "/sign-in", f"name=n{time.monotonic_ns()}&password=x", headers)
    connection.getresponse().read()
    connection.close()


def _slow_senders(port: int, tokens: dict[str, str]) -> None:
    lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    for line in lines:
        line.sendall(b"POST /api/cases HTTP/1.1\r\nHost: desk\r\nContent-Le")
    time.sleep(0.5)
    for line in lines:
        line.close()


def _deep_case(port: int, tokens: dict[str, str]) -> None:
    deep: list[Any] = []
    for _ in range(40):
        deep = [deep]
    body = {"kind": "json", "content": [deep for _ in range(6_000)]}
    case = {"key": "deep", "confidence": 0.5, "label": "a", "body": body}
    _ask(port, "POST", "/api/cases", json.dumps(case).encode(), tokens["api"])


def _many_values(port: int, tokens: dict[str, str]) -> None:
    body = b'{"key":"many","confidence":1,"label":"a","body":{"kind":"json","content":['
    _ask(port, "POST", "/api/cases", body + b"{}," * 640_000 + b"{}]}}", tokens["api"])


def _deep_bodies(port: int, tokens: dict[str, str]) -> None:
    _ask(port, "POST", "/api/claims", b"", tokens["reader"])


ATTACKS: dict[str, Attack] = {
    "in peace": _nothing,
    "30 MB from strangers": _long_bodies,
    "slow images": _images,
    "photographs of 5 MB": _photographs,
    "guessed passwords": _guesses,
    "senders who do not go on": _slow_senders,
    "a deep body": _deep_bodies,
    "many values from senders": _many_values,
}

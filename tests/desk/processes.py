"""A desk's server in a process of its own, which can be killed, and threads that work on it."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

from expertload.desk import Desk, Rules
from tests.desk.world import Clock, World

RULES = Rules(quality_rate=0.5, second_share=0.3, audit_second_share=0.3, lease_seconds=1)
PEOPLE = [("model", "api"), ("ann", "reader"), ("bob", "reader")]


def together(*works):
    """Run works in threads of their own; raise what any of them raised."""
    errors = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def free_port() -> int:
    """A port that nobody listens on, below those that systems give to outgoing connections.

    A server that was killed comes back to its port, which nobody may have been given meanwhile.
    """
    ports = random.SystemRandom()
    while True:
        port = ports.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_for_more(growing: list) -> None:
    """Wait until a list that others append to is longer than it is now."""
    before, deadline = len(growing), time.monotonic() + 120
    while len(growing) == before:
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.01)


class Server:
    """`expertload desk serve`, as a process that can be killed, or one whose clock can be set."""

    def __init__(self, place, port: int, *, clock: Path | None = None) -> None:
        self.place, self.port, self.clock = place, port, clock
        self.address = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", *self._command()], stdout=subprocess.DEVNULL, stderr=self.said
        )

    def _command(self) -> list[str]:
        if self.clock is not None:
            return ["tests.desk.clocked", str(self.place), str(self.port), str(self.clock)]
        where = "--database" if str(self.place).startswith("postgresql") else "--data"
        named = [where, str(self.place), "--port", str(self.port)]
        return ["expertload", "desk", "serve", *named]

    def wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(self.heard())
            try:
                if httpx.get(f"{self.address}/healthz").status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise AssertionError("the server did not come up")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.said.close()

    def end(self) -> str:
        """End it as Ctrl-C does; return what it has said."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(30)
        said = self.heard()
        assert status in (0, 130), said
        return said

    def heard(self) -> str:
        with self.said:
            self.said.seek(0)
            return self.said.read()


def serve(place, *, rules: Rules = RULES, clock: Path | None = None):
    """A server with an active policy, and the tokens of its people."""
    with Desk.open(place, rules=rules, secret=b"test") as desk:
        world = World(desk, Clock(time.time_ns() // 1000))
        world.activate()
        tokens = {name: world.token(name, role) for name, role in PEOPLE}
    server = Server(place, free_port(), clock=clock)
    server.wait()
    return server, tokens

"""Simulates a sender of cases and some readers, who all use the desk's own interface."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from expertload._validation import require_extra
from expertload.desk.client import DeskClient

__all__ = ["Cast"]


class Cast:
    """A sender of cases and simulated readers, each in its own thread.

    Parameters
    ----------
    address : str
        The address of the desk.
    cases : iterator
        Pairs of (case, true label).
    sender : str
        The sender's token.
    colleagues : sequence of str
        The readers' tokens.
    rate : float
        Cases per second.
    first : int
        Number of cases that are sent immediately, so that there is something to see.
    seconds_a_reading : float
        How long a colleague takes.
    """

    def __init__(
        self,
        address: str,
        cases: Iterator[Any],
        *,
        sender: str,
        colleagues: Sequence[str],
        rate: float = 1.0,
        first: int = 60,
        seconds_a_reading: float = 4.0,
    ) -> None:
        self.address, self.rate, self.first = address, rate, first
        self.seconds_a_reading = seconds_a_reading
        self._cases, self._truth = cases, dict[str, str]()
        self._over = threading.Event()
        works = [(self._send, sender), *((self._read, token) for token in colleagues)]
        self._threads = [
            threading.Thread(target=self._play, args=part, daemon=True) for part in works
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop; everybody first finishes the request they are in."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _play(self, part: Any, token: str) -> None:
        """Run one of the parts; if the desk does not answer, try again after a second."""
        errors = (require_extra("httpx", "desk", "expertload desk demo").HTTPError, OSError)
        while not self._over.is_set():
            try:
                part(token)
            except errors:
                self._over.wait(1.0)

    def _send(self, token: str) -> None:
        with DeskClient(self.address, token) as client:
            list(client.send_many([self._next() for _ in range(self.first)]))
            self.first = 0
            while not self._over.wait(random.expovariate(self.rate)):
                client.send(self._next())

    def _next(self) -> dict[str, Any]:
        case, label = next(self._cases)
        self._truth[case["key"]] = label
        return dict(case)

    def _read(self, token: str) -> None:
        httpx = require_extra("httpx", "desk", "expertload desk demo")
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=self.address, headers=headers, timeout=30) as client:
            while not self._over.wait(self.seconds_a_reading * random.uniform(0.5, 1.5)):
                self._read_one(client)

    def _read_one(self, client: Any) -> None:
        taken = client.post("/api/claims")
        if taken.status_code != 200:
            return
        held = taken.json()
        self._over.wait(self.seconds_a_reading / 4)
        label = self._truth.get(held["key"])
        path = f"/api/claims/{held['lease']}"
        if label is None:  # a case of an earlier demo in the same folder: its label is not known
            client.post(f"{path}/skip", json={"reason": "from an earlier demo"})
            return
        if random.random() < 0.02:
            label = random.choice(held["classes"])
        submission = f"{held['lease'][:40]}-{time.monotonic_ns()}"
        client.post(f"{path}/answer", json={"label": label, "submission": submission})

"""A day of work, at the desk and at a Label Studio that you run: the same cases, the same readers.

    python -m benchmarks.label_studio_day
    python -m benchmarks.label_studio_day --url http://127.0.0.1:8080 --token A --token B

Readers work at the same time. Each takes the next case and answers it at once, until none is left.
Printed are the answers a second, and how many cases two readers got. Label Studio is not installed
by this script. Give it a token for each reader: people who share one are one reader to it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.desk.places import Folder, server
from expertload.desk import Desk, Rules
from expertload.desk.people.accounts import add_token

CLASSES = ("cat", "dog")
CONFIG = """<View><Text name="text" value="$text"/><Choices name="label" toName="text">
<Choice value="cat"/><Choice value="dog"/></Choices></View>"""
Reader = Callable[[], str | None]  # takes a case, answers it and returns its key; None: no case


@dataclass(frozen=True)
class Day:
    """What a day of work came to."""

    n_answers: int
    n_read_twice: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.n_answers} answers, {self.n_answers / self.seconds:.1f} a second; "
            f"{self.n_read_twice} cases were given to two readers"
        )


def work(readers: Sequence[Reader]) -> Day:
    """Let readers work at the same time until nothing is left for any of them."""
    read = Counter[str]()
    lock = threading.Lock()

    def keep_reading(reader: Reader) -> None:
        while (key := reader()) is not None:
            with lock:
                read[key] += 1

    threads = [threading.Thread(target=keep_reading, args=(reader,)) for reader in readers]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    twice = sum(n > 1 for n in read.values())
    return Day(read.total(), twice, time.perf_counter() - began)


def _client(address: str, authorization: str) -> httpx.Client:
    return httpx.Client(base_url=address, headers={"Authorization": authorization}, timeout=60)


# ------------------------------------------------------------------ the desk


def at_the_desk(n_cases: int, n_readers: int) -> Day:
    """Send cases to a desk on SQLite, served in a process of its own, and read them."""
    with tempfile.TemporaryDirectory(prefix="desk-day-") as folder:
        place = Folder(Path(folder))
        with Desk.open(place.desk("day"), rules=Rules(classes=CLASSES, second_share=0)) as desk:
            sender = desk.write(add_token, "model", "api")
            names = (f"reader {i}" for i in range(n_readers))
            tokens = [desk.write(add_token, name, "reader") for name in names]
        with server(place, "day") as (host, port):
            address = f"http://{host}:{port}"
            _send(_client(address, f"Bearer {sender}"), n_cases)
            return work([_desk_reader(_client(address, f"Bearer {token}")) for token in tokens])


def _send(client: httpx.Client, n_cases: int) -> None:
    cases: list[dict[str, Any]] = [
        {
            "key": f"{i}",
            "confidence": 0.5,
            "label": "cat",
            "body": {"kind": "text", "content": f"text {i}"},
        }
        for i in range(n_cases)
    ]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    kind = {"Content-Type": "application/x-ndjson"}
    client.post("/api/cases", content=lines, headers=kind).raise_for_status()


def _desk_reader(client: httpx.Client) -> Reader:
    def read() -> str | None:
        claimed = client.post("/api/claims").raise_for_status()
        if claimed.status_code == 204:
            return None
        held = claimed.json()
        answer = {"label": "cat", "submission": held["lease"][:60]}
        client.post(f"/api/claims/{held['lease']}/answer", json=answer).raise_for_status()
        return str(held["key"])

    return read


# ------------------------------------------------------------------ Label Studio


def at_label_studio(url: str, tokens: Sequence[str], n_cases: int) -> Day:
    """Make a project in a Label Studio that runs, import cases and read them; it stays there."""
    clients = [_client(url, f"Token {token}") for token in tokens]
    settings = {"title": "a day of work", "label_config": CONFIG, "maximum_annotations": 1}
    made = clients[0].post("/api/projects/", json=settings).raise_for_status()
    project = made.json()["id"]
    tasks = [{"data": {"text": f"text {i}"}} for i in range(n_cases)]
    clients[0].post(f"/api/projects/{project}/import", json=tasks).raise_for_status()
    return work([_label_studio_reader(client, project) for client in clients])


def _label_studio_reader(client: httpx.Client, project: int) -> Reader:
    choice = {
        "from_name": "label",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": ["cat"]},
    }

    def read() -> str | None:
        found = client.get(f"/api/projects/{project}/next")
        if found.status_code == 404:
            return None
        task = found.raise_for_status().json()["id"]
        answer = {"result": [choice]}
        client.post(f"/api/tasks/{task}/annotations/", json=answer).raise_for_status()
        return str(task)

    return read


def main(arguments: Sequence[str] | None = None) -> None:
    """Work a day at the desk and, if its address is given, at Label Studio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.label_studio_day")
    parser.add_argument("--cases", type=int, default=158)
    parser.add_argument("--readers", type=int, default=4, help="at the desk, without --token")
    parser.add_argument("--url", help="a Label Studio that runs")
    parser.add_argument("--token", action="append", default=[], help="of one reader there")
    given = parser.parse_args(arguments)
    if given.url and not given.token:
        parser.error("--url needs a --token for each reader")
    print("desk:", at_the_desk(given.cases, len(given.token) or given.readers))
    if given.url:
        print("Label Studio:", at_label_studio(given.url, given.token, given.cases))


if __name__ == "__main__":
    main()

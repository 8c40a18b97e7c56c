"""The desk against the bare database on the same disk, and at 1,000 against a million waiting."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
from sqlalchemy import text

from benchmarks.measure import row
from expertload.desk import Desk, Rules
from expertload.desk.people import add_token
from expertload.desk.queue import claim, hand_back
from expertload.desk.trail.export import export
from expertload.desk.watch import state_of

FEW = 1_000
MANY = int(os.environ.get("DESK_BACKLOG", "1000000"))
BATCH = 1_000
BATCHES = 20
CLIENTS = 32
SECONDS = 5.0


def case(number: int) -> dict[str, object]:
    return {"key": f"case-{number}", "probabilities": {"cat": 0.6, "dog": 0.4}, "group": "a"}


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run `expertload desk serve` in a process of its own."""
    command = [sys.executable, "-m", "expertload.cli", "desk", "serve", "--data", str(folder)]
    process = subprocess.Popen([*command, "--port", "8766"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", 8766)
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    break
            time.sleep(0.1)
        yield "http://127.0.0.1:8766"
    finally:
        process.terminate()
        process.wait()


class Sender:
    """A client that does as little as one can: it shares the cores with the server."""

    def __init__(self, address: str, token: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc)
        self.headers = {"Authorization": f"Bearer {token}"}

    def send(self, data: bytes, kind: str) -> bytes:
        """Send cases and wait for their decisions."""
        self.connection.request("POST", "/api/cases", data, {**self.headers, "Content-Type": kind})
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content.decode())
        return content


def bare_cases_a_second(folder: Path, source: Path) -> float:
    """Insert the rows of the same cases into the same tables, with nothing else to do."""
    tables = ("cases", "readings", "events")
    with sqlite3.connect(source) as connection:
        rows = {t: connection.execute(f"SELECT * FROM {t}").fetchall() for t in tables}
    connection.close()
    Desk.open(folder / "bare").close()
    connection = sqlite3.connect(folder / "bare" / "desk.sqlite", isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("DELETE FROM projects")
    connection.execute("DROP TRIGGER events_refuse_delete")
    connection.execute("DELETE FROM events")
    start = time.perf_counter()
    for first in range(0, BATCH * BATCHES, BATCH):
        connection.execute("BEGIN IMMEDIATE")
        for table, every in rows.items():
            part = every[first : first + BATCH]
            marks = ", ".join("?" * len(every[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", part)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return BATCH * BATCHES / seconds


def bare_commits_a_second(folder: Path) -> float:
    connection = _bare(folder / f"commits-{time.monotonic_ns()}.sqlite")
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < 2:
        n += 1
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?,1,1,1,1,1,1,1)", (f"case-{n}",))
        connection.execute("COMMIT")
    connection.close()
    return n / 2


def _bare(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE t (key TEXT UNIQUE, a, b, c, d, e, f, g)")
    return connection


def intake(folder: Path) -> None:
    commits = bare_commits_a_second(folder)
    with Desk.open(folder / "desk") as desk:
        token = desk.write(add_token, "sender", "api")
    with server(folder / "desk") as address:
        sender = Sender(address, token)
        batches = [
            "".join(json.dumps(case(b * BATCH + i)) + "\n" for i in range(BATCH)).encode()
            for b in range(BATCHES)
        ]
        start = time.perf_counter()
        for batch in batches:
            sender.send(batch, "application/x-ndjson")
        through = BATCH * BATCHES / (time.perf_counter() - start)
        bare = bare_cases_a_second(folder, folder / "desk" / "desk.sqlite")
        row(
            f"intake of 1,000 ({through:,.0f}/s) / bare ({bare:,.0f}/s)",
            through / bare,
            at_least=0.5,
        )
        alone = _clients(address, token)
        row(
            f"{CLIENTS} clients, one by one ({alone:,.0f}/s) / commits ({commits:,.0f}/s)",
            alone / commits,
            at_least=5,
        )


def _clients(address: str, token: str) -> float:
    done = [0] * CLIENTS
    end = time.perf_counter() + SECONDS

    def work(number: int) -> None:
        sender = Sender(address, token)
        while time.perf_counter() < end:
            key = 10_000_000 + number * 1_000_000 + done[number]
            sender.send(json.dumps(case(key)).encode(), "application/json")
            done[number] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / SECONDS


def fill(desk: Desk, n: int) -> None:
    """Make cases that wait, by SQL alone: this is not what is measured."""

    def work(connection):  # type: ignore[no-untyped-def]
        have = connection.execute(text("SELECT count(*) FROM cases")).scalar()
        numbers = (
            "WITH RECURSIVE s(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM s WHERE i < :last) "
        )
        span = {"first": have + 1, "last": n, "p": '{"cat":0.6,"dog":0.4}'}
        connection.execute(
            text(
                "INSERT INTO cases (id, project_id, key, digest, state, predicted, confidence, "
                "probabilities, accepted, cause, draw, rate, received, due) "
                + numbers
                + "SELECT i, 1, 'case-' || i, 'x', 'waiting', 'cat', 0.6, "
                ":p, 0, 'no_policy', 0.5, 1.0, i, i FROM s"
            ),
            span,
        )
        connection.execute(
            text(
                "INSERT INTO readings (id, project_id, case_id, root, why, state, due, created) "
                "SELECT id, 1, id, id, 'delegated', 'waiting', due, received FROM cases "
                "WHERE id > :have"
            ),
            {"have": have},
        )
        connection.execute(text("DELETE FROM counters WHERE name LIKE '%.waiting'"))
        connection.execute(
            text(
                "INSERT INTO counters VALUES (1, 'cases.waiting', 0, :n), "
                "(1, 'readings.waiting', 0, :n)"
            ),
            {"n": n},
        )

    desk.database.write(work)


def _claims(desk: Desk, reader: int, n: int = 200) -> list[float]:
    times = []
    for _ in range(n):
        start = time.perf_counter()
        held = desk.write(claim, reader)
        times.append(time.perf_counter() - start)
        if held is not None:
            desk.write(hand_back, reader, held.lease)
    return times


def _seconds(work: Callable[[], object], repeats: int = 20) -> float:
    best = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best.append(time.perf_counter() - start)
    return statistics.median(best)


def backlog(folder: Path) -> None:
    commit = 1 / bare_commits_a_second(folder)
    p99, state = {}, {}
    with Desk.open(folder / "queue", rules=Rules(classes=("cat", "dog"))) as desk:
        desk.write(add_token, "reader", "reader")
        for n in (FEW, MANY):
            fill(desk, n)
            p99[n] = statistics.quantiles(_claims(desk, 1), n=100)[98]
            state[n] = _seconds(lambda: desk.read(state_of))
        row(f"claim, p99 at {MANY:,} waiting / a durable commit", p99[MANY] / commit, at_most=5)
        row(f"claim, p99 at {MANY:,} / at {FEW:,} waiting", p99[MANY] / p99[FEW], at_most=2)
        row(f"state at {MANY:,} / at {FEW:,} waiting", state[MANY] / state[FEW], at_most=2)
        exports(desk, folder)


def exports(desk: Desk, folder: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    export(desk, folder / "desk.jsonl")
    ours = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    start = time.perf_counter()
    duckdb.sql(f"COPY (SELECT * FROM '{folder / 'desk.jsonl'}') TO '{folder / 'again.jsonl'}'")
    theirs = time.perf_counter() - start
    row(
        f"export of {MANY:,} ({ours:.1f} s) / DuckDB writing the same rows",
        ours / theirs,
        at_most=3,
    )
    row("memory that the export adds", grown, unit="MB", at_most=100)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        intake(Path(folder))
        backlog(Path(folder))


if __name__ == "__main__":
    main()

"""Batches of 1,000 cases against plain inserts of the same rows; single cases against commits."""

from __future__ import annotations

import json
import statistics
import threading
import time

from benchmarks.desk.caller import Caller
from benchmarks.desk.places import TABLES, Place, server
from benchmarks.desk.run import Sizes
from benchmarks.measure import row
from expertload.desk import Desk
from expertload.desk.people.accounts import add_token

BATCH = 1_000
CLIENTS = 32
ROUNDS = 5
COMMITS_OF_A_SLOW_DISK = 293  # per second, on the disk on which the limit of 5 was set


SHADOW = b'"shadow": {"b": {"cat": 0.7, "dog": 0.3}, "c": {"cat": 0.4, "dog": 0.6}}, '


def case(number: int) -> bytes:
    """Return one case as a sender would send it."""
    return json.dumps(
        {"key": f"case-{number}", "probabilities": {"cat": 0.6, "dog": 0.4}, "group": "a"}
    ).encode()


def batches(place: Place, sizes: Sizes) -> None:
    """Compare in turns, so that a busy minute slows down both alike."""
    a_round = sizes.batches // ROUNDS
    with Desk.open(place.desk("intake")) as desk:
        token = desk.write(add_token, "sender", "api")
    _warm(place, token)
    rows = place.rows("intake")  # rows to write; below they get new keys
    bare = place.empty("bare")
    through, alone = [], []
    with server(place, "intake") as (host, port):
        caller = Caller(host, port, token)
        for number in range(ROUNDS):
            first = (number + 1) * 1_000_000
            through.append(_send(caller, first, a_round))
            alone.append(_write(place, bare, rows, first, a_round))
        caller.close()
    bare.close()
    ratios = [a / b for a, b in zip(through, alone, strict=True)]
    row(
        f"cases by 1,000 ({statistics.median(through):,.0f}/s) / plain inserts "
        f"({statistics.median(alone):,.0f}/s)",
        statistics.median(ratios),
        at_least=0.5,
    )
    print(f"    {ROUNDS} rounds of {a_round} batches: {min(ratios):.2f} to {max(ratios):.2f}")


def _warm(place: Place, token: str) -> None:
    with server(place, "intake") as (host, port):
        Caller(host, port, token).post(
            "/api/cases", b"\n".join(case(i) for i in range(BATCH)), "application/x-ndjson"
        )


def _send(caller: Caller, first: int, n: int, more: bytes = b"") -> float:
    sent = [
        b"\n".join(b"{" + more + case(first + b * BATCH + i)[1:] for i in range(BATCH)) + b"\n"
        for b in range(n)
    ]
    start = time.perf_counter()
    for batch in sent:
        answer = caller.post("/api/cases", batch, "application/x-ndjson")
        if answer.count(b'"delegated"') != BATCH:
            raise RuntimeError("not every case was accepted")
    return n * BATCH / (time.perf_counter() - start)


def _write(place: Place, connection, rows, first: int, n: int) -> float:  # type: ignore[no-untyped-def]
    """Insert the rows of the same number of cases into the same tables, and do nothing else."""
    made = [_numbered(rows, first + b * BATCH) for b in range(n)]
    start = time.perf_counter()
    for batch in made:
        connection.execute("BEGIN IMMEDIATE" if place.kind == "sqlite" else "BEGIN")
        for table, part in batch.items():
            place.insert(connection, table, part)
        connection.execute("COMMIT")
    return n * BATCH / (time.perf_counter() - start)


def _numbered(rows, first: int):  # type: ignore[no-untyped-def]
    """Return the rows of a batch with other numbers and keys, at least as long."""
    cases, readings, events = (enumerate(rows[table][-BATCH:], first) for table in TABLES)
    return {
        "cases": [(n, r[1], f"case-{n}", *r[3:]) for n, r in cases],
        "readings": [(n, r[1], n, n, *r[4:]) for n, r in readings],
        "events": [(n, *r[1:5], n, r[6]) for n, r in events],
    }


def shadows(place: Place, sizes: Sizes) -> None:
    """Compare batches with the answers of two models in shadow and batches without, in turns."""
    a_round = sizes.batches // ROUNDS
    with Desk.open(place.desk("shadows")) as desk:
        token = desk.write(add_token, "sender", "api")
    plain, shadowed = [], []
    with server(place, "shadows") as (host, port):
        caller = Caller(host, port, token)
        for number in range(2 * ROUNDS + 1):
            first, two = (number + 1) * 1_000_000, bool(number % 2)
            rate = _send(caller, first, a_round, b'"model": "a", ' + SHADOW if two else b"")
            (shadowed if two else plain).append(rate)
        caller.close()
    ratio = statistics.median(shadowed) / statistics.median(plain[1:])
    row(
        f"with two models in shadow ({statistics.median(shadowed):,.0f}/s) / without "
        f"({statistics.median(plain[1:]):,.0f}/s)",
        ratio,
        at_least=2 / 3,
    )


# ------------------------------------------------------------------ one at a time


def clients(place: Place, sizes: Sizes) -> None:
    """Compare many clients that send one case at a time with the rate of single commits."""
    with Desk.open(place.desk("clients")) as desk:
        token = desk.write(add_token, "sender", "api")
    together, commits = [], []
    with server(place, "clients") as (host, port):
        for number in range(ROUNDS):
            commits.append(commits_a_second(place, sizes.client_seconds / 5))
            together.append(_all_at_once(host, port, token, number, sizes.client_seconds))
    ratios = [a / b for a, b in zip(together, commits, strict=True)]
    row(
        f"{CLIENTS} clients, one by one ({statistics.median(together):,.0f}/s) / commits "
        f"({statistics.median(commits):,.0f}/s)",
        statistics.median(ratios),
        at_least=5,
    )
    rate = statistics.median(together) / COMMITS_OF_A_SLOW_DISK
    print(
        f"    {ROUNDS} rounds: {min(ratios):.2f} to {max(ratios):.2f}; {rate:.1f} times the "
        f"{COMMITS_OF_A_SLOW_DISK} commits per second of the disk on which the limit was set"
    )


def commits_a_second(place: Place, seconds: float) -> float:
    """Return how many durable commits of one small row the database can do per second."""
    times = commit_times(place, seconds=seconds)
    return 1 / statistics.mean(times)


def commit_times(place: Place, *, seconds: float = 1e9, n: int = 1_000_000) -> list[float]:
    """Return how many seconds each commit of one small row takes."""
    connection = place.empty(f"commits-{time.monotonic_ns()}")
    connection.execute("CREATE TABLE t (key TEXT UNIQUE, a INT, b INT, c INT)")
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < n and time.perf_counter() < end:
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE" if place.kind == "sqlite" else "BEGIN")
        connection.execute(f"INSERT INTO t VALUES ('case-{len(times)}', 1, 1, 1)")
        connection.execute("COMMIT")
        times.append(time.perf_counter() - start)
    connection.close()
    return times


def _all_at_once(host: str, port: int, token: str, number: int, seconds: float) -> float:
    done = [0] * CLIENTS
    end = time.perf_counter() + seconds

    def work(client: int) -> None:
        caller = Caller(host, port, token)
        first = (number * CLIENTS + client) * 1_000_000
        while time.perf_counter() < end:
            caller.post("/api/cases", case(first + done[client]))
            done[client] += 1
        caller.close()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds

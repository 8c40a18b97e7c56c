"""A claim, the counters and an export, with 1,000 and with a million waiting cases."""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from sqlalchemy import text

from benchmarks.desk.places import Place
from benchmarks.desk.run import Sizes
from benchmarks.measure import row
from expertload.desk import Desk, Rules
from expertload.desk.people.accounts import add_token
from expertload.desk.queue.claims import claim, hand_back
from expertload.desk.trail.export import export
from expertload.desk.watch.state import state_of

FEW = 1_000


def measure(place: Place, sizes: Sizes, parts: list[str]) -> None:
    """Measure with few waiting cases, then with many."""
    many, claims, commits, state = sizes.backlog, {}, {}, {}
    rules = Rules(classes=("cat", "dog"))
    with Desk.open(place.desk("queue"), serving=True, rules=rules) as desk:
        desk.write(add_token, "reader", "reader")
        for n in (FEW, many):
            fill(desk, n)
            if "queue" in parts:
                commits[n], claims[n] = _claims(place, desk, n, sizes.claims)
                state[n] = _seconds(lambda: desk.read(state_of))
        if "queue" in parts:
            _print_claims(many, claims, commits)
            row(f"state at {many:,} / at {FEW:,} waiting", state[many] / state[FEW], at_most=2)
        if "export" in parts:
            exports(desk, many)


def _print_claims(
    many: int, claims: dict[int, list[float]], commits: dict[int, list[float]]
) -> None:
    p99 = {n: statistics.quantiles(times, n=100)[98] for n, times in claims.items()}
    median = statistics.median(commits[many])
    slow = statistics.quantiles(commits[many], n=100)[98]
    row(
        f"claim, p99 at {many:,} waiting ({1e3 * p99[many]:.1f} ms) / a median commit "
        f"({1e3 * median:.1f} ms)",
        p99[many] / median,
        at_most=5,
    )
    print(
        f"    plain commits of one reading, in turns with the claims: p99 {1e3 * slow:.1f} ms, "
        f"{slow / median:.1f} times their median; p99 of a claim is {p99[many] / slow:.2f} times "
        f"theirs; median claim {1e3 * statistics.median(claims[many]):.1f} ms"
    )
    row(f"claim, p99 at {many:,} / at {FEW:,} waiting", p99[many] / p99[FEW], at_most=2)


def fill(desk: Desk, n: int) -> None:
    """Make waiting cases with plain SQL, because this is not measured."""

    def work(connection):  # type: ignore[no-untyped-def]
        have = connection.execute(text("SELECT count(*) FROM cases")).scalar()
        numbers = (
            "WITH RECURSIVE s(i) AS (SELECT CAST(:first AS BIGINT) UNION ALL "
            "SELECT i + 1 FROM s WHERE i < :last) "
        )
        span = {"first": have + 1, "last": n, "p": '{"cat":0.6,"dog":0.4}', "no": False}
        made = (
            "INSERT INTO cases (id, project_id, key, digest, state, predicted, confidence, "
            "probabilities, accepted, cause, draw, rate, received, due) "
        )
        shown = (
            "SELECT i, 1, 'case-' || i, 'x', 'waiting', 'cat', 0.6, :p, :no, 'no_policy', 0.5, "
            "1.0, i, i FROM s"
        )
        connection.execute(text(made + numbers + shown), span)
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
    if desk.database.engine.dialect.name == "postgresql":
        # A million rows written at once would keep the disk busy while claims are timed.
        with desk.database.engine.connect() as connection:
            at_once = connection.execution_options(isolation_level="AUTOCOMMIT")
            for statement in ("VACUUM ANALYZE", "CHECKPOINT"):
                at_once.execute(text(statement))


def _claims(place: Place, desk: Desk, last: int, n: int) -> tuple[list[float], list[float]]:
    """Time plain commits of a reading and claims in turns, so that a busy moment slows both."""
    commits, claims = [], []
    bare = place.connect("queue")
    begin = "BEGIN IMMEDIATE" if place.kind == "sqlite" else "BEGIN"
    if place.kind == "sqlite":  # as the desk does
        bare.execute("PRAGMA wal_autocheckpoint = 16000")
    for _ in range(n):
        start = time.perf_counter()
        bare.execute(begin)
        bare.execute(f"UPDATE readings SET created = created + 1 WHERE id = {last}")
        bare.execute("COMMIT")
        commits.append(time.perf_counter() - start)
        start = time.perf_counter()
        held = desk.write(claim, 1)
        claims.append(time.perf_counter() - start)
        if held is None:
            raise RuntimeError("nothing waits")
        desk.write(hand_back, 1, held.lease)
    bare.close()
    return commits, claims


def _seconds(work: Callable[[], object], repeats: int = 20) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def exports(desk: Desk, n: int) -> None:
    """Compare with DuckDB, which reads and writes the rows of the same file."""
    with tempfile.TemporaryDirectory(prefix="desk-export-") as folder:
        for kind in ("jsonl", "parquet"):
            _export(desk, Path(folder), n, kind)


def _export(desk: Desk, folder: Path, n: int, kind: str) -> None:
    ours, theirs = [], []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        start = time.perf_counter()
        export(desk, folder / f"desk.{kind}")
        ours.append(time.perf_counter() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    row(f"memory that the export as {kind} adds", grown, unit="MB", at_most=100)
    source = folder / "desk.jsonl"
    for _ in range(3):
        start = time.perf_counter()
        duckdb.sql(f"COPY (SELECT * FROM '{source}') TO '{folder / f'again.{kind}'}'")
        theirs.append(time.perf_counter() - start)
    row(
        f"export of {n:,} as {kind} ({statistics.median(ours):.1f} s) / DuckDB "
        f"({statistics.median(theirs):.1f} s)",
        statistics.median(ours) / statistics.median(theirs),
        at_most=3,
    )

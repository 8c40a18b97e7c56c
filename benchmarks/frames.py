"""A hundred million rows of Parquet against DuckDB's own GROUP BY, and within 2 GB of memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

import expertload as el
from benchmarks.measure import best_times, row
from expertload import Cases
from expertload.io import decide_frame, policy_sql, scan_file, tally_frame
from expertload.operating_point import choose

ROWS = 100_000_000
DECIDED_ROWS = 100_000_000
CHECKED_ROWS = 10_000_000
MEMORY_LIMIT = "1GB"
THREADS = 2
BITS = 16
REPEATS = 2

# Each measurement runs in its own process, to measure only its own peak memory.
MEASURED = """
import json, resource, sys, time
import duckdb
path, kind, bits, limit, threads, folder = json.loads(sys.argv[1])
start = time.perf_counter()
if kind == "ours":
    from expertload.io import scan_file, tally_frame
    frame = scan_file(path, memory_limit=limit, threads=threads, temp_directory=folder)
    start = time.perf_counter()
    table = tally_frame(frame, bits=bits)
    area = table.aucoc()
    result = {"rows": len(table.weight), "aucoc": area, "bound": table.error_bound}
else:
    key = "confidence" if bits is None else f"floor(confidence * {2**bits})"
    options = {"memory_limit": limit, "threads": threads, "temp_directory": folder}
    connection = duckdb.connect(config={**options, "preserve_insertion_order": False})
    connection.execute("set enable_progress_bar = false")
    query = f"select {key}, count(*), sum(correct::int) from read_parquet(?) group by 1"
    start = time.perf_counter()
    result = {"rows": len(connection.execute(query, [path]).fetchnumpy()["count_star()"])}
result["seconds"] = time.perf_counter() - start
result["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps(result))
"""


def write_rows(path: Path, n: int) -> None:
    """Write single-precision confidences like those of a softmax: many near one, beta(5, 1)."""
    connection = duckdb.connect(config={"threads": THREADS, "memory_limit": MEMORY_LIMIT})
    connection.execute("select setseed(0.5)")
    connection.execute(
        f"""copy (
            select case_id, confidence, random() < confidence as correct
            from (select range as case_id, pow(random(), 0.2)::float as confidence from range({n}))
        ) to '{path}' (format parquet, compression uncompressed)"""
    )


def measured(path: Path, kind: str, bits: int | None) -> dict[str, float]:
    spill = str(path.parent / "spill")
    argument = json.dumps([str(path), kind, bits, MEMORY_LIMIT, THREADS, spill])
    command = [sys.executable, "-c", MEASURED, argument]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def best(path: Path, bits: int | None) -> tuple[dict[str, float], dict[str, float]]:
    """Run our code and DuckDB's own in turns; return the fastest of each."""
    runs = [[measured(path, kind, bits) for kind in ("ours", "duckdb")] for _ in range(REPEATS)]
    ours, theirs = (min(side, key=lambda run: run["seconds"]) for side in zip(*runs, strict=True))
    return ours, theirs


def hundred_million(path: Path) -> None:
    areas = {}
    for bits in (BITS, None):
        ours, theirs = best(path, bits)
        areas[bits] = ours
        what = "exact" if bits is None else f"{bits} bits"
        row(
            f"100 million rows, {what}: relative to DuckDB's GROUP BY",
            ours["seconds"] / theirs["seconds"],
            at_most=1.5,
        )
        print(f"    {ours['seconds']:.2f} s against {theirs['seconds']:.2f} s, {ours['rows']} rows")
        row("    peak memory of the process", ours["gigabytes"], unit="GB", at_most=2)
    error = abs(areas[BITS]["aucoc"] - areas[None]["aucoc"])
    relative = error / areas[BITS]["bound"]
    row(f"    error of AUCOC at {BITS} bits, relative to its bound", relative, at_most=1)
    print(
        f"    AUCOC {areas[None]['aucoc']:.9f}, error {error:.1e}, bound {areas[BITS]['bound']:.1e}"
    )


def ten_million(path: Path) -> None:
    """Compare the exact area with numpy's, computed from the same columns."""
    table = tally_frame(scan_file(path, memory_limit=MEMORY_LIMIT, threads=THREADS))
    columns = duckdb.read_parquet(str(path)).fetchnumpy()
    correct, confidence = np.asarray(columns["correct"]), np.asarray(columns["confidence"])
    wanted = el.aucoc_score(Cases.from_correctness(correct, confidence))
    row(
        "10 million rows, exact: difference from numpy's AUCOC",
        abs(table.aucoc() - wanted),
        unit="",
        at_most=1e-12,
    )
    curve = el.coc_curve(Cases.from_correctness(correct, confidence))
    worst = max(np.abs(a - b).max() for a, b in zip(table.curve(), curve, strict=True))
    row("    difference from numpy's curve", worst, unit="", at_most=1e-12)


def decisions() -> None:
    """Decide a table in DuckDB, against a plain statement by hand that checks nothing."""
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("set enable_progress_bar = false")
    connection.execute(
        f"""create table cases as select id, p_cat, (1 - p_cat) * rest as p_dog,
            1 - p_cat - (1 - p_cat) * rest as p_owl
        from (select range as id, random() as p_cat, random() as rest from range({DECIDED_ROWS}))"""
    )
    labels, proba = ["cat", "dog", "owl"], np.random.default_rng(0).dirichlet([0.3] * 3, size=2000)
    policy = choose(
        Cases.from_predictions(proba.argmax(axis=1), proba, labels=range(3)), target_accuracy=0.9
    )
    policy = replace(policy, threshold=0.7, origin=replace(policy.origin, labels=tuple(labels)))
    by_hand = """select id, greatest(p_cat, p_dog, p_owl) >= 0.7::double as accepted,
        case when p_cat >= p_dog and p_cat >= p_owl then 'cat' when p_dog >= p_owl then 'dog'
        else 'owl' end as label, greatest(p_cat, p_dog, p_owl) as confidence from cases"""
    ours = decide_frame(policy, connection.table("cases"), keep=["id"])
    statements = {
        "a frame": ours.sql_query(),
        "the statement of policy_sql": policy_sql(policy, keep=["id"]),
        "by hand": by_hand,
    }

    def run(statement: str) -> None:
        connection.execute(f"create or replace table decided as {statement}")

    times = best_times(*(partial(run, each) for each in statements.values()))
    for name, seconds in zip(list(statements)[:2], times, strict=False):
        what = f"decide {DECIDED_ROWS:,} rows, {name}: relative to SQL by hand"
        row(what, seconds / times[2], at_most=1.3)


def main() -> None:
    """Write the files into a temporary folder and measure."""
    print("frames")
    decisions()
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.parquet", Path(folder) / "small.parquet"
        write_rows(large, ROWS)
        print(f"    {ROWS} rows, {large.stat().st_size / 1e9:.2f} GB of Parquet, {THREADS} threads")
        hundred_million(large)
        write_rows(small, CHECKED_ROWS)
        ten_million(small)

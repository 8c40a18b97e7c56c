"""Deciding five million rows, and reading four of a CSV's five thousand columns, against DuckDB."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.measure import best_times, row
from expertload import Cases
from expertload.io import decide_file
from expertload.io.source import open_source
from expertload.operating_point import OperatingPoint, choose

ROWS = 5_000_000
THREADS = 2
CLASSES = ("cat", "dog", "owl")
WIDE_COLUMNS, WIDE_ROWS = 5_000, 4_000

# In its own process, to measure only its own peak memory. ru_maxrss would be the parent's if that
# is larger.
PEAK = """
import json, re, sys
from benchmarks.files import policy
from expertload.io import decide_file
path, out = json.loads(sys.argv[1])
decide_file(policy(), path, out=out, keep=("id",))
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s+(\\d+)", status).group(1)) * 1024 / 1e9)
"""


def policy() -> OperatingPoint:
    """Return a policy of three classes."""
    proba = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
    return choose(Cases.from_predictions(CLASSES, proba, labels=CLASSES), target_accuracy=1)


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET enable_progress_bar = false")
    return connection


def write_predictions(folder: Path, n: int) -> None:
    """Write the same probabilities as Parquet and as CSV."""
    connection = connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"""COPY (
            SELECT i AS id, a / (a + b + c) AS p_cat, b / (a + b + c) AS p_dog,
                c / (a + b + c) AS p_owl
            FROM (SELECT i, random() ** 4 AS a, random() ** 4 AS b, random() AS c
                FROM range({n}) t(i))
        ) TO '{folder / f"{n}.parquet"}'"""
    )
    connection.execute(f"COPY (FROM '{folder / f'{n}.parquet'}') TO '{folder / f'{n}.csv'}'")


def decide_in_sql(path: Path, out: Path) -> None:
    """Write the same output with DuckDB alone, which checks nothing."""
    top = "greatest(p_cat, p_dog, p_owl)"
    how = " (FORMAT parquet, COMPRESSION zstd)" if out.suffix == ".parquet" else ""
    connect().execute(
        f"""COPY (
            SELECT row_number() OVER () AS row, id,
                {top} >= CAST('{policy().threshold!r}' AS DOUBLE) AS accepted,
                CASE {top} WHEN p_cat THEN 'cat' WHEN p_dog THEN 'dog' ELSE 'owl' END AS label,
                {top} AS confidence
            FROM '{path}'
        ) TO '{out}'{how}"""
    )


def deciding(folder: Path) -> None:
    for source in ("parquet", "csv"):
        for kind in ("parquet", "csv"):
            path = folder / f"{ROWS}.{source}"
            ours, theirs = folder / f"ours.{kind}", folder / f"theirs.{kind}"
            times = best_times(
                lambda path=path, out=ours: decide_file(policy(), path, out=out, keep=("id",)),
                lambda path=path, out=theirs: decide_in_sql(path, out),
                repeats=2,
            )
            what = f"decide {ROWS:,} rows, {source} to {kind}, against SQL"
            row(what, times[0] / times[1], at_most=2.5)


def memory(folder: Path) -> None:
    def peak(n: int) -> float:
        arguments = json.dumps([str(folder / f"{n}.parquet"), str(folder / "ours.parquet")])
        command = [sys.executable, "-c", PEAK, arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout)

    few = ROWS // 5
    write_predictions(folder, few)
    more = peak(ROWS) - peak(few)
    row(f"decide: memory of {ROWS:,} rows beyond that of {few:,}", more, unit="GB", at_most=0.2)


def wide(folder: Path) -> None:
    path = folder / "wide.csv"
    names = [f"c{i}" for i in range(WIDE_COLUMNS)]
    with path.open("w") as stream:
        stream.write(",".join(names) + "\n")
        stream.writelines(
            ",".join([f"0.{i}"] * WIDE_COLUMNS) + "\n" for i in range(100, 100 + WIDE_ROWS)
        )
    wanted = names[1:5]
    columns = ", ".join(f"{name}: 'VARCHAR'" for name in names)
    reader = f"read_csv('{path}', auto_detect = false, header = true, columns = {{{columns}}})"

    def ours() -> None:
        open_source(path).read(wanted, wanted)

    def theirs() -> None:
        cast = ", ".join(f"CAST({name} AS DOUBLE)" for name in wanted)
        connect().execute(f"SELECT {cast} FROM {reader}").fetchnumpy()

    times = best_times(ours, theirs, repeats=3)
    row(f"4 of {WIDE_COLUMNS:,} columns of a CSV, against DuckDB", times[0] / times[1], at_most=1.5)


def main() -> None:
    print("\nfiles")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_predictions(folder, ROWS)
        deciding(folder)
        memory(folder)
        wide(folder)


if __name__ == "__main__":
    main()

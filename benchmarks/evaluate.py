"""`expertload evaluate` of millions of rows, against reading its columns and one sort."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import row

N_CASES, N_GROUPS = 5_000_000, 37
CLASSES = np.array(["benign", "malignant", "other"])

# The least possible work: the columns must be read, and the confidences sorted.
RIVAL = """
import sys, duckdb, numpy as np
columns = duckdb.sql(f"SELECT * FROM read_parquet('{sys.argv[1]}')").to_arrow_table()
top = np.maximum.reduce([columns[name].to_numpy() for name in columns.column_names[1:4]])
np.sort(top)
"""


def write_predictions(path: Path) -> None:
    """Write a label, three probabilities and a group for each case, in single precision."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, N_CASES)
    logits = rng.normal(0, 1, (N_CASES, 3))
    logits[np.arange(N_CASES), target] += 2
    proba = np.exp(logits)
    proba = (proba / proba.sum(axis=1, keepdims=True)).astype(np.float32)
    sites = np.array([f"site {i:02}" for i in range(N_GROUPS)])
    columns = {
        "label": pa.DictionaryArray.from_arrays(target.astype(np.int32), CLASSES),
        **{f"p_{name}": proba[:, i] for i, name in enumerate(CLASSES)},
        "group": pa.DictionaryArray.from_arrays(
            rng.integers(0, N_GROUPS, N_CASES).astype(np.int32), sites
        ),
    }
    table = pa.table(columns)
    plain = {name: pa.string() for name in ("label", "group")}
    fields = [(f.name, plain.get(f.name, f.type)) for f in table.schema]
    pq.write_table(table.cast(pa.schema(fields)), path)


def in_process(*arguments: str) -> tuple[float, float]:
    """Return the CPU seconds and the peak memory (GB) of a Python process."""
    child = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{arguments[:3]} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024**2


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.parquet"
        write_predictions(file)
        ours, theirs = [], []
        for _ in range(4):  # the time of both depends on how much memory the system has free
            ours.append(in_process("-m", "expertload", "evaluate", str(file)))
            theirs.append(in_process("-c", RIVAL, str(file)))
        (seconds, memory), (rival, _) = min(ours), min(theirs)
        row(
            "evaluate 5 million rows, 37 groups: CPU time, relative to reading and one sort",
            seconds / rival,
            at_most=3,
        )
        row("    peak memory (GB)", memory, unit="", at_most=1)
        print(f"    ({seconds:.1f} s against {rival:.1f} s, DuckDB {duckdb.__version__})")


if __name__ == "__main__":
    main()

"""The same predictions in every kind of file."""

from __future__ import annotations

import csv
import gzip
import io
import json

import duckdb
import numpy as np

CLASSES = ("cat", "dog", "owl")
KINDS = ("csv", "tsv", "csv.gz", "parquet", "jsonl", "json", "npz", "duckdb")


def predictions(n=300, seed=0):
    """Labels and probabilities, as a table of columns."""
    rng = np.random.default_rng(seed)
    y = np.random.default_rng(n).integers(0, 3, n)
    logits = rng.normal(0, 1, (n, 3))
    logits[np.arange(n), y] += 2.5
    proba = np.exp(logits)
    proba /= proba.sum(axis=1, keepdims=True)
    sites = np.array(["Zürich", "Genève, centre", 'the "old" one'])[np.arange(n) % 3]
    return {
        "id": np.arange(n),
        "label": np.array(CLASSES)[y],
        **{f"p_{name}": proba[:, i] for i, name in enumerate(CLASSES)},
        "group": sites,
    }


def rows_of(table):
    columns = [values.tolist() for values in table.values()]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


def write(path, table):
    """Write a table as what the file's name says; return the query to read it with, if any."""
    kind = path.name.partition(".")[2]
    rows = rows_of(table)
    if kind == "npz":
        np.savez(path, **table)
    elif kind in ("jsonl", "json"):
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) if kind == "jsonl" else f"[{','.join(lines)}]")
    elif kind in ("csv", "tsv", "csv.gz"):
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(table), delimiter="\t" if kind == "tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
        content = stream.getvalue().encode()
        path.write_bytes(gzip.compress(content) if kind.endswith("gz") else content)
    else:
        draft = path.with_name("draft.csv")
        write(draft, table)
        with duckdb.connect(str(path) if kind == "duckdb" else ":memory:") as connection:
            if kind == "duckdb":
                connection.execute(f"CREATE TABLE cases AS FROM '{draft}'")
            else:
                connection.execute(f"COPY (FROM '{draft}') TO '{path}'")
        draft.unlink()
    return "SELECT * FROM cases" if kind == "duckdb" else None

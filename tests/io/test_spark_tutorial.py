"""The block for Spark on the tutorial's page, run on a cluster on this machine."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from expertload.io import FrameTally, tally_frame
from tests.pages import ROOT
from tests.test_cells_elsewhere import skipped_cells

PAGE = ROOT / "docs" / "learn" / "hundred_million_rows.md"


def test_the_block_for_spark_counts_as_the_others_do(spark, tmp_path, monkeypatch, capsys):
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"confidence": [0.9, 0.6, 0.7, 0.95], "correct": [True, False, True, True]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    (cell,) = skipped_cells(PAGE)
    assert "hdfs://head/predictions/2026/" in cell
    cell = cell.replace("hdfs://head/predictions/2026/", str(tmp_path / "rows.parquet"))
    try:  # the session is the one that runs already, whatever master is named
        exec(compile(cell, PAGE.name, "exec"), {"__name__": "page"})
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    wanted = tally_frame(rows, bits=16)
    assert FrameTally.load("2026.npz").aucoc() == wanted.aucoc()
    assert capsys.readouterr().out.startswith(f"AUCOC {wanted.aucoc():.6f}")

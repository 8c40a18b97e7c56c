"""One small frame in every engine: the tests' bodies know none of them."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

Columns = dict[str, list[Any]]

IN_PROCESS = ["pandas", "pandas-nullable", "pandas-pyarrow", "polars", "polars-lazy", "pyarrow"]
IN_PROCESS += ["duckdb", "dask"]
EVERY = [*IN_PROCESS, "spark"]

# Where each engine hands rows over: module, class (if any), function. DuckDB's own class is sealed,
# so it is watched where the library asks it.
HANDS_OVER: dict[str, tuple[str, str | None, str]] = {
    "polars-lazy": ("polars", "LazyFrame", "collect"),
    "duckdb": ("expertload.io.frame_cases", None, "_fetch"),
    "dask": ("dask.dataframe", "DataFrame", "compute"),
    "spark": ("pyspark.sql.classic.dataframe", "DataFrame", "toArrow"),
}


def arrow_table(columns: Columns) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def make_frame(backend: str, columns: Columns, spark: Any = None, folder: Path | None = None):
    """A frame of one engine; None stands for a missing value."""
    table = arrow_table(columns)
    if backend == "pyarrow":
        return table
    if backend.startswith("polars"):
        frame = pytest.importorskip("polars").from_arrow(table)
        return frame.lazy() if backend == "polars-lazy" else frame
    if backend == "duckdb":
        return pytest.importorskip("duckdb").connect().from_arrow(table)
    if backend == "spark":
        import pyarrow.parquet as pq

        half = len(table) // 2  # two files, so that each executor has work
        pq.write_table(table.slice(0, half), folder / "first.parquet")
        pq.write_table(table.slice(half), folder / "second.parquet")
        return spark.read.parquet(str(folder))
    return _pandas_like(backend, table)


def _pandas_like(backend: str, table: Any):
    pd = pytest.importorskip("pandas")
    frame = table.to_pandas()
    if backend == "pandas-nullable":
        return table.to_pandas(types_mapper=_nullable(pd).get)
    if backend == "pandas-pyarrow":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    if backend == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    return frame


def _nullable(pd: Any) -> dict[Any, Any]:
    import pyarrow as pa

    return {
        pa.bool_(): pd.BooleanDtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.string(): pd.StringDtype(),
    }


def start_spark() -> Any:
    """A real cluster on this machine: a master, two workers, two executor processes."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on this machine")
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    from pyspark.sql import SparkSession

    # Java that lives for a minute is faster without its second compiler and its parallel collector.
    short_lived = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": short_lived,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": short_lived,
        "spark.executor.memory": "512m",
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("expertload")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()

"""DuckDB is kept quiet, wherever it runs."""

from __future__ import annotations

import os

import duckdb
import pytest

from expertload.io import formats
from expertload.io.formats import connect
from expertload.io.source import open_source


class InANotebook:
    """Behaves as DuckDB does in a kernel without ipywidgets: no bar, and none to turn off."""

    def __init__(self):
        self.real = duckdb.connect()

    def execute(self, query):
        if query.startswith("SET"):
            raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
        self.real.execute("SET enable_progress_bar = false")
        return self.real.execute(query)


def is_shown(opened):
    return opened.execute("SELECT current_setting('enable_progress_bar')").fetchone()[0]


def test_no_bar_is_drawn():
    assert not is_shown(connect())


@pytest.mark.parametrize("before", ["true", "false"])
def test_a_bar_is_turned_off(before):
    opened = duckdb.connect()
    opened.execute(f"SET enable_progress_bar = {before}")
    assert not is_shown(formats._quiet(opened))


def test_a_new_connection_has_nothing_unfinished():
    assert list(connect().sql("SELECT 1 AS one").fetchnumpy()["one"]) == [1]


def test_a_notebook_without_widgets_can_open_files():
    opened = InANotebook()
    assert formats._quiet(opened) is opened


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    for value in (1, 2):
        duckdb.sql(f"SELECT {value} AS x FROM range(1000)").write_parquet(str(path))
        if kind == "csv":
            path.write_text("x\n" + f"{value}\n" * 1000)
        os.utime(path, (10**9, 10**9))
        assert open_source(path).read(["x"], ["x"])["x"].sum() == 1000 * value

"""DuckDB is kept quiet, wherever it runs."""

from __future__ import annotations

import os

import duckdb
import pytest

from expertload._opening import connection, open_source
from expertload._opening.connection import connect, connect_to_shared


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
    assert not is_shown(connection._quiet(opened))


def test_a_new_connection_has_nothing_unfinished():
    assert list(connect().sql("SELECT 1 AS one").fetchnumpy()["one"]) == [1]


def test_a_notebook_without_widgets_can_open_files():
    opened = InANotebook()
    assert connection._quiet(opened) is opened


def test_a_connection_to_the_shared_database_has_nothing_unfinished_and_no_bar():
    first, second = connect_to_shared(), connect_to_shared()
    half_read = first.execute("SELECT * FROM range(5000)")
    assert second.execute("SELECT 1").fetchall() == [(1,)]
    assert len(half_read.fetchall()) == 5000
    assert not is_shown(first)


def test_after_a_fault_there_is_another_shared_database(monkeypatch):
    ended = connect()
    ended.close()
    monkeypatch.setattr(connection, "_shared", {os.getpid(): ended})
    assert connect_to_shared().execute("SELECT 1").fetchall() == [(1,)]


def test_a_forked_process_has_a_shared_database_of_its_own(monkeypatch):
    of_the_parent = connect_to_shared()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    monkeypatch.setattr(connection, "_shared", dict(connection._shared))
    of_the_child = connect_to_shared()
    of_the_parent.execute("CREATE TABLE seen AS SELECT 1")
    with pytest.raises(duckdb.CatalogException):
        of_the_child.execute("FROM seen")
    of_the_parent.execute("DROP TABLE seen")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    for value in (1, 2):
        duckdb.sql(f"SELECT {value} AS x FROM range(1000)").write_parquet(str(path))
        if kind == "csv":
            path.write_text("x\n" + f"{value}\n" * 1000)
        os.utime(path, (10**9, 10**9))
        assert open_source(path).read(["x"], ["x"])["x"].sum() == 1000 * value

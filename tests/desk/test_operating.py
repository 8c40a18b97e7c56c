"""What operators type: a name that leads to no desk is said to, and makes none."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import Desk
from expertload.exceptions import DeskRefusedError

LOOKING = [
    ("verify",),
    ("backup", "copy.sqlite"),
    ("export", "cases.csv"),
    ("rules",),
    ("token", "revoke", "1"),
    ("policy", "withdraw", "1", "--reason", "x"),
    ("user", "link", "Ada"),
    ("user", "disable", "Ada"),
]


@pytest.fixture(params=["sqlite", "postgresql"])
def nowhere(request, tmp_path):
    """A place without a desk."""
    if request.param == "sqlite":
        return str(tmp_path / "typo")
    cluster = request.getfixturevalue("cluster")
    cluster.sql("DROP DATABASE IF EXISTS typo")
    cluster.sql("CREATE DATABASE typo")
    return cluster.address("typo")


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_that_looks_makes_no_desk(nowhere, command, tmp_path, monkeypatch):
    """An empty copy, or 'Nothing was changed', would be believed."""
    monkeypatch.chdir(tmp_path)
    option = "--database" if nowhere.startswith("postgresql") else "--data"
    done = CliRunner().invoke(app, ["desk", *command, option, nowhere])
    assert done.exit_code != 0
    assert "There is no desk" in f"{done.output} {done.exception}"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DeskRefusedError, match="no desk"):
        Desk.open(nowhere, make=False)


def test_a_desk_that_is_there_is_opened(place):
    Desk.open(place).close()
    Desk.open(place, make=False).close()
    if isinstance(place, Path):
        done = CliRunner().invoke(app, ["desk", "verify", "--data", str(place)])
        assert done.exit_code == 0, done.output

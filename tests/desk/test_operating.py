"""What operators type: a name that leads to no desk is said to, and makes none."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import Desk, Rules
from expertload.desk.intake.receiving import classes_of
from expertload.desk.people.accounts import add_user
from expertload.desk.store.tables import projects
from expertload.desk.watch.policies import add_policy, begin, withdraw
from expertload.desk.watch.state import edit_rules
from expertload.exceptions import DataNotFoundError, DeskRefusedError
from tests.desk.world import CLASSES, policy_text

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
    with pytest.raises(DataNotFoundError, match="no desk"):
        Desk.open(nowhere, may_make=False)


def test_a_desk_that_is_there_is_opened(place):
    Desk.open(place).close()
    Desk.open(place, may_make=False).close()
    if isinstance(place, Path):
        done = CliRunner().invoke(app, ["desk", "verify", "--data", str(place)])
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "command", [["verify"], ["backup", "copy.sqlite"], ["serve", "--port", "0"]]
)
@pytest.mark.parametrize("damage", ["other file", "lost pages", "lost text"])
def test_a_damaged_desk_is_said_to_be_damaged(tmp_path, monkeypatch, damage, command):
    """Sending the same request again would not help."""
    monkeypatch.chdir(tmp_path)
    with Desk.open(tmp_path / "desk") as desk:
        desk.write(add_user, "ann", ["reader"])
    file = tmp_path / "desk" / "desk.sqlite"
    content = bytearray(file.read_bytes())
    if damage == "other file":
        content = bytearray(b"Some text.\n" * 100)
    elif damage == "lost pages":
        content[4096:] = b"\x07" * len(content[4096:])
    else:
        content = content.replace(b'{"classes"', b'{"classe\xff"')
    file.write_bytes(content)
    done = CliRunner().invoke(app, ["desk", *command, "--data", "desk"])
    if (damage, command[0]) == ("lost text", "backup"):
        return  # a copy is a copy of every byte
    assert done.exit_code == 1, done.output
    said = " ".join(done.output.split())
    assert "is damaged, or not the database of a desk" in said, said
    assert "Hint: put a copy" in said
    assert not (tmp_path / "copy.sqlite").exists()


def set_rules(place, *changes):
    option = "--data" if isinstance(place, Path) else "--database"
    done = CliRunner().invoke(app, ["desk", "rules", *changes, option, str(place)])
    return done.exit_code, " ".join(done.output.split())


def test_classes_are_named_as_the_model_names_them(place):
    """' dog' is not 'dog', so every such answer would count against the model."""
    with Desk.open(place) as desk:
        for given in ("classes=cat, dog", " classes = cat ,dog "):
            code, said = set_rules(place, given)
            assert code == 0, said
            assert "classes = ('cat', 'dog')" in said
        for given in ("classes=cat,,dog", "classes=cat,cat", "classes=cat,d\x07g", "classes=,"):
            code, said = set_rules(place, given)
            assert code == 1
            assert "'classes' must be different names" in said, said
        code, said = set_rules(place, "nonsense=1")
        assert code == 1
        assert "There is no rule 'nonsense'. Hint: choose one of classes, quality_rate," in said
        assert desk.read(lambda t: t.project.rules.classes) == ("cat", "dog")
        assert "classes = ()" in set_rules(place, "classes=")[1]
        assert desk.read(lambda t: t.project.rules.classes) == ()


def test_classes_lack_none_that_a_policy_decides(world):
    """Readers who cannot answer 'dog' would all seem to err, or the model would."""
    first = world.activate(policy_text(model_name="A"))
    second = world.desk.write(add_policy, policy_text(model_name="B"))
    world.desk.write(begin, second, share=0.5)
    world.with_rules(classes=(*CLASSES, "owl"))
    for number in (second, first):
        wanted = f"'classes' lack 'dog' of policy {number}."
        with pytest.raises(DeskRefusedError, match=re.escape(wanted)):
            world.with_rules(classes=("cat",))
        world.desk.write(withdraw, number, reason="over")
    assert world.with_rules(classes=("cat",)).desk.read(classes_of) == ("cat",)


def test_a_warning_never_lowers_what_experts_read(world):
    for changes in ({"quality_rate": 0.3}, {"quality_rate": 0.1, "raised_rate": 0.05}):
        with pytest.raises(DeskRefusedError, match="'raised_rate' is .*, below 'quality_rate' 0"):
            world.desk.write(edit_rules, changes)
    world.desk.write(edit_rules, {"quality_rate": "0.3", "raised_rate": "0.3"})
    old = world.desk.read(lambda transaction: transaction.project.rules)
    stored = old.model_copy(update={"raised_rate": 0.1}).model_dump_json()
    world.desk.database.write(lambda c: c.execute(update(projects).values(rules=stored)))
    rules = world.desk.write(edit_rules, {"lease_seconds": 77})
    assert (rules.raised_rate, rules.lease_seconds) == (0.1, 77), "an old desk is still read"


def test_two_who_change_rules_at_once_change_both(place, monkeypatch):
    monkeypatch.setattr(Rules, "model_dump", slowly(Rules.model_dump))
    Desk.open(place).close()
    with ThreadPoolExecutor(2) as threads, Desk.open(place) as desk:
        changes = {"quality_rate": "0.1"}, {"lease_seconds": "77"}
        for done in [threads.submit(desk.write, edit_rules, each) for each in changes]:
            done.result()
        rules = desk.read(lambda t: t.project.rules)
    assert (rules.quality_rate, rules.lease_seconds) == (0.1, 77)


def slowly(called):
    def slow(*args, **kwargs):
        result = called(*args, **kwargs)
        time.sleep(0.2)
        return result

    return slow


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    for place in ("file", "file/desk"):
        folder = str(tmp_path / place)
        done = CliRunner().invoke(app, ["desk", "serve", "--port", "0", "--data", folder])
        assert done.exit_code == 1
        assert f"{folder} could not be opened as the folder of a desk" in " ".join(
            done.output.split()
        )


def serving(folder, *options):
    command = [sys.executable, "-u", "-m", "expertload", "desk", "serve", "--data", str(folder)]
    environment = {**os.environ, "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, *options], env=environment, **pipes)


@pytest.mark.processes
def test_a_port_that_is_taken_is_said_before_a_link_to_it_is_printed(tmp_path):
    """The link would lead to the other program that has the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with serving(tmp_path, "--port", str(port)) as process:
            said = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert f"Nothing can listen on port {port}" in said
    assert "--port" in said
    assert "welcome" not in said
    assert "Traceback" not in said


@pytest.mark.processes
def test_a_free_port_is_taken_and_said(tmp_path):
    with serving(tmp_path, "--port", "0") as process:
        lines = [process.stdout.readline() for _ in range(2)]
        link = re.search(r"http://127\.0\.0\.1:\d+/welcome/\S+", "".join(lines)).group()
        assert httpx.get(link, timeout=30).status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)

"""The help of every command: complete, and readable on a terminal of 80 columns."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from expertload.cli.app import app


def commands(command, words=()):
    """Yield each command and group, with its words."""
    yield pytest.param(list(words), command, id=" ".join(words) or "expertload")
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*words, name))


ALL = list(commands(typer.main.get_command(app)))


def help_of(words):
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="expertload")
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize(("words", "command"), ALL)
def test_nothing_is_cut_or_too_wide(words, command):
    said = help_of(words)
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    for option in [name for each in command.params for name in each.opts if name.startswith("--")]:
        assert option in said.split()
    for inner in getattr(command, "commands", {}).values():
        assert " ".join(inner.help.split("\n\n")[0].split()) in " ".join(said.split())


def test_a_colon_is_not_a_picture():
    assert "corrupted:fog:3" in help_of(["lab", "ood"])


def test_wrong_use_is_one_plain_sentence():
    done = CliRunner().invoke(app, ["evaluate"], prog_name="expertload")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == "Error: Missing argument 'FILE'."
